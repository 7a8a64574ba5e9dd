//! Times of recursive tasks, compared with a sequential run and with rayon alone; times of regular
//! work on two hosts.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use quo_hosts::Hosts;
use quo_tests::{BindTo, Job};

use super::LIMIT;

pub const HEADINGS: [&str; 7] = [
    "ms, two ranks with a thread each",
    "sequential",
    "rayon",
    "one rank",
    "two ranks",
    "speed-up",
    "sent",
];

/// Width of the names that the program prints.
const NAME: usize = 12;

/// Runs the program, and returns its rows.
pub fn run() -> Result<Vec<[String; 7]>> {
    let program = super::elastic::built("elastic-tasks", "tasks")?;
    let job = Job::new(2, &program).bind_to(BindTo::None).arg("bench").limit(LIMIT);
    let outcome = job.run()?;
    outcome.expect_success()?;
    let mut rows = rows(&outcome.stdout)?;
    match quo_hosts::why_not() {
        Some(reason) => println!("not over hosts: {reason}"),
        None => rows.push(over_hosts(&program)?),
    }
    Ok(rows)
}

/// Measures regular work on two hosts of this machine, each with its own processor.
fn over_hosts(program: &Path) -> Result<[String; 7]> {
    let hosts = Hosts::up(&format!("tasks-{}", std::process::id()), 2)?;
    let job = hosts.job(&[(0, 1), (1, 1)], program).pinned();
    let outcome = job.arg("nodes").arg("9").arg("10000000").limit(LIMIT).run()?;
    outcome.expect_success()?;
    hosts.down()?;
    let row = outcome.stdout.lines().find_map(row_of_hosts);
    row.with_context(|| format!("the program measured nothing: {:?}", outcome.stdout))
}

/// Parses `one rank 100.0 ms, 2 ranks 52.0 ms, speed-up 1.92`.
fn row_of_hosts(line: &str) -> Option<[String; 7]> {
    let words: Vec<&str> = line.split([' ', ',']).filter(|word| !word.is_empty()).collect();
    let ["one", "rank", one, "ms", "2", "ranks", two, "ms", "speed-up", ratio] = words[..] else {
        return None;
    };
    Some(["regular, on two hosts", "", "", one, two, ratio, ""].map(str::to_owned))
}

/// Parses the rows below the two heading lines.
fn rows(output: &str) -> Result<Vec<[String; 7]>> {
    let rows: Vec<_> = output.lines().skip(2).map(row).collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "the program measured nothing: {output:?}");
    Ok(rows)
}

fn row(line: &str) -> Result<[String; 7]> {
    let (name, figures) = line
        .split_at_checked(NAME)
        .with_context(|| format!("a line without a name and figures: {line:?}"))?;
    let mut cells = vec![name.trim().to_owned()];
    cells.extend(figures.split_whitespace().map(str::to_owned));
    cells.try_into().ok().with_context(|| format!("a line without six figures: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_of_hosts_has_no_sequential_times() {
        let row = row_of_hosts("one rank 100.0 ms, 2 ranks 52.0 ms, speed-up 1.92").unwrap();
        assert_eq!(row, ["regular, on two hosts", "", "", "100.0", "52.0", "1.92", ""]);
        assert_eq!(row_of_hosts("rank 0 on host0: 96 leaves"), None);
    }

    #[test]
    fn rows_are_read_with_names_of_two_words() {
        let output = "milliseconds\nheadings\nmerge sort  1.0 2.0 3.0 4.0 0.75 1\n";
        let right = ["merge sort", "1.0", "2.0", "3.0", "4.0", "0.75", "1"].map(str::to_owned);
        assert_eq!(rows(output).unwrap(), [right]);
        assert!(rows("milliseconds\nheadings\n").is_err());
        assert!(rows("milliseconds\nheadings\nmerge sort  1.0\n").is_err());
    }
}
