//! Follows a page as its reader does: in a separate folder, with quo installed in `~/.local/quo`.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

use super::console::{Step, matches, steps};
use super::needs::test_for;
use super::{Block, Kind, Page, Run};
use crate::checkout::Checkout;
use crate::compilers::{mpicc, mpicxx, mpifort, python_tools};
use crate::installation::Installation;
use crate::launch::{Outcome, Running};
use crate::leftovers;

/// Time limit of one block.
const LIMIT: Duration = Duration::from_secs(180);

/// Separator between the outputs of a block's commands.
const BETWEEN: char = '\u{1e}';

/// An installed quo, and the command that installed it.
#[derive(Clone, Debug)]
pub struct Prefix {
    /// Folder of the installation.
    pub folder: PathBuf,
    /// The project's own commands, for pages that show them.
    pub xtask: PathBuf,
    /// Options for pages that install, which avoid another optimised build of some minutes.
    pub options: Vec<OsString>,
}

impl Prefix {
    /// Installs the checkout's quo into a folder.
    ///
    /// # Errors
    ///
    /// `cargo xtask install` fails; the error is its message.
    pub fn install(checkout: &Checkout, folder: &Path) -> Result<Prefix> {
        let output = Installation::xtask("install", folder, &[])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Prefix::at(checkout, folder)
    }

    /// Uses the installation in a folder.
    ///
    /// # Errors
    ///
    /// The checkout's own commands are not built.
    pub fn at(checkout: &Checkout, folder: &Path) -> Result<Prefix> {
        Ok(Prefix {
            folder: folder.to_path_buf(),
            xtask: checkout.program("xtask")?,
            options: Installation::options(checkout)?,
        })
    }
}

/// A reader of the guide. The files of one page are removed before the next.
#[derive(Debug)]
pub struct Reader {
    home: tempfile::TempDir,
    before: Vec<Block>,
}

/// Results of the blocks of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// Number of blocks that were run.
    pub done: usize,
    /// Lines of the blocks that were not, with the reason.
    pub skipped: Vec<(usize, String)>,
}

impl Reader {
    /// Creates a reader with a home in `parent` and the blocks that all of `pages` rely on.
    ///
    /// # Errors
    ///
    /// The home cannot be created.
    pub fn new(parent: &Path, prefix: &Prefix, pages: &[Page]) -> Result<Reader> {
        fs::create_dir_all(parent)?;
        let home = tempfile::Builder::new().prefix("reader-").tempdir_in(parent)?;
        fs::create_dir(home.path().join(".local"))?;
        symlink(&prefix.folder, home.path().join(".local/quo"))?;
        let commands = home.path().join("bin");
        fs::create_dir(&commands)?;
        let launcher = std::env::var_os("QUO_TESTS_MPIRUN").unwrap_or_else(|| "mpirun".into());
        for (name, program) in
            [("mpicc", mpicc()), ("mpicxx", mpicxx()), ("mpifort", mpifort()), ("mpirun", launcher)]
        {
            // Called by its own path, since this folder comes first in `PATH`.
            let path = found(Path::new(&program)).unwrap_or_else(|| PathBuf::from("/nonexistent"));
            script(&commands.join(name), &format!("exec '{}' \"$@\"", path.display()))?;
        }
        if let Some(python) = python_tools() {
            script(&commands.join("python3"), &format!("exec '{}' \"$@\"", python.display()))?;
        }
        let quoted = prefix.options.iter().map(|option| format!("'{}'", option.display()));
        let cargo = format!(
            "test \"$1\" = xtask && shift || exit 2\n\
             test \"$1\" != install || set -- \"$@\" {}\n\
             {} exec '{}' \"$@\"",
            quoted.collect::<Vec<_>>().join(" "),
            outside(),
            prefix.xtask.display()
        );
        script(&commands.join("cargo"), &cargo)?;
        let everywhere =
            |block: &&Block| matches!(&block.kind, Kind::Run(run) if run.before_every_page);
        let before = pages.iter().flat_map(|page| &page.blocks).filter(everywhere).cloned();
        Ok(Reader { before: before.collect(), home })
    }

