//! `quo-elastic simulate`: tries schedulers on a workload.

mod progress;
mod reproduce;
mod sharing;
mod source;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use elastic_lab::report::{Comparison, Coverage, Summary, chart, csv, html, text};
use elastic_lab::simulate::{Ending, Outcome, Overrun, Settings, Sharing, Simulation};
use elastic_lab::workload::Workload;
use elastic_lab::workload::share::{Chosen, Elastic};
use elastic_policy::job::Class;
use elastic_policy::points::Measure;
use elastic_policy::predict::Prediction;
use elastic_policy::state::Cluster;
use elastic_policy::time::Span;
use quo_files::Output;

use crate::{say, say_json};
use progress::Watcher;
use source::Source;

/// The period of ticks if the user gives none and a job's MPI ratio has to be measured.
const TICK: u64 = 60;

const SCHEDULERS: &str = "Schedulers: fcfs, easy, conservative; resizable: pba-q, fair-q, fcfs-li-q, \
    greedy-r, fair-r, pba, fcfs-pr, max-b; malleable: elastic-backfill, two-parts-egs, two-parts-fpsma.";
const EXAMPLE: &str = "sacct --allusers --parsable2 --starttime=2026-10-01 >log \\\n  \
    --format=JobID,Submit,Start,End,TimelimitRaw,NNodes,State,AllocCPUS\n\
    quo-elastic simulate log --nodes 400 --elastic 0.3 \\\n  \
    --policy easy,two-parts-egs --html page.html";

