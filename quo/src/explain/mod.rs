//! Explanation of bindings, read back from the kernel: which CPUs each rank is bound to, what bound
//! it, and why.

mod crowded;
mod place;

use std::fmt;
use std::path::PathBuf;

use serde::Serialize;

use crate::context::overlap::overlap_warnings;
use crate::context::{Context, Launcher, Peer, quota};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::node::Push;
use crate::phase::openmp;
use crate::topology::ObjectType;

use crowded::Start;
pub use place::describe_place;

/// Bindings of one node of a context at one moment.
///
/// Its `Display` form is a table for people, its serialised form is for scripts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Explanation {
    /// True if the machine is simulated: masks are remembered, nothing is bound.
    pub simulated: bool,
    /// Source of the machine's description.
    pub origin: String,
    /// File that keeps the description of this machine for later processes.
    pub kept_in: Option<PathBuf>,
    /// Number of objects of each type, for the types the machine has.
    pub objects: Vec<(ObjectType, usize)>,
    /// True if SMT is hidden: only one PU per core counts.
    pub no_smt: bool,
    /// CPUs the control group allows, physical numbers.
    pub allowed: CpuSet,
    /// Number of this node, from 0, and number of nodes.
    pub node: (usize, usize),
    /// Ranks of the node, by node rank.
    pub ranks: Vec<RankBinding>,
    /// This rank's pushes that have not been popped, oldest first: the mask before and the mask
    /// pushed.
    pub pushed: Vec<(CpuSet, CpuSet)>,
    /// File names of the OpenMP runtimes that this process has loaded.
    pub openmp: Vec<String>,
    /// Problems with the start of the ranks, such as a launcher of another MPI.
    pub warnings: Vec<String>,
}

/// The binding of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankBinding {
    /// Rank in the context.
    pub rank: usize,
    /// Rank on the node.
    pub node_rank: usize,
    /// Process id.
    pub process: i32,
    /// Physical numbers of the CPUs, `None` for a rank that has ended.
    pub cpus: Option<CpuSet>,
    /// The CPUs as logical objects.
    pub place: String,
    /// Source of the binding.
    pub reason: Reason,
}

/// Source of a binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The rank has the mask it was launched with.
    Launched(Launcher),
    /// OpenMP bound the rank at its start, before the context was made.
    OpenMp,
    /// The rank pushed it in this context.
    Pushed,
    /// The rank pushed a superset in this context, and its first thread is pinned, for instance by
    /// a phase.
    PinnedInside,
    /// The rank pushed it in another context.
    PushedElsewhere,
    /// None of these: set since by other code, such as the program's threading library.
    Changed,
    /// The process has ended.
    Ended,
}

impl fmt::Display for Reason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Launched(launcher) => write!(out, "as launched by {launcher}"),
            Self::OpenMp => out.write_str("by OpenMP at its start"),
            Self::Pushed => out.write_str("pushed by quo"),
            Self::PinnedInside => out.write_str("pinned inside what quo pushed"),
            Self::PushedElsewhere => out.write_str("pushed by quo in another context"),
            Self::Changed => out.write_str("set by the program or a library since"),
            Self::Ended => out.write_str("the process has ended"),
        }
    }
}