    /// Follows a page. Blocks for Slurm are run by `on_slurm`, or skipped without it.
    ///
    /// # Errors
    ///
    /// The output of a block differs from the page. The error names the line and shows the real
    /// output.
    pub fn follow(
        &self,
        page: &Page,
        on_slurm: Option<&dyn Fn(&str) -> Command>,
    ) -> Result<Followed> {
        let folder = self.home.path().join(page.name.replace('/', "-"));
        fs::create_dir(&folder)?;
        for block in &self.before {
            self.run(block, &Run::default(), &folder, None).context("before every page")?;
        }
        let mut followed = Followed::default();
        for block in &page.blocks {
            let place = || format!("{}:{}", page.name, block.line);
            if let Some(reason) = self.obstacle(block, &folder).with_context(place)? {
                followed.skipped.push((block.line, reason));
                continue;
            }
            match &block.kind {
                Kind::File(name) => append(&folder.join(name), &block.text).with_context(place)?,
                Kind::Run(run) if run.on_slurm && on_slurm.is_none() => continue,
                Kind::Run(run) if run.before_every_page => {}
                Kind::Run(run) => self.run(block, run, &folder, on_slurm).with_context(place)?,
            }
            followed.done += 1;
        }
        Ok(followed)
    }

    /// Returns the reason why a block cannot be followed on this machine, if there is one.
    fn obstacle(&self, block: &Block, folder: &Path) -> Result<Option<String>> {
        for name in &block.needs {
            let (test, called) = test_for(name).context("an unknown need")?;
            let outcome = self.shell(&format!("{{ {test}; }} > /dev/null 2>&1"), folder, None)?;
            if !outcome.status.success() {
                return Ok(Some(format!("needs {called}")));
            }
        }
        Ok(None)
    }

    fn run(
        &self,
        block: &Block,
        run: &Run,
        folder: &Path,
        on_slurm: Option<&dyn Fn(&str) -> Command>,
    ) -> Result<()> {
        let steps = if run.console {
            steps(&block.text)?
        } else {
            vec![Step { command: block.text.clone(), expected: Vec::new() }]
        };
        let shell = if run.on_slurm { on_slurm } else { None };
        let outcome = self.shell(&whole_script(&steps), folder, shell)?;
        ensure!(
            outcome.status.success() != run.fails && !outcome.out_of_time,
            "{}\n{}",
            if run.fails { "it was to fail" } else { "it failed" },
            outcome.report()
        );
        outcome.expect_clean()?;
        // Output before the first separator belongs to no step.
        let printed: Vec<&str> = outcome.stdout.split(BETWEEN).skip(1).collect();
        ensure!(
            printed.len() == steps.len(),
            "not every command was reached\n{}",
            outcome.report()
        );
        for (step, printed) in steps.iter().zip(printed).filter(|_| run.console) {
            if !matches(&step.expected, printed, run.unordered) {
                bail!(
                    "$ {}\n--- the page says\n{}\n--- but it prints\n{}\n--- complaints\n{}",
                    step.command,
                    step.expected.join("\n"),
                    printed.trim_end(),
                    outcome.stderr.trim_end()
                );
            }
        }
        Ok(())
    }