/// The arguments of `quo-elastic simulate`.
#[derive(Debug, Args)]
#[command(
    after_help = SCHEDULERS,
    after_long_help = format!("{SCHEDULERS}\n\nWhat a log would gain:\n{EXAMPLE}")
)]
pub struct Simulate {
    /// Log (SWF, sacct), jobs in TOML, or a record of `manage --record`
    #[arg(required_unless_present_any = ["synthetic", "reproduce"], conflicts_with = "synthetic")]
    file: Option<PathBuf>,
    /// Make this many rigid jobs instead
    #[arg(long, value_name = "JOBS", requires = "nodes")]
    synthetic: Option<u32>,
    /// Replay the sources' tables, or some of them, over at least 30 seeds, and print both results
    #[arg(hide_short_help = true, long,
        value_name = "TABLES",
        num_args = 0..=1,
        default_missing_value = "all",
        value_delimiter = ',',
        value_parser = reproduce::table_name,
        conflicts_with_all = ["file", "synthetic", "policy", "nodes"]
    )]
    reproduce: Option<Vec<String>>,
    /// Work of synthetic jobs as a share of the machine's capacity
    #[arg(hide_short_help = true, long, value_name = "SHARE", default_value_t = 0.9, value_parser = load, requires = "synthetic")]
    load: f64,
    /// Format of the file; otherwise detected by its name and first line
    #[arg(hide_short_help = true, long, value_enum)]
    format: Option<Format>,
    /// Nodes of the machine, if the file has none
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..))]
    nodes: Option<u32>,
    /// Cores of a node in the log's CPUs
    ///
    /// Jobs of sacct share nodes, processors of SWF fill nodes.
    #[arg(long, value_name = "CORES", value_parser = clap::value_parser!(u32).range(1..))]
    cores_per_node: Option<u32>,
    /// Memory of a node, such as 192G: jobs that share nodes share it, too
    #[arg(hide_short_help = true, long, value_name = "SIZE", requires = "cores_per_node", value_parser = sharing::memory)]
    memory_per_node: Option<u32>,
    /// One scheduler, or two to compare
    #[arg(long, value_name = "NAMES", value_delimiter = ',', default_value = "easy", hide_possible_values = true, value_parser = policy_names())]
    policy: Vec<String>,
    /// Settings of the prediction for resizable jobs: window=3,threshold=0.2,measure=scaled,gain=0,gate
    #[arg(hide_short_help = true, long, value_name = "SETTINGS", default_value = "", hide_default_value = true, value_parser = prediction)]
    predict: Prediction,
    /// Compare over this many random orders, choices or synthetic workloads
    #[arg(hide_short_help = true, long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    seeds: u64,
    /// The first seed
    #[arg(hide_short_help = true, long, value_name = "NUMBER", default_value_t = 1)]
    seed: u64,
    /// Take a share of the rigid jobs as elastic
    #[arg(long, value_name = "SHARE", value_parser = share)]
    elastic: Option<f64>,
    /// Take the jobs named in this file as elastic, one name per line
    #[arg(hide_short_help = true, long, value_name = "FILE", conflicts_with = "elastic")]
    elastic_list: Option<PathBuf>,
    /// Kind of the elastic jobs
    #[arg(long, value_enum, default_value = "malleable")]
    job_class: Kind,
    /// Smallest size of elastic jobs, as a share of their size
    #[arg(hide_short_help = true, long, value_name = "SHARE", default_value_t = 0.5, value_parser = share)]
    min_size: f64,
    /// Largest size of elastic jobs, as a multiple of their size
    #[arg(hide_short_help = true, long, value_name = "FACTOR", default_value_t = 2.0, value_parser = factor)]
    max_size: f64,
    /// Serial share of their run time
    #[arg(hide_short_help = true, long, value_name = "SHARE", default_value_t = 0.05, value_parser = share)]
    serial: f64,
    /// Fail at the first wrong line
    #[arg(hide_short_help = true, long)]
    strict: bool,
    /// Take each run of a requeued sacct job (--duplicates) as a job, not only the last
    #[arg(hide_short_help = true, long)]
    each_run: bool,
    /// End jobs at their walltime
    #[arg(hide_short_help = true, long)]
    end_at_walltime: bool,
    /// Also call the scheduler at this interval in seconds
    #[arg(hide_short_help = true, long, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..))]
    tick: Option<u64>,
    /// Write one line per job
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write the jobs in Batsim's format, for evalys
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    jobs_csv: Option<PathBuf>,
    /// Write a page with charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write the charts of the nodes as an image
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Write each decision with its reason, one JSON object per line
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Write the rigid jobs of the workload in the Standard Workload Format
    #[arg(hide_short_help = true, long, value_name = "FILE")]
    write_swf: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Format {
    Swf,
    Sacct,
    Toml,
    Record,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Kind {
    Moldable,
    Resizable,
    Malleable,
}

/// Lists the names as possible values, so that shells complete them.
fn policy_names() -> PossibleValuesParser {
    PossibleValuesParser::new(elastic_policy::named::ALL.iter().map(|known| known.0))
}

/// Reads the settings of prediction; settings that are not named keep their defaults.
fn prediction(text: &str) -> Result<Prediction, String> {
    let mut prediction = Prediction::default();
    for part in text.split(',').filter(|part| !part.is_empty()) {
        let wrong = || {
            format!(
                "{part:?}: window=NUMBER (from 2), threshold=NUMBER, measure=speedup, scaled, rate or time, gain=SHARE, \
                 or gate is expected"
            )
        };
        let number = |value: &str| value.parse().ok().filter(|value: &f64| value.is_finite());
        let predictor = &mut prediction.predictor;
        match part.split_once('=') {
            None if part == "gate" => prediction.gate = true,
            Some(("window", value)) => {
                let window = value.parse().ok().filter(|window| *window >= 2);
                predictor.window = window.ok_or_else(wrong)?;
            }
            Some(("threshold", value)) => predictor.threshold = number(value).ok_or_else(wrong)?,
            Some(("gain", value)) => prediction.least_gain = share(value).map_err(|_| wrong())?,
            Some(("measure", value)) => {
                predictor.measure = match value {
                    "speedup" => Measure::Speedup,
                    "scaled" => Measure::ScaledSpeedup,
                    "rate" => Measure::Rate,
                    "time" => Measure::Time,
                    _ => return Err(wrong()),
                }
            }
            _ => return Err(wrong()),
        }
    }
    Ok(prediction)
}

fn share(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "a number from 0 to 1 is expected".to_owned())?;
    if (0.0..=1.0).contains(&value) {
        Ok(value)
    } else {
        Err("a number from 0 to 1 is expected".to_owned())
    }
}

fn load(text: &str) -> Result<f64, String> {
    let value: f64 =
        text.parse().map_err(|_| "a number from 0.01 to 100 is expected".to_owned())?;
    if (0.01..=100.0).contains(&value) {
        Ok(value)
    } else {
        Err("a number from 0.01 to 100 is expected".to_owned())
    }
}

fn factor(text: &str) -> Result<f64, String> {
    let value: f64 = text.parse().map_err(|_| "a number from 1 on is expected".to_owned())?;
    if (1.0..=1e6).contains(&value) {
        Ok(value)
    } else {
        Err("a number from 1 on is expected".to_owned())
    }
}

