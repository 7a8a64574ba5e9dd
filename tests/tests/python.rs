//! The Python package keeps its promises under a real launcher, with mpi4py; its constants and
//! structures match the C headers, and its wheel installs.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{Checkout, Job, mpicc, python_interpreter, python_job, python_surroundings};

const PACKAGE: &str = "bindings-python";

fn said(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?}: {}\n{text}{errors}", output.status);
    Ok(text)
}

fn job(ranks: usize, program: &str) -> Result<Job> {
    python_job(ranks, &format!("{PACKAGE}/tests/{program}"))
}

/// Runs a program in which every rank reports that it passed.
fn passes(ranks: usize, program: &str) -> Result<()> {
    all_pass(ranks, job(ranks, program)?)
}

fn all_pass(ranks: usize, job: Job) -> Result<()> {
    let outcome = job.run()?;
    outcome.expect_success().with_context(|| format!("{ranks} ranks"))?;
    let passed = outcome.stdout.matches("passed").count();
    ensure!(passed == ranks, "{passed} of {ranks} ranks passed\n{}", outcome.report());
    Ok(())
}

fn queries_agree_with_each_other_and_the_kernel() -> Result<()> {
    passes(1, "queries.py")?;
    passes(2, "queries.py")?;
    let machine = "pack:2 numa:2 core:2 pu:2";
    job(3, "queries.py")?.topology(machine).run()?.expect_success().map(drop)
}

fn pushed_bindings_are_popped_at_the_end_of_blocks() -> Result<()> {
    passes(2, "bindings.py")
}

fn exception_in_a_phase_fails_it_on_all_ranks() -> Result<()> {
    [1, 3].into_iter().try_for_each(|ranks| passes(ranks, "phases.py"))
}

fn shared_memory_stays_while_a_view_is_in_use() -> Result<()> {
    [1, 2, 3].into_iter().try_for_each(|ranks| passes(ranks, "shared.py"))?;
    let gpus = Checkout::find()?.root().join("quo/tests/machines/gpus.xml");
    all_pass(2, job(2, "shared.py")?.env("QUO_TOPOLOGY", gpus))
}

fn world_with_arrays_grows_shrinks_and_aborts() -> Result<()> {
    [1, 3].into_iter().try_for_each(|ranks| passes(ranks, "worlds.py"))
}

fn cells_and_ghost_cells_are_right_after_resizes() -> Result<()> {
    [1, 4].into_iter().try_for_each(|ranks| passes(ranks, "cells.py"))
}

fn matrices_and_items_are_right_after_resizes() -> Result<()> {
    let limit = Duration::from_secs(120);
    [1, 4].into_iter().try_for_each(|ranks| all_pass(ranks, job(ranks, "solvers.py")?.limit(limit)))
}

fn world_grows_by_starting_the_program_again() -> Result<()> {
    let job = job(1, "spawned.py")?.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let outcome = job.run()?;
    if let Some((_, reason)) = outcome.stdout.split_once("parked ranks only: ") {
        return Err(Skipped(reason.lines().next().unwrap_or_default().to_owned()).into());
    }
    outcome.expect_success()?;
    ensure!(outcome.stdout.contains("2 resizes"), "{}", outcome.report());
    Ok(())
}

fn regions_are_phases_of_the_profilers_report() -> Result<()> {
    passes(1, "memory.py")?;
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let mut run = Command::new(checkout.program("memprof")?);
    run.args(["run", "-o"]).arg(folder.path().join("traces")).arg("--").arg(python_interpreter()?);
    run.arg(checkout.root().join(PACKAGE).join("tests/memory.py")).arg("profiled");
    let text = said(run.envs(python_surroundings()?))?;
    ensure!(text.contains("passed"), "{text}");
    let mut report = Command::new(checkout.program("memprof")?);
    let report = said(report.arg("report").arg(folder.path().join("traces")))?;
    ensure!(report.contains("python-work"), "{report}");
    Ok(())
}

fn numbers_and_structures_are_those_of_the_headers() -> Result<()> {
    let checkout = Checkout::find()?;
    let mut compare = Command::new(python_interpreter()?);
    compare.arg(checkout.root().join(PACKAGE).join("tests/abi.py"));
    compare.args(["bindings-c", "memprof/api"].map(|of| checkout.root().join(of).join("include")));
    let text = said(compare.envs(python_surroundings()?).env("MPICC", mpicc()))?;
    ensure!(text.contains("passed"), "{text}");
    Ok(())
}

