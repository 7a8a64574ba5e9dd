//! Peaks and their causes: when, in which phase and function, which components, which call stacks.

pub mod allocated_for;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use super::grid::{Align, Grid, Weight};
use super::symbols::Symbols;
use super::table::peak_between;
use crate::model::{Frame, Job, Moment, Object, Rank, Site, Timeline};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, time};

/// Number of nodes and ranks with a line on the page, those with the largest peaks.
pub const SHOWN: usize = 4;
/// Number of components named for each.
const NAMED: usize = 2;

/// A peak of a job, a node or a rank.
#[derive(Debug)]
pub struct Peak {
    /// Owner of the peak.
    pub of: String,
    /// Time, amount, phase and MPI function.
    pub moment: Moment,
    /// The amount as text: an interval where it is not known well.
    pub resident: String,
    /// Largest components at that time.
    pub largest: Vec<(String, u64)>,
}

impl Peak {
    /// Returns phase and MPI function.
    pub fn place(&self) -> String {
        let parts = [&self.moment.phase, &self.moment.mpi_function];
        let parts: Vec<String> = parts.into_iter().flatten().map(|name| clean(name)).collect();
        parts.join(" · ")
    }

    /// Returns text such as `app.exe:solver 80.0 MiB, mpi.core:libmpi.so 12.0 MiB`.
    pub fn holders(&self) -> String {
        let named =
            self.largest.iter().map(|(name, held)| format!("{} {}", clean(name), bytes(*held)));
        named.collect::<Vec<_>>().join(", ")
    }
}

/// Returns the peaks of the whole job, and of `shown` of the fullest nodes and ranks.
pub fn peaks(job: &Job, shown: usize) -> Vec<Peak> {
    let mut peaks = Vec::new();
    if job.ranks().count() > 1 {
        let all = format!("all {}", super::table::plural(job.noun()));
        peaks.extend(of_timeline(all, &job.timeline));
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
    let several = job.jobs.len() > 1;
    peaks.extend(ranks.into_iter().take(shown).map(|rank| of_rank(rank, several)));
    peaks
}

fn of_timeline(of: String, timeline: &Timeline) -> Option<Peak> {
    let moment = timeline.peak.clone()?;
    let held = timeline.peak_held.iter().map(|held| (held.name.to_string(), held.bytes));
    let largest = largest(held.collect());
    Some(Peak { of, moment, resident: peak_between(timeline), largest })
}

/// Returns the peak of a rank, which is named with its job if there are several.
fn of_rank(rank: &Rank, several: bool) -> Peak {
    let held = rank.held.iter().map(|held| (held.name.to_string(), held.resident_at_peak));
    let time_ns = rank.peak.time_ns.saturating_add(rank.offset_ns);
    Peak {
        of: match rank.job.filter(|_| several) {
            Some(job) => format!("{} of job {job}", rank.label()),
            None => rank.label(),
        },
        moment: Moment { time_ns, ..rank.peak.clone() },
        resident: bytes(rank.peak.bytes),
        largest: largest(held.collect()),
    }
}

fn largest(mut held: Vec<(String, u64)>) -> Vec<(String, u64)> {
    held.retain(|(_, bytes)| *bytes > 0);
    held.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
    held.truncate(NAMED);
    held
}

/// Memory at the peaks of the ranks, by the call that allocated it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause {
    /// Estimate from samples, over all ranks.
    pub at_peak: u64,
    /// Owner of the memory.
    pub component: String,
    /// Function and line, in the owner's own code if that is on the stack.
    pub place: String,
    /// Number of processes.
    pub processes: u32,
    /// True if there may be more: the call was reached in several ways, and it is not known whether
    /// by the same processes.
    pub or_more: bool,
}

impl Cause {
    /// Returns text such as `2 processes` or `at least 2 processes`.
    pub fn processes(&self) -> String {
        let processes = count(self.processes as usize, "process");
        if self.or_more { format!("at least {processes}") } else { processes }
    }
}

/// Returns at most `limit` calls, those with most live memory at the peaks.
pub fn causes(job: &Job, limit: usize) -> Vec<Cause> {
    let mut sites: Vec<_> = job.sites.sites.iter().filter(|site| site.at_peak > 0).collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.at_peak));
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    let all = job.ranks().count() as u32;
    let peaks: Vec<u64> = sites.iter().map(|site| site.at_peak).collect();
    let cause = |index: usize| {
        let Site { at_peak, processes, .. } = *sites[index];
        let component = clean(&sites[index].component);
        let place = clean(&place(sites[index], &job.sites.objects, &mut symbols));
        Cause { at_peak, component, place, processes, or_more: false }
    };
    merged(&peaks, limit, all, cause)
}

/// Number of stacks after which the function checks whether the rest can change the result.
const STEP: usize = 32;