/// Runs all simulations and writes the requested outputs.
pub fn run(arguments: &Simulate, json: bool) -> Result<u8> {
    if let Some(tables) = &arguments.reproduce {
        return reproduce::run(tables, arguments.seeds, json);
    }
    if arguments.policy.len() > 2 {
        bail!("--policy: {} schedulers; name one, or two to compare", arguments.policy.len());
    }
    let source = Source::open(arguments)?;
    if let Source::Record(found) = &source {
        let (workload, outcome) = found.as_ref();
        return show_record(arguments, workload, outcome, json);
    }
    let mut summaries = vec![Vec::new(); arguments.policy.len()];
    let mut first: Option<(Cow<'_, Workload>, Vec<Outcome>)> = None;
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.seeds) {
        let mut workload = source.workload(arguments, seed)?;
        let cluster = cluster(arguments, &workload)?;
        let sharing = source.sharing(arguments, cluster, seed)?;
        elastic(arguments, &mut workload, cluster.nodes, seed)?;
        let mut outcomes = Vec::new();
        for (place, name) in arguments.policy.iter().enumerate() {
            let is_first = first.is_none();
            let outcome = simulate(arguments, &workload, (cluster, sharing), name, seed, is_first)?;
            if outcome.records.iter().all(|record| record.ending == Ending::Rejected) {
                bail!("{}", nothing_fits(&workload, cluster.nodes));
            }
            summaries[place].push(Summary::of(&outcome));
            outcomes.push(outcome);
        }
        first.get_or_insert((workload, outcomes));
    }
    let Some((workload, outcomes)) = first else { return Ok(0) };
    let comparison = match summaries.as_slice() {
        [one, other] => Some(Comparison::of(one, other)),
        _ => None,
    };
    // The same for all schedulers, which do not affect the rejected jobs.
    let coverage = source.log().zip(outcomes.first());
    let coverage = coverage.map(|(log, outcome)| Coverage::of(&log.hours, outcome));
    write_files(arguments, &workload, &outcomes, comparison.as_ref(), coverage)?;
    if json {
        let report = serde_json::json!({
            "policies": summaries,
            "comparison": comparison,
            "skipped": source.log().map(|log| &log.skipped),
            "hours": coverage,
        });
        say_json(&report.to_string())?;
        return Ok(0);
    }
    let mut words: Vec<String> =
        summaries.iter().filter_map(|runs| runs.first()).map(text::summary).collect();
    words.extend(comparison.as_ref().map(text::comparison));
    words.extend(coverage.map(|coverage| format!("{coverage}\n")));
    say(&words.join("\n"))?;
    Ok(0)
}

/// Returns the message that no job of a workload can run on this many nodes.
fn nothing_fits(workload: &Workload, nodes: u32) -> String {
    let least = workload.jobs.iter().map(|job| job.limits.min).min().unwrap_or_default();
    let jobs = workload.jobs.len();
    format!(
        "none of the {jobs} jobs fits on {nodes} nodes, the smallest needs {least}: name their number with --nodes, \
         and where a log counts processors the cores of each with --cores-per-node"
    )
}

/// Writes the requested outputs about a record of a real system.
fn show_record(
    arguments: &Simulate,
    workload: &Workload,
    outcome: &Outcome,
    json: bool,
) -> Result<u8> {
    let others = [
        ("--seeds", arguments.seeds > 1),
        ("--elastic", arguments.elastic.is_some()),
        ("--elastic-list", arguments.elastic_list.is_some()),
        ("--decisions", arguments.decisions.is_some()),
        ("--write-swf", arguments.write_swf.is_some()),
        ("--policy", arguments.policy.as_slice() != ["easy"]),
    ];
    if let Some((option, _)) = others.into_iter().find(|(_, is_given)| *is_given) {
        bail!("{option}: a record is shown as it was, nothing is simulated");
    }
    write_files(arguments, workload, std::slice::from_ref(outcome), None, None)?;
    let summary = Summary::of(outcome);
    if json {
        let none = None::<Comparison>;
        let report = serde_json::json!({"policies": [[summary]], "comparison": none});
        say_json(&report.to_string())?;
    } else {
        say(&text::summary(&summary))?;
    }
    Ok(0)
}

fn cluster(arguments: &Simulate, workload: &Workload) -> Result<Cluster> {
    let Some(nodes) = arguments.nodes.or(workload.nodes) else {
        bail!("the file does not tell how many nodes there are: name their number with --nodes");
    };
    Ok(Cluster { nodes, cores_per_node: arguments.cores_per_node.unwrap_or(1) })
}

fn elastic(
    arguments: &Simulate,
    workload: &mut Cow<'_, Workload>,
    nodes: u32,
    seed: u64,
) -> Result<()> {
    let chosen = match (&arguments.elastic, &arguments.elastic_list) {
        (Some(share), _) => Chosen::Share(*share, seed),
        (None, Some(path)) => {
            let text =
                fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
            let names = text.lines().map(str::trim).filter(|name| !name.is_empty());
            Chosen::Names(names.map(str::to_owned).collect::<BTreeSet<String>>())
        }
        (None, None) => return Ok(()),
    };
    let is_list = matches!(chosen, Chosen::Names(_));
    let class = match arguments.job_class {
        Kind::Moldable => Class::Moldable,
        Kind::Resizable => Class::Resizable,
        Kind::Malleable => Class::Malleable,
    };
    let (smallest, largest) = (arguments.min_size, arguments.max_size);
    let elastic =
        Elastic { chosen, class, smallest, largest, serial: arguments.serial, iterations: 20 };
    if elastic.apply(workload.to_mut(), nodes) == 0 && is_list {
        bail!("no job of the workload is named in the list of elastic jobs");
    }
    Ok(())
}