    /// Runs a script in the reader's folder, with the variables that earlier scripts exported.
    fn shell(
        &self,
        script: &str,
        folder: &Path,
        of_slurm: Option<&dyn Fn(&str) -> Command>,
    ) -> Result<Outcome> {
        let mut command = of_slurm.map_or_else(|| Command::new("bash"), |shell| shell("bash"));
        // The tests' own variables must not influence the guide's commands.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("QUO_TOPOLOGY")
                || name.starts_with("OMP_")
                || name == "PYTHONUNBUFFERED"
            {
                command.env_remove(name.as_ref());
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{}:{path}", self.home.path().join("bin").display()));
        command.env("HOME", self.home.path());
        command.envs(QUIET.iter().copied());
        let state = "test -f .state && . ./.state";
        let keep = format!("export -p | grep -v '{}' > .state", crate::MARK);
        let text = format!(
            "cd '{}'\n{state}\n{script}\nstatus=$?\n{keep}\nexit $status",
            folder.display()
        );
        command.args(["-c", &text]);
        let shared = Path::new("/dev/shm");
        let before = leftovers::orphaned_segments(shared);
        let mut outcome = Running::start(&mut command, script, LIMIT)?.finish()?;
        let after = leftovers::orphaned_segments(shared).into_iter();
        let segments = after.filter(|path| !before.contains(path));
        outcome.leftovers.extend(segments.map(|path| format!("segment {}", path.display())));
        Ok(outcome)
    }
}

/// Settings of launchers for a small machine, in a container, as root, which no page covers.
const QUIET: &[(&str, &str)] = &[
    ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
    ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
    ("OMPI_MCA_rmaps_base_oversubscribe", "1"),
    ("OMPI_MCA_btl_vader_single_copy_mechanism", "none"),
    ("PMIX_MCA_gds", "hash"),
    ("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"),
];

/// Returns assignments that restore outside variables for xtask: it calls the real cargo, whose
/// files are in the home of the user that runs the tests, and which would rebuild everything for
/// another path of pkg-config.
fn outside() -> String {
    let names = ["HOME", "PATH", "PKG_CONFIG_PATH", "LD_LIBRARY_PATH"];
    let again = names.map(|name| match std::env::var(name) {
        Ok(value) => format!("export {name}='{value}';"),
        Err(_) => format!("unset {name};"),
    });
    format!("{{ {} }} &&", again.join(" "))
}

/// Returns the commands in sequence, up to the first failure, with a separator before each output.
fn whole_script(steps: &[Step]) -> String {
    let mut script = String::from("{\n");
    for (index, step) in steps.iter().enumerate() {
        let join = if index == 0 { "" } else { "} && {\n" };
        script.push_str(&format!("{join}printf '{BETWEEN}'\n{}\n", step.command));
    }
    script + "}"
}

fn append(file: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().create(true).append(true).open(file)?;
    Ok(file.write_all(text.as_bytes())?)
}

fn script(file: &Path, command: &str) -> Result<()> {
    fs::write(file, format!("#!/bin/sh\n{command}\n"))?;
    Ok(fs::set_permissions(file, fs::Permissions::from_mode(0o755))?)
}

fn found(program: &Path) -> Option<PathBuf> {
    if program.components().count() > 1 {
        return Some(program.to_path_buf());
    }
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(program)).find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(text: &str) -> Page {
        Page::parse("docs/page.md", text).unwrap()
    }

    fn follow(pages: &[Page]) -> Result<Followed> {
        let folder = tempfile::tempdir().unwrap();
        let none = PathBuf::from("/bin/false");
        let prefix =
            Prefix { folder: folder.path().join("prefix"), xtask: none, options: Vec::new() };
        Reader::new(folder.path(), &prefix, pages)?.follow(&pages[0], None)
    }

    #[test]
    fn files_are_written_and_what_is_exported_stays() {
        let text = "```c file=a\none\n```\n```sh run\nexport WORD=two\n```\n```c file=a\nthree\n```\n\
            ```console run\n$ cat a; echo $WORD\none\nthree\ntwo\n$ echo ~/...\n...\n```\n";
        assert_eq!(follow(&[page(text)]).unwrap(), Followed { done: 4, skipped: Vec::new() });
    }

    #[test]
    fn what_the_page_says_and_what_comes_must_agree() {
        for text in [
            "```console run\n$ echo one\ntwo\n```\n",
            "```console run\n$ false\n$ echo one\none\n```\n",
            "```console run fails\n$ echo one\none\n```\n",
            "```sh run\nfalse\n```\n",
            "```console run\n$ exit 0\n$ echo one\none\n```\n",
        ] {
            let error = format!("{:#}", follow(&[page(text)]).unwrap_err());
            assert!(error.starts_with("docs/page.md:1: "), "{error}");
        }
        let fails = "```console run fails\n$ echo one; false\none\n```\n";
        assert_eq!(follow(&[page(fails)]).unwrap().done, 1);
    }

    #[test]
    fn every_page_begins_with_what_all_rely_on() {
        let other = page("```sh run before=every-page\nexport WORD=one\n```\n");
        let text = "```console run\n$ echo $WORD\none\n```\n";
        assert_eq!(follow(&[page(text), other]).unwrap().done, 1);
    }

    #[test]
    fn what_cannot_be_done_here_is_told_with_its_line() {
        let text = "\n```sh run needs=fortran\nfalse\n```\n```sh run on=slurm\nfalse\n```\n";
        let followed = follow(&[page(text)]).unwrap();
        assert_eq!(followed.done, 0);
        assert_eq!(followed.skipped.len(), 1);
        assert_eq!(followed.skipped[0].0, 2);
    }
}
