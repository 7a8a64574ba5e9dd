//! Phases: the memory in each, and the time it was open.

use super::ProcessKey;
use super::statistics::Spread;
use super::{Group, Rank};
use serde::Serialize;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A phase over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseAcross {
    /// Its name.
    pub name: Arc<str>,
    /// Nesting depth; 0 is outermost.
    pub depth: u32,
    /// Parent phase.
    pub parent: Option<Arc<str>>,
    /// Number of processes in which it occurred.
    pub processes: u32,
    /// Number of times it was entered, in all ranks.
    pub entries: u64,
    /// Time it was open, in nanoseconds.
    pub time_ns: Spread,
    /// Highest resident bytes of a whole process in it, over the processes in which a sample was
    /// taken. Less than the sum of its components where they peaked at different moments.
    pub resident_peak: Spread,
    /// By component, largest first.
    pub components: Vec<PhaseComponent>,
}

/// A component in a phase over all ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseComponent {
    /// Display name.
    pub name: Arc<str>,
    /// Its group.
    pub group: Group,
    /// Owned peaks.
    pub owned_peak: Spread,
    /// Resident peaks.
    pub resident_peak: Spread,
}

/// Returns the phases of all ranks by name, in the order of their first begin, each followed by
/// those inside it.
pub fn across<'a>(ranks: impl Iterator<Item = &'a Rank> + Clone) -> Vec<PhaseAcross> {
    struct Sum {
        phase: PhaseAcross,
        first_ns: u64,
        at: HashMap<Arc<str>, usize>,
    }
    let mut sums: Vec<Sum> = Vec::new();
    let mut known: HashMap<Arc<str>, usize> = HashMap::new();
    for rank in ranks {
        let who = ProcessKey::of(rank);
        for phase in &rank.phases {
            let begin = rank.offset_ns.saturating_add(phase.first_ns);
            let at = *known.entry(phase.name.clone()).or_insert_with(|| {
                sums.push(Sum {
                    phase: PhaseAcross {
                        name: phase.name.clone(),
                        depth: phase.depth,
                        parent: phase.parent.clone(),
                        processes: 0,
                        entries: 0,
                        time_ns: Spread::default(),
                        resident_peak: Spread::default(),
                        components: Vec::new(),
                    },
                    first_ns: begin,
                    at: HashMap::new(),
                });
                sums.len() - 1
            });
            let sum = &mut sums[at];
            sum.first_ns = sum.first_ns.min(begin);
            let into = &mut sum.phase;
            into.depth = into.depth.min(phase.depth);
            into.processes += 1;
            into.entries = into.entries.saturating_add(phase.entries);
            into.time_ns.add(phase.total_ns, &who);
            // The phase was opened and closed between two samples: its resident memory is not
            // known.
            if phase.is_sampled() {
                into.resident_peak.add(phase.resident_peak, &who);
            }
            for (name, owned, resident) in &phase.peaks {
                let at = *sum.at.entry(name.clone()).or_insert_with(|| {
                    into.components.push(PhaseComponent {
                        name: name.clone(),
                        group: Group::of(name),
                        owned_peak: Spread::default(),
                        resident_peak: Spread::default(),
                    });
                    into.components.len() - 1
                });
                into.components[at].owned_peak.add(*owned, &who);
                into.components[at].resident_peak.add(*resident, &who);
            }
        }
    }
    sums.sort_by_key(|sum| (sum.first_ns, sum.phase.depth));
    let phases: Vec<PhaseAcross> = sums
        .into_iter()
        .map(|sum| {
            let mut phase = sum.phase;
            phase.components.sort_by(|a, b| {
                let key = |c: &PhaseComponent| (c.resident_peak.max, c.owned_peak.max);
                key(b).cmp(&key(a)).then(a.name.cmp(&b.name))
            });
            phase
        })
        .collect();
    nested(phases)
}

/// Returns each phase followed by those inside it. A phase whose parent is not known is outermost.
fn nested(mut phases: Vec<PhaseAcross>) -> Vec<PhaseAcross> {
    let names: HashSet<Arc<str>> = phases.iter().map(|phase| phase.name.clone()).collect();
    for phase in &mut phases {
        // A phase inside itself, or inside an unknown one.
        let known = |parent: &Arc<str>| *parent != phase.name && names.contains(parent);
        phase.parent = phase.parent.take().filter(known);
    }
    let count = phases.len();
    let mut inside: HashMap<Option<Arc<str>>, Vec<(usize, PhaseAcross)>> = HashMap::new();
    for (at, phase) in phases.into_iter().enumerate() {
        inside.entry(phase.parent.clone()).or_default().push((at, phase));
    }
    // The first phase at a level is taken first, then the phases inside it.
    let mut take = |parent| inside.remove(&parent).unwrap_or_default().into_iter().rev();
    let mut out = Vec::with_capacity(count);
    let mut open: Vec<(usize, PhaseAcross)> = take(None).collect();
    while let Some((_, phase)) = open.pop() {
        open.extend(take(Some(phase.name.clone())));
        out.push(phase);
    }
    // Phases that contain each other, in a forged trace.
    let mut circles: Vec<(usize, PhaseAcross)> = inside.into_values().flatten().collect();
    circles.sort_by_key(|(at, _)| *at);
    out.extend(circles.into_iter().map(|(_, phase)| phase));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(name: &str, parent: Option<&str>) -> PhaseAcross {
        PhaseAcross {
            name: name.into(),
            depth: 0,
            parent: parent.map(Arc::from),
            processes: 1,
            entries: 1,
            time_ns: Spread::default(),
            resident_peak: Spread::default(),
            components: Vec::new(),
        }
    }

    #[test]
    fn a_phase_stands_behind_the_one_it_is_in() {
        let all = [
            phase("main", None),
            phase("init", None),
            phase("solve", Some("main")),
            phase("step", Some("solve")),
            phase("finalize", None),
            phase("write", Some("main")),
            phase("lost", Some("nobody")),
        ];
        let names: Vec<String> =
            nested(all.to_vec()).iter().map(|phase| phase.name.to_string()).collect();
        assert_eq!(names, ["main", "solve", "step", "write", "init", "finalize", "lost"]);
    }

    #[test]
    fn phases_inside_each_other_in_a_circle_are_not_lost() {
        let all = vec![
            phase("a", Some("b")),
            phase("b", Some("a")),
            phase("c", Some("c")),
            phase("d", Some("a")),
        ];
        let names: Vec<String> = nested(all).iter().map(|phase| phase.name.to_string()).collect();
        assert_eq!(names, ["c", "a", "b", "d"]);
    }
}
