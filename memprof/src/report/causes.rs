//! Peaks and what made them: when, in which phase and function, which components, which call stacks.

use super::grid::{Align, Grid, Weight};
use super::symbols::Symbols;
use crate::model::{Frame, Job, Moment, Rank, Site, Timeline};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, time};

/// Nodes and ranks that have a line on the page, those with the largest peaks.
pub const SHOWN: usize = 4;
/// Components named of each.
const NAMED: usize = 2;
/// Call stacks looked up for a line: one call is reached in several ways.
const STACKS: usize = 8;

/// A peak of a job, a node or a rank.
#[derive(Debug)]
pub struct Peak {
    /// Whose.
    pub of: String,
    /// When, how much, in which phase and function of MPI.
    pub moment: Moment,
    /// The largest components then.
    pub largest: Vec<(String, u64)>,
}

impl Peak {
    /// Phase and function of MPI.
    pub fn place(&self) -> String {
        let parts = [&self.moment.phase, &self.moment.mpi_function];
        let parts: Vec<String> = parts.into_iter().flatten().map(|name| clean(name)).collect();
        parts.join(" · ")
    }

    /// `app.exe:solver 80.0 MiB, mpi.core:libmpi.so 12.0 MiB`
    pub fn holders(&self) -> String {
        let named =
            self.largest.iter().map(|(name, held)| format!("{} {}", clean(name), bytes(*held)));
        named.collect::<Vec<_>>().join(", ")
    }
}

/// The peaks of the whole job, and of that many of the fullest nodes and of the fullest ranks.
pub fn peaks(job: &Job, shown: usize) -> Vec<Peak> {
    let mut peaks = Vec::new();
    if job.ranks().count() > 1 {
        peaks.extend(of_timeline("all ranks".to_owned(), &job.timeline));
    }
    if job.nodes.len() > 1 {
        let nodes = job.nodes.iter();
        let mut nodes: Vec<Peak> =
            nodes.filter_map(|node| of_timeline(clean(&node.host), &node.timeline)).collect();
        nodes.sort_by_key(|peak| std::cmp::Reverse(peak.moment.bytes));
        peaks.extend(nodes.into_iter().take(shown));
    }
    let mut ranks: Vec<&Rank> = job.ranks().collect();
    ranks.sort_by_key(|rank| std::cmp::Reverse(rank.peak.bytes));
    peaks.extend(ranks.into_iter().take(shown).map(of_rank));
    peaks
}

fn of_timeline(of: String, timeline: &Timeline) -> Option<Peak> {
    let moment = timeline.peak.clone()?;
    let bin = moment.time_ns.saturating_sub(timeline.start_ns) / timeline.bin_ns.max(1);
    let held = timeline.series.iter().map(|series| {
        (series.name.to_string(), series.mean.get(bin as usize).copied().unwrap_or(0))
    });
    let largest = largest(held.collect());
    Some(Peak { of, moment, largest })
}

fn of_rank(rank: &Rank) -> Peak {
    let held = rank.held.iter().map(|held| (held.name.to_string(), held.resident_at_peak));
    let time_ns = rank.peak.time_ns.saturating_add(rank.offset_ns);
    Peak {
        of: rank.label(),
        moment: Moment { time_ns, ..rank.peak.clone() },
        largest: largest(held.collect()),
    }
}

fn largest(mut held: Vec<(String, u64)>) -> Vec<(String, u64)> {
    held.retain(|(_, bytes)| *bytes > 0);
    held.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    held.truncate(NAMED);
    held
}

/// What lived at the peaks of the ranks, by the call that allocated it.
#[derive(Debug)]
pub struct Cause {
    /// Estimated from samples, all ranks together.
    pub at_peak: u64,
    /// Who owned it.
    pub component: String,
    /// Function and line, of the owner where its own code is on the stack.
    pub place: String,
    /// In how many processes, at least.
    pub processes: u32,
}

/// The calls with most that lived at the peaks, at most `limit`.
pub fn causes(job: &Job, limit: usize) -> Vec<Cause> {
    let mut sites: Vec<_> = job.sites.sites.iter().filter(|site| site.at_peak > 0).collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.at_peak));
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    let mut causes: Vec<Cause> = Vec::new();
    for site in sites.into_iter().take(limit.saturating_mul(STACKS)) {
        let (component, place) = (clean(&site.component), clean(&place(site, job, &mut symbols)));
        match causes.iter_mut().find(|one| one.component == component && one.place == place) {
            Some(same) => {
                same.at_peak += site.at_peak;
                // As many at least: nobody says whether they are the same ones.
                same.processes = same.processes.max(site.processes);
            }
            None => {
                let (at_peak, processes) = (site.at_peak, site.processes);
                causes.push(Cause { at_peak, component, place, processes });
            }
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.at_peak));
    causes.truncate(limit);
    causes
}

/// The innermost function of the owner's own code, that of its compiler's libraries left out; else the innermost one.
fn place(site: &Site, job: &Job, symbols: &mut Symbols<'_>) -> String {
    let owner = site.component.split_once(':').map_or("", |(_, object)| object);
    let own = |frame: &&Frame| {
        let object = job.sites.objects.get(frame.object as usize);
        object.and_then(|object| object.path.file_name()).is_some_and(|name| name == owner)
    };
    let mut names = site.frames.iter().filter(own).flat_map(|frame| symbols.names(*frame));
    let (mut first, mut called) = (None, None);
    for name in &mut names {
        first.get_or_insert_with(|| name.text.clone());
        if !name.is_of_compiler {
            called = Some(name.text);
            break;
        }
    }
    let innermost = || {
        let names = site.frames.first().map(|frame| symbols.names(*frame)).unwrap_or_default();
        names.into_iter().next().map(|name| name.text)
    };
    called.or(first).or_else(innermost).unwrap_or_default()
}

/// For the terminal.
pub fn text(job: &Job, limit: usize, look: Look) -> String {
    use Align::{Left, Right};
    let mut grid = Grid::new(&[Left, Right, Right, Left, Left]);
    grid.row(Weight::Head, ["peak of", "", "at", "in", "largest then"].map(String::from));
    for peak in peaks(job, 1) {
        let cells = [
            peak.of.clone(),
            bytes(peak.moment.bytes),
            time(peak.moment.time_ns),
            peak.place(),
            peak.holders(),
        ];
        grid.row(Weight::Plain, cells);
    }
    let mut out = format!("\n{}", grid.text(look));
    let causes = causes(job, limit);
    if !causes.is_empty() {
        let mut grid = Grid::new(&[Right, Left, Left, Left]);
        grid.row(Weight::Head, ["at peaks", "of", "allocated by", "in"].map(String::from));
        for cause in causes {
            let processes = count(cause.processes as usize, "process");
            let cells = [bytes(cause.at_peak), cause.component, cause.place, processes];
            grid.row(Weight::Plain, cells);
        }
        out += &format!("\n{}", grid.text(look));
    }
    out
}
