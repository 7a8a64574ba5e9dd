//! From jobs to points: the memory of one rank by component, by number of ranks.

use super::fit::{Fit, Measured, fit};
use super::fits::{Part, Parts};
use anyhow::bail;
use memprof::growth::Limit;
use memprof::model::{Group, Job, Rank, statistics};
use memprof::report;
use memprof::terminal::Progress;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Quantity that is fitted: of each component its peak in a rank, the mean over ranks.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// Most seen resident
    Resident,
    /// Most owned: exact
    Owned,
    /// Most seen resident, of the rank with most
    ResidentMax,
    /// Most owned, of the rank with most
    OwnedMax,
}

impl Metric {
    /// Returns the displayed name.
    pub fn label(self) -> &'static str {
        match self {
            Metric::Resident => "resident peak, mean of ranks",
            Metric::Owned => "owned peak, mean of ranks",
            Metric::ResidentMax => "resident peak, largest rank",
            Metric::OwnedMax => "owned peak, largest rank",
        }
    }
}

/// One quantity and its growth.
#[derive(Debug, Serialize)]
pub struct Growth {
    /// The component; empty for sums.
    pub name: Arc<str>,
    /// Its group.
    pub group: Option<Group>,
    /// One for each job.
    pub points: Vec<Measured>,
    /// The law; `None` where numbers were invalid.
    pub fit: Option<Fit>,
}

impl Growth {
    pub(super) fn of(name: &str, group: Option<Group>, points: Vec<Measured>) -> Growth {
        Growth { name: name.into(), group, fit: fit(&points), points }
    }

    /// Returns the mean of the measurements at a number of ranks.
    pub fn mean_at(&self, ranks: f64) -> Option<f64> {
        let same: Vec<f64> = self
            .points
            .iter()
            .filter(|point| point.ranks == ranks)
            .map(|point| point.bytes)
            .collect();
        (!same.is_empty()).then(|| same.iter().sum::<f64>() / same.len() as f64)
    }

    /// Returns the highest measurement.
    pub fn most(&self) -> f64 {
        self.points.iter().map(|point| point.bytes).fold(0.0, f64::max)
    }
}

/// Several jobs of one program.
#[derive(Debug, Serialize)]
pub struct Study {
    /// The program.
    pub program: String,
    /// The metric that was fitted.
    pub metric: Metric,
    /// The numbers of ranks, ascending.
    pub counts: Vec<u32>,
    /// The jobs.
    #[serde(serialize_with = "memprof::output::paths")]
    pub folders: Vec<PathBuf>,
    /// Peak of one rank, all components together.
    pub rank: Growth,
    /// Peak of the largest node.
    pub node: Growth,
    /// Components of a node, from the jobs with several ranks on one.
    pub parts: Vec<Part>,
    /// Least memory that the processes of a node may use, if it is known.
    #[serde(skip)]
    pub limit: Option<Limit>,
    /// Components, in descending order of memory at the largest number of ranks.
    pub growths: Vec<Growth>,
    /// Notes on the jobs, in words.
    pub notes: Vec<String>,
}

