//! The end-to-end suites on another MPI than the default.

use std::process::Command;

use anyhow::Result;

use super::Options;
use super::lanes::Chain;
use super::suites::Suite;
use crate::mpi::{self, Home};
use crate::project;

/// What the suites run, and nothing else: no fuzz targets, no machines. The programs first, since a
/// test program does not make cargo build the programs of other packages. Test programs know no MPI: in
/// `cargo xtask test` those of the default serve all.
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
            "elastic",
            "--package",
            "quo-elastic",
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
            "memprof",
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

/// Where a test program that lies elsewhere finds what it tests.
const TESTED: &str = "QUO_TESTS_BUILD";

/// Suites that build everything optimised first, or are about all MPIs or none. They run when an MPI is asked for by
/// name, not in every `cargo xtask test`, which has eight minutes for two MPIs.
const LONG: &[&str] =
    &["t0100", "t0120", "t0130", "t0300", "t0310", "t0710", "t0730", "t0735", "t0740"];

/// Tells t0200 to run each program on two numbers of ranks and two machines, not on eleven in all:
/// what differs between MPIs is how ranks start and meet, not what a machine looks like.
const BRIEF: (&str, &str) = ("QUO_TESTS_BRIEF", "1");

/// Tests that are about compilers, not about MPIs, by a part of their names: the C++ interface is a header over
/// the C one, whose tests all run. Left out, they are counted as skipped.
const OF_COMPILERS: &[&str] = &[
    "clangxx",
    "misuse",
    "examples_compile",
    "errors::gxx",
    "guards::gxx",
    "old_names::gxx",
    "queries::gxx",
];

/// One MPI, and how much of the suites it gets.
pub struct OnMpi {
    pub home: Home,
    /// As in every `cargo xtask test`.
    pub brief: bool,
}

impl OnMpi {
    /// A step's name.
    pub fn step(&self, what: &str) -> String {
        format!("{}: {what}", self.home.name)
    }

    /// The suites that run on it.
    pub fn suites<'a>(&self, known: &'a [Suite]) -> Vec<&'a Suite> {
        let numbered = known.iter().filter(|suite| suite.name.starts_with("quo-tests t0"));
        let left_out = |suite: &Suite| LONG.iter().any(|number| suite.name.contains(number));
        numbered.filter(|suite| !(self.brief && left_out(suite))).collect()
    }

    /// Those of them that somebody asked for.
    pub fn wanted<'a>(&self, options: &Options, known: &'a [Suite]) -> Vec<&'a Suite> {
        let mut suites = self.suites(known);
        let named = |name: &str| options.filter.as_ref().is_some_and(|text| name.contains(text));
        suites.retain(|suite| options.wants(&suite.name) || named(&self.step(&suite.name)));
        suites
    }

    /// The same as steps, after what they need is built.
    pub fn chain(&self, options: &Options, known: &[Suite]) -> Option<Chain> {
        let suites = self.wanted(options, known);
        let names = suites.iter().map(|suite| self.step(&suite.name));
        (!suites.is_empty())
            .then(|| Chain::after_build(std::iter::once(self.step("build")).chain(names)))
    }

    /// Its builds: names of steps and calls of cargo.
    pub fn builds(&self) -> Result<Vec<(String, Command)>> {
        let call = |(name, arguments): &(&str, &[&str])| {
            let mut cargo = project::cargo()?;
            cargo.args(*arguments);
            if !self.brief && *name == "build" {
                // Suites that install call it.
                cargo.args(["--package", "xtask"]);
            }
            self.home.enter(&mut cargo)?;
            cargo.env("CARGO_TARGET_DIR", &self.home.build);
            Ok((self.step(name), cargo))
        };
        let count = if self.brief { 1 } else { BUILDS.len() };
        BUILDS[..count].iter().map(call).collect()
    }

    /// Makes this the MPI of a test program. Says which of its tests cannot run.
    pub fn set_up(&self, command: &mut Command) -> Result<()> {
        self.home.enter(command)?;
        if self.brief {
            command.env(BRIEF.0, BRIEF.1).env(TESTED, self.home.build.join("debug"));
            command.args(OF_COMPILERS.iter().flat_map(|name| ["--skip", name]));
        }
        if !mpi::has_fortran(&self.home) {
            // By convention these have the language in their name.
            command.args(["--skip", "fortran"]);
        }
        Ok(())
    }
}
