//! Command lines that answer alike in all commands: help, version and errors.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{Command, Parser};
use quo_terminal::complain;

use crate::{Words, asked, write_all};

/// Lines of a small terminal.
const LINES: usize = 24;
/// Columns of a small terminal.
const COLUMNS: usize = 80;

/// Returns the caller's arguments, or the exit status after help, version, pages or an error.
///
/// # Errors
///
/// Something was printed or written, and the program ends with this status.
pub fn parse<Arguments: Parser>(words: Words<'_>) -> Result<Arguments, ExitCode> {
    let command = Arguments::command();
    let program = command.get_name().to_owned();
    if let Some(folder) = asked(std::env::args_os()) {
        let written = write_all(command, words, &folder);
        return Err(match written {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&program, &format!("cannot write into {}: {error}", folder.display()));
                ExitCode::FAILURE
            }
        });
    }
    Arguments::try_parse().map_err(|error| end(&program, &error))
}

/// Prints help, version or an error of the command line, and returns the exit status.
pub fn end(program: &str, error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // A reader that has gone is no error.
            let _ = error.print();
        }
        _ => complain(program, &one_line(program, &error.render().to_string())),
    }
    ExitCode::from(if error.use_stderr() { 2 } else { 0 })
}

/// Returns the first sentence of clap's error, and the call that shows the help for it.
fn one_line(program: &str, rendered: &str) -> String {
    let (message, rest) = rendered.split_once("\n\nUsage: ").unwrap_or((rendered, program));
    let message = message.split("\n\nFor more").next().unwrap_or(message);
    let words: Vec<&str> = message.split_whitespace().collect();
    let message = words.join(" ").replace(" tip: ", "; ");
    let is_name = |word: &&str| !word.starts_with(['-', '[', '<', '|']);
    let command: Vec<&str> = rest.split_whitespace().take_while(is_name).collect();
    let message = message.strip_prefix("error: ").unwrap_or(&message);
    format!("{message} (see {} --help)", command.join(" "))
}

/// Lists what of the help of a command and its subcommands does not fit a small terminal: wide
/// lines, and texts that have too many lines even in their short form. For tests.
#[must_use]
pub fn oversized(mut command: Command) -> Vec<String> {
    command.build();
    let mut found = Vec::new();
    let mut commands = vec![command];
    while let Some(mut command) = commands.pop() {
        let name = command.get_bin_name().unwrap_or(command.get_name()).to_owned();
        let (short, long) = (command.render_help().to_string(), command.render_long_help());
        let long = long.to_string();
        let wide = short.lines().chain(long.lines()).filter(|line| line.chars().count() > COLUMNS);
        found.extend(wide.map(|line| format!("{name}: {line}")));
        if short.lines().count().min(long.lines().count()) > LINES {
            found.push(format!("{name}: {} lines\n{short}", short.lines().count()));
        }
        commands.extend(command.get_subcommands().filter(|part| !part.is_hide_set()).cloned());
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    fn command() -> Command {
        let part = Command::new("plan").arg(Arg::new("ranks").long("ranks").required(true));
        Command::new("quo-x").max_term_width(COLUMNS).subcommand(part)
    }

    #[test]
    fn errors_have_one_line_with_the_command_to_ask() {
        for (words, expected) in [
            (
                &["quo-x", "plan", "--rank"][..],
                "unexpected argument '--rank' found; a similar argument exists: '--ranks' \
                 (see quo-x plan --help)",
            ),
            (
                &["quo-x", "plna"],
                "unrecognized subcommand 'plna'; a similar subcommand exists: 'plan' \
                 (see quo-x --help)",
            ),
        ] {
            let error = command().try_get_matches_from(words).unwrap_err();
            assert_eq!(one_line("quo-x", &error.render().to_string()), expected);
        }
        assert_eq!(one_line("quo-x", "error: no\n\nFor more"), "no (see quo-x --help)");
    }

    #[test]
    fn long_or_wide_help_is_found() {
        assert_eq!(oversized(command()), [""; 0]);
        let wide = command().after_help("x".repeat(COLUMNS + 1));
        assert_eq!(oversized(wide).len(), 2);
        let many = command().after_help("line\n".repeat(LINES));
        assert!(oversized(many)[0].starts_with("quo-x: "));
    }
}
