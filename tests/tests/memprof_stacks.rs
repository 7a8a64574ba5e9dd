//! Call stacks of memory: the call of the application that a library allocated for is named with
//! its bytes, however deep the library is, and the page draws the stacks and lists them as a tree.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::{PROGRAMS, Profiled};
use quo_tests::suite::Skipped;
use quo_tests::{Checkout, run_compiler};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);
const MIB: u64 = 1 << 20;

/// Records the program, with all blocks in samples. Returns the folder, which has `traces`.
fn recorded(arguments: &[&str]) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    let source = Checkout::find()?.root().join(PROGRAMS).join("allocated_for.c");
    let (library, program) =
        (folder.path().join("libasks.so"), folder.path().join("allocated_for"));
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
    let source = Checkout::find()?.root().join(PROGRAMS).join("allocated_for.c");
    let text = std::fs::read_to_string(source)?;
    let mut lines = text.lines().enumerate().skip_while(|(_, line)| !line.contains(function));
    let call = lines.find(|(_, line)| line.contains("kept = library_block("));
    Ok(format!("{function}  allocated_for.c:{}", call.context("no call in the program")?.0 + 1))
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
    let deep = place("many_calls")?;
    ensure!(named.iter().any(|site| site["allocated_for"] == *deep), "{named:?}");

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

/// Keys that go from the first bar to the call with the most bytes below it and enlarge that one;
/// the width of each bar then follows, with its name and the text below.
const KEYS: &str = "<script>addEventListener('load', () => {
  const svg = document.querySelector('#stacks-0 svg');
  const press = (key) => document.activeElement.dispatchEvent(new KeyboardEvent('keydown', { key, bubbles: true }));
  svg.querySelector('.call').focus();
  for (const key of ['ArrowDown', 'ArrowDown', 'ArrowUp', 'ArrowDown', 'Enter']) press(key);
  const shown = [...svg.querySelectorAll('.call')].filter((call) => call.style.display !== 'none');
  const width = (call) => call.querySelector('rect').getAttribute('width');
  document.title = JSON.stringify({
    at: document.activeElement.getAttribute('aria-label'),
    said: document.querySelector('#stacks-0 .said').textContent,
    wide: shown.map((call) => [call.getAttribute('aria-label'), Number(width(call))]),
    tabs: svg.querySelectorAll('[tabindex=\"0\"]').length,
  });
});</script>";

/// Returns what the page says after the keys; `None` without Chromium.
fn pressed(page: &str, folder: &Path) -> Result<Option<Value>> {
    let file = folder.join("pressed.html");
    std::fs::write(&file, page.to_owned() + KEYS)?;
    let mut command = Command::new("timeout");
    command.args(["120", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"]);
    command.args(["--virtual-time-budget=10000", "--dump-dom"]);
    command.arg(format!("--user-data-dir={}", folder.join("profile").display()));
    let output = command.arg(format!("file://{}", file.display())).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let title = text.split_once("<title>").and_then(|(_, rest)| rest.split_once("</title>"));
    // Some browsers may not read the folder, and show a page of their own.
    let Some((title, _)) = title.filter(|(title, _)| title.starts_with('{')) else {
        return Ok(None);
    };
    Ok(Some(serde_json::from_str(&title.replace("&gt;", ">").replace("&lt;", "<"))?))
}

fn page_has_bars_and_tree_of_stacks_at_peak_end_and_grown() -> Result<()> {
    let folder = recorded(&["slowly"])?;
    let file = folder.path().join("page.html");
    memprof(
        &["report", "--html", file.to_str().context("a path that is no text")?],
        folder.path(),
    )?;
    let page = std::fs::read_to_string(&file)?;
    let (few, many) = (place("few_calls")?, place("many_calls")?);
    let parts: Vec<&str> = page.split("<figure id=stacks-").skip(1).collect();
    ensure!(parts.len() == 3, "{} figures", parts.len());
    for (part, title) in parts.iter().zip(["at peak", "at the end", "grown from "]) {
        let part = part.split_once("</figure>").context("no end")?.0;
        ensure!(part.contains(title), "{title}: {part}");
        let bar = format!("aria-label=\"{many} · 12.0 MiB · ");
        ensure!(part.contains(&bar), "{bar} not in {part}");
        let line = part.lines().find(|line| line.starts_with("<details") && line.contains(&many));
        ensure!(line.is_some_and(|line| line.contains("<b>12.0 MiB</b>")), "{line:?}");
        if title != "grown from " {
            ensure!(part.contains(&format!("{few} · 24.0 MiB")), "{part}");
        }
    }
    for outside in ["http://", "https://", "src="] {
        let outside = page.replace("http://www.w3.org/2000/svg", "").contains(outside);
        ensure!(!outside, "the page needs more than itself");
    }
    let Some(found) = pressed(&page, folder.path())? else {
        return Err(Skipped("there is no chromium that shows pages".to_owned()).into());
    };
    // The first bar and all bars around the enlarged one have the whole width.
    let wide = found["wide"].as_array().context("no bars")?;
    let whole = wide.iter().find(|bar| bar[0] == found["at"]).context("the bar is not shown")?;
    ensure!(found["at"] == found["said"] && found["tabs"] == 1, "{found}");
    ensure!(whole[1] == 1160.0 && wide[0][1] == 1160.0, "{found}");
    ensure!(
        wide.iter().any(|bar| bar[0].as_str().is_some_and(|name| name.contains(&few))),
        "{found}"
    );
    ensure!(!found["wide"].to_string().contains(&many), "{found}");
    Ok(())
}

quo_tests::suite! {
    page_has_bars_and_tree_of_stacks_at_peak_end_and_grown
    memory_of_libraries_is_shown_by_the_applications_call
}
