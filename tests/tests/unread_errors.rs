//! Programs in C and Fortran that read no return code: one line at the end names phases that have
//! not ended and unread failures, `QUO_ERRORS` prints or ends the job, and correct programs get no
//! output.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{Checkout, Job, Outcome, fortran_support};

fn run(what: &str, ranks: usize, errors: Option<&str>) -> Result<Outcome> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let program = checkout.compile_c("tests/programs/unread_errors.c", folder.path(), &[])?;
    let job = Job::new(ranks, program).arg(what);
    errors.into_iter().fold(job, |job, value| job.env("QUO_ERRORS", value)).run()
}

/// Returns the library's own lines on stderr.
fn lines(outcome: &Outcome) -> Vec<&str> {
    outcome.stderr.lines().filter(|line| line.contains("quo: ")).collect()
}

fn right_programs_hear_nothing() -> Result<()> {
    for errors in [None, Some("return"), Some("print")] {
        for what in ["right", "forked"] {
            let outcome = run(what, 2, errors)?;
            outcome.expect_success()?;
            let spoken = lines(&outcome);
            // The child of a fork fails in a call, and `print` shows each.
            let expected = if what == "forked" && errors == Some("print") { 2 } else { 0 };
            ensure!(spoken.len() == expected, "{what} {errors:?}: {spoken:?}");
        }
    }
    for what in ["asked", "answers", "too-late"] {
        let outcome = run(what, 2, None)?;
        ensure!(outcome.stdout.matches("went on to the end").count() == 2, "{}", outcome.report());
        ensure!(lines(&outcome).is_empty(), "{what}: {}", outcome.report());
    }
    Ok(())
}

fn phase_never_ended_is_named_once_per_node() -> Result<()> {
    for ranks in [1, 2, 4] {
        let outcome = run("never-ended", ranks, None)?;
        ensure!(outcome.stdout.matches("went on").count() == ranks, "{}", outcome.report());
        let [line] = lines(&outcome)[..] else {
            anyhow::bail!("not one line: {}", outcome.report());
        };
        for part in [
            "quo: rank ",
            "phase `solve` has begun and not ended before MPI_Finalize",
            "4 errors that nobody asked QUO_last_error() about",
            "(QUO_phase_begin 2, QUO_phase_free 1, QUO_free 1)",
            "the first: QUO_phase_begin: a run of the phase `solve` has begun and not ended",
            "QUO_ERRORS=print",
        ] {
            ensure!(line.contains(part), "{part:?} is not in {line}");
        }
    }
    Ok(())
}

fn end_without_begin_has_its_own_code() -> Result<()> {
    let outcome = run("end-without-begin", 2, None)?;
    ensure!(outcome.stdout.matches("code 24").count() == 2, "{}", outcome.report());
    let [line] = lines(&outcome)[..] else { anyhow::bail!("{}", outcome.report()) };
    ensure!(line.contains("1 error that nobody asked"), "{line}");
    ensure!(line.contains("no run of the phase `solve` has begun on this thread"), "{line}");
    Ok(())
}

fn print_says_each_failure_with_its_rank() -> Result<()> {
    let outcome = run("never-ended", 2, Some("print"))?;
    ensure!(outcome.stdout.matches("went on").count() == 2, "{}", outcome.report());
    let spoken = lines(&outcome);
    for rank in [0, 1] {
        let of_rank = format!("quo: rank {rank}: QUO_");
        let calls = spoken.iter().filter(|line| line.contains(&of_rank)).count();
        ensure!(calls == 4, "{calls} of rank {rank}: {spoken:#?}");
    }
    let busy =
        "QUO_free: the context is in use by 1 phase (`solve`) made from it: free these first";
    ensure!(spoken.iter().any(|line| line.ends_with(busy)), "{spoken:#?}");
    let begun = spoken.iter().filter(|line| line.contains("not ended before MPI_Finalize"));
    ensure!(begun.count() == 1 && spoken.len() == 9, "{spoken:#?}");
    Ok(())
}

