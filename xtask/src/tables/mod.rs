//! `cargo xtask tables`: what other software does, found by small programs and written into docs.
//!
//! A column is one version of a software. A run writes the columns of the versions that it finds
//! here; the columns of other versions stay as they were written where those were.

mod page;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use crate::{mpi, project};
use page::Cell;

/// A table of a page, between the markers with its name.
struct Table {
    name: &'static str,
    page: &'static str,
    source: Source,
}

enum Source {
    /// The script of this folder with the table's name, and the packages to build for it.
    Script(&'static [&'static str]),
    /// The programs of `cargo xtask mpi list`.
    Mpis,
}

const TABLES: &[Table] = &[
    Table { name: "openmp", page: "docs/recipes/openmp.md", source: Source::Script(&["quo-c"]) },
    Table {
        name: "allocators",
        page: "docs/memprof-reference.md",
        source: Source::Script(&["memprof-command", "memprof-preload"]),
    },
    Table { name: "mpi", page: "docs/mpi.md", source: Source::Mpis },
    Table { name: "slurm", page: "docs/scheduling.md", source: Source::Script(&[]) },
];

#[derive(clap::Args)]
pub struct Options {
    /// Tables to write [default: all]
    names: Vec<String>,
    /// Write nothing; fail if a table differs from what the programs find
    #[arg(long)]
    check: bool,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    for name in &options.names {
        ensure!(TABLES.iter().any(|table| table.name == name), "no table {name}");
    }
    let is_wanted = |table: &&Table| {
        options.names.is_empty() || options.names.iter().any(|it| it == table.name)
    };
    let mut differing = Vec::new();
    for table in TABLES.iter().filter(is_wanted) {
        let cells = match table.source {
            Source::Script(packages) => by_script(table.name, packages)?,
            Source::Mpis => {
                let cell = |[column, row, text]: [String; 3]| Cell { column, row, text };
                mpi::answers()?.into_iter().map(cell).collect()
            }
        };
        if cells.is_empty() {
            println!("{}: nothing of it is here; the table stays as it is", table.name);
            continue;
        }
        let columns: BTreeSet<&str> = cells.iter().map(|cell| cell.column.as_str()).collect();
        let columns: Vec<&str> = columns.into_iter().collect();
        println!("{}: found {}", table.name, columns.join(", "));
        let path = project::root().join(table.page);
        let before =
            fs::read_to_string(&path).with_context(|| format!("reading {}", table.page))?;
        let after = page::with_table(&before, table.name, &cells)
            .with_context(|| format!("reading {}", table.page))?;
        if after == before {
            continue;
        }
        differing.push(table.name);
        for line in after.lines().filter(|line| !before.lines().any(|old| old == *line)) {
            println!("{}: {line}", table.page);
        }
        if !options.check {
            fs::write(&path, after).with_context(|| format!("writing {}", table.page))?;
        }
    }
    if options.check && !differing.is_empty() {
        bail!("differ from what the programs find: {}", differing.join(", "));
    }
    Ok(())
}

/// Builds the packages, runs a script and returns the cells that it prints, one a line: column,
/// row and text, with tabs between.
fn by_script(name: &str, packages: &[&str]) -> Result<Vec<Cell>> {
    if !packages.is_empty() {
        let mut build = project::cargo()?;
        build.arg("build").args(packages.iter().flat_map(|package| ["--package", package]));
        ensure!(build.status()?.success(), "building {} failed", packages.join(", "));
    }
    let cache = project::base()?.join("xtask/tables");
    fs::create_dir_all(&cache).with_context(|| format!("creating {}", cache.display()))?;
    let script = script(name);
    let mut command = Command::new("sh");
    command.arg(&script).env("ROOT", project::root()).env("CACHE", cache);
    command.env("BUILD", project::target()?.join("debug")).stderr(Stdio::inherit());
    let output = command.output().with_context(|| format!("starting {}", script.display()))?;
    ensure!(output.status.success(), "{}: {}", script.display(), output.status);
    String::from_utf8(output.stdout)?.lines().map(Cell::parse).collect()
}

fn script(table: &str) -> PathBuf {
    project::root().join("xtask/src/tables").join(table).with_extension("sh")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_its_place_and_its_script() {
        for table in TABLES {
            let page = fs::read_to_string(project::root().join(table.page)).unwrap();
            let cell = Cell::parse("column\trow\ttext").unwrap();
            assert!(page::with_table(&page, table.name, &[cell]).is_ok(), "{}", table.name);
            if let Source::Script(_) = table.source {
                assert!(script(table.name).exists(), "{}", table.name);
            }
        }
    }
}
