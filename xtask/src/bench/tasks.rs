//! Times of recursive tasks, beside a sequential run and rayon alone.

use anyhow::{Context, Result, ensure};
use quo_tests::{BindTo, Job};

use super::LIMIT;

pub const HEADINGS: [&str; 6] = [
    "ms, two ranks with a thread each",
    "sequential",
    "rayon",
    "one rank",
    "two ranks",
    "speed-up",
];

/// Width of the names that the program prints.
const NAME: usize = 12;

/// Runs the program, and returns its rows.
pub fn run() -> Result<Vec<[String; 6]>> {
    let program = super::elastic::built("tasks")?;
    let job = Job::new(2, &program).bind_to(BindTo::None).arg("bench").limit(LIMIT);
    let outcome = job.run()?;
    outcome.expect_success()?;
    rows(&outcome.stdout)
}

/// Rows below the two lines of headings.
fn rows(output: &str) -> Result<Vec<[String; 6]>> {
    let rows: Vec<_> = output.lines().skip(2).map(row).collect::<Result<_>>()?;
    ensure!(!rows.is_empty(), "the program measured nothing: {output:?}");
    Ok(rows)
}

fn row(line: &str) -> Result<[String; 6]> {
    let (name, figures) = line
        .split_at_checked(NAME)
        .with_context(|| format!("a line without a name and figures: {line:?}"))?;
    let mut cells = vec![name.trim().to_owned()];
    cells.extend(figures.split_whitespace().map(str::to_owned));
    cells.try_into().ok().with_context(|| format!("a line without five figures: {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_with_names_of_two_words() {
        let output = "milliseconds\nheadings\nmerge sort  1.0 2.0 3.0 4.0 0.75\n";
        let right = ["merge sort", "1.0", "2.0", "3.0", "4.0", "0.75"].map(str::to_owned);
        assert_eq!(rows(output).unwrap(), [right]);
        assert!(rows("milliseconds\nheadings\n").is_err());
        assert!(rows("milliseconds\nheadings\nmerge sort  1.0\n").is_err());
    }
}