fn simulate(
    arguments: &Simulate,
    workload: &Workload,
    (cluster, sharing): (Cluster, Option<Sharing>),
    name: &str,
    seed: u64,
    is_first: bool,
) -> Result<Outcome> {
    let Some(mut policy) = elastic_policy::named::policy_predicting(name, arguments.predict) else {
        bail!("there is no scheduler {name:?}")
    };
    let measures = || workload.jobs.iter().any(|job| job.work.measures_mpi());
    let tick = arguments.tick.or_else(|| measures().then_some(TICK));
    let settings = Settings {
        cluster,
        sharing,
        overrun: if arguments.end_at_walltime { Overrun::End } else { Overrun::Run },
        tick: tick.map(Span::seconds),
        keep_course: is_first
            && [&arguments.html, &arguments.svg, &arguments.jobs_csv]
                .iter()
                .any(|path| path.is_some()),
    };
    let path = arguments.decisions.as_ref().filter(|_| is_first);
    let path = path.map(|path| named(path, arguments, name));
    let doing = || format!("writing {}", path.as_deref().unwrap_or(Path::new("")).display());
    let mut file = path.as_deref().map(Output::create).transpose().with_context(doing)?;
    let decisions = file.as_mut().map(|file| file as &mut dyn Write);
    let shown = if arguments.seeds > 1 { format!("{name}, seed {seed}") } else { name.to_owned() };
    let mut watcher = Watcher::new(shown, workload, decisions);
    let simulation = Simulation::new(workload, settings, policy.as_mut(), &mut watcher);
    let outcome = simulation.run()?;
    let failure = watcher.failure.take();
    drop(watcher);
    if let Some(failure) = failure.or_else(|| file.and_then(|file| file.finish().err())) {
        return Err(failure).with_context(doing);
    }
    Ok(outcome)
}

fn write_files(
    arguments: &Simulate,
    workload: &Workload,
    outcomes: &[Outcome],
    comparison: Option<&Comparison>,
    coverage: Option<Coverage>,
) -> Result<()> {
    for outcome in outcomes {
        if let Some(path) = &arguments.csv {
            let path = named(path, arguments, &outcome.policy);
            write(&path, |into| csv::jobs(outcome, workload, into))?;
        }
        if let Some(path) = &arguments.jobs_csv {
            let path = named(path, arguments, &outcome.policy);
            write(&path, |into| csv::batsim(outcome, workload, into))?;
        }
        if let Some(path) = &arguments.svg {
            let path = named(path, arguments, &outcome.policy);
            let Some(picture) = chart::picture(outcome, workload) else {
                bail!("--svg: {}", chart::why_no_jobs(outcome));
            };
            write(&path, |into| into.write_all(picture.as_bytes()))?;
        }
    }
    if let Some(path) = &arguments.html {
        let from = arguments.file.as_ref().and_then(|path| path.file_name());
        let from = from.map_or("synthetic jobs".into(), |name| name.to_string_lossy());
        let names: Vec<&str> = outcomes.iter().map(|outcome| outcome.policy.as_str()).collect();
        let title = format!("{}: {}", names.join(" and "), from);
        let outcomes: Vec<&Outcome> = outcomes.iter().collect();
        let page = html::page(&title, workload, &outcomes, comparison, coverage);
        write(path, |into| into.write_all(page.as_bytes()))?;
    }
    Ok(())
}

/// Returns the path of a file of one policy: with two, its name is inserted before the extension.
fn named(path: &Path, arguments: &Simulate, policy: &str) -> PathBuf {
    if arguments.policy.len() < 2 {
        return path.to_owned();
    }
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    match path.extension() {
        Some(extension) => {
            path.with_file_name(format!("{stem}-{policy}.{}", extension.to_string_lossy()))
        }
        None => path.with_file_name(format!("{stem}-{policy}")),
    }
}

fn write(path: &Path, text: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<()> {
    let doing = || format!("writing {}", path.display());
    let mut file = Output::create(path).with_context(doing)?;
    match text(&mut file).and_then(|()| file.finish()) {
        // A closed pipe behind /dev/stdout, as with `head`, is no error.
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        done => done.map(drop).with_context(doing),
    }
}
