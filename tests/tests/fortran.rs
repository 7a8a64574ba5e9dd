//! The Fortran interface: every procedure and every method under a real launcher, and what the
//! modules promise about themselves. The programs are bindings-fortran/tests/*.F90; each counts its
//! own failures and prints them.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context, Result, bail, ensure};
use quo_tests::suite::{Skipped, Test};
use quo_tests::{BINDINGS, BindTo, Checkout, Job};
use quo_tests::{STRICT, compile_modules, fortran_support, module_sources, mpifort, run_compiler};

/// Simulated machines: their description, their numbers of NUMA nodes, packages, cores and PUs, and
/// the number of ranks.
const MACHINES: [(&str, &str, usize); 2] =
    [("pack:2 numa:2 core:2 pu:2", "4 2 8 16", 4), ("pack:1 numa:1 core:2 pu:4", "1 1 2 8", 3)];

/// A machine with devices, and the programs that need them.
const WITH_GPUS: &str = "quo/tests/machines/gpus.xml";
const OF_DEVICES: [&str; 2] = ["devices", "scopes"];

/// Runs for which the real machine matters: number of ranks, and their binding.
const LIVE: [(usize, BindTo); 2] = [(1, BindTo::None), (2, BindTo::Core)];

/// mpif.h does not follow the newest standard, and no program uses all of it.
const MPIF: [&str; 3] = ["-std=gnu", "-Wno-unused-parameter", "-Wno-unused-variable"];

/// Symbols that the modules' objects may need: these of the C library, libquo's, and each other's.
const NEEDED: [&str; 9] = [
    "free",
    "malloc",
    "realloc",
    "memcpy",
    "memmove",
    "memset",
    "strlen",
    "__stack_chk_fail",
    "_GLOBAL_OFFSET_TABLE_",
];

fn passes(name: &str, flags: &[&str]) -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let source = |name: &str| format!("{BINDINGS}/tests/{name}.F90");
    let shared = checkout.compile_fortran_module(&source("check"), folder.path())?;
    let mut also = vec![shared.to_str().context("a path that is text")?];
    also.extend(flags);
    let program = checkout.compile_fortran(&source(name), folder.path(), &also)?;
    for (ranks, bind_to) in LIVE {
        let outcome = Job::new(ranks, &program).bind_to(bind_to).run()?;
        outcome.expect_success().with_context(|| format!("{ranks} ranks, {bind_to:?}"))?;
    }
    for (description, counts, ranks) in MACHINES {
        let job = Job::new(ranks, &program).topology(description).env("QUO_TEST_EXPECT", counts);
        job.run()?.expect_success().with_context(|| description)?;
    }
    if OF_DEVICES.contains(&name) {
        let machine = checkout.root().join(WITH_GPUS).display().to_string();
        let job = Job::new(4, &program).topology(&machine).env("QUO_TEST_EXPECT", "2 2 8 8");
        job.run()?.expect_success().with_context(|| WITH_GPUS)?;
    }
    Ok(())
}

/// Defines one test per program, and the list of all programs.
macro_rules! programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];

        $(
            fn $name() -> Result<()> {
                passes(stringify!($name), &[])
            }
        )*
    };
}

programs! {
    bindings
    contexts
    devices
    errors
    lending
    machine
    memory
    memory_policy
    named_barriers
    objects
    ownership
    phase_work
    ranks
    scopes
    together
}

fn a_program_for_quo_1_4_compiles_unchanged() -> Result<()> {
    passes("quo_1_4", &MPIF)
}

fn mpi_f08_handles() -> Result<()> {
    if !fortran_support()?.mpi_f08 {
        return Err(Skipped("the MPI in use has no module mpi_f08 for this compiler".into()).into());
    }
    passes("mpi_f08_handles", &[])
}

