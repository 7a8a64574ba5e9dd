//! `cargo xtask demo`: set-up, build, then the coupled example in its three modes, then once more with its
//! memory watched.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quo_tests::{BindTo, Launcher};

use crate::{project, release, run, setup};

const LIMIT: Duration = Duration::from_secs(40 * 60);

#[derive(Args)]
pub struct Options {
    /// What to compute: a few seconds, or about a minute on two cores.
    #[arg(long, value_enum, default_value_t = Deck::Large)]
    deck: Deck,
    /// Ranks of the modes that have one on each core; all cores if not given.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ranks: Option<u16>,
    /// Where results and report go.
    #[arg(long, value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
}

#[derive(Copy, Clone, ValueEnum)]
enum Deck {
    Small,
    Large,
}

pub fn run(options: &Options) -> Result<()> {
    setup::ensure()?;
    let built = release::build("coupled")?;
    let deck = match options.deck {
        Deck::Small => "small.toml",
        Deck::Large => "large.toml",
    };
    let deck = project::root().join("examples/coupled/decks").join(deck);
    let mut coupled = Command::new(built.join("coupled"));
    coupled.arg("demo").arg("--deck").arg(&deck).arg("--out").arg(&options.out);
    coupled.arg("--mpirun").arg(quo_tests::mpirun());
    if let Some(ranks) = options.ranks {
        coupled.args(["--ranks", &ranks.to_string()]);
    }
    run::shown(&mut coupled, LIMIT)?;
    let profiler = release::build_memprof()?;
    memory(options, &profiler, &built.join("coupled"), &deck)?;
    for report in ["report.html", "report.svg", "memory.html", "memory.png"] {
        let file = options.out.join(report);
        if !file.exists() {
            bail!("the demo ended without {}", file.display());
        }
    }
    link_memory(&options.out.join("report.html"))
}

/// What the coupled program holds in memory while ranks lend their cores: a page and a picture.
fn memory(options: &Options, profiler: &Path, coupled: &Path, deck: &Path) -> Result<()> {
    let traces = options.out.join("memory");
    if traces.exists() {
        std::fs::remove_dir_all(&traces)
            .with_context(|| format!("removing {}", traces.display()))?;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ranks = options.ranks.map_or(cores, usize::from);
    let launch = Launcher::find()?.command(ranks, BindTo::Core);
    let mut run = Command::new(profiler);
    for (name, value) in launch.get_envs() {
        run.env(name, value.unwrap_or(OsStr::new("")));
    }
    run.arg("run").arg("--output").arg(&traces).arg("--").arg(launch.get_program());
    run.args(launch.get_args()).arg(coupled).args(["run", "--mode", "quo", "--deck"]).arg(deck);
    run.arg("--output").arg(options.out.join("memory.json"));
    println!("once more, with memprof");
    run::shown(&mut run, LIMIT)?;
    let mut report = Command::new(profiler);
    report.arg("report").arg(&traces);
    for (option, file) in [("--html", "memory.html"), ("--png", "memory.png")] {
        report.arg(option).arg(options.out.join(file));
    }
    run::shown(&mut report, LIMIT)
}

/// The way from the demo's page to the memory page beside it.
fn link_memory(page: &Path) -> Result<()> {
    const LINK: &str = "<section><h2>Memory</h2><p>Where every byte of the run with quo went: \
        <a href=\"memory.html\">per component, per rank, over time</a>.</p>\
        <a href=\"memory.html\"><img src=\"memory.png\" alt=\"memory over time\" \
        style=\"max-width:100%\"/></a></section>\n";
    let text = std::fs::read_to_string(page)?;
    let end = text.rfind("</main>").or_else(|| text.rfind("</body>"));
    let end = end.with_context(|| format!("{} has no end", page.display()))?;
    let (before, after) = text.split_at(end);
    std::fs::write(page, format!("{before}{LINK}{after}"))
        .with_context(|| format!("writing {}", page.display()))
}
