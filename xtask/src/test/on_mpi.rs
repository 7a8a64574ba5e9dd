//! The end-to-end suites on an MPI other than the default.

use std::process::Command;

use anyhow::Result;

use super::gate::Gate;
use super::suites::Suite;
use super::verdict::Verdict;
use crate::mpi::{self, Home};
use crate::project;

/// Builds that the suites need, and nothing else: no fuzz targets, no machines. The programs are
/// first, since a test program does not make cargo build the programs of other packages. Test
/// programs do not depend on the MPI: in `cargo xtask test` those of the default serve all MPIs.
const BUILDS: &[(&str, &[&str])] = &[
    (
        "build",
        &[
            "build",
            "--package",
            "quo-c",
            "--package",
            "quo-info",
            "--package",
            "coupled",
            "--package",
            "coupled-demo",
            "--package",
            "elastic",
            "--package",
            "elastic-program",
            "--package",
            "elastic-reshape",
            "--package",
            "elastic-tasks",
            "--package",
            "quo-elastic",
            "--package",
            "quo-run",
            "--package",
            "quo-run-preload",
            "--package",
            "quo-info-preload",
            "--lib",
            "--bins",
            "--examples",
        ],
    ),
    (
        "build memprof",
        &[
            "build",
            "--package",
            "memprof-command",
            "--package",
            "memprof-preload",
            "--package",
            "memprof-api",
            "--package",
            "memprof-archive",
        ],
    ),
    ("build tests", &["test", "--no-run", "--package", "quo-tests"]),
];

/// Variable that names the folder of the tested programs to a test program in another folder.
const TESTED: &str = "QUO_TESTS_BUILD";

/// Makes `c_functions` run each program with two numbers of ranks and machines, not eleven in all:
/// MPIs differ in how ranks start and connect, not in the shapes of machines.
const BRIEF: (&str, &str) = ("QUO_TESTS_BRIEF", "1");

/// Tests of compilers, not of MPIs, by a part of their names: the C++ interface is a header over
/// the C one, whose tests all run.
const OF_COMPILERS: &[&str] = &[
    "clangxx",
    "misuse",
    "examples_compile",
    "errors::gxx",
    "guards::gxx",
    "old_names::gxx",
    "queries::gxx",
];

/// Suites over hosts that have tests for MPIs other than the default.
const ON_HOSTS: &[&str] = &[
    "quo-hosts elastic_on_slurm",
    "quo-hosts elastic_over_hosts",
    "quo-hosts restarts_over_hosts",
];

/// Returns the steps of an MPI: the end-to-end suites; in the short form without those that concern
/// all MPIs or none.
pub fn steps(mpi: &str, gate: &Gate, known: &[Suite], brief: bool) -> Vec<String> {
    let is_end_to_end = |suite: &&Suite| {
        suite.name.strip_prefix("quo-tests ").is_some_and(|name| name != "library")
            || ON_HOSTS.contains(&suite.name.as_str())
    };
    let is_run = |suite: &&Suite| !(brief && gate.is_of_any_mpi(&suite.name));
    known
        .iter()
        .filter(is_end_to_end)
        .filter(is_run)
        .map(|suite| format!("{mpi}: {}", suite.name))
        .collect()
}

/// An MPI, and the part of the suites that runs on it.
pub struct OnMpi {
    pub home: Home,
    /// Short form: programs on fewer ranks and machines.
    pub brief: bool,
    /// Test programs are built for this MPI alone, as those of the default have not been built.
    pub own_tests: bool,
}

impl OnMpi {
    /// Returns the name of a step.
    pub fn step(&self, what: &str) -> String {
        format!("{}: {what}", self.home.name)
    }

    /// Returns the verdict for an MPI without a Fortran compiler, which omits the tests with the
    /// language in their names.
    pub fn without_fortran(&self) -> Option<Verdict> {
        let reason = "this MPI has no Fortran compiler (mpifort)";
        (!mpi::has_fortran(&self.home)).then(|| Verdict::left_out(&self.step("Fortran"), reason))
    }

    /// Returns the builds: names of steps and calls of cargo.
    pub fn builds(&self) -> Result<Vec<(String, Command)>> {
        let call = |(name, arguments): &(&str, &[&str])| {
            let mut cargo = project::cargo()?;
            cargo.args(*arguments);
            if self.own_tests && *name == "build" {
                // Suites that install call xtask.
                cargo.args(["--package", "xtask"]);
            }
            self.home.enter(&mut cargo)?;
            cargo.env("CARGO_TARGET_DIR", &self.home.build);
            Ok((self.step(name), cargo))
        };
        let count = if self.own_tests { BUILDS.len() } else { 1 };
        BUILDS[..count].iter().map(call).collect()
    }

    /// Makes this the MPI of a test program, and skips the tests that cannot run on it.
    pub fn set_up(&self, command: &mut Command) -> Result<()> {
        self.home.enter(command)?;
        if !self.own_tests {
            command.env(TESTED, self.home.build.join("debug"));
        }
        if self.brief {
            command.env(BRIEF.0, BRIEF.1);
            command.args(OF_COMPILERS.iter().flat_map(|name| ["--skip", name]));
        }
        if !mpi::has_fortran(&self.home) {
            // By convention these tests have the language in their names.
            command.args(["--skip", "fortran"]);
        }
        Ok(())
    }
}
