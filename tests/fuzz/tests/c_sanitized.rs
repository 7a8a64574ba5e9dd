//! The C and C++ programs with AddressSanitizer and UBSan: bindings-c/tests/*.c and cxx/*.cpp
//! against libquo, and the C solver of the coupled example. All blocks that a program or libquo
//! allocates are checked, including blocks passed between the two; leaks are reported, except the
//! MPI's (sanitizers/leak.supp).

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Job};

const FLAGS: &[&str] = &[
    "-pthread",
    "-O1",
    "-fno-omit-frame-pointer",
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
];
/// Complete stacks, needed to attribute a leak, although the MPI's code has no frame pointers.
/// Thread-local storage of loaded libraries is not tracked: up to GCC 13 it is mistaken for that of
/// a glibc before 2.25 at certain offsets in its page, and then the leak checker crashes
/// (google/sanitizers issue 1322).
const ADDRESS_OPTIONS: &str =
    "detect_leaks=1:exitcode=99:fast_unwind_on_malloc=0:intercept_tls_get_addr=0";
const LIMIT: Duration = Duration::from_secs(120);
const MACHINE: &str = "pack:2 core:4 pu:1";

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// A job of a program compiled in this way. A finding ends the rank with a distinct status.
fn job(ranks: usize, program: &Path) -> Job {
    let leaks = package().join("sanitizers/leak.supp");
    Job::new(ranks, program)
        .env("ASAN_OPTIONS", ADDRESS_OPTIONS)
        .env("UBSAN_OPTIONS", "print_stacktrace=1")
        .env("LSAN_OPTIONS", format!("print_suppressions=0:suppressions={}", leaks.display()))
        .limit(LIMIT)
}

fn sources(folder: &Path, kind: &str) -> Result<Vec<PathBuf>> {
    let entries = folder.read_dir().with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.map(|entry| Ok(entry?.path())).collect::<Result<_, std::io::Error>>()?;
    files.retain(|file| file.extension().is_some_and(|extension| extension == kind));
    files.sort();
    Ok(files)
}

#[test]
fn c_tests_touch_only_allowed_memory_and_leak_nothing() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let files = sources(&checkout.root().join("bindings-c/tests"), "c")?;
    ensure!(files.len() > 20, "only {} programs", files.len());
    for file in files {
        let source = file.strip_prefix(checkout.root())?.display().to_string();
        let program = checkout.compile_c(&source, folder.path(), FLAGS)?;
        // More objects than the machine may have, so that more data is passed.
        let job = job(2, &program).topology(MACHINE);
        job.run()?.expect_success().with_context(|| source)?;
        std::fs::remove_file(program)?;
    }
    Ok(())
}

#[test]
fn cxx_tests_touch_only_allowed_memory_and_leak_nothing() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let files = sources(&checkout.root().join("bindings-c/tests/cxx"), "cpp")?;
    ensure!(files.len() >= 10, "only {} programs", files.len());
    for file in files {
        // The second half of a program is compiled with the first.
        let name = file.file_stem().context("a file without a name")?.to_string_lossy();
        if name.ends_with("_other") {
            continue;
        }
        let other = file.with_file_name(format!("{name}_other.cpp"));
        let other = other.exists().then(|| other.display().to_string());
        let flags: Vec<&str> = FLAGS.iter().copied().chain(other.as_deref()).collect();
        let source = file.strip_prefix(checkout.root())?.display().to_string();
        let program = checkout.compile_cxx(&source, folder.path(), "g++", &flags)?;
        let job = job(2, &program).topology(MACHINE);
        job.run()?.expect_success().with_context(|| source)?;
        std::fs::remove_file(program)?;
    }
    Ok(())
}

#[test]
fn the_solver_of_the_coupled_example_stays_inside_its_arrays() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let solver = checkout.root().join("examples/coupled/src/l1");
    let source = package().join("programs/diffusion.c");
    let program = folder.path().join("diffusion");
    let (headers, code) =
        (format!("-I{}", solver.display()), solver.join("diffusion.c").display().to_string());
    let mut flags = vec![headers.as_str(), code.as_str(), "-fopenmp", "-lm"];
    flags.extend(FLAGS);
    checkout.library()?.compile(&source, &program, &flags)?;
    for ranks in [1, 3] {
        job(ranks, &program).run()?.expect_success().with_context(|| format!("{ranks} ranks"))?;
    }
    Ok(())
}

#[test]
fn a_step_outside_an_array_and_a_leak_are_reported() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("wrong.c");
    let text = "#include <stdlib.h>\n#include <string.h>\n#include <mpi.h>\n\
        int main(int argc, char **argv) {\n\
        char *volatile bytes = malloc(8);\n\
        MPI_Init(&argc, &argv);\n\
        memset(bytes, 1, 8);\n\
        int wrong = argc > 1 ? bytes[7 + argc / 2] : 0;\n\
        bytes = NULL;\n\
        MPI_Finalize();\n\
        return wrong; }\n";
    std::fs::write(&source, text)?;
    let program = folder.path().join("wrong");
    checkout.library()?.compile(&source, &program, FLAGS)?;
    for (job, word) in [
        (job(1, &program), "LeakSanitizer: detected memory leaks"),
        (job(1, &program).arg("x"), "heap-buffer-overflow"),
    ] {
        let outcome = job.run()?;
        let report = format!("{:#}", outcome.expect_success().err().context("it passed")?);
        ensure!(report.contains(word), "no {word} in\n{report}");
    }
    Ok(())
}
