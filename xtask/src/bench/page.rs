//! The page of figures: a table for each part of the benchmarks, between marks, with the run that
//! produced it.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::{project, run};

/// Replaces the table of a part in a page, with a stamp of its run. Fails if the page has no such
/// part.
pub fn replace(page: &str, part: &str, stamp: &str, table: &str) -> Result<String> {
    let (begin, end) = (format!("<!-- {part} -->\n"), format!("<!-- end of {part} -->\n"));
    let missing =
        || format!("the page has no part `{part}`: it needs the lines {begin:?}, {end:?}");
    let (before, rest) = page.split_once(&begin).with_context(missing)?;
    let (_, after) = rest.split_once(&end).with_context(missing)?;
    Ok(format!("{before}{begin}{stamp}\n\n{}\n{end}{after}", table.trim_end()))
}

/// Load above which figures are not written: other programs would be in them.
const MOST_LOAD: f64 = 0.5;

/// Checks that a page of figures can be read and written, and that the machine is idle, by its load
/// before the measurement.
pub fn check(file: &Path, load: f64) -> Result<()> {
    let opened = fs::OpenOptions::new().read(true).write(true).open(file);
    opened.map(drop).with_context(|| {
        format!(
            "--write {}: name a page that has the marks, such as docs/benchmarks.md",
            file.display()
        )
    })?;
    ensure!(
        load <= MOST_LOAD,
        "--write {}: the load of this machine is {load}, and figures are comparable only up to \
         {MOST_LOAD}: wait until other programs have ended, or measure without --write",
        file.display()
    );
    Ok(())
}

/// Returns the mean number of processes that ran or wanted to run in the last minute.
pub fn load() -> Result<f64> {
    let text = fs::read_to_string("/proc/loadavg").context("reading /proc/loadavg")?;
    let first = text.split_whitespace().next().unwrap_or_default();
    first.parse().with_context(|| format!("/proc/loadavg: {text:?}"))
}

/// Writes the table of a part into a file that has its marks.
pub fn write(file: &Path, part: &str, table: &str) -> Result<()> {
    let page = fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    fs::write(file, replace(&page, part, &stamp()?, table)?)
        .with_context(|| format!("writing {}", file.display()))?;
    println!("\nwritten to {}", file.display());
    Ok(())
}

/// Returns the machine, the MPI, the revision and the day, in one line.
fn stamp() -> Result<String> {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let processor = processor(&text("/proc/cpuinfo"));
    let system = system(&text("/etc/os-release"));
    let kernel = text("/proc/sys/kernel/osrelease");
    let mpi = crate::mpi::chosen().map_or_else(default_mpi, Ok)?;
    let git = |arguments: &[&str]| {
        let mut git = Command::new("git");
        run::captured(git.current_dir(project::root()).args(arguments))
    };
    let revision = git(&["describe", "--always", "--dirty", "--exclude", "*"])?;
    let day = git(&["log", "-1", "--format=%cs"])?;
    Ok(format!(
        "Measured on {processor}, {system}, Linux {}, with {mpi}; revision {} of {}.",
        kernel.trim(),
        revision.trim(),
        day.trim()
    ))
}

/// Returns the name and version of the MPI that is used by default.
fn default_mpi() -> Result<String> {
    let said = run::captured(Command::new("mpirun").arg("--version"))?;
    Ok(said.lines().next().unwrap_or_default().replace("mpirun (", "").replace(')', ""))
}

fn processor(cpuinfo: &str) -> String {
    let value = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
    let count = cpuinfo.lines().filter(|line| line.starts_with("processor")).count();
    let model = cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(value);
    let model = model.unwrap_or_else(|| "a processor without a name".to_owned());
    format!("{count} processors of {model}")
}

fn system(os_release: &str) -> String {
    let name = os_release.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| "an unknown system".to_owned(), |name| name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_page_is_refused_by_its_name() {
        let error = check(Path::new("/nowhere/benchmarks.md"), 0.0).unwrap_err().to_string();
        assert!(error.starts_with("--write /nowhere/benchmarks.md: "), "{error}");
    }

    #[test]
    fn figures_of_a_busy_machine_are_not_written() {
        let page = tempfile::NamedTempFile::new().unwrap();
        assert!(check(page.path(), 0.5).is_ok());
        let error = check(page.path(), 0.51).unwrap_err().to_string();
        assert!(error.contains("load of this machine is 0.51"), "{error}");
        assert!(load().unwrap() >= 0.0);
    }

    #[test]
    fn table_of_a_part_is_replaced_and_others_stay() {
        let page =
            "a\n<!-- one -->\nold\n<!-- end of one -->\nb\n<!-- two -->\n<!-- end of two -->\n";
        let new = replace(page, "one", "of today", "| x |\n").unwrap();
        let expected = "a\n<!-- one -->\nof today\n\n| x |\n<!-- end of one -->\nb\n<!-- two -->\n<!-- end of two -->\n";
        assert_eq!(new, expected);
        assert_eq!(replace(&new, "one", "of today", "| x |").unwrap(), expected);
        let error = replace(page, "three", "", "").unwrap_err().to_string();
        assert!(error.contains("no part `three`"), "{error}");
    }

    #[test]
    fn machine_is_named_from_what_the_kernel_says() {
        let cpuinfo =
            "processor\t: 0\nmodel name\t: AMD EPYC\n\nprocessor\t: 1\nmodel name\t: AMD EPYC\n";
        assert_eq!(processor(cpuinfo), "2 processors of AMD EPYC");
        assert_eq!(system("ID=x\nPRETTY_NAME=\"Debian 12\"\n"), "Debian 12");
        assert_eq!(system(""), "an unknown system");
    }
}
