//! The answer in sentences: holders of the memory at the largest peak of a process, the memory of a
//! node that the job takes, and what grows.

use super::peak_between;
use crate::growth::Limit;
use crate::model::{Group, Held, Job, Node, ProcessKey, Rank};
use crate::report::growth;
use crate::terminal::{Look, clean};
use crate::units::bytes;
use serde::Serialize;

/// Part of a peak, as one in so many, below which a group is not named.
const LEAST: u64 = 200;
/// Name of the groups that are not named.
const OTHERS: &str = "others";
/// Characters of a line of sentences.
const WIDTH: usize = 100;

/// The answer, with the figures of its sentences.
#[derive(Debug, Serialize)]
pub struct Answer {
    /// Process with the largest peak.
    pub process: ProcessKey,
    /// Resident bytes of the process at its peak.
    pub bytes: u64,
    /// Innermost phase at the peak.
    pub phase: Option<String>,
    /// MPI function at the peak.
    pub mpi_function: Option<String>,
    /// Shares of the groups in the peak, largest first, others last.
    pub shares: Vec<Share>,
    /// All of it in words.
    pub sentences: Vec<String>,
}

/// Share of a group in a peak.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Share {
    /// Name of the group; `others` for those below half a percent together.
    pub group: &'static str,
    /// Resident bytes.
    pub bytes: u64,
    /// Whole percent of the peak. The percents of all shares add up to 100.
    pub percent: u32,
}

/// Returns the answer for a job that grows like this; `None` if no sample is left of any process.
pub fn of(job: &Job, growth: &growth::Named) -> Option<Answer> {
    let rank = job.largest().filter(|rank| rank.peak.bytes > 0)?;
    let shares = shares(rank.held.iter().map(|held| (held.group, held.resident_at_peak)));
    if shares.is_empty() {
        return None;
    }
    let whole = if job.is_whole() { "" } else { "Traces are missing or damaged. Of the others: " };
    let mut sentences = vec![format!("{whole}{}", peak(job, rank, &shares))];
    sentences.extend(between_samples(rank));
    sentences.extend(job.nodes.iter().max_by_key(|node| node_peak(node)).and_then(room));
    sentences.extend(growth.sentence().filter(|_| job.jobs.len() <= 1));
    let name = |name: &Option<_>| name.as_ref().map(|name: &std::sync::Arc<str>| name.to_string());
    Some(Answer {
        process: ProcessKey::of(rank),
        bytes: rank.peak.bytes,
        phase: name(&rank.peak.phase),
        mpi_function: name(&rank.peak.mpi_function),
        shares,
        sentences,
    })
}

/// Returns the sentences for the terminal, one per line, then an empty line.
pub fn text(job: &Job, look: Look) -> String {
    let Some(answer) = of(job, &growth::of(job)) else { return String::new() };
    lines(&answer.sentences, look) + "\n"
}

/// Returns sentences for the terminal, each on separate lines.
pub fn lines(sentences: &[String], look: Look) -> String {
    let look = look.narrow(look.width().map_or(WIDTH, |width| width.min(WIDTH)));
    sentences.iter().map(|sentence| look.wrap(&format!("{sentence}\n"))).collect()
}

/// Returns the share of each group in the sum of these bytes, largest first.
fn shares(held: impl Iterator<Item = (Group, u64)>) -> Vec<Share> {
    let mut sums = Group::ALL.map(|group| (group.label(), 0_u64));
    for (group, bytes) in held {
        let sum = sums.iter_mut().find(|(name, _)| *name == group.label());
        sum.into_iter().for_each(|(_, sum)| *sum = sum.saturating_add(bytes));
    }
    let total = sums.iter().fold(0_u64, |total, (_, bytes)| total.saturating_add(*bytes));
    let is_named = |bytes: u64| u128::from(bytes) * u128::from(LEAST) >= u128::from(total.max(1));
    let rest = sums.iter().filter(|(_, bytes)| !is_named(*bytes));
    let rest = rest.fold(0_u64, |rest, (_, bytes)| rest.saturating_add(*bytes));
    let all = sums.into_iter().chain([(OTHERS, rest)]).filter(|(_, bytes)| is_named(*bytes));
    let mut named: Vec<(&str, u64)> = all.collect();
    named.sort_by_key(|(name, bytes)| (*name == OTHERS, std::cmp::Reverse(*bytes)));
    let bytes: Vec<u64> = named.iter().map(|(_, bytes)| *bytes).collect();
    let shares = named.into_iter().zip(percent(&bytes));
    shares.map(|((group, bytes), percent)| Share { group, bytes, percent }).collect()
}

/// Returns the whole percents of values in their sum: they add up to 100, and those with the
/// largest fractions are rounded up.
fn percent(values: &[u64]) -> Vec<u32> {
    let sum = values.iter().map(|value| u128::from(*value)).sum::<u128>().max(1);
    let parts = values.iter().map(|value| u128::from(*value) * 100);
    let mut whole: Vec<u32> = parts.clone().map(|part| (part / sum) as u32).collect();
    let mut order: Vec<usize> = (0..values.len()).collect();
    let fractions: Vec<u128> = parts.map(|part| part % sum).collect();
    // A value below one percent gets that one before another value gets more.
    order.sort_by_key(|at| (whole[*at] > 0, std::cmp::Reverse(fractions[*at])));
    let missing = 100_usize.saturating_sub(whole.iter().sum::<u32>() as usize);
    order.into_iter().take(missing).for_each(|at| whole[at] += 1);
    whole
}