fn no_program_is_forgotten() -> Result<()> {
    let mut found = BTreeSet::new();
    for entry in Checkout::find()?.root().join(BINDINGS).join("tests").read_dir()? {
        let path = entry?.path();
        found.insert(path.file_stem().context("no name")?.to_string_lossy().into_owned());
    }
    let known = PROGRAMS.iter().chain(&["check", "mpi_f08_handles", "quo_1_4"]);
    let known: BTreeSet<String> = known.map(|&name| name.to_owned()).collect();
    ensure!(found == known, "{found:?} are there, {known:?} are run");
    Ok(())
}

fn no_source_is_forgotten() -> Result<()> {
    let checkout = Checkout::find()?;
    let mut found = BTreeSet::new();
    for entry in checkout.root().join(BINDINGS).join("src").read_dir()? {
        found.insert(entry?.path());
    }
    let mut listed: BTreeSet<_> = module_sources(checkout.root())?.into_iter().collect();
    for source in listed.clone() {
        let text = fs::read_to_string(&source)?;
        let included = text.lines().filter_map(|line| line.strip_prefix("#include "));
        listed.extend(included.map(|name| source.with_file_name(name.trim_matches('"'))));
    }
    ensure!(found == listed, "{found:?} are there, {listed:?} are listed or included");
    Ok(())
}

/// Returns the headers of module quo without comments.
fn headers() -> Result<String> {
    code_of(&["quo.h", "quo-xpm.h"])
}

/// Returns the code of headers without comments.
fn code_of(headers: &[&str]) -> Result<String> {
    let mut code = String::new();
    for header in headers {
        let path = Checkout::find()?.root().join("bindings-c/include").join(header);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let mut left = text.as_str();
        while let Some((before, after)) = left.split_once("/*") {
            code += before;
            left = after.split_once("*/").context("a comment that ends")?.1;
        }
        code += left;
    }
    Ok(code)
}

/// Returns the names in the headers that `is_one` accepts, given the text after each name.
fn names(code: &str, is_one: impl Fn(&str, &str) -> bool) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    for line in code.lines() {
        let mut rest = line;
        while let Some(start) = rest.find(is_part) {
            rest = &rest[start..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let name = &rest[..end];
            rest = &rest[end..];
            if is_one(name, rest) {
                found.insert(name.to_owned());
            }
        }
    }
    found
}

fn is_constant(name: &str) -> bool {
    (name.starts_with("QUO_") || name == "LIBQUO")
        && name.chars().all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
        && !name.ends_with("_INIT")
        && !name.ends_with("_INCLUDED")
}

/// Checks that every function of the headers has a procedure of its name in the corresponding
/// module.
fn every_function_has_a_procedure() -> Result<()> {
    have_procedures(&headers()?, "quo", 50)?;
    have_procedures(&code_of(&["quo-elastic.h"])?, "quo_elastic", 50)
}

fn have_procedures(code: &str, module: &str, least: usize) -> Result<()> {
    let functions = names(code, |name, rest| {
        let ours = name.starts_with("QUO_") && !is_constant(name);
        // Without functions that only serve this module.
        ours && rest.starts_with('(') && !name.ends_with("_f2c") && name != "QUO_set_last_error"
    });
    ensure!(functions.len() > least, "only {} functions for {module}", functions.len());
    let mut program = String::from("program names\n");
    for name in &functions {
        program += &format!("  use {module}, only: {}\n", name.to_lowercase());
    }
    program += "end program names\n";
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("names.f90");
    fs::write(&source, program)?;
    let source = source.to_str().context("a path that is text")?;
    Checkout::find()?.compile_fortran(source, folder.path(), &[])?;
    Ok(())
}

/// Checks that every constant of the headers has the same value in both languages.
fn constants_are_those_of_the_headers() -> Result<()> {
    have_constants(&headers()?, "quo-xpm.h", "quo", 40)?;
    have_constants(&code_of(&["quo-elastic.h"])?, "quo-elastic.h", "quo_elastic", 60)
}

