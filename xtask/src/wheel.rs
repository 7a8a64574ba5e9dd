//! `cargo xtask wheel`: the Python package as a file that pip installs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::{project, run, setup};

const LIMIT: Duration = Duration::from_secs(5 * 60);

#[derive(Args)]
pub struct Options {
    /// Folder of the wheel.
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
}

pub fn run(options: &Options) -> Result<()> {
    let out = std::path::absolute(&options.out)?;
    fs::create_dir_all(&out).with_context(|| format!("creating {}", out.display()))?;
    let python = setup::python()?;
    let log = project::base()?.join("xtask/wheel.log");
    let mut build = Command::new(python);
    build.args(["-m", "build", "--wheel", "--no-isolation", "--outdir"]).arg(&out);
    build.arg(project::root().join("bindings-python"));
    let finished = run::logged(&mut build, &log, LIMIT)?;
    let output = finished.output.trim_end();
    ensure!(finished.ending.is_success(), "python -m build: {}\n{output}", finished.ending);
    // Its last line: Successfully built libquo-0.1.0-py3-none-any.whl
    let name = output.split_whitespace().next_back().context("python -m build said nothing")?;
    let wheel = out.join(name);
    ensure!(wheel.is_file(), "python -m build: {} is not there\n{output}", wheel.display());
    println!("{}", wheel.display());
    Ok(())
}
