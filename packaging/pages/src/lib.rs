//! Command lines of the project's commands: parsing with errors alike, and manual pages and shell
//! completions, generated from the definition of a command line when the program is installed.

mod arguments;
mod names;

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

pub use arguments::{end, oversized, parse};
pub use names::Names;

/// Date of the last review of the pages' texts.
pub const DATE: &str = "2026-11-22";

/// Returns the folder of `PROGRAM --generate FOLDER`, which is not in any help text.
fn asked(mut arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    (arguments.nth(1)? == "--generate").then(|| arguments.next()).flatten().map(PathBuf::from)
}

/// Texts of a program's pages in addition to those of its command line.
#[derive(Clone, Copy, Debug)]
pub struct Words<'a> {
    /// Meaning of the exit status.
    pub status: &'a str,
    /// Pages to which the program's page refers.
    pub see: &'a str,
    /// An argument whose values the program itself prints, for completion.
    pub names: Option<Names<'a>>,
}

/// Writes everything into a folder, laid out as in `share`.
///
/// # Errors
///
/// The folder or a file in it cannot be written.
pub fn write_all(mut command: Command, words: Words<'_>, folder: &Path) -> io::Result<()> {
    let program = command.get_name().to_owned();
    let places = [
        (Shell::Bash, format!("bash-completion/completions/{program}")),
        (Shell::Zsh, format!("zsh/site-functions/_{program}")),
        (Shell::Fish, format!("fish/vendor_completions.d/{program}.fish")),
    ];
    for (shell, place) in places {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, &program, &mut script);
        let mut script = mended(&script, &program);
        if let Some(names) = words.names {
            script = names.add(shell, script, &command);
        }
        write(&folder.join(place), script.as_bytes())?;
    }
    command.build();
    for part in std::iter::once(&command).chain(command.get_subcommands()) {
        // As requested from man: quo-info-plan. There is no program to call for help with `man`.
        let name = part.get_display_name().unwrap_or(part.get_name());
        if part.get_name() != "help" && !part.is_hide_set() {
            let page = page(part, name, &program, words)?;
            write(&folder.join(format!("man/man1/{name}.1")), &page)?;
        }
    }
    Ok(())
}

/// Replaces the names: clap_complete 4.6 uses two names in one script for the subcommands of a
/// program with a dash in its name, so that bash completes none of their options.
fn mended(script: &[u8], program: &str) -> String {
    let script = String::from_utf8_lossy(script);
    script.replace(&program.replace('-', "__subcmd__"), &program.replace('-', "__"))
}

fn page(part: &Command, name: &str, program: &str, words: Words<'_>) -> io::Result<Vec<u8>> {
    let is_whole = name == program;
    let source = format!("quo {}", env!("CARGO_PKG_VERSION"));
    // A page says of every option what -h leaves to --help.
    let whole = part.clone().mut_args(|option| option.hide_short_help(false));
    let man = Man::new(whole).title(name.to_uppercase()).date(DATE).source(source);
    let man = man.manual("quo");
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
    let notes = part.get_after_long_help().or(part.get_after_help());
    let notes = notes.map(ToString::to_string).unwrap_or_default();
    // The meaning of the exit status is below.
    let notes =
        notes.split("\n\n").filter(|note| !note.is_empty() && !note.contains("Exit status:"));
    for (number, note) in notes.enumerate() {
        if number == 0 {
            rest.control("SH", ["NOTES"]);
        } else {
            rest.control("PP", []);
        }
        for (number, line) in note.lines().enumerate() {
            if number > 0 {
                rest.control("br", []);
            }
            rest.text([roman(line)]);
        }
    }
    rest.control("SH", ["EXIT STATUS"]);
    rest.text([roman(words.status)]);
    rest.control("SH", ["SEE ALSO"]);
    let others = format!("{program}(1), quo(7)");
    rest.text([roman(if is_whole { words.see } else { &others })]);
    rest.to_writer(&mut page)?;
    Ok(page)
}

/// Writes one more file, and creates its folders.
///
/// # Errors
///
/// One of them cannot be written.
pub fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    fs::write(file, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_word_asks_for_pages() {
        let of = |words: &[&str]| asked(words.iter().map(OsString::from));
        assert_eq!(of(&["memprof", "--generate", "x"]), Some(PathBuf::from("x")));
        assert_eq!(of(&["memprof", "run", "--generate", "x"]), None);
        assert_eq!(of(&["memprof", "--generate"]), None);
    }

    #[test]
    fn the_program_and_every_subcommand_have_a_page() {
        let folder = tempfile::tempdir().unwrap();
        let rare = clap::Arg::new("fast").long("fast").help("In haste").hide_short_help(true);
        let seen = Command::new("run").about("y").arg(rare);
        let hidden = Command::new("inner").hide(true);
        let help = "Jobs have names.\n\nExit status: 0 or 7.";
        let command =
            Command::new("quo-x").about("x").after_help(help).subcommand(seen).subcommand(hidden);
        let words = Words { status: "0, or 7 on Mondays.", see: "mpirun(1)", names: None };
        write_all(command, words, folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let whole = read("man/man1/quo-x.1");
        assert!(whole.contains("Jobs have names.") && !whole.contains("Exit status:"), "{whole}");
        assert!(whole.contains("7 on Mondays") && whole.contains("mpirun(1)"), "{whole}");
        let part = read("man/man1/quo-x-run.1");
        assert!(part.contains("quo\\-x(1), quo(7)") && part.contains("In haste"), "{part}");
        assert!(read("zsh/site-functions/_quo-x").starts_with("#compdef quo-x"));
        assert!(!read("bash-completion/completions/quo-x").contains("quo__subcmd__x"));
        for absent in ["quo-x-help.1", "quo-x-inner.1"] {
            assert!(!folder.path().join("man/man1").join(absent).exists(), "{absent}");
        }
    }

    #[test]
    fn scripts_complete_an_argument_by_a_command() {
        let folder = tempfile::tempdir().unwrap();
        let job = || clap::Arg::new("job").help("Which job").required(true);
        let with_job = |name: &'static str| Command::new(name).about("y").arg(job());
        let command = Command::new("quo-x")
            .subcommand(with_job("grow"))
            .subcommand(with_job("inner").hide(true))
            .subcommand(Command::new("list"));
        let names = Some(Names { argument: "job", command: "quo-x list --names" });
        write_all(command, Words { status: "", see: "", names }, folder.path()).unwrap();
        let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
        let bash = read("bash-completion/completions/quo-x");
        assert!(bash.contains("\n            grow)\n") && bash.contains("list --names"), "{bash}");
        // The one function calls the other.
        assert!(bash.contains("_quo__x() {") && bash.contains("\n    _quo__x \"$@\"\n"), "{bash}");
        let zsh = read("zsh/site-functions/_quo-x");
        assert!(zsh.starts_with("#compdef quo-x\n"), "{zsh}");
        assert!(zsh.contains("':job -- Which job:_quo-x_job'"), "{zsh}");
        let fish = read("fish/vendor_completions.d/quo-x.fish");
        let jobs = |name: &str| {
            fish.contains(&format!("using_subcommand {name}\" -f -a \"(quo-x list --names"))
        };
        assert!(jobs("grow") && !jobs("list") && !jobs("inner"), "{fish}");
    }
}
