//! Manual pages and shell completions, made from the definition of the command line and from the library's
//! table of variables, for the one who installs this program.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};
use quo::environment::VARIABLES;

use crate::arguments;

/// What quo is, for section 7. Its line `.\" VARIABLES` stands for the table.
const OVERVIEW: &str = include_str!("../man/quo.7");
/// When the words of the pages were last looked through.
const DATE: &str = "2026-11-21";
const TABLE: &str = ".\\\" VARIABLES\n";

/// Writes everything into a folder, laid out as in `share`.
pub fn run(folder: &Path) -> Result<()> {
    for (name, page) in pages()? {
        write(&folder.join("man/man1").join(name), &page)?;
    }
    write(&folder.join("man/man7/quo.7"), overview().as_bytes())?;
    let places = [
        (Shell::Bash, "bash-completion/completions/quo-info"),
        (Shell::Zsh, "zsh/site-functions/_quo-info"),
        (Shell::Fish, "fish/vendor_completions.d/quo-info.fish"),
    ];
    for (shell, place) in places {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut arguments::command(), "quo-info", &mut script);
        write(&folder.join(place), mended(&script).as_bytes())?;
    }
    Ok(())
}

/// clap_complete 4.6 calls the subcommands of a program with a dash in its name by two names in one script,
/// so that bash completes none of their options.
fn mended(script: &[u8]) -> String {
    String::from_utf8_lossy(script).replace("quo__subcmd__info", "quo__info")
}

/// The page of the program and one for each of its subcommands.
fn pages() -> Result<Vec<(String, Vec<u8>)>> {
    let mut whole = arguments::command();
    whole.build();
    let mut pages = Vec::new();
    for command in std::iter::once(&whole).chain(whole.get_subcommands()) {
        // As man is asked for it: quo-info-plan.
        let name = format!("{}.1", command.get_display_name().unwrap_or(command.get_name()));
        let is_whole = command.get_name() == whole.get_name();
        pages.push((name, page(command.clone(), is_whole).context("writing a manual page")?));
    }
    Ok(pages)
}

fn page(command: clap::Command, is_whole: bool) -> Result<Vec<u8>> {
    let version = format!("quo {}", env!("CARGO_PKG_VERSION"));
    let title = command.get_display_name().unwrap_or(command.get_name()).to_uppercase();
    let man = Man::new(command).title(title).date(DATE).source(version).manual("quo");
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if is_whole {
        man.render_subcommands_section(&mut page)?;
    }
    let mut rest = Roff::new();
    rest.control("SH", ["EXIT STATUS"]);
    rest.text([roman(
        "0 when all went well, 1 when something failed, 2 for a wrong command line.",
    )]);
    rest.control("SH", ["SEE ALSO"]);
    let others = if is_whole { "quo(7), mpirun(1), pkg-config(1)" } else { "quo-info(1), quo(7)" };
    rest.text([roman(others)]);
    rest.to_writer(&mut page)?;
    Ok(page)
}

fn overview() -> String {
    let mut table = Roff::new();
    for variable in VARIABLES {
        table.control("TP", []);
        table.text([bold(variable.name)]);
        table.text([roman(format!("{}.", sentence(variable.meaning)))]);
        table.control("br", []);
        table.text([roman(format!("Values: {}.", plain(variable.values)))]);
        table.control("br", []);
        table.text([roman(format!("Default: {}.", plain(variable.default)))]);
    }
    let overview = OVERVIEW.replace("DATE", DATE).replace("VERSION", env!("CARGO_PKG_VERSION"));
    overview.replace(TABLE, &table.render())
}

/// The table's texts mark what is typed as Markdown does.
fn plain(text: &str) -> String {
    text.replace('`', "")
}

fn sentence(text: &str) -> String {
    let text = plain(text);
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

fn write(file: &Path, bytes: &[u8]) -> Result<()> {
    let attempt = || {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder)?;
        }
        fs::write(file, bytes)
    };
    attempt().with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subcommand_has_a_page() {
        let names: Vec<String> = pages().unwrap().into_iter().map(|(name, _)| name).collect();
        assert_eq!(names[0], "quo-info.1");
        for command in arguments::command().get_subcommands() {
            assert!(names.contains(&format!("quo-info-{}.1", command.get_name())), "{names:?}");
        }
    }

    #[test]
    fn the_overview_tells_every_variable() {
        let page = overview();
        for variable in VARIABLES {
            let name = format!("\\fB{}\\fR", variable.name);
            assert!(page.contains(&name), "{}", variable.name);
        }
        assert!(!page.contains(TABLE));
    }
}
