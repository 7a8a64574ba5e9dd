//! `quo-info set`: other CPUs for a running job, from its next phase on.

use anyhow::Result;
use clap::{ArgGroup, Args};
use quo::CpuSet;
use quo::context::limit_cpus;

use crate::output;

#[derive(Args)]
#[command(group(ArgGroup::new("what").required(true)))]
pub struct Options {
    /// The number of any process of the job on this node
    #[arg(value_name = "PROCESS", value_parser = clap::value_parser!(i32).range(1..))]
    process: i32,
    /// The CPUs that the job may use on this node, such as 0-3,8
    #[arg(long, value_name = "LIST", group = "what")]
    cpus: Option<CpuSet>,
    /// All that the system allows again
    #[arg(long, group = "what")]
    all: bool,
}

pub fn run(options: &Options) -> Result<()> {
    let contexts = limit_cpus(options.process, options.cpus.as_ref())?;
    let contexts =
        if contexts == 1 { "1 context".to_owned() } else { format!("{contexts} contexts") };
    output::text(&match &options.cpus {
        Some(cpus) => format!("{contexts} limited to CPUs {cpus} from the next phase on\n"),
        None => format!("{contexts} without a limit from the next phase on\n"),
    })
}
