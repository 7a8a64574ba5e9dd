//! `quo-run`: starts a command, usually `mpirun`, so that ranks that wait in MPI lend their CPUs to
//! OpenMP threads of other ranks of their node. The program is not changed.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use clap::Parser;
use quo_launch::job::{Started, wrong_side};
use quo_launch::{Launcher, preload};
use quo_terminal::complain;

/// File name of the object loaded into ranks.
const OBJECT: &str = "libquo_run_preload.so";

/// The words by which a user accepts the risk of `--malleable`.
const RISK: &str = "results-may-be-wrong";

/// Run a command; ranks waiting in MPI lend CPUs to OpenMP threads of others
#[derive(Debug, Parser)]
#[command(
    name = "quo-run",
    version,
    after_help = "Ranks have to be bound, as with `mpirun --bind-to core`: others lend nothing.\n\
        Exit status: that of the command; 127 if not there, 126 if it cannot run.",
    max_term_width = 80
)]
struct Options {
    /// Have each rank write to standard error, at its end, how often it lent and borrowed
    #[arg(long)]
    report: bool,
    /// Lend once a call of MPI has waited this many microseconds [default: 100]
    #[arg(long, value_name = "US", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    after: Option<u32>,
    /// Change the number of threads even of programs that set or query it
    ///
    /// A region may then have more or fewer threads than that number. A program that sizes arrays or divides loops by it
    /// computes wrong results, with status 0. Without the option such programs keep their number, and their threads use
    /// lent CPUs where the rank has too few.
    #[arg(long, value_name = RISK, require_equals = true, num_args = 0..=1, default_missing_value = "", value_parser = take_risk)]
    malleable: Option<bool>,
    /// What to run, as it would be run without quo-run
    #[arg(trailing_var_arg = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

const PAGES: quo_pages::Words<'_> = quo_pages::Words {
    status: "That of the command; 127 if it is not there, 126 if it cannot be run, 1 if nothing can be loaded into it, 2 \
             for a wrong command line.",
    see: "quo(7), mpirun(1), quo-info(1)",
    names: None,
};

/// Accepts only the words of the risk.
fn take_risk(words: &str) -> Result<bool, String> {
    if words == RISK {
        return Ok(true);
    }
    Err(format!(
        "a program that sizes arrays or cuts loops by its number of threads computes wrong results, with status 0; \
         where that cannot be, say so: --malleable={RISK}"
    ))
}

fn main() -> ExitCode {
    let options = match quo_pages::parse(PAGES) {
        Ok(options) => options,
        Err(status) => return status,
    };
    match run(&options) {
        Ok(never) => match never {},
        Err((status, reason)) => {
            complain("quo-run", &reason);
            ExitCode::from(status)
        }
    }
}

fn run(options: &Options) -> Result<std::convert::Infallible, (u8, String)> {
    let failed = |reason: String| (1, reason);
    let launcher = Launcher::of(&options.command[0]);
    let program = options.command[0].to_string_lossy();
    let reason =
        "ranks of different quo-run lend nothing to each other, so the program runs without it";
    let started = Started::read().filter(|_| launcher == Launcher::None);
    if started.is_some() {
        if let Some(told) = wrong_side(started, false, "quo-run --", &program, reason) {
            complain("quo-run", &told);
        }
        return Err(replace_by(&options.command, Vec::new()));
    }
    let object = preload::find(OBJECT, "QUO_RUN_PRELOAD").map_err(failed)?;
    let job = random().map_err(failed)?;
    let command = preload::merge(&object, &options.command);
    let list = preload::list(&object, env::var_os("LD_PRELOAD").as_deref());
    let mut variables = vec![("LD_PRELOAD", list), ("QUO_RUN_JOB", job.into())];
    if options.report {
        variables.push(("QUO_RUN_REPORT", "1".into()));
    }
    if options.malleable.is_some() {
        complain(
            "quo-run",
            "--malleable: regions may have other numbers of threads than the program is told; compare its results with \
             those of a run without the option",
        );
        variables.push(("QUO_RUN_MALLEABLE", "1".into()));
    }
    if let Some(after) = options.after {
        variables.push(("QUO_RUN_AFTER", after.to_string().into()));
    }
    variables.extend(waits(|name| env::var_os(name).is_some()));
    let names: Vec<&str> = variables.iter().map(|(name, _)| *name).collect();
    let (command, told) = launcher.pass(&command, &names);
    if let Some(told) = told {
        complain("quo-run", &told);
    }
    Err(replace_by(&command, variables))
}

