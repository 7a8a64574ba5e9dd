//! `cargo xtask demo`: set-up, build, then the coupled example in its three modes, then once more
//! under the memory profiler, and on a changing number of ranks.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quo_tests::{BindTo, Launcher};

use crate::output::Steps;
use crate::{project, release, run, setup};

const LIMIT: Duration = Duration::from_secs(40 * 60);

#[derive(Args)]
pub struct Options {
    /// Size of the problem: some seconds, or a minute on two cores
    #[arg(long, value_enum, default_value_t = Deck::Large)]
    deck: Deck,
    /// Ranks of modes with one on each core [default: all cores].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    ranks: Option<u16>,
    /// Folder of results and report.
    #[arg(short, long = "output", alias = "out", value_name = "DIR", default_value = "out/demo")]
    out: PathBuf,
    /// Do not set up or compile anything: run the programs in DIR. For tests.
    #[arg(long, value_name = "DIR", hide = true)]
    built: Option<PathBuf>,
}

#[derive(Copy, Clone, ValueEnum)]
enum Deck {
    Small,
    Large,
}

pub fn run(options: &Options) -> Result<()> {
    let mut steps = Steps::new(6);
    steps.next("looking for the system packages");
    if options.built.is_none() {
        setup::ensure()?;
    }
    steps.next("building the coupled example, minutes the first time");
    let build = || release::build(&["coupled", "coupled-demo"]);
    let built = options.built.clone().map_or_else(build, Ok)?;
    steps.next("building the memory profiler");
    let profiler = options.built.as_ref().map(|built| built.join("memprof"));
    let profiler = profiler.map_or_else(release::build_memprof, Ok)?;
    let deck = match options.deck {
        Deck::Small => "small.toml",
        Deck::Large => "large.toml",
    };
    let deck = project::root().join("examples/coupled/decks").join(deck);
    steps.next("running the coupled program in three modes");
    let mut demo = Command::new(built.join("coupled-demo"));
    demo.arg("run").arg("--deck").arg(&deck).arg("--out").arg(&options.out);
    demo.arg("--mpirun").arg(quo_tests::mpirun());
    if let Some(ranks) = options.ranks {
        demo.args(["--ranks", &ranks.to_string()]);
    }
    run::shown(&mut demo, LIMIT)?;
    steps.next("running it once more, with memprof");
    memory(options, &profiler, &built.join("coupled"), &deck)?;
    steps.next("running it on ranks that come and go");
    elastic(options, &profiler, &built, &deck)?;
    for report in ["report.svg", "memory.html", "memory.svg", "elastic.svg"] {
        let file = options.out.join(report);
        if !file.exists() {
            bail!("the demo ended without {}", file.display());
        }
    }
    println!(
        "memory: {}, ranks that come and go: {}",
        options.out.join("memory.html").display(),
        options.out.join("elastic.svg").display()
    );
    Ok(())
}

/// Runs the coupled program under the memory profiler while ranks lend their cores: a page and a
/// picture.
fn memory(options: &Options, profiler: &Path, coupled: &Path, deck: &Path) -> Result<()> {
    let traces = options.out.join("memory");
    if traces.exists() {
        std::fs::remove_dir_all(&traces)
            .with_context(|| format!("removing {}", traces.display()))?;
    }
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let ranks = options.ranks.map_or(cores, usize::from);
    let mut run = under_memprof(profiler, &[], &traces, ranks)?;
    run.arg(coupled).args(["run", "--mode", "quo", "--deck"]).arg(deck);
    run.arg("--output").arg(options.out.join("memory.json"));
    run::shown(&mut run, LIMIT)?;
    let mut report = Command::new(profiler);
    report.arg("report").arg(&traces);
    let files = [("--html", "memory.html"), ("--svg", "memory.svg")];
    for (option, file) in files {
        report.arg(option).arg(options.out.join(file));
    }
    run::shown(&mut report, LIMIT)
}

/// Returns a launch of this many ranks under the memory profiler, each on a core; the program
/// follows.
fn under_memprof(profiler: &Path, words: &[&str], traces: &Path, ranks: usize) -> Result<Command> {
    let launch = Launcher::find()?.command(ranks, BindTo::Core);
    let mut run = Command::new(profiler);
    for (name, value) in launch.get_envs() {
        run.env(name, value.unwrap_or(OsStr::new("")));
    }
    run.arg("run").args(words).arg("--output").arg(traces).arg("--");
    run.arg(launch.get_program()).args(launch.get_args());
    Ok(run)
}

/// Runs the coupled program on a changing number of ranks: first on launched ranks only, then with
/// started ranks that end again. Draws a picture of their lifetimes and their memory.
fn elastic(options: &Options, profiler: &Path, built: &Path, deck: &Path) -> Result<()> {
    const LAUNCHED: usize = 4;
    // At each fifth of the steps.
    let plan = match options.deck {
        Deck::Small => "at 40: size 2\nat 80: size 4\nat 120: size 6\nat 160: size 2\n",
        Deck::Large => "at 400: size 2\nat 800: size 4\nat 1200: size 6\nat 1600: size 2\n",
    };
    let file = |name: &str| options.out.join(name);
    let traces = file("elastic-memory");
    if traces.exists() {
        std::fs::remove_dir_all(&traces)
            .with_context(|| format!("removing {}", traces.display()))?;
    }
    std::fs::write(file("elastic.plan"), plan).context("writing the plan")?;
    let mut run = under_memprof(profiler, &["-q", "--max-overhead", "5"], &traces, LAUNCHED)?;
    run.arg(built.join("coupled")).args([
        "elastic",
        "--initial-ranks",
        "1",
        "--max-ranks",
        "6",
        "--oversubscribe",
        "--hold",
    ]);
    run.arg("--deck")
        .arg(deck)
        .arg("--plan")
        .arg(file("elastic.plan"))
        .arg("--output")
        .arg(file("elastic.json"));
    // More ranks than cores: waiting ranks yield to others.
    run.env("OMPI_MCA_mpi_yield_when_idle", "1").env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    run.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "16");
    run.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    run.env("OMP_WAIT_POLICY", "passive");
    run::shown(&mut run, LIMIT)?;
    let mut export = Command::new(profiler);
    export.args(["export", "--format", "json", "--output"]).arg(file("elastic-memory.json"));
    run::shown(export.arg(&traces), LIMIT)?;
    let mut picture = Command::new(built.join("coupled-demo"));
    picture.arg("timeline").arg(file("elastic.json"));
    picture.arg("--memory").arg(file("elastic-memory.json")).arg("--svg").arg(file("elastic.svg"));
    run::shown(&mut picture, LIMIT)
}