fn have_constants(code: &str, header: &str, module: &str, least: usize) -> Result<()> {
    let constants = names(code, |name, _| is_constant(name));
    ensure!(constants.len() > least, "only {} constants of {header}", constants.len());
    let mut c = format!("#include <stdio.h>\n#include \"{header}\"\nint main(void) {{\n");
    let mut fortran = format!("program constants\n  use {module}\n  implicit none\n");
    for name in &constants {
        c += &format!("    printf(\"{name} %d\\n\", (int)({name}));\n");
        fortran += &format!("  print '(a,i0)', '{name} ', {name}\n");
    }
    c += "    return 0;\n}\n";
    fortran += "end program constants\n";
    let folder = tempfile::tempdir()?;
    let checkout = Checkout::find()?;
    let (source, in_c) = (folder.path().join("in_c.c"), folder.path().join("in_c"));
    fs::write(&source, c)?;
    checkout.library()?.compile(&source, &in_c, &[])?;
    let source = folder.path().join("in_fortran.f90");
    fs::write(&source, fortran)?;
    let source = source.to_str().context("a path that is text")?;
    let in_fortran = checkout.compile_fortran(source, folder.path(), &[])?;
    let (in_c, in_fortran) = (said(&in_c)?, said(&in_fortran)?);
    ensure!(in_c.lines().count() == constants.len(), "in C:\n{in_c}");
    ensure!(in_c == in_fortran, "in C:\n{in_c}in Fortran:\n{in_fortran}");
    Ok(())
}

fn said(program: &Path) -> Result<String> {
    let output = Command::new(program).output()?;
    ensure!(output.status.success(), "{}: {output:?}", program.display());
    Ok(String::from_utf8(output.stdout)?)
}

/// libquo is also linked into C programs.
fn the_modules_need_no_runtime_library_of_fortran() -> Result<()> {
    let checkout = Checkout::find()?;
    for optimisation in ["-O0", "-O2"] {
        let folder = tempfile::tempdir()?;
        let strict = &STRICT[..STRICT.len() - 1];
        let flags = [strict, &[optimisation]].concat();
        let objects = compile_modules(checkout.root(), folder.path(), &flags)?;
        let output = Command::new("nm").args(["-u", "-j"]).args(objects).output()?;
        ensure!(output.status.success(), "nm: {output:?}");
        for name in String::from_utf8(output.stdout)?.lines().filter(|line| !line.ends_with(':')) {
            let ours = name.starts_with("QUO_") || name.starts_with("__quo_");
            if !name.is_empty() && !ours && !NEEDED.contains(&name) {
                bail!("with {optimisation} the modules need {name}");
            }
        }
    }
    Ok(())
}

fn the_modules_do_without_mpi_f08() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let flags = [&STRICT[..], &["-DQUO_NO_MPI_F08"]].concat();
    compile_modules(Checkout::find()?.root(), folder.path(), &flags)?;
    let source = folder.path().join("old.f90");
    let program = "program old\n  use quo\n  implicit none\n  type(quo_context) :: c\n  \
                   integer(c_int) :: ierr\n  type(c_ptr) :: q\n  call quo_create(q, 0, ierr)\n  \
                   call c%create(0, ierr)\nend program old\n";
    fs::write(&source, program)?;
    let mut compiler = Command::new(mpifort());
    run_compiler(compiler.current_dir(&folder).args(STRICT).arg("-c").arg(&source))
}

/// The modules can also be compiled with eight-byte default integers.
fn the_modules_compile_with_wide_default_integers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // The handles of mpi_f08 do not support this option.
    let wide = ["-std=f2018", "-fdefault-integer-8", "-DQUO_NO_MPI_F08"];
    compile_modules(Checkout::find()?.root(), folder.path(), &wide)?;
    Ok(())
}

