//! `cargo xtask findings`: runs the scripts of `findings/`, each of which shows one behaviour of
//! other software, and writes their index.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::project;
use crate::run::{self, Ending};

/// Folder of the scripts, below the checkout.
pub const FOLDER: &str = "findings";
/// Path of the index, below the checkout.
const PAGE: &str = "findings/README.md";
/// Beginning of the line that states a finding.
const MARK: &str = "# Finding: ";
/// Status of a script whose packages or machine cannot be had.
const NOT_HERE: i32 = 77;
/// Time for one script, with its downloads.
const LIMIT: Duration = Duration::from_secs(1_200);

const HEAD: &str = "# Findings

Behaviours of MPIs, OpenMP runtimes, launchers, allocators and their tools that differ from what
their documentation or common sense suggests, and that programs with quo or memprof meet. Each
script installs the named versions in a temporary folder, runs them without this project, and fails
if the behaviour has changed; it ends with 77 where a package cannot be had.

```sh
cargo xtask findings              # all, some minutes each; what has changed is printed
cargo xtask findings NAME...      # some
cargo xtask findings --index      # writes this page, which the house rules compare
```

| finding | script |
|---|---|
";

#[derive(clap::Args)]
pub struct Options {
    /// Scripts to run, without `.sh` [default: all]
    names: Vec<String>,
    /// Only write the index, `findings/README.md`
    #[arg(long, conflicts_with = "names")]
    index: bool,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    let folder = project::root().join(FOLDER);
    let mut all = scripts(&folder)?;
    if options.index {
        return Ok(fs::write(project::root().join(PAGE), page(&all))?);
    }
    for name in &options.names {
        ensure!(all.iter().any(|(known, _)| known == name), "no finding {name} in {FOLDER}/");
    }
    all.retain(|(name, _)| options.names.is_empty() || options.names.contains(name));
    let mut changed = Vec::new();
    for (name, _) in &all {
        let start = Instant::now();
        let log = project::base()?.join("xtask").join(format!("finding-{name}.log"));
        let mut script = Command::new("sh");
        script.arg(folder.join(name).with_extension("sh"));
        let finished = run::logged(&mut script, &log, LIMIT)?;
        let outcome = match &finished.ending {
            Ending::Exited(status) if status.success() => "as recorded",
            Ending::Exited(status) if status.code() == Some(NOT_HERE) => "cannot be had here",
            _ => {
                changed.push(name.as_str());
                "CHANGED"
            }
        };
        println!("{name}: {outcome}, {:.0} s", start.elapsed().as_secs_f64());
        if outcome != "as recorded" {
            println!("{}\n{}", finished.output.trim_end(), finished.ending);
        }
    }
    ensure!(
        changed.is_empty(),
        "{} of {} have changed: {}",
        changed.len(),
        all.len(),
        changed.join(", ")
    );
    Ok(())
}

/// Returns the names of the scripts with their findings, by name.
fn scripts(folder: &Path) -> Result<Vec<(String, String)>> {
    let mut scripts = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "sh") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            scripts.push((name, finding(&fs::read_to_string(&path)?)));
        }
    }
    scripts.sort();
    Ok(scripts)
}

/// Returns the finding that a script states; empty if it states none.
fn finding(script: &str) -> String {
    let mut lines = script.lines().skip_while(|line| !line.starts_with(MARK));
    let first = lines.next().and_then(|line| line.strip_prefix(MARK)).unwrap_or_default();
    let further = lines.map_while(|line| line.strip_prefix("#  "));
    let words = std::iter::once(first).chain(further).map(str::trim).collect::<Vec<_>>();
    words.join(" ").trim_end_matches('.').to_owned()
}

/// Returns the index of the scripts.
fn page(scripts: &[(String, String)]) -> String {
    let mut page = HEAD.to_owned();
    for (name, finding) in scripts {
        let _infallible =
            writeln!(page, "| {} | [{name}]({name}.sh) |", finding.replace('|', "\\|"));
    }
    page
}

/// Returns scripts without a finding, and the difference between the index and the scripts.
pub fn wrong(root: &Path) -> Result<Vec<String>> {
    let scripts = scripts(&root.join(FOLDER))?;
    let silent = scripts.iter().filter(|(_, finding)| finding.is_empty());
    let mut errors: Vec<String> =
        silent.map(|(name, _)| format!("{FOLDER}/{name}.sh: no line `{MARK}`")).collect();
    if fs::read_to_string(root.join(PAGE)).unwrap_or_default() != page(&scripts) {
        errors.push(format!("{PAGE}: differs from the scripts: cargo xtask findings --index"));
    }
    Ok(errors)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finding_is_the_first_paragraph_of_the_head() {
        let script =
            "#!/bin/sh\n# Finding: one thing,\n#   and more.\n#\n# Software: none\nset -eu\n";
        assert_eq!(finding(script), "one thing, and more");
        assert_eq!(finding("#!/bin/sh\n# A script.\n"), "");
    }

    #[test]
    fn index_that_differs_and_silent_scripts_are_named() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join(FOLDER);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("a.sh"), "# Finding: A | b.\n").unwrap();
        let differs = "findings/README.md: differs from the scripts: cargo xtask findings --index";
        assert_eq!(wrong(root.path()).unwrap(), [differs]);
        let page = page(&scripts(&folder).unwrap());
        assert!(page.ends_with("| A \\| b | [a](a.sh) |\n"), "{page}");
        fs::write(root.path().join(PAGE), page).unwrap();
        assert_eq!(wrong(root.path()).unwrap(), Vec::<String>::new());
        fs::write(folder.join("c.sh"), "set -eu\n").unwrap();
        assert_eq!(wrong(root.path()).unwrap(), ["findings/c.sh: no line `# Finding: `", differs]);
    }
}
