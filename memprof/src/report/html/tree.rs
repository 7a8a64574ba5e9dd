//! Call stacks as a tree: bytes by the calls that led to the allocation.

use crate::model::{Group, Job, Site};
use crate::picture::Call;
use crate::report::symbols::Symbols;
use crate::terminal::clean;
use crate::units::{bytes, count, time};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Number of stacks of a tree, those with most bytes.
const STACKS: usize = 1000;
/// Number of calls of a tree, those with most bytes.
const CALLS: usize = 400;
/// Frames from which a stack may have more than were kept.
const MAYBE_CUT: usize = memprof_trace::layout::FRAMES - 2;
/// Fewest moments of a run for growth to be shown: values at its first ones are interpolated.
const MOMENTS: usize = 8;

/// A tree of the stacks of a job.
#[derive(Debug, PartialEq, Eq)]
pub struct Tree {
    /// Bytes of what.
    pub title: String,
    /// All calls, within a first one that stands for all.
    pub all: Call,
    /// Sentence about what the tree does not show; empty if it shows everything.
    pub left_out: String,
}

/// Returns the trees of a job: at peak, at the end, and what grew in between; those with no bytes
/// are left out.
pub fn trees(job: &Job) -> Vec<Tree> {
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    let mut trees = vec![
        of(job, "at peak".to_owned(), &mut symbols, |site| site.at_peak),
        of(job, "at the end".to_owned(), &mut symbols, |site| site.live),
    ];
    let moments = job.sites.sites.iter().map(|site| site.course.values.len()).max().unwrap_or(0);
    if moments >= MOMENTS
        && let Some(site) = job.sites.sites.first()
    {
        // The first quarter of a run is its warm-up.
        let (from, to) = (moments / 4, moments - 1);
        let [begin, end] = [from, to].map(|moment| time(site.course.time_ns(moment)));
        trees.push(of(job, format!("grown from {begin} to {end}"), &mut symbols, |site| {
            let at = |moment: usize| site.course.values.get(moment).copied().unwrap_or(0);
            u64::from(at(to).saturating_sub(at(from))) * 1024
        }));
    }
    trees.retain(|tree| tree.all.bytes > 0);
    trees
}

/// A call of a growing tree.
struct Grown {
    name: String,
    within: Option<usize>,
    bytes: u64,
    owners: HashMap<Arc<str>, u64>,
}

fn of(job: &Job, title: String, symbols: &mut Symbols<'_>, value: impl Fn(&Site) -> u64) -> Tree {
    let mut stacks: Vec<(&Site, u64)> =
        job.sites.sites.iter().map(|site| (site, value(site))).filter(|(_, v)| *v > 0).collect();
    stacks.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    let rest = stacks.split_off(stacks.len().min(STACKS));
    let named = stacks.iter().map(|(site, bytes)| (path(site, symbols), &site.component, *bytes));
    let (all, fewer) = tree(named);
    let mut said = Vec::new();
    if let (calls @ 1.., left) = fewer {
        said.push(format!("{} with {}", count(calls, "smaller call"), bytes(left)));
    }
    if !rest.is_empty() {
        let left = rest.iter().fold(0_u64, |sum, (_, bytes)| sum.saturating_add(*bytes));
        said.push(format!("{} with {}", count(rest.len(), "smaller stack"), bytes(left)));
    }
    let left_out = match said.is_empty() {
        true => String::new(),
        false => format!("left out: {}", said.join(" and ")),
    };
    Tree { title, all, left_out }
}

/// Returns the names of a stack's calls, the outermost first.
fn path(site: &Site, symbols: &mut Symbols<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for frame in site.frames.iter().rev() {
        let inlined = symbols.names(*frame).into_iter().rev();
        names.extend(inlined.filter(|name| !name.is_of_compiler).map(|name| clean(&name.text)));
    }
    if site.frames.len() >= MAYBE_CUT
        && !names.first().is_some_and(|name| name.starts_with("_start"))
    {
        names.insert(0, "… further out".to_owned());
    }
    if names.is_empty() {
        names.push("no call stack".to_owned());
    }
    names
}