/// Returns the sentence about a peak.
fn peak(job: &Job, rank: &Rank, shares: &[Share]) -> String {
    let who = match job.ranks().count() {
        1 => String::new(),
        _ => match rank.job.filter(|_| job.jobs.len() > 1) {
            Some(number) => format!(" of {} of job {number}", rank.label()),
            None => format!(" of {}", rank.label()),
        },
    };
    let mut about = bytes(rank.peak.bytes);
    if rank.missed > 0 {
        about += &format!(" seen, up to {} more by the kernel's count", bytes(rank.missed));
    }
    let place = [&rank.peak.phase, &rank.peak.mpi_function];
    let place: Vec<String> = place.into_iter().flatten().map(|name| clean(name)).collect();
    if !place.is_empty() {
        about += &format!(", in {}", place.join(" · "));
    }
    format!("At the peak{who} ({about}), {}.", holders(shares))
}

/// Returns the sentence about the component of the application that may have held more between
/// samples than samples have seen; `None` if the difference is a small part of the peak.
fn between_samples(rank: &Rank) -> Option<String> {
    let own = rank.held.iter().filter(|held| held.group == Group::Application);
    let more = |held: &&Held| held.resident_bound.saturating_sub(held.resident_peak);
    let held = own.max_by_key(more)?;
    (u128::from(more(&held)) * 20 >= u128::from(rank.peak.bytes)).then(|| {
        format!(
            "Between samples {} may have held up to {}; samples have seen {}.",
            clean(&held.name),
            bytes(held.resident_bound),
            bytes(held.resident_peak)
        )
    })
}

/// Returns clauses in the order of the shares, such as `71 % is held by the application, 18 % by
/// MPI, 7 % is free in the allocator, and 4 % has no known owner`.
fn holders(shares: &[Share]) -> String {
    let mut clauses = Vec::new();
    let mut follows_holder = false;
    for share in shares.iter().filter(|share| share.percent > 0) {
        let what = match share.group {
            "slack" => "is free in the allocator".to_owned(),
            "unattributed" => "has no known owner".to_owned(),
            group if follows_holder => format!("by {}", holder(group)),
            group => format!("is held by {}", holder(group)),
        };
        follows_holder = !matches!(share.group, "slack" | "unattributed");
        clauses.push(format!("{} % {what}", share.percent));
    }
    match clauses.as_slice() {
        [] => String::new(),
        [one] => one.clone(),
        [one, other] => format!("{one} and {other}"),
        [first @ .., last] => format!("{}, and {last}", first.join(", ")),
    }
}

/// Returns the words for a group that holds memory.
fn holder(group: &'static str) -> &'static str {
    match group {
        "application" => "the application",
        "mpi" => "MPI",
        "mpi.for_user" => "MPI for the application",
        "runtime" => "the runtime",
        "omp" => "OpenMP",
        "system" => "system libraries",
        "stack" => "stacks",
        "kernel" => "the kernel",
        "tool" => "the profiler",
        other => other,
    }
}

fn node_peak(node: &Node) -> u64 {
    node.timeline.peak.as_ref().map_or(0, |peak| peak.bytes)
}

/// Returns the sentence about the memory of a node that the job needs; `None` if the memory of the
/// node is not known.
fn room(node: &Node) -> Option<String> {
    let limit = Limit::of(node).filter(|_| node_peak(node) > 0)?;
    let whose = if limit.is_of_group { "its control group" } else { "the node" };
    Some(format!(
        "On {} the job holds {} at its peak, of {whose}'s {}.",
        clean(&node.host),
        peak_between(&node.timeline),
        bytes(limit.bytes)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(held: &[(Group, u64)]) -> String {
        holders(&shares(held.iter().copied()))
    }

    #[test]
    fn shares_of_a_peak_are_clauses_largest_first() {
        let held = [
            (Group::Unattributed, 40),
            (Group::Mpi, 100),
            (Group::Application, 700),
            (Group::Slack, 75),
            (Group::Application, 5),
            (Group::Mpi, 80),
        ];
        assert_eq!(
            told(&held),
            "71 % is held by the application, 18 % by MPI, 7 % is free in the allocator, and 4 % \
             has no known owner"
        );
        assert_eq!(told(&[(Group::Tool, 3)]), "100 % is held by the profiler");
        let two = [(Group::MpiForUser, 1), (Group::Slack, 2)];
        assert_eq!(
            told(&two),
            "67 % is free in the allocator and 33 % is held by MPI for the application"
        );
        let between = [(Group::Application, 3), (Group::Mpi, 1), (Group::Slack, 2)];
        assert_eq!(
            told(&between),
            "50 % is held by the application, 33 % is free in the allocator, and 17 % is held by MPI"
        );
        assert_eq!(told(&[]), "");
    }

    #[test]
    fn groups_below_half_a_percent_are_others_together() {
        let held = [
            (Group::Application, 9_910),
            (Group::Stack, 30),
            (Group::Kernel, 30),
            (Group::Unattributed, 30),
        ];
        assert_eq!(told(&held), "99 % is held by the application and 1 % by others");
        let held = [(Group::Application, 9_960), (Group::Stack, 40)];
        assert_eq!(told(&held), "100 % is held by the application");
    }

    proptest::proptest! {
        #[test]
        fn percents_add_up_and_are_off_by_less_than_one(
            values in proptest::collection::vec(1_u64..1 << 50, 1..12)
        ) {
            let percents = percent(&values);
            let sum: u64 = values.iter().sum();
            proptest::prop_assert_eq!(percents.iter().sum::<u32>(), 100);
            for (value, percent) in values.iter().zip(percents) {
                let exact = *value as f64 * 100.0 / sum as f64;
                proptest::prop_assert!((f64::from(percent) - exact).abs() < 1.0 + 1e-9);
            }
        }
    }
}
