//! `quo-info bindings`: which rank is bound where, and why. Under a launcher every rank takes part
//! and rank 0 prints; without one, the process describes itself.

use anyhow::Result;
use clap::Args;
use quo::Context;

use crate::output;

#[derive(Args)]
pub struct Options {
    /// Print JSON: an array with one element per node
    #[arg(long)]
    json: bool,
}

pub fn run(options: &Options) -> Result<()> {
    #[cfg(feature = "mpi")]
    if quo::context::Launcher::detect() != quo::context::Launcher::Unknown {
        return under_mpi::run(options.json);
    }
    alone(options)
}

/// Uses a context of one rank, which queries the kernel exactly as a larger one does.
fn alone(options: &Options) -> Result<()> {
    use quo::group::local::LocalSpace;
    let directory = quo::environment::value(&quo::environment::DIRECTORY);
    let directory = directory.unwrap_or_else(|| quo::environment::DIRECTORY.default.to_owned());
    let space = LocalSpace::new(1, directory.as_ref())?;
    let context = Context::create(space.join(0)?)?;
    let explanation = context.explain()?;
    context.free()?;
    if options.json {
        return output::json(&[explanation]);
    }
    output::text(&explanation.to_string())
}

#[cfg(feature = "mpi")]
mod under_mpi {
    use std::time::Duration;

    use anyhow::{Context as _, Result, bail};
    use quo::Context;
    use quo::group::{WaitLimits, allgather_bytes};
    use quo_mpi::{Mpi, MpiGroup};
    use serde_json::Value;

    use crate::output;

    const PATIENCE: Duration = Duration::from_secs(60);

    /// Marks a text that describes a failure.
    const FAILED: char = '\0';

    pub fn run(json: bool) -> Result<()> {
        let mpi = Mpi::initialize().context("MPI could not be initialised")?;
        let rank = mpi.rank()?;
        match mpi.world().map_err(Into::into).and_then(|group| told(group, json)) {
            // Failures are the same everywhere: rank 0 prints and fails. If another rank failed
            // first, the launcher would end the job and nothing would be printed.
            Err(_) if rank != 0 => Ok(()),
            outcome => outcome,
        }
    }

    fn told(group: MpiGroup, json: bool) -> Result<()> {
        let context = Context::create(group)?;
        // Each node's first rank describes its node; no rank leaves before all have looked.
        let mine = match context.node_rank() {
            0 => node(&context, json).unwrap_or_else(|error| format!("{FAILED}{error:#}")),
            _ => String::new(),
        };
        let limits = WaitLimits::for_at_most(PATIENCE);
        let all = allgather_bytes(&*context.group(), mine.as_bytes(), &limits)?;
        let rank = context.rank();
        context.free()?;
        let nodes: Vec<_> = all.iter().map(|text| String::from_utf8_lossy(text)).collect();
        let mut nodes = nodes.iter().filter(|text| !text.is_empty());
        if let Some(error) = nodes.clone().find_map(|text| text.strip_prefix(FAILED)) {
            bail!("{error}");
        }
        if rank != 0 {
            return Ok(());
        }
        if json {
            let nodes = nodes.map(|text| serde_json::from_str::<Value>(text));
            return output::json(&nodes.collect::<Result<Vec<_>, _>>()?);
        }
        nodes.try_for_each(|text| output::text(text))
    }

    fn node(context: &Context, json: bool) -> Result<String> {
        let explanation = context.explain()?;
        Ok(if json { serde_json::to_string(&explanation)? } else { explanation.to_string() })
    }
}
