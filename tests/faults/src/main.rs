//! `quo-faults`: seeded faults at random points of the node runtime.
#![allow(clippy::print_stdout, clippy::print_stderr)]

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use clap::builder::PossibleValuesParser;
use quo_faults::plan::{Abilities, Fate, Plan};
use quo_faults::runner::{Failure, Options, Summary, abilities, run};

/// Makes processes share a node and kills, stops, replaces or forks some of them at random points
#[derive(Parser)]
#[command(after_help = "\
Each round is drawn from the seed and its number. After each: nobody hangs, all who survive were \
told\nthe same, and no process, segment, descriptor or changed mask is left.\n\
Exit status: 0 all rounds were good, 1 some were not, 2 they could not be run.\n\
As root, rounds also use PID namespaces of their own and use process numbers again.")]
struct Arguments {
    /// Seed that all rounds are drawn from
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Number of rounds
    #[arg(long, default_value_t = 1_000)]
    rounds: u64,
    /// Number of the first round
    #[arg(long, default_value_t = 0, value_name = "ROUND")]
    from: u64,
    /// Run only this round
    #[arg(long, conflicts_with_all = ["rounds", "from"], value_name = "ROUND")]
    only: Option<u64>,
    /// Run each round this many times, to vary the timing
    #[arg(long, default_value_t = 1, value_name = "TIMES")]
    repeat: u64,
    /// Only rounds of this kind of fault
    #[arg(long, value_name = "KIND", value_parser = PossibleValuesParser::new(Fate::KINDS))]
    kind: Option<String>,
    /// Only rounds whose description contains TEXT, such as Away
    #[arg(long, value_name = "TEXT")]
    with: Option<String>,
    /// Number of rounds to run at once; they mostly wait
    #[arg(long, default_value_t = default_jobs())]
    jobs: usize,
    /// Seconds that the members of a round may take before they count as hanging
    #[arg(long, default_value_t = 60, value_name = "SECONDS")]
    bound: u64,
    /// Draw rounds that do not need root
    #[arg(long)]
    plain: bool,
    /// Stop after this many failed rounds
    #[arg(long, default_value_t = 5, value_name = "COUNT")]
    failures: usize,
    /// Describe the rounds without running them
    #[arg(long)]
    show: bool,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn default_jobs() -> usize {
    4 * std::thread::available_parallelism().map_or(1, usize::from)
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let able = if arguments.plain { Abilities::default() } else { abilities() };
    let (first, count) = match arguments.only {
        Some(round) => (round, 1),
        None => (arguments.from, arguments.rounds),
    };
    let plans = (first..first + count)
        .map(|round| Plan::draw(arguments.seed, round, able))
        .filter(|plan| {
            arguments.kind.as_ref().is_none_or(|kind| plan.fate.kind() == kind)
                && arguments.with.as_ref().is_none_or(|text| plan.to_string().contains(text))
        })
        .flat_map(|plan| (0..arguments.repeat).map(move |_| plan.clone()));
    if arguments.show {
        plans.for_each(|plan| println!("{plan}"));
        return ExitCode::SUCCESS;
    }
    let options = Options {
        jobs: arguments.jobs,
        bound: Duration::from_secs(arguments.bound),
        failures: arguments.failures.max(1),
    };
    let plain = if able.namespaces { "" } else { " --plain" };
    let mut told = Instant::now();
    let summary = run(plans, &options, |summary, failure| {
        if let Some(failure) = failure {
            eprint!("{}", described(failure, plain));
        }
        if told.elapsed() > Duration::from_secs(5) {
            told = Instant::now();
            let whole = count * arguments.repeat;
            eprintln!("{} of at most {whole} rounds, {:.0} s", summary.rounds, summary.seconds);
        }
    });
    match summary {
        Ok(summary) => {
            conclude(&summary, arguments.json);
            ExitCode::from(u8::from(!summary.failures.is_empty()))
        }
        Err(error) => {
            eprintln!("quo-faults: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn described(failure: &Failure, plain: &str) -> String {
    let Failure { seed, round, complaints, plan } = failure;
    format!(
        "FAILED {plan}\n  {}\n  again: cargo run -p quo-faults -- --seed {seed} --only \
         {round}{plain} --repeat 100\n",
        complaints.join("\n  ")
    )
}

fn conclude(summary: &Summary, json: bool) {
    if json {
        println!("{}", serde_json::to_string_pretty(summary).unwrap_or_default());
        return;
    }
    println!(
        "{} rounds, {} bad, {:.1} s; the longest took {:.1} s (round {})",
        summary.rounds,
        summary.failures.len(),
        summary.seconds,
        summary.longest.0,
        summary.longest.1
    );
}