/// Reads the jobs, one at a time, and fits each component.
///
/// # Errors
/// If a folder holds no job of MPI that can be read, or more than one.
pub fn gather(folders: &[PathBuf], metric: Metric) -> anyhow::Result<Study> {
    let mut programs: Vec<String> = Vec::new();
    let mut notes = Vec::new();
    let mut ranks = Vec::new();
    let mut nodes = Vec::new();
    let mut sizes: Vec<f64> = Vec::new();
    let mut components: BTreeMap<Arc<str>, Vec<(usize, f64)>> = BTreeMap::new();
    let (mut parts, mut limit): (Parts, Option<Limit>) = (Parts::default(), None);
    let mut progress = Progress::new("reading");
    for (at, folder) in folders.iter().enumerate() {
        progress.part(&format!("reading job {} of {}", at + 1, folders.len()));
        let job = report::load_as_part(folder, None, &mut progress)?;
        job.one_job()?;
        let seen = job.ranks().filter(|rank| rank.identity.rank.is_some()).count();
        if seen == 0 {
            bail!("no rank of an MPI job left a trace in {}", folder.display());
        }
        if !job.is_whole() {
            notes.push(format!("{}: {}", folder.display(), lacks(&job, seen)));
        }
        if of_ranks(&job).next().is_none() {
            let why = job.damage().unwrap_or_default();
            bail!("no trace of a rank is whole in {}: {why}", folder.display());
        }
        let size = (seen + job.missing.len()) as f64;
        sizes.push(size);
        programs.push(job.program().to_owned());
        // With --all there are other processes too: a law is of ranks.
        let bytes: Vec<u64> = of_ranks(&job).map(|rank| rank.peak.bytes).collect();
        let value = match metric {
            Metric::Resident | Metric::Owned => {
                bytes.iter().map(|bytes| *bytes as f64).sum::<f64>() / bytes.len() as f64
            }
            _ => bytes.iter().copied().max().unwrap_or(0) as f64,
        };
        ranks.push(Measured { ranks: size, bytes: value });
        let peaks = job.nodes.iter().filter_map(|node| node.timeline.peak.as_ref());
        // A sum of which parts are missing is no sum.
        if job.is_whole() {
            parts.add(&job, size);
            nodes.push(Measured {
                ranks: size,
                bytes: peaks.map(|peak| peak.bytes).max().unwrap_or(0) as f64,
            });
        }
        let limits = job.nodes.iter().filter_map(Limit::of).chain(limit);
        limit = limits.min_by_key(|limit| limit.bytes);
        for (name, bytes) in held(&job, metric) {
            components.entry(name).or_default().push((at, bytes));
        }
    }
    programs.sort();
    programs.dedup();
    if programs.len() > 1 {
        notes.push(format!("the jobs ran different programs: {}", programs.join(", ")));
    }
    let mut growths: Vec<Growth> = components
        .into_iter()
        .map(|(name, found)| {
            // A job without the component held nothing of it.
            let mut points: Vec<Measured> =
                sizes.iter().map(|size| Measured { ranks: *size, bytes: 0.0 }).collect();
            for (at, bytes) in found {
                points[at].bytes = bytes;
            }
            Growth::of(&name, Some(Group::of(&name)), points)
        })
        .collect();
    let mut counts: Vec<u32> = sizes.iter().map(|size| *size as u32).collect();
    counts.sort_unstable();
    counts.dedup();
    let largest = counts.last().copied().map_or(0.0, f64::from);
    growths.sort_by(|a, b| {
        let size = |growth: &Growth| growth.mean_at(largest).unwrap_or(0.0);
        size(b).total_cmp(&size(a)).then(a.name.cmp(&b.name))
    });
    Ok(Study {
        program: programs.join(", "),
        metric,
        counts,
        folders: folders.to_vec(),
        rank: Growth::of("", None, ranks),
        node: Growth::of("", None, nodes),
        parts: parts.finish(),
        limit,
        growths,
        notes,
    })
}

fn held(job: &Job, metric: Metric) -> Vec<(Arc<str>, f64)> {
    let mean = |spread: &memprof::model::Spread| spread.sum as f64 / f64::from(spread.count.max(1));
    let value = |across: &memprof::model::ComponentSummary| match metric {
        Metric::Resident => mean(&across.resident_peak),
        Metric::Owned => mean(&across.owned_peak),
        Metric::ResidentMax => across.resident_peak.max as f64,
        Metric::OwnedMax => across.owned_peak.max as f64,
    };
    let components = statistics::across(of_ranks(job));
    components.iter().map(|across| (across.name.clone(), value(across))).collect()
}

/// Returns the processes with a rank and complete figures.
fn of_ranks(job: &Job) -> impl Iterator<Item = &Rank> + Clone {
    let processes = job.nodes.iter().flat_map(|node| &node.ranks);
    processes.filter(|rank| rank.identity.rank.is_some() && !rank.damaged)
}

/// Returns the missing parts of a job of which `seen` ranks were found.
fn lacks(job: &Job, seen: usize) -> String {
    let mut lacks = Vec::new();
    if !job.missing.is_empty() {
        lacks.push(format!("traces of {seen} of {} ranks", seen + job.missing.len()));
    }
    lacks.extend(job.damage());
    if let Some(unread) = job.unread.first() {
        lacks.push(format!("{} cannot be read", unread.file.display()));
    }
    format!("{}; of ranks the whole traces count, and no node", lacks.join("; "))
}
