//! Manual pages and shell completions, made from the definition of the command line, for the one who
//! installs this program.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

/// When the words of the pages were last looked through.
const DATE: &str = "2026-11-22";

/// The folder of `memprof --generate FOLDER`, which no help text names.
#[must_use]
pub fn asked(mut arguments: impl Iterator<Item = OsString>) -> Option<PathBuf> {
    (arguments.nth(1)? == "--generate").then(|| arguments.next()).flatten().map(PathBuf::from)
}

/// Writes everything into a folder, laid out as in `share`.
///
/// # Errors
///
/// The folder or a file in it cannot be written.
pub fn run(mut command: Command, folder: &Path) -> io::Result<()> {
    let places = [
        (Shell::Bash, "bash-completion/completions/memprof"),
        (Shell::Zsh, "zsh/site-functions/_memprof"),
        (Shell::Fish, "fish/vendor_completions.d/memprof.fish"),
    ];
    for (shell, place) in places {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "memprof", &mut script);
        write(&folder.join(place), &script)?;
    }
    command.build();
    for part in std::iter::once(&command).chain(command.get_subcommands()) {
        // As man is asked for it: memprof-run. There is no program to ask for help with `man`.
        let name = part.get_display_name().unwrap_or(part.get_name());
        if name != "memprof-help" && !part.is_hide_set() {
            write(&folder.join(format!("man/man1/{name}.1")), &page(part.clone(), name)?)?;
        }
    }
    Ok(())
}

fn page(command: Command, name: &str) -> io::Result<Vec<u8>> {
    let is_whole = name == "memprof";
    let source = format!("quo {}", env!("CARGO_PKG_VERSION"));
    let man = Man::new(command).title(name.to_uppercase()).date(DATE).source(source).manual("quo");
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
        "0 when all went well, 1 when something failed, 2 for a wrong command line; \
         of memprof run that of the command.",
    )]);
    rest.control("SH", ["SEE ALSO"]);
    rest.text([roman(if is_whole { "quo(7), mpirun(1)" } else { "memprof(1), quo(7)" })]);
    rest.to_writer(&mut page)?;
    Ok(page)
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
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
        let command = Command::new("memprof").about("x").subcommand(Command::new("run").about("y"));
        run(command, folder.path()).unwrap();
        for name in ["man/man1/memprof.1", "man/man1/memprof-run.1", "zsh/site-functions/_memprof"]
        {
            assert!(folder.path().join(name).exists(), "{name}");
        }
        assert!(!folder.path().join("man/man1/memprof-help.1").exists());
    }
}