/// Runs the command in place of this process. Returns only with a status and the error.
fn replace_by(command: &[OsString], variables: Vec<(&str, OsString)>) -> (u8, String) {
    let error = Command::new(&command[0]).args(&command[1..]).envs(variables).exec();
    let status = if error.kind() == std::io::ErrorKind::NotFound { 127 } else { 126 };
    (status, format!("cannot run {}: {error}", command[0].to_string_lossy()))
}

/// Returns the variables that make waits of MPI and OpenMP leave the CPU. Variables set by the user
/// are kept.
fn waits(is_set: impl Fn(&str) -> bool) -> Vec<(&'static str, OsString)> {
    let mut variables = Vec::new();
    let mut set = |unless: &[&str], name, value: &str| {
        if !unless.iter().chain([&name]).any(|name| is_set(name)) {
            variables.push((name, OsString::from(value)));
        }
    };
    // The object takes each yield as a sign that MPI has found nothing to do.
    set(&[], "OMPI_MCA_mpi_yield_when_idle", "1");
    // Threads without a region go to sleep within a millisecond instead of tens of them.
    set(&["OMP_WAIT_POLICY"], "GOMP_SPINCOUNT", "20000");
    set(&["OMP_WAIT_POLICY"], "KMP_BLOCKTIME", "1");
    // GNU's runtime treats a team with borrowed CPUs as larger than its processors, and makes its
    // threads sleep at once in each barrier of a region. With this policy they poll a thousand
    // times before, as long as short regions wait for their last thread; given the two numbers
    // above it has no other effect.
    set(&["GOMP_SPINCOUNT", "KMP_BLOCKTIME"], "OMP_WAIT_POLICY", "active");
    variables
}

/// Returns a unique, unguessable word in hexadecimal digits.
fn random() -> Result<String, String> {
    let mut bytes = [0; 16];
    let mut filled = 0;
    while filled < bytes.len() {
        match rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty()) {
            Ok(more) => filled += more,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(format!("cannot name the job: getrandom: {error}")),
        }
    }
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn help_fits_a_small_terminal() {
        assert_eq!(quo_pages::oversized(Options::command()), [""; 0]);
    }

    fn set_beside(user: &[&str]) -> Vec<&'static str> {
        waits(|name| user.contains(&name)).into_iter().map(|(name, _)| name).collect()
    }

    #[test]
    fn settings_of_the_user_are_kept() {
        const WAITS: [&str; 3] = ["GOMP_SPINCOUNT", "KMP_BLOCKTIME", "OMP_WAIT_POLICY"];
        assert_eq!(set_beside(&["OMPI_MCA_mpi_yield_when_idle"]), WAITS);
        assert_eq!(set_beside(&[])[1..], WAITS);
        assert_eq!(set_beside(&["OMP_WAIT_POLICY"]), ["OMPI_MCA_mpi_yield_when_idle"]);
        assert_eq!(set_beside(&["GOMP_SPINCOUNT"])[1..], ["KMP_BLOCKTIME"]);
    }

    #[test]
    fn names_of_jobs_are_long_and_differ() {
        let (one, other) = (random().unwrap_or_default(), random().unwrap_or_default());
        assert!(one.len() == 32 && one != other);
    }
}
