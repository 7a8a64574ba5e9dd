//! Balance of the numbers: a few figures that show the quality of a report.

use super::ProcessKey;
use super::{Group, Node, Rank};
use serde::Serialize;
use std::sync::Arc;

/// The closing balance of a job.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Balance {
    /// Sum over all ranks at their last samples, in bytes.
    pub resident: u64,
    /// Bytes of it without an owner.
    pub unattributed: u64,
    /// Largest share without an owner in any rank at any time, in millionths.
    pub worst_unattributed: u32,
    /// Rank with that share.
    pub worst_at: ProcessKey,
    /// Largest distance between the sum of components and the kernel's count, in bytes.
    pub kernel_distance: u64,
    /// Rank with that distance.
    pub kernel_at: ProcessKey,
    /// Components that had more resident than they owned, beyond rounding.
    pub excesses: Vec<ResidentExcess>,
    /// Sum over the ranks that have not left, with shared pages in each.
    pub ranks: u64,
    /// The same over all nodes, with shared pages once.
    pub nodes: u64,
    /// Uncertain part of the difference, in bytes.
    pub uncertain: u64,
    /// Largest share of one processor that a sampler used, in millionths.
    pub duty: u32,
    /// Bytes on heap pages of several owners in the worst rank: the error bound of small blocks.
    pub mixed_bytes: u64,
}

/// A component with more resident bytes than owned ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ResidentExcess {
    /// The rank.
    pub who: ProcessKey,
    /// The component.
    pub component: Arc<str>,
    /// Bytes owned at the last sample, including the object's code and data.
    pub owned: u64,
    /// Bytes resident at the same sample.
    pub resident: u64,
}

/// Maximum number of violations listed; a single one deserves an investigation.
const LISTED: usize = 16;

/// Computes the balance of the ranks of all nodes.
pub fn balance(nodes: &[Node]) -> Balance {
    let mut balance = Balance::default();
    for node in nodes {
        let (_, sum) = node.present();
        balance.ranks = balance.ranks.saturating_add(sum);
        let once = sum.saturating_sub(node.mapped.repeated);
        balance.nodes = balance.nodes.saturating_add(once);
        balance.uncertain = balance.uncertain.saturating_add(node.mapped.uncertain);
        for rank in &node.ranks {
            add(&mut balance, rank);
        }
    }
    balance
}

fn add(balance: &mut Balance, rank: &Rank) {
    let totals = &rank.totals;
    balance.resident = balance.resident.saturating_add(totals.resident);
    balance.unattributed = balance.unattributed.saturating_add(totals.unattributed);
    if totals.worst_unattributed > balance.worst_unattributed
        || balance.worst_at == ProcessKey::default()
    {
        balance.worst_unattributed = totals.worst_unattributed;
        balance.worst_at = ProcessKey::of(rank);
    }
    let kernel =
        totals.kernel_resident.saturating_add(totals.page_tables).saturating_add(totals.hugetlb);
    let distance = kernel.abs_diff(totals.resident);
    if totals.kernel_resident > 0 && distance > balance.kernel_distance {
        balance.kernel_distance = distance;
        balance.kernel_at = ProcessKey::of(rank);
    }
    let duty = (rank.sampler.duty(rank.duration_ns) * 1e6).min(f64::from(u32::MAX)) as u32;
    balance.duty = balance.duty.max(duty);
    balance.mixed_bytes = balance.mixed_bytes.max(rank.sampler.mixed_bytes);
    for held in &rank.held {
        // A mapping rounds up to pages at both ends, and split heap pages are bounded as reported.
        let rounding = rank.sampler.mixed_bytes.saturating_add(8192).saturating_add(held.image);
        // The owners of memory that the C library maps before anything is loaded are guesses and in
        // no ledger.
        if held.group.has_ledger()
            && held.group != Group::System
            && held.resident > held.owned.saturating_add(rounding)
            && balance.excesses.len() < LISTED
        {
            balance.excesses.push(ResidentExcess {
                who: ProcessKey::of(rank),
                component: held.name.clone(),
                owned: held.owned.saturating_add(held.image),
                resident: held.resident,
            });
        }
    }
}