fn wheel_is_built_installed_and_imported() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    // What would be fetched would be asked of a port on which nothing listens.
    let mut build = Command::new(checkout.program("xtask")?);
    build.current_dir(checkout.root()).args(["wheel", "--output"]).arg(folder.path());
    build.envs(
        ["http_proxy", "https_proxy", "PIP_INDEX_URL"].map(|name| (name, "http://127.0.0.1:9")),
    );
    let wheel = said(&mut build)?;
    let wheel = wheel.lines().next_back().unwrap_or_default();
    let site = folder.path().join("site");
    let mut pip = Command::new(python_interpreter()?);
    pip.args(["-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target"]);
    said(pip.arg(&site).arg(wheel))?;
    let mut import = Command::new(python_interpreter()?);
    let program = "import importlib.metadata as data, libquo; \
        print(libquo.__file__, libquo.library_version()[0], data.metadata('libquo')['Author'])";
    import.args(["-c", program]).current_dir(folder.path()).envs(python_surroundings()?);
    let text = said(import.env("PYTHONPATH", &site))?;
    ensure!(text.contains("/site/libquo/__init__.py 8 The quo developers"), "{text}");
    // The error gives the paths searched and the remedy.
    let refused = import.env("QUO_LIBRARY", folder.path().join("absent.so")).output()?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success(), "{error}");
    ensure!(
        error.contains("absent.so") && error.contains("Name the file in QUO_LIBRARY"),
        "{error}"
    );
    Ok(())
}

fn missing_numpy_is_named_with_its_remedy() -> Result<()> {
    let folder = tempfile::tempdir()?;
    // A NumPy that cannot be imported, before the installed one.
    std::fs::write(folder.path().join("numpy.py"), "raise ImportError('no numpy here')\n")?;
    let package = Checkout::find()?.root().join(PACKAGE);
    let mut import = Command::new(python_interpreter()?);
    let program = "from libquo.shared import SharedMemory\nSharedMemory.array(None)";
    import.args(["-c", program]).envs(python_surroundings()?);
    let refused =
        import.env("PYTHONPATH", std::env::join_paths([folder.path(), &package])?).output()?;
    let error = String::from_utf8_lossy(&refused.stderr);
    ensure!(!refused.status.success() && error.contains("ImportError: libquo: "), "{error}");
    ensure!(error.contains("no numpy here") && error.contains("pip install numpy"), "{error}");
    Ok(())
}

fn type_hints_are_complete_and_right() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let mypy = || -> Result<Command> {
        let mut mypy = Command::new(python_interpreter()?);
        mypy.args(["-m", "mypy", "--cache-dir"]).arg(folder.path());
        mypy.current_dir(checkout.root().join(PACKAGE));
        Ok(mypy)
    };
    said(&mut mypy()?)?;
    // A user's mistakes inside of blocks are seen: `with` gives the object's own class.
    let program = folder.path().join("program.py");
    std::fs::write(
        &program,
        "import libquo\n\
        with libquo.Context() as node, node.phase(\"package\") as solve, libquo.World() as world:\n    \
        node.no_query()\n    solve.no_call()\n    world.no_member\n",
    )?;
    let told = mypy()?.arg(&program).output()?;
    let told = String::from_utf8_lossy(&told.stdout);
    for (class, name) in [("Context", "no_query"), ("Phase", "no_call"), ("World", "no_member")] {
        ensure!(told.contains(&format!("\"{class}\" has no attribute \"{name}\"")), "{told}");
    }
    ensure!(told.contains("Found 3 errors"), "{told}");
    Ok(())
}

quo_tests::suite! {
    queries_agree_with_each_other_and_the_kernel
    pushed_bindings_are_popped_at_the_end_of_blocks
    exception_in_a_phase_fails_it_on_all_ranks
    shared_memory_stays_while_a_view_is_in_use
    world_with_arrays_grows_shrinks_and_aborts
    cells_and_ghost_cells_are_right_after_resizes
    matrices_and_items_are_right_after_resizes
    world_grows_by_starting_the_program_again
    regions_are_phases_of_the_profilers_report
    numbers_and_structures_are_those_of_the_headers
    wheel_is_built_installed_and_imported
    missing_numpy_is_named_with_its_remedy
    type_hints_are_complete_and_right
}
