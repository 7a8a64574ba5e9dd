//! Terminal output: text on standard output, one line per error on standard error.

use std::error::Error;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use anyhow::{Context, Result};
use quo::error::with_causes;
use quo_terminal::{clean, clean_json, clean_lines, complain};
use serde::Serialize;

/// Writes text, which may contain names of any origin. A reader that stops early, such as `head`,
/// is no error.
pub fn text(text: &str) -> Result<()> {
    write(&clean_lines(text))
}

fn write(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        outcome => outcome.context("writing to standard output"),
    }
}

pub fn json(value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_string_pretty(value).context("writing JSON")?;
    line.push('\n');
    write(&clean_json(&line))
}

/// Formats rows under a heading, in columns as wide as necessary.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// Returns the columns of the terminal, or of a page if there is no terminal.
pub fn width() -> usize {
    let asked = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let terminal = || {
        let out = io::stdout();
        let size = out.is_terminal().then(|| rustix::termios::tcgetwinsize(&out).ok()).flatten();
        size.map(|size| usize::from(size.ws_col)).filter(|&columns| columns > 0)
    };
    asked.or_else(terminal).unwrap_or(100)
}

/// Breaks a text between words.
pub fn fold(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= width => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Reports the error and returns the exit status.
pub fn finish(outcome: Result<()>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain("quo-info", &one_line(error.as_ref()));
            ExitCode::FAILURE
        }
    }
}

fn one_line(error: &(dyn Error + 'static)) -> String {
    clean(&with_causes(error).split_whitespace().collect::<Vec<_>>().join(" "))
}
