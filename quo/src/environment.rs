//! Every environment variable the library reads, in one table.
//!
//! Variables are read when a context is created, and never written. An unusable value makes the
//! creation fail; no default is substituted silently.

use std::time::Duration;

/// A variable: its name, its possible values, and its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Name of the variable.
    pub name: &'static str,
    /// Values it accepts.
    pub values: &'static str,
    /// Behaviour if it is not set.
    pub default: &'static str,
    /// Effect of the variable, in a sentence.
    pub meaning: &'static str,
}

/// Machine to plan for instead of the one the program runs on.
pub const TOPOLOGY: Variable = Variable {
    name: "QUO_TOPOLOGY",
    values: "an hwloc XML file, or a synthetic string such as `pack:2 core:4 pu:1`",
    default: "the live machine",
    meaning: "simulates that machine: masks are remembered, nothing is bound",
};

/// Initial bindings on a simulated machine.
pub const BINDING: Variable = Variable {
    name: "QUO_BINDING",
    values: "none, an object type (core, package, numa, ...), or CPU lists by node rank: `0-3;4-7`",
    default: "none",
    meaning: "how the ranks of a simulated machine start out bound; node rank i takes object i, \
              round robin",
};

/// How ranks wait in a barrier.
pub const WAIT: Variable = Variable {
    name: "QUO_WAIT",
    values: "futex, pthread, mpi",
    default: "futex",
    meaning: "the way to wait in QUO_barrier; pthread has no timeout and does not notice dead \
              ranks, mpi keeps its core busy",
};

/// Directory of the shared segments.
pub const DIRECTORY: Variable = Variable {
    name: "QUO_TMPDIR",
    values: "a directory in memory that the ranks of a node share",
    default: "/dev/shm",
    meaning: "where the shared segments are made, which are unlinked before create returns, and \
              where the description of the machine is kept; refused when other users could replace \
              files in it",
};

/// Time that the creation of a context waits for the other ranks.
pub const CREATE_TIMEOUT: Variable = Variable {
    name: "QUO_CREATE_TIMEOUT",
    values: "seconds",
    default: "600",
    meaning: "how long create waits for ranks that do not come",
};

/// Policy of automatic distribution.
pub const DISTRIBUTE: Variable = Variable {
    name: "QUO_DISTRIBUTE",
    values: "spread, libquo",
    default: "spread",
    meaning: "libquo selects exactly as the published algorithm does, quirks included",
};

/// Treatment of CPU quotas of control groups.
pub const CPU_QUOTA: Variable = Variable {
    name: "QUO_CPU_QUOTA",
    values: "follow, ignore",
    default: "follow",
    meaning: "whether the CPU quota of a container or control group caps the threads of phases",
};

/// File for the trace of all phases.
pub const TRACE: Variable = Variable {
    name: "QUO_TRACE",
    values: "a file name",
    default: "no trace",
    meaning: "rank 0 writes the phases of all ranks there when the context is freed, for Perfetto \
              or chrome://tracing",
};

/// Reaction of C, C++, Fortran and Python calls to their own failures.
pub const ERRORS: Variable = Variable {
    name: "QUO_ERRORS",
    values: "return, print, abort",
    default: "return",
    meaning: "what a failed call of C, C++, Fortran or Python does beside returning its code: \
              print writes a line to stderr, abort also ends the job",
};

/// All variables.
pub const VARIABLES: [Variable; 9] =
    [TOPOLOGY, BINDING, WAIT, DIRECTORY, CREATE_TIMEOUT, DISTRIBUTE, CPU_QUOTA, TRACE, ERRORS];

/// A value of [`ERRORS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// Returns the code.
    #[default]
    Return,
    /// Also writes a line to stderr.
    Print,
    /// Also writes a line to stderr and ends the job.
    Abort,
}

/// Returns the value of [`ERRORS`].
///
/// # Errors
/// The text, if it is not a value of the variable.
pub fn reaction() -> Result<Reaction, String> {
    match value(&ERRORS).as_deref() {
        None | Some("return") => Ok(Reaction::Return),
        Some("print") => Ok(Reaction::Print),
        Some("abort") => Ok(Reaction::Abort),
        Some(other) => Err(other.to_owned()),
    }
}

/// Returns the value of a variable; unset and empty are the same.
#[must_use]
pub fn value(variable: &Variable) -> Option<String> {
    std::env::var_os(variable.name)
        .filter(|text| !text.is_empty())
        .map(|text| text.to_string_lossy().into_owned())
}

/// Value of [`CREATE_TIMEOUT`] if it is not set.
pub const DEFAULT_CREATE_TIMEOUT: Duration = Duration::from_secs(600);

/// Returns the value of a variable in seconds.
///
/// # Errors
/// The text, if it is not a number of seconds.
pub fn seconds(variable: &Variable) -> Result<Option<Duration>, String> {
    let Some(text) = value(variable) else { return Ok(None) };
    let seconds = text.parse::<f64>().ok();
    match seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
        Some(duration) => Ok(Some(duration)),
        None => Err(text),
    }
}
