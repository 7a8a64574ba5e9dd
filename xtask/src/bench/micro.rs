//! The microbenchmarks of the Rust crate, in their short form.

use std::time::Duration;

use anyhow::{Result, bail};

use crate::{project, run};

const LIMIT: Duration = Duration::from_secs(20 * 60);

/// A result of a microbenchmark.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub name: String,
    /// Middle estimate, with its unit.
    pub time: String,
}

/// Runs the microbenchmarks and prints each result.
pub fn run() -> Result<Vec<Line>> {
    println!("\nmicrobenchmarks of the crate");
    let log = project::target()?.join("xtask/micro.log");
    let mut cargo = project::cargo()?;
    cargo.args(["bench", "--package", "quo-benches", "--bench", "*", "--", "--quick"]);
    let finished = run::logged(&mut cargo, &log, LIMIT)?;
    if !finished.ending.is_success() {
        bail!("{}\n{}", finished.output, finished.ending);
    }
    let lines = parse(&finished.output);
    for line in &lines {
        println!("{:<50}  {:>12}", line.name, line.time);
    }
    Ok(lines)
}

/// Parses `name  time: [low middle high]`; a long name is alone on the line before.
fn parse(output: &str) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut before = "";
    for line in output.lines() {
        if let Some((name, rest)) = line.split_once("time:") {
            let name = if name.trim().is_empty() { before } else { name.trim() };
            let numbers: Vec<&str> =
                rest.trim().trim_matches(['[', ']']).split_whitespace().collect();
            if let [_, _, middle, unit, ..] = numbers[..] {
                lines.push(Line { name: name.to_owned(), time: format!("{middle} {unit}") });
            }
        }
        before = line.trim();
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_and_long_names_are_read() {
        let output = "Benchmarking a\n\
            barrier/awake           time:   [120.31 ns 121.10 ns 124.22 ns]\n\
            distribute/a name that is far too long for one line\n\
            \x20                       time:   [1.0 µs 1.1 µs 1.2 µs]\n\
            \x20                       change: [-1.0% +0.1% +1.2%]\n";
        let expected = [
            ("barrier/awake", "121.10 ns"),
            ("distribute/a name that is far too long for one line", "1.1 µs"),
        ]
        .map(|(name, time)| Line { name: name.into(), time: time.into() });
        assert_eq!(parse(output), expected);
    }
}
