//! Output of the command. Names in it come from jobs, and must not steer a terminal.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};
use quo_terminal::{clean_json, clean_lines};

/// Writes lines of text to standard output.
pub fn say(text: &str) -> Result<()> {
    write(&clean_lines(text))
}

/// Writes a JSON text as a line to standard output.
pub fn say_json(text: &str) -> Result<()> {
    write(&(clean_json(text) + "\n"))
}

/// Writes an error or a refusal to standard error.
pub fn complain(text: &str) {
    quo_terminal::complain("quo-elastic", text);
}

/// Treats a closed pipe, as after `head`, as no error.
fn write(text: &str) -> Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        done => done.context("writing to standard output"),
    }
}