/// Returns the tree of stacks with owner and bytes; the number of calls that are left out, and the
/// bytes of the outermost of these.
fn tree<'a>(
    stacks: impl Iterator<Item = (Vec<String>, &'a Arc<str>, u64)>,
) -> (Call, (usize, u64)) {
    let first = Grown { name: "all".to_owned(), within: None, bytes: 0, owners: HashMap::new() };
    let mut calls = vec![first];
    let mut known: HashMap<(usize, String), usize> = HashMap::new();
    for (names, owner, bytes) in stacks {
        let mut at = 0;
        let add = |call: &mut Grown| {
            call.bytes = call.bytes.saturating_add(bytes);
            let of_owner = call.owners.entry(owner.clone()).or_default();
            *of_owner = of_owner.saturating_add(bytes);
        };
        add(&mut calls[0]);
        for name in names {
            at = *known.entry((at, name)).or_insert_with_key(|(within, name)| {
                let (name, within) = (name.clone(), Some(*within));
                calls.push(Grown { name, within, bytes: 0, owners: HashMap::new() });
                calls.len() - 1
            });
            add(&mut calls[at]);
        }
    }
    // A call follows the one that it is within, and has no more bytes.
    let mut order: Vec<usize> = (0..calls.len()).collect();
    order.sort_by_key(|index| (std::cmp::Reverse(calls[*index].bytes), *index));
    let omitted: HashSet<usize> = order.split_off(order.len().min(CALLS)).into_iter().collect();
    let is_shown = |index: usize| !omitted.contains(&index);
    let outermost = omitted.iter().filter(|index| calls[**index].within.is_some_and(is_shown));
    let left = outermost.fold(0_u64, |sum, index| sum.saturating_add(calls[*index].bytes));
    let mut shown: HashMap<usize, Vec<Call>> = HashMap::new();
    let mut all = Call::default();
    // Calls within others are finished before these.
    order.sort_unstable();
    for index in order.into_iter().rev() {
        let grown = &calls[index];
        let owner = grown.owners.iter().max_by_key(|(name, bytes)| (**bytes, (*name).clone()));
        let owner = owner.map(|(name, _)| (clean(name), Group::of(name).label().to_owned()));
        let mut within = shown.remove(&index).unwrap_or_default();
        within.sort_by(|one, other| {
            other.bytes.cmp(&one.bytes).then_with(|| one.name.cmp(&other.name))
        });
        let call = Call {
            name: grown.name.clone(),
            bytes: grown.bytes,
            owner: owner.unwrap_or_default(),
            calls: within,
        };
        match grown.within {
            Some(outer) => shown.entry(outer).or_default().push(call),
            None => all = call,
        }
    }
    (all, (omitted.len(), left))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(stacks: &[(&[&str], &str, u64)]) -> (Call, (usize, u64)) {
        let owners: Vec<Arc<str>> = stacks.iter().map(|(_, owner, _)| (*owner).into()).collect();
        tree(stacks.iter().zip(&owners).map(|((names, _, bytes), owner)| {
            (names.iter().map(|name| (*name).to_owned()).collect(), owner, *bytes)
        }))
    }

    #[test]
    fn stacks_with_the_same_beginning_share_their_outer_calls() {
        let (all, left_out) = made(&[
            (&["main", "solve", "grow"], "app.exe:a", 60),
            (&["main", "read"], "app.lib:b", 30),
            (&["main", "solve"], "app.lib:b", 50),
            (&["start", "solve"], "app.exe:a", 5),
        ]);
        assert_eq!((all.bytes, all.calls.len(), left_out), (145, 2, (0, 0)));
        let main = &all.calls[0];
        assert_eq!((&*main.name, main.bytes, &*main.owner.0), ("main", 140, "app.lib:b"));
        let names: Vec<_> = main.calls.iter().map(|call| (&*call.name, call.bytes)).collect();
        assert_eq!(names, [("solve", 110), ("read", 30)]);
        assert_eq!(main.calls[0].owner.1, "application");
        assert_eq!((main.calls[0].calls[0].bytes, all.depth()), (60, 4));
    }

    #[test]
    fn smallest_calls_are_left_out_with_their_bytes() {
        let names: Vec<String> = (0..2 * CALLS).map(|index| format!("call {index}")).collect();
        let stacks: Vec<[&str; 2]> = names.iter().map(|name| ["main", name.as_str()]).collect();
        let stacks: Vec<(&[&str], &str, u64)> = (stacks.iter().enumerate())
            .map(|(index, stack)| (&stack[..], "app.exe:a", 1000 + index as u64))
            .collect();
        let (all, (omitted, left)) = made(&stacks);
        assert_eq!((all.calls[0].calls.len(), omitted), (CALLS - 2, CALLS + 2));
        assert_eq!(left, (0..CALLS as u64 + 2).map(|index| 1000 + index).sum::<u64>());
        assert_eq!(all.calls[0].calls[0].name, names[2 * CALLS - 1]);
        assert_eq!(made(&[]).0.bytes, 0);
    }
}
