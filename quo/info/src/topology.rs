//! `quo-info topology`: a machine as a picture for the terminal, as SVG, or as JSON.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::{Args, ValueHint};
use quo::{CpuSet, Topology};
use quo_machine_picture::draw;

use crate::output;

#[derive(Args)]
pub struct Options {
    /// Another machine, as after --topology
    #[arg(value_name = "MACHINE", value_hint = ValueHint::FilePath, conflicts_with = "topology")]
    other: Option<String>,
    #[command(flatten)]
    machine: Machine,
    /// Write an SVG picture to FILE instead, `-` for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// Print JSON instead
    #[arg(long)]
    json: bool,
}

/// Which machine a command is about.
#[derive(Args)]
pub struct Machine {
    /// Another machine: an hwloc XML file, or such as `package:2 core:8 pu:2`
    #[arg(long, value_name = "SPEC", value_hint = ValueHint::FilePath)]
    topology: Option<String>,
    /// Leave one PU per core
    #[arg(long)]
    no_smt: bool,
}

impl Machine {
    pub fn describe(&self) -> Result<Topology> {
        self.describe_as(self.topology.as_deref())
    }

    fn describe_as(&self, spec: Option<&str>) -> Result<Topology> {
        let topology = match spec {
            Some(spec) => Topology::from_spec(spec)?,
            None => Topology::discover()?,
        };
        Ok(if self.no_smt { topology.without_smt() } else { topology })
    }
}

pub fn run(options: &Options) -> Result<()> {
    let spec = options.other.as_deref().or(options.machine.topology.as_deref());
    let machine = options.machine.describe_as(spec)?;
    match &options.svg {
        Some(file) => svg(&machine, &[], file),
        None if options.json => output::json(&machine),
        None => output::text(&draw(&machine).width(output::width()).to_string()),
    }
}

/// Writes a picture of the machine with the binding of each rank.
pub fn svg(machine: &Topology, bindings: &[(String, CpuSet)], file: &Path) -> Result<()> {
    let picture = draw(machine).bindings(bindings).to_svg();
    if file == Path::new("-") {
        return output::text(&picture);
    }
    let written = quo_files::write(file, picture.as_bytes());
    written.map(drop).with_context(|| format!("writing `{}`", file.display()))
}
