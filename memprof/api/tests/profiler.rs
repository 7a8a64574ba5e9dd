//! With and without a profiler in the process, in Rust and in C. `fake_hooks.c` replaces the
//! profiler; the end-to-end suites use the real one.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use memprof_api::Error;
use tempfile::TempDir;

/// Variable set in the process that a test starts to run again under the profiler.
const INSIDE: &str = "MEMPROF_API_TEST_INSIDE";

const STRICT: &[&str] = &["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_GNU_SOURCE"];

fn package() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn compile(source: &str, folder: &Path, to: &str, flags: &[&str]) -> PathBuf {
    let file = folder.join(to);
    let mut compiler = Command::new("cc");
    compiler.args(STRICT).arg("-I").arg(package().join("include"));
    compiler.arg(package().join("tests").join(source)).arg("-o").arg(&file).args(flags);
    assert!(compiler.status().unwrap().success());
    file
}

fn fake(folder: &Path) -> PathBuf {
    compile("fake_hooks.c", folder, "libfake.so", &["-shared", "-fPIC"])
}

fn journal(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("journal")).unwrap_or_default()
}

/// Runs a test of this program again, under the replacement.
fn again(test: &str, variables: &[(&str, &str)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env(INSIDE, "1");
    command.env("LD_PRELOAD", fake(folder.path()));
    command.env("FAKE_JOURNAL", folder.path().join("journal"));
    let output = command.envs(variables.iter().copied()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    folder
}

fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn expect_nothing() {
    assert!(!memprof_api::is_active());
    assert_eq!(memprof_api::components(), Err(Error::NotActive));
    assert_eq!(memprof_api::component("app.exe"), Err(Error::NotActive));
    assert_eq!(memprof_api::totals(), Err(Error::NotActive));
    assert_eq!(memprof_api::flush(), Err(Error::NotActive));
    assert!(!memprof_api::region("x").is_recorded());
}

#[test]
fn without_a_profiler_nothing_happens() {
    expect_nothing();
}

#[test]
fn numbers_and_regions_reach_the_profiler() {
    if !is_inside() {
        let folder = again("numbers_and_regions_reach_the_profiler", &[]);
        let told = journal(folder.path());
        assert_eq!(told, "begin 1 0 outer\nbegin 2 0 inner\nend 2\nend 1\nflush\n");
        return;
    }
    let components = memprof_api::components().unwrap();
    assert_eq!(components.len(), 2);
    let mpi = memprof_api::component("mpi.core:libmpi.so.40").unwrap();
    assert_eq!(mpi, components[1]);
    assert_eq!(
        (mpi.owned, mpi.owned_peak, mpi.resident, mpi.resident_peak),
        (1001, 2001, 3001, 4001)
    );
    assert_eq!(mpi.sample_time, Duration::from_secs(5));
    assert_eq!(memprof_api::component("nobody"), Err(Error::NotKnown));
    let totals = memprof_api::totals().unwrap();
    assert_eq!((totals.resident, totals.owned, totals.unattributed), (11, 14, 13));
    {
        let outer = memprof_api::region("outer");
        let _inner = memprof_api::region("inner");
        assert!(outer.is_recorded());
    }
    memprof_api::flush().unwrap();
}

#[test]
fn a_profiler_without_a_sample_knows_nothing_yet() {
    if is_inside() {
        assert_eq!(memprof_api::totals(), Err(Error::NotKnown));
    } else {
        again("a_profiler_without_a_sample_knows_nothing_yet", &[("FAKE_SILENT", "1")]);
    }
}

#[test]
fn a_profiler_of_another_version_is_none() {
    if is_inside() {
        expect_nothing();
    } else {
        again("a_profiler_of_another_version_is_none", &[("FAKE_VERSION", "2")]);
        again("a_profiler_of_another_version_is_none", &[("FAKE_OLD", "1")]);
    }
}

#[test]
fn c_programs_get_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let executable = std::env::current_exe().unwrap();
    // Cargo puts the libraries in the directory of the programs that test them.
    let build = executable.parent().unwrap();
    let library = format!("-L{}", build.display());
    let path = format!("-Wl,-rpath,{}", build.display());
    let shared = compile("numbers.c", folder.path(), "shared", &[&library, "-lmemprof_api", &path]);
    let archive = build.join("libmemprof_api.a").display().to_string();
    let system = ["-lgcc_s", "-lutil", "-lrt", "-lpthread", "-lm", "-ldl"];
    let flags: Vec<&str> = std::iter::once(archive.as_str()).chain(system).collect();
    let in_one = compile("numbers.c", folder.path(), "in-one", &flags);
    let fake = fake(folder.path());
    for program in [shared, in_one] {
        let run = |word: &str, preload: &Path| {
            let mut command = Command::new(&program);
            // Cargo names folders that may contain a library of an earlier build.
            command.arg(word).env("LD_PRELOAD", preload).env_remove("LD_LIBRARY_PATH");
            let output = command.output().unwrap();
            assert!(output.status.success(), "{word}: {output:?}");
        };
        run("without", Path::new(""));
        run("with", &fake);
    }
}
