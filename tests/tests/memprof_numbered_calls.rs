//! Memory that objects request from the kernel by system call number, as communication libraries
//! do, belongs to the calling object.

use std::process::Command;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::{Checkout, run_compiler};
use serde_json::Value;

const MEBI: u64 = 1 << 20;

#[test]
fn memory_asked_for_by_number_is_of_who_asked() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = Checkout::find()?.root().join(PROGRAMS).join("numbered.c");
    let (library, program) = (folder.path().join("libnumbered.so"), folder.path().join("numbered"));
    let compiler = || {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-Wall", "-Wextra", "-Werror"]);
        compiler
    };
    let mut shared = compiler();
    shared.args(["-shared", "-fPIC", "-DLIBRARY", "-Wl,-soname,libnumbered.so", "-o"]);
    run_compiler(shared.arg(&library).arg(&source))?;
    let mut linked = compiler();
    linked.arg("-o").arg(&program).arg(&source).arg(&library);
    run_compiler(linked.arg(format!("-Wl,-rpath,{}", folder.path().display())))?;
    let traces = folder.path().join("traces");
    let memprof = Checkout::find()?.program("memprof")?;
    let mut run = Command::new(&memprof);
    let output =
        run.args(["run", "--quiet", "-o"]).arg(&traces).arg("--").arg(&program).output()?;
    ensure!(output.status.success(), "{output:?}");
    let output = Command::new(memprof).args(["report", "--json"]).arg(&traces).output()?;
    let job: Value = serde_json::from_slice(&output.stdout)?;
    let held = job["nodes"][0]["ranks"][0]["held"].as_array().context("no components")?;
    let figure = |name: &str, figure: &str| {
        let found = held.iter().find(|one| one["name"] == name);
        found.map_or(0, |one| one[figure].as_u64().unwrap_or(0))
    };
    let names = ["app.exe:numbered", "app.lib:libnumbered.so", "unattributed"];
    let [own, library, nobody] = names.map(|name| figure(name, "resident_peak"));
    // A sample shortly before a release stands for it, if a quarter of a mebibyte is all that it lacks.
    let about =
        |bytes: u64, mebi: u64| (mebi * MEBI - MEBI / 4..(mebi + 1) * MEBI).contains(&bytes);
    ensure!(about(library, 30), "the library: {library} B, {held:?}");
    // Before a third of its memory was given back.
    ensure!(about(own, 24), "the program: {own} B, {held:?}");
    for (name, resident) in names.into_iter().zip([own, library]) {
        // Everything except the pages of the object itself.
        let (owned, least) = (figure(name, "owned_peak"), resident - figure(name, "image"));
        ensure!((least..=resident).contains(&owned), "{name} owns {owned} B, {held:?}");
    }
    ensure!(nobody < MEBI / 2, "nobody: {nobody} B, {held:?}");
    Ok(())
}
