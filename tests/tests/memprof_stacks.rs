//! Call stacks of memory: the call of the application that a library allocated for is named with
//! its bytes, however deep the library is, and the page draws the stacks and lists them as a tree.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::{PROGRAMS, Profiled};
use quo_tests::{Checkout, run_compiler};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

/// Records the program, with all blocks in samples. Returns the folder, which has `traces`.
fn recorded(arguments: &[&str]) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let source = Checkout::find()?.root().join(PROGRAMS).join("for_whom.c");
    let (library, program) = (folder.path().join("libasks.so"), folder.path().join("for_whom"));
    let compiler = || {
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O1", "-g", "-pthread"]).arg(&source);
        compiler
    };
    run_compiler(compiler().args(["-shared", "-fPIC", "-DLIBRARY", "-o"]).arg(&library))?;
    let path = format!("-Wl,-rpath,{}", folder.path().display());
    run_compiler(compiler().arg(&library).arg(path).arg("-o").arg(&program))?;
    let traces = folder.path().join("traces");
    std::fs::create_dir(&traces)?;
    let profiled = Profiled::new(&program, &traces)?.args(arguments);
    let profiled = profiled.env("MEMPROF_RECORD", "all").env("MEMPROF_STACKS", "4096");
    profiled.run(LIMIT)?.expect_success()?.trace()?;
    Ok(folder)
}

fn memprof(words: &[&str], folder: &Path) -> Result<String> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.args(words).arg(folder.join("traces")).output()?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Returns a function of the program with the line of its call of the library.
fn place(function: &str) -> Result<String> {
    let source = Checkout::find()?.root().join(PROGRAMS).join("for_whom.c");
    let text = std::fs::read_to_string(source)?;
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| !line.contains(function));
    let call = lines.find(|(_, line)| line.contains("kept = library_block("));
    Ok(format!("{function}  for_whom.c:{}", call.context("no call in the program")?.0 + 1))
}

fn is_near(bytes: &Value, expected: u64) -> bool {
    bytes.as_u64().is_some_and(|bytes| bytes.abs_diff(expected) <= expected / 10)
}

fn memory_of_libraries_is_shown_by_the_applications_call() -> Result<()> {
    let folder = recorded(&[])?;
    let report: Value = serde_json::from_str(&memprof(&["report", "--json"], folder.path())?)?;
    let found = &report["allocated_for"];
    let calls = found["calls"].as_array().context("no calls")?;
    let expected = [("few_calls", 24), ("many_calls", 12)];
    ensure!(calls.len() == expected.len(), "{found}");
    for (call, (function, blocks)) in calls.iter().zip(expected) {
        ensure!(call["component"] == "app.lib:libasks.so", "{call}");
        ensure!(call["place"] == *place(function)?, "{call}");
        ensure!(is_near(&call["at_peak"], blocks * MIB), "{call}");
    }
    ensure!(is_near(&found["at_peak"], 36 * MIB), "{found}");
    ensure!(is_near(&found["at_peak_without_call"], 4 * MIB), "{found}");
    let named = report["named_sites"].as_array().context("no stacks")?;
    let deep = named.iter().find(|site| site["allocated_for"] == *place("many_calls").unwrap());
    ensure!(deep.is_some(), "{named:?}");

    let text = memprof(&["report"], folder.path())?;
    let sites = memprof(&["report", "--sites=10"], folder.path())?;
    for function in ["few_calls", "many_calls"] {
        let place = place(function)?;
        ensure!(text.contains("allocated for") && text.contains(&place), "{text}");
        ensure!(sites.contains(&format!("allocated for {place}")), "{sites}");
    }
    let rest = "more in libraries, with no call of the application in the stack";
    ensure!(text.replace('\n', " ").contains(rest), "{text}");
    Ok(())
}

quo_tests::suite! {
    memory_of_libraries_is_shown_by_the_applications_call
}