fn abort_ends_the_job_at_the_first_failure() -> Result<()> {
    let outcome = run("never-ended", 2, Some("abort"))?;
    ensure!(!outcome.stdout.contains("went on"), "{}", outcome.report());
    // The code of the failure: QUO_ERR_BUSY.
    ensure!(outcome.status.code() == Some(17), "{}", outcome.report());
    ensure!(
        outcome.stderr.contains("has begun and not ended; QUO_ERRORS=abort ends the job"),
        "{}",
        outcome.report()
    );
    Ok(())
}

fn abort_spares_answers_and_right_programs() -> Result<()> {
    for what in ["right", "answers", "too-late"] {
        let outcome = run(what, 2, Some("abort"))?;
        ensure!(outcome.stdout.matches("went on").count() == 2, "{what}: {}", outcome.report());
    }
    Ok(())
}

/// Without a launcher, so that the exit status is that of the process.
fn failure_before_mpi_ends_the_process() -> Result<()> {
    use std::os::unix::process::ExitStatusExt;
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let program = checkout.compile_c("tests/programs/unread_errors.c", folder.path(), &[])?;
    let told = |errors: &str| {
        let mut command = Command::new(&program);
        command.arg("before-mpi").env("QUO_ERRORS", errors).output().context("starting a program")
    };
    let output = told("abort")?;
    ensure!(output.status.signal() == Some(6), "{output:?}");
    let output = told("return")?;
    ensure!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(text.lines().count() == 1 && text.contains("before its exit (QUO_create 1)"), "{text}");
    Ok(())
}

fn exit_inside_a_phase_is_said_and_ends() -> Result<()> {
    let outcome = run("exits-inside", 2, None)?;
    ensure!(!outcome.stdout.contains("went on"), "{}", outcome.report());
    let spoken = lines(&outcome);
    // Ranks that leave one after the other may each be the first remaining one.
    ensure!((1..=2).contains(&spoken.len()), "{}", outcome.report());
    ensure!(spoken[0].contains("has begun and not ended before its exit"), "{spoken:?}");
    Ok(())
}

fn unknown_value_is_refused_and_named() -> Result<()> {
    let outcome = run("right", 2, Some("explode"))?;
    let named = "QUO_ERRORS=explode is not one of: return, print, abort";
    ensure!(outcome.stderr.contains(named), "{}", outcome.report());
    ensure!(!outcome.stdout.contains("went on"), "{}", outcome.report());
    Ok(())
}

fn fortran_phase_never_ended_is_named() -> Result<()> {
    if let Err(reason) = fortran_support() {
        return Err(Skipped(reason.to_string()).into());
    }
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let program =
        checkout.compile_fortran("tests/programs/unread_errors.F90", folder.path(), &[])?;
    let outcome = Job::new(2, &program).arg("never-ended").run()?;
    let [line] = lines(&outcome)[..] else { anyhow::bail!("{}", outcome.report()) };
    ensure!(line.contains("phase `solve` has begun and not ended"), "{line}");
    ensure!(line.contains("QUO_phase_begin 2"), "{line}");
    // Owners that free automatically cause no failures, whatever they look up.
    for errors in ["return", "abort"] {
        let outcome = Job::new(2, &program).arg("owned").env("QUO_ERRORS", errors).run()?;
        outcome.expect_success()?;
        ensure!(lines(&outcome).is_empty(), "{errors}: {}", outcome.report());
    }
    Ok(())
}

quo_tests::suite! {
    right_programs_hear_nothing
    phase_never_ended_is_named_once_per_node
    end_without_begin_has_its_own_code
    print_says_each_failure_with_its_rank
    abort_ends_the_job_at_the_first_failure
    abort_spares_answers_and_right_programs
    failure_before_mpi_ends_the_process
    exit_inside_a_phase_is_said_and_ends
    unknown_value_is_refused_and_named
    fortran_phase_never_ended_is_named
}
