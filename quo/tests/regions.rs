//! Pushes and phases appear as regions of a memory profile. A stand-in for the profiler, loaded
//! before the program like the real one, keeps a journal.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use quo::affinity::Target;
use quo::context::CreateOptions;
use quo::group::local::LocalSpace;
use quo::phase::PhaseSpec;
use quo::{Context, ObjectType};

/// Set in the process that a test starts under the profiler.
const INSIDE: &str = "QUO_REGIONS_TEST_INSIDE";

/// Runs a test of this program again under the stand-in, and returns its journal.
fn again(test: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    let api = Path::new(env!("CARGO_MANIFEST_DIR")).join("../memprof/api");
    let (fake, journal) = (folder.path().join("libfake.so"), folder.path().join("journal"));
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-D_GNU_SOURCE", "-I"]).arg(api.join("include"));
    compiler.arg(api.join("tests/fake_hooks.c")).arg("-o").arg(&fake);
    assert!(compiler.status().unwrap().success());
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test]).env(INSIDE, "1");
    command.env("LD_PRELOAD", fake).env("FAKE_JOURNAL", &journal);
    command.env("QUO_TOPOLOGY", "pack:2 core:2 pu:1");
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    std::fs::read_to_string(journal).unwrap_or_default()
}

fn context() -> Context {
    let folder = tempfile::tempdir().unwrap();
    let space = LocalSpace::new(1, folder.path()).unwrap();
    let options = CreateOptions::new().with_directory(folder.path());
    Context::create_with(space.join(0).unwrap(), options).unwrap()
}

#[test]
fn pushes_and_phases_are_regions_that_nest() {
    if std::env::var_os(INSIDE).is_none() {
        let journal = again("pushes_and_phases_are_regions_that_nest");
        let lines: Vec<&str> = journal.lines().collect();
        assert_eq!(
            lines,
            [
                "begin 1 1 quo push package",
                // The phase's own push is part of it.
                "begin 2 1 solve",
                "begin 3 1 quo push core",
                "end 3",
                "end 2",
                "end 1",
                "begin 4 1 quo push cpus",
                "end 4",
            ]
        );
        return;
    }
    let context = context();
    context.push(&Target::Object(ObjectType::Package, 0)).unwrap();
    let phase = context.phase(PhaseSpec::over(ObjectType::Package).name("solve")).unwrap();
    phase
        .run(|_| {
            context.push(&Target::Object(ObjectType::Core, 0)).unwrap();
            context.pop().unwrap();
        })
        .unwrap();
    context.pop().unwrap();
    context.pop().unwrap_err();
    context.push(&Target::Cpus("1".parse().unwrap())).unwrap();
    // Left pushed: it ends with the context.
    context.free().unwrap();
}

#[test]
fn without_a_profiler_pushes_are_what_they_were() {
    let context = context();
    context.push(&Target::Object(ObjectType::Package, 0)).unwrap();
    assert_eq!(context.push_depth(), 1);
    context.pop().unwrap();
    context.free().unwrap();
}
