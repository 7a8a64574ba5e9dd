//! Has elastic jobs leave nodes that drain or await maintenance: Slurm waits for the jobs there to
//! end, and an elastic job need not end. Pure.

use elastic_policy::action::{Action, Choice};
use elastic_policy::job::{Class, JobId};
use elastic_policy::live::{Decided, Stage};
use elastic_policy::nodes::NodeList;
use elastic_policy::time::Span;

use super::plan::Pictured;
use super::text::Use;

/// Decides which draining nodes elastic jobs leave, as many at once as their sizes allow. Also
/// returns a sentence about each job that cannot leave such a node.
pub fn decide(pictured: &Pictured, grace: Span) -> (Vec<Decided>, Vec<String>) {
    let (mut decided, mut kept) = (Vec::new(), Vec::new());
    for (place, seen) in pictured.snapshot.jobs.iter().enumerate() {
        let Stage::Running { nodes, leaving, .. } = &seen.stage else { continue };
        // A job that is changing already is asked after that.
        if seen.class != Class::Malleable || !leaving.is_empty() {
            continue;
        }
        let named = |nodes: &[u32]| {
            let names = nodes.iter().filter_map(|node| pictured.nodes.get(*node as usize));
            names.map(|node| node.name.as_str()).collect::<Vec<_>>().join(",")
        };
        let cause = |nodes: &[u32]| {
            let first = nodes.first().and_then(|node| pictured.nodes.get(*node as usize));
            first.and_then(|node| node.cause.clone()).unwrap_or_else(|| "drains".to_owned())
        };
        let drains = |node: &u32| {
            pictured.nodes.get(*node as usize).is_some_and(|node| node.used == Use::Drains)
        };
        let held: Vec<u32> = nodes.iter().collect();
        if let Some(first) = held.first().filter(|node| drains(node)) {
            let node = named(&[*first]);
            kept.push(format!(
                "{}: node {node} drains, but its rank 0 is there: it stays",
                seen.name
            ));
        }
        let draining: Vec<u32> = held.iter().skip(1).filter(|node| drains(node)).copied().collect();
        let size = nodes.count();
        let allowed = |left: &usize| seen.limits.allows(size - *left as u32);
        let left = (1..=draining.len()).rev().find(allowed).unwrap_or(0);
        let (stays, leaves) = draining.split_at(draining.len() - left);
        if !stays.is_empty() {
            kept.push(format!(
                "{}: node {} {}, but the job cannot have {} nodes, by its sizes or memory, or has refused",
                seen.name,
                named(stays),
                cause(stays),
                size - draining.len() as u32,
            ));
        }
        if !leaves.is_empty() {
            decided.push(Decided {
                job: place,
                action: Action::Shrink {
                    job: JobId(place as u32),
                    nodes: Choice::Nodes(NodeList::of(leaves)),
                    grace: Some(grace),
                },
                reason: format!("leaves {}, which {}", named(leaves), cause(leaves)),
            });
        }
    }
    (decided, kept)
}