/// Adds up the memory of equal calls, largest first, from stacks of decreasing size. Ends when the
/// rest is less than a hundredth of each reported sum: to look up a name takes time.
fn merged(
    peaks: &[u64],
    limit: usize,
    all: u32,
    mut cause: impl FnMut(usize) -> Cause,
) -> Vec<Cause> {
    let mut left = peaks.iter().fold(0_u64, |sum, peak| sum.saturating_add(*peak));
    let mut causes: Vec<Cause> = Vec::new();
    let mut places: HashMap<(String, String), usize> = HashMap::new();
    for (index, peak) in peaks.iter().enumerate() {
        if index % STEP == 0 && index > 0 {
            let mut sums: Vec<u64> = causes.iter().map(|cause| cause.at_peak).collect();
            sums.sort_unstable_by_key(|sum| std::cmp::Reverse(*sum));
            if limit
                .checked_sub(1)
                .and_then(|last| sums.get(last))
                .is_some_and(|sum| left < sum / 100)
            {
                break;
            }
        }
        left = left.saturating_sub(*peak);
        let one = cause(index);
        match places.entry((one.component.clone(), one.place.clone())) {
            Entry::Vacant(place) => {
                place.insert(causes.len());
                causes.push(one);
            }
            Entry::Occupied(place) => {
                let same = &mut causes[*place.get()];
                same.at_peak = same.at_peak.saturating_add(one.at_peak);
                same.processes = same.processes.max(one.processes);
                same.or_more = true;
            }
        }
    }
    causes.sort_by_key(|cause| std::cmp::Reverse(cause.at_peak));
    causes.truncate(limit);
    causes.iter_mut().for_each(|cause| cause.or_more &= cause.processes < all);
    causes
}

/// Returns the innermost function of the owner's own code, without its compiler's libraries;
/// otherwise the innermost one.
pub fn place(site: &Site, objects: &[Object], symbols: &mut Symbols<'_>) -> String {
    let owner = site.component.split_once(':').map_or("", |(_, object)| object);
    let own = |frame: &&Frame| {
        let object = objects.get(frame.object as usize);
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

/// Returns the table for the terminal.
pub fn text(job: &Job, limit: usize, look: Look) -> String {
    use Align::{Left, Right};
    let mut grid = Grid::new(&[Left, Right, Right, Left, Left]);
    grid.row(Weight::Head, ["peak of", "", "at", "in", "largest then"].map(String::from));
    for peak in peaks(job, 1) {
        let cells = [
            peak.of.clone(),
            peak.resident.clone(),
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
            let processes = cause.processes();
            let cells = [bytes(cause.at_peak), cause.component, cause.place, processes];
            grid.row(Weight::Plain, cells);
        }
        out += &format!("\n{}", grid.text(look));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the causes for stacks with these amounts and calls.
    fn told(stacks: &[(u64, &str)], limit: usize, all: u32) -> Vec<Cause> {
        let peaks: Vec<u64> = stacks.iter().map(|stack| stack.0).collect();
        let cause = |index: usize| {
            let (at_peak, place) = stacks[index];
            let component = "app.exe:solver".to_owned();
            Cause { at_peak, component, place: place.to_owned(), processes: 1, or_more: false }
        };
        merged(&peaks, limit, all, cause)
    }

    #[test]
    fn call_reached_in_many_ways_counts_whole() {
        let names: Vec<String> = (0..200).map(|index| format!("call {index}")).collect();
        let mut stacks: Vec<(u64, &str)> = names.iter().map(|name| (1_100, &**name)).collect();
        stacks.extend([(1_000, "wrapper"); 500]);
        let causes = told(&stacks, 3, 4);
        assert_eq!((causes[0].at_peak, &*causes[0].place), (500_000, "wrapper"));
        assert_eq!(causes[0].processes(), "at least 1 process");
        assert_eq!((causes[1].at_peak, causes[1].processes()), (1_100, "1 process".to_owned()));
        assert_eq!(causes.len(), 3);
        // There is only one process.
        assert_eq!(told(&stacks, 3, 1)[0].processes(), "1 process");
        assert!(told(&stacks, 0, 1).is_empty());
    }

    #[test]
    fn omitted_part_is_below_a_hundredth_and_sums_saturate() {
        let mut stacks = vec![(1_000_000, "large")];
        stacks.extend([(1, "small"); 5_000]);
        let large = told(&stacks, 1, 1);
        assert!((1_000_000..1_010_000).contains(&large[0].at_peak), "{large:?}");
        let most = told(&[(u64::MAX, "much"), (u64::MAX, "much"), (7, "little")], 2, 1);
        assert_eq!((most[0].at_peak, most[1].at_peak), (u64::MAX, 7));
    }
}
