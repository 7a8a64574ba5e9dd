//! `quo-info plan`: which ranks would be selected on a machine, with which CPUs and how many
//! threads.

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use quo::affinity::InitialBinding;
use quo::explain::describe_place;
use quo::phase::{Assignment, Cores, assignments};
use quo::plan::{DistributeRequest, Policy, distribute};
use quo::{CpuSet, ObjectType, Topology};
use serde::Serialize;

use crate::output;
use crate::topology::{Machine, svg};

/// More ranks than any node runs; keeps a typo from filling the memory.
const MOST_RANKS: u64 = 1 << 16;

#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    machine: Machine,
    /// Number of ranks on the node
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MOST_RANKS))]
    ranks: u64,
    /// Objects to spread workers over: numa, package, l3, ...
    #[arg(long, value_name = "TYPE", default_value = "package")]
    over: ObjectType,
    /// The most workers per object
    #[arg(long, value_name = "M", default_value = "1", value_parser = clap::value_parser!(u64).range(1..=MOST_RANKS))]
    max: u64,
    /// none, a type, or CPU lists by rank: `0-3;4-7`
    #[arg(long, value_name = "BINDING", default_value = "core")]
    binding: InitialBinding,
    /// Rule of selection: spread or libquo
    #[arg(long, default_value = "spread", value_name = "RULE", hide_possible_values = true)]
    policy: Rule,
    /// Use only the fastest cores of a hybrid processor
    #[arg(long)]
    fastest: bool,
    /// Write an SVG picture to FILE instead, `-` for standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    svg: Option<PathBuf>,
    /// Print JSON instead
    #[arg(long)]
    json: bool,
}

#[derive(Copy, Clone, ValueEnum)]
enum Rule {
    Spread,
    Libquo,
}

#[derive(Serialize)]
struct Report {
    machine: String,
    allowed: CpuSet,
    over: ObjectType,
    max_per_object: u64,
    policy: &'static str,
    ranks: Vec<Row>,
}

#[derive(Serialize)]
struct Row {
    rank: usize,
    binding: CpuSet,
    place: String,
    /// Work of the rank; omitted for a rank that sleeps.
    works: Option<Work>,
}

#[derive(Serialize)]
struct Work {
    object: usize,
    cpus: CpuSet,
    threads: usize,
    serves: CpuSet,
}

pub fn run(options: &Options) -> Result<()> {
    let machine = options.machine.describe()?;
    let report = report(options, &machine)?;
    if let Some(file) = &options.svg {
        let works = report.ranks.iter().filter_map(|row| {
            row.works.as_ref().map(|work| (format!("rank {}", row.rank), work.cpus.clone()))
        });
        return svg(&machine, &works.collect::<Vec<_>>(), file);
    }
    if options.json {
        return output::json(&report);
    }
    output::text(&words(&report))
}

fn report(options: &Options, machine: &Topology) -> Result<Report> {
    let over = options.over;
    if machine.count(over) == 0 {
        bail!("--over {over}: {} has no {}", machine.origin(), over.plural());
    }
    let ranks = 0..usize::try_from(options.ranks).context("--ranks")?;
    let masks = ranks.map(|rank| options.binding.mask(machine, rank));
    let masks = masks.collect::<Result<Vec<CpuSet>, _>>().context("--binding")?;
    let objects: Vec<CpuSet> =
        machine.objects(over).iter().map(|object| object.cpuset.clone()).collect();
    let (policy, name) = match options.policy {
        Rule::Spread => (Policy::Spread, "spread"),
        Rule::Libquo => (Policy::LibquoCompat, "libquo"),
    };
    let distribution = distribute(&DistributeRequest {
        objects: &objects,
        allowed: machine.allowed(),
        masks: &masks,
        max_per_object: usize::try_from(options.max).unwrap_or(usize::MAX),
        policy,
    })?;
    let cores = if options.fastest { Cores::Fastest } else { Cores::All };
    let parts = assignments(&distribution, &objects, machine, cores);
    let rows = masks.into_iter().zip(parts).enumerate().map(|(rank, (binding, part))| Row {
        rank,
        place: describe_place(machine, &binding),
        binding,
        works: part.zip(distribution.object_of[rank]).map(|(part, object)| work(&part, object)),
    });
    Ok(Report {
        machine: machine.origin().to_string(),
        allowed: machine.allowed().clone(),
        over,
        max_per_object: options.max,
        policy: name,
        ranks: rows.collect(),
    })
}

fn work(part: &Assignment, object: usize) -> Work {
    let (cpus, threads) = (part.cpus().clone(), part.threads());
    Work { object, cpus, threads, serves: part.ranks().collect() }
}

fn words(report: &Report) -> String {
    let head = ["rank", "bound to", "where", "works on", "CPUs", "threads", "for ranks"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for row in &report.ranks {
        let mut cells = vec![row.rank.to_string(), row.binding.to_string(), row.place.clone()];
        match &row.works {
            Some(work) => cells.extend([
                format!("{} {}", report.over, work.object),
                work.cpus.to_string(),
                work.threads.to_string(),
                work.serves.to_string(),
            ]),
            None => cells.push("- (sleeps)".to_owned()),
        }
        rows.push(cells);
    }
    let works = report.ranks.iter().filter_map(|row| row.works.as_ref());
    let (workers, threads) = works.fold((0, 0), |(n, sum), work| (n + 1, sum + work.threads));
    format!(
        "{}\n{}{workers} of {} ranks would work, at most {} per {}, with {threads} threads on {} \
         allowed CPUs (policy {})\n",
        report.machine,
        output::table(&rows),
        report.ranks.len(),
        report.max_per_object,
        report.over,
        report.allowed.len(),
        report.policy,
    )
}
