//! `cargo xtask demo`: set-up, build, then the coupled example in its three modes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::{Args, ValueEnum};

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
    coupled.arg("demo").arg("--deck").arg(deck).arg("--out").arg(&options.out);
    coupled.arg("--mpirun").arg(quo_tests::mpirun());
    if let Some(ranks) = options.ranks {
        coupled.args(["--ranks", &ranks.to_string()]);
    }
    run::shown(&mut coupled, LIMIT)?;
    for report in ["report.html", "report.svg"] {
        let file = options.out.join(report);
        if !file.exists() {
            bail!("the demo ended without {}", file.display());
        }
    }
    Ok(())
}