impl Context {
    /// Returns where each rank of this node is bound now, and why. Local.
    ///
    /// # Errors
    /// [`Error::Bind`] if the kernel does not report the masks.
    #[doc(alias = "QUO_explain")]
    pub fn explain(&self) -> Result<Explanation, Error> {
        let state = self.state();
        let machine = state.machine();
        let topology = &machine.topology;
        let elsewhere = self.pushed_elsewhere();
        let is_pushed_elsewhere = |peer: &Peer, cpus: &CpuSet| {
            let own = |push: &&Push| peer.is_visible() && push.process == peer.process.id;
            elsewhere.iter().filter(own).any(|push| push.cpus == *cpus)
        };
        let mut ranks = Vec::with_capacity(state.node_size());
        let mut starts = Vec::with_capacity(state.node_size());
        for node_rank in 0..state.node_size() {
            let Some(peer) = state.peer(node_rank) else { continue };
            starts.push(Start {
                rank: state.rank_of(node_rank).unwrap_or(node_rank),
                cpus: peer.initial.clone(),
                openmp: peer.bound_by_openmp,
            });
            // Pushes of another context are not published in this one.
            let is_own = topology.is_simulated() && node_rank == state.node_rank();
            let cpus = match if is_own { self.binding() } else { state.binding_of(node_rank) } {
                Ok(cpus) => Some(cpus),
                Err(Error::DeadMember { .. }) => None,
                Err(error) => return Err(error),
            };
            let reason = match &cpus {
                None => Reason::Ended,
                Some(cpus) if is_pinned_inside(cpus, &state.published_mask(node_rank), peer) => {
                    Reason::PinnedInside
                }
                Some(cpus) if *cpus == peer.initial => {
                    if peer.bound_by_openmp && !topology.is_simulated() {
                        Reason::OpenMp
                    } else {
                        Reason::Launched(peer.launcher)
                    }
                }
                Some(cpus) if *cpus == state.published_mask(node_rank) => Reason::Pushed,
                Some(cpus) if is_pushed_elsewhere(peer, cpus) => Reason::PushedElsewhere,
                Some(_) => Reason::Changed,
            };
            ranks.push(RankBinding {
                rank: state.rank_of(node_rank).unwrap_or(node_rank),
                node_rank,
                process: peer.process.id,
                place: cpus
                    .as_ref()
                    .map_or_else(String::new, |cpus| describe_place(topology, cpus)),
                cpus,
                reason,
            });
        }
        let quotas = if topology.is_simulated() {
            Vec::new()
        } else {
            let numbers: Vec<usize> = starts.iter().map(|start| start.rank).collect();
            quota::notes(&state.quotas(), &numbers, topology.allowed().len())
        };
        Ok(Explanation {
            simulated: topology.is_simulated(),
            origin: topology.origin().to_string(),
            kept_in: self.machine_file(),
            objects: ObjectType::ALL
                .iter()
                .map(|&kind| (kind, topology.count(kind)))
                .filter(|(_, count)| *count > 0)
                .collect(),
            no_smt: self.hides_smt(),
            allowed: topology.allowed().clone(),
            node: (self.node_index(), self.node_count()),
            ranks,
            pushed: self.pushed(),
            openmp: openmp::names(self.thread_controls()),
            warnings: [self.group().warning(), self.shortfall(), self.outdated(), self.limited()]
                .into_iter()
                .flatten()
                .chain(self.openmp_warnings(topology.is_simulated()))
                .chain(self.thread_notes().iter().cloned())
                .chain(overlap_warnings(&state.pushes(), &elsewhere))
                .chain(crowded::warnings(&starts, topology.allowed()))
                .chain(quotas)
                .collect(),
        })
    }
}

impl Context {
    /// Returns warnings about OpenMP, if the machine is real.
    fn openmp_warnings(&self, simulated: bool) -> Vec<String> {
        if simulated { Vec::new() } else { openmp::warnings(self.thread_controls()) }
    }
}

/// Returns true if a rank has pushed CPUs and its first thread runs on a part of them. Pure.
fn is_pinned_inside(cpus: &CpuSet, pushed: &CpuSet, peer: &Peer) -> bool {
    *pushed != peer.initial && cpus != pushed && cpus.is_subset(pushed)
}

impl fmt::Display for Explanation {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (node, nodes) = self.node;
        write!(out, "node {node} of {nodes}: {}", self.origin)?;
        for (kind, count) in &self.objects {
            if *kind != ObjectType::Machine {
                write!(out, ", {count} {}", place::counted(*kind, *count))?;
            }
        }
        write!(out, "; allowed CPUs {}", self.allowed)?;
        if let Some(path) = &self.kept_in {
            write!(out, "; description kept in {}", path.display())?;
        }
        writeln!(out)?;
        if self.simulated {
            writeln!(out, "simulated machine: masks are remembered, nothing is really bound")?;
        }
        if self.no_smt {
            writeln!(out, "SMT is hidden: one PU per core counts")?;
        }
        let rows: Vec<[String; 6]> = self
            .ranks
            .iter()
            .map(|rank| {
                [
                    rank.rank.to_string(),
                    rank.node_rank.to_string(),
                    rank.process.to_string(),
                    rank.cpus.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string),
                    rank.place.clone(),
                    rank.reason.to_string(),
                ]
            })
            .collect();
        let head = ["rank", "node rank", "process", "CPUs", "where", "why"].map(str::to_owned);
        let width = |column: usize| {
            rows.iter().chain([&head]).map(|row| row[column].chars().count()).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..head.len()).map(width).collect();
        for row in [&head].into_iter().chain(&rows) {
            let mut line = String::new();
            for (text, width) in row.iter().zip(&widths) {
                line.push_str(&format!("{text:<width$}  "));
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        for (depth, (before, pushed)) in self.pushed.iter().enumerate() {
            writeln!(out, "push {}: CPUs {before} to {pushed}", depth + 1)?;
        }
        if !self.openmp.is_empty() {
            writeln!(out, "OpenMP runtimes of this process: {}", self.openmp.join(", "))?;
        }
        for warning in &self.warnings {
            writeln!(out, "warning: {warning}")?;
        }
        Ok(())
    }
}