/// LLVM's compiler shares neither .mod files nor a run-time library with GNU's.
fn another_compiler_takes_the_sources() -> Result<()> {
    let names =
        ["flang", "flang-new", "flang-23", "flang-22", "flang-21", "flang-new-19", "flang-new-16"];
    let is_there = |name: &&str| Command::new(name).arg("--version").output().is_ok();
    let Some(flang) = names.into_iter().find(is_there) else {
        return Err(Skipped("no flang is installed".into()).into());
    };
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let mut sources = module_sources(checkout.root())?;
    let tests = checkout.root().join(BINDINGS).join("tests");
    let stand_in = folder.path().join("mpi.f90");
    fs::write(&stand_in, "module mpi\n  integer :: MPI_COMM_WORLD, MPI_COMM_NULL\nend module\n")?;
    sources.extend([stand_in, tests.join("check.F90"), tests.join("ownership.F90")]);
    for source in sources {
        let mut compiler = Command::new(flang);
        compiler.current_dir(&folder).args(["-cpp", "-DQUO_NO_MPI_F08", "-c"]).arg(&source);
        run_compiler(&mut compiler)?;
    }
    Ok(())
}

/// Returns the Fortran program of the guide.
fn example_of_the_guide(checkout: &Checkout) -> Result<String> {
    let page = fs::read_to_string(checkout.root().join("docs/languages.md"))?;
    let (_, rest) =
        page.split_once("```fortran file=program.f90\n").context("no Fortran example")?;
    let (example, _) = rest.split_once("```").context("the Fortran example has no end")?;
    Ok(example.to_owned())
}

/// Checks that the program compiles, and runs with a worker of two threads on each of two packages.
fn expect_two_workers(checkout: &Checkout, program: &str, flags: &[&str]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("example.f90");
    fs::write(&source, program)?;
    let source = source.to_str().context("a path that is text")?;
    let program = checkout.compile_fortran(source, folder.path(), flags)?;
    let job = Job::new(4, &program).topology("pack:2 core:2 pu:1").env("OMP_NUM_THREADS", "1");
    let outcome = job.run()?;
    outcome.expect_success()?;
    let mut lines: Vec<&str> = outcome.stdout.lines().map(str::trim).collect();
    lines.sort_unstable();
    let wanted = ["0 to 1", "2 to 3"].map(|ranks| format!("ranks {ranks}: sum 2000 by 2 threads"));
    ensure!(lines == wanted, "{lines:?}");
    Ok(())
}

fn the_example_of_the_guide_compiles_and_runs() -> Result<()> {
    let checkout = Checkout::find()?;
    expect_two_workers(&checkout, &example_of_the_guide(&checkout)?, &[])
}

/// Runs the guide's example with a parallel region in the worker, and one after the phase.
fn openmp_follows_the_phase_in_the_guide_example() -> Result<()> {
    let checkout = Checkout::find()?;
    let example = example_of_the_guide(&checkout)?;
    let team = "
  integer function team()
    team = 0
    !$omp parallel reduction(+:team)
    team = team + 1
    !$omp end parallel
  end function team
end program example";
    let with = example
        .replacen("' by ', threads, '", "' by ', team(), '", 1)
        .replacen(
            "  call solve%free(ierr)",
            "  if (team() /= 1) error stop\n  call solve%free(ierr)",
            1,
        )
        .replacen("end program example", team, 1);
    ensure!(with.matches("team()").count() == 3, "another example than expected:\n{with}");
    expect_two_workers(&checkout, &with, &["-fopenmp"])
}

macro_rules! tests {
    ($($name:ident)*) => {
        const TESTS: &[Test] = &[$((stringify!($name), $name)),*];
    };
}

tests! {
    a_program_for_quo_1_4_compiles_unchanged
    bindings
    contexts
    devices
    errors
    lending
    machine
    memory
    memory_policy
    mpi_f08_handles
    named_barriers
    objects
    ownership
    phase_work
    ranks
    scopes
    together
    another_compiler_takes_the_sources
    constants_are_those_of_the_headers
    every_function_has_a_procedure
    no_program_is_forgotten
    no_source_is_forgotten
    the_example_of_the_guide_compiles_and_runs
    openmp_follows_the_phase_in_the_guide_example
    the_modules_compile_with_wide_default_integers
    the_modules_do_without_mpi_f08
    the_modules_need_no_runtime_library_of_fortran
}

fn main() -> ExitCode {
    quo_tests::suite::run(TESTS, fortran_support().err().map(|error| format!("{error:#}")))
}
