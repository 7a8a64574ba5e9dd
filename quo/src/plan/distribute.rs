//! Selection of working ranks and their objects: at most `m` ranks per object.

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use super::PlanError;
use super::compatibility::{Compatibility, bits};
use super::libquo_compat;
use super::request::{DistributeRequest, Policy};
use crate::CpuSet;

/// The selected ranks, and the object of each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Distribution {
    /// Index of the object for which each node rank was selected; `None` for a rank that was not
    /// selected.
    pub object_of: Vec<Option<usize>>,
}

impl Distribution {
    /// Returns true if a node rank was selected; false for a rank that does not exist.
    #[must_use]
    pub fn is_selected(&self, node_rank: usize) -> bool {
        self.object_of.get(node_rank).is_some_and(Option::is_some)
    }

    /// Returns the node ranks that were selected, in ascending order.
    #[must_use]
    pub fn selected(&self) -> Vec<usize> {
        (0..self.object_of.len()).filter(|&rank| self.is_selected(rank)).collect()
    }

    /// Returns the node ranks that were selected for an object, in ascending order.
    #[must_use]
    pub fn workers_on(&self, object: usize) -> Vec<usize> {
        (0..self.object_of.len()).filter(|&rank| self.object_of[rank] == Some(object)).collect()
    }
}

/// Selects at most `max_per_object` ranks per object. Local and pure: ranks that pass equal values
/// get equal results.
///
/// A rank can be selected for an object only if its mask, the object and the allowed set share a
/// CPU. Under [`Policy::Spread`] places go
///
/// 1. to ranks whose mask lies inside an object,
/// 2. then to ranks that overlap several objects, or one only in part: fewer objects first, then
///    fewer CPUs,
/// 3. then to unbound ranks, whose mask covers everything allowed,
///
/// and, if that leaves a choice, to lower node ranks. A rank is skipped only if no rearrangement of
/// the ranks before it leaves it a place, so the number of workers is the highest possible, among
/// bound ranks and among all. Workers are spread over the objects as evenly as their masks permit;
/// on a tie the lower object index wins.
///
/// # Errors
///
/// [`PlanError`] if `max_per_object` is 0, if there are no objects, no ranks or no allowed CPUs, or
/// if the mask of a rank is empty.
///
/// ```
/// use quo::CpuSet;
/// use quo::plan::{DistributeRequest, Policy, distribute};
///
/// let packages = [CpuSet::from_range(0..4), CpuSet::from_range(4..8)];
/// let allowed = CpuSet::from_range(0..8);
/// let masks: Vec<CpuSet> = (0..8).map(CpuSet::single).collect(); // one rank per core
/// let plan = distribute(&DistributeRequest {
///     objects: &packages,
///     allowed: &allowed,
///     masks: &masks,
///     max_per_object: 1,
///     policy: Policy::Spread,
/// })?;
/// assert_eq!(plan.selected(), [0, 4]);
/// assert_eq!(plan.object_of[4], Some(1));
/// # Ok::<(), quo::plan::PlanError>(())
/// ```
#[doc(alias = "QUO_auto_distrib")]
pub fn distribute(request: &DistributeRequest<'_>) -> Result<Distribution, PlanError> {
    check(request)?;
    let compatible = Compatibility::of(request);
    let object_of = match request.policy {
        Policy::Spread => spread(request, &compatible),
        Policy::LibquoCompat => libquo_compat::select(
            &compatible,
            request.masks.len(),
            request.objects.len(),
            request.max_per_object,
        ),
    };
    Ok(Distribution { object_of })
}

fn check(request: &DistributeRequest<'_>) -> Result<(), PlanError> {
    if request.max_per_object == 0 {
        return Err(PlanError::NoWorkersAllowed);
    }
    if request.objects.is_empty() {
        return Err(PlanError::NoObjects);
    }
    if request.masks.is_empty() {
        return Err(PlanError::NoRanks);
    }
    if request.allowed.is_empty() {
        return Err(PlanError::NothingAllowed);
    }
    match request.masks.iter().position(CpuSet::is_empty) {
        Some(node_rank) => Err(PlanError::EmptyMask { node_rank }),
        None => Ok(()),
    }
}

// The sets of ranks that can all have a place at once are the independent sets of a transversal
// matroid. In a matroid the greedy rule (take ranks by priority, keep each that still fits after
// rearranging) yields the lexicographically best set, which is also a largest one. Sending each
// rank down the chain of moves that ends at the least loaded object keeps the loads as even as the
// masks permit at every step (this is the incremental solution of the semi-matching problem).
fn spread(request: &DistributeRequest<'_>, compatible: &Compatibility) -> Vec<Option<usize>> {
    let mut places = Places::new(request, compatible);
    let mut across: SmallVec<[(usize, usize, usize); 16]> = SmallVec::new();
    let mut unbound: SmallVec<[usize; 16]> = SmallVec::new();
    for (rank, mask) in request.masks.iter().enumerate() {
        if request.allowed.is_subset(mask) {
            unbound.push(rank);
        } else if compatible
            .objects_of(rank)
            .any(|object| lies_inside(mask, request.allowed, &request.objects[object]))
        {
            places.place(rank);
        } else if compatible.degree(rank) > 0 {
            across.push((compatible.degree(rank), allowed_cpus(mask, request.allowed), rank));
        }
    }
    across.sort_unstable();
    for &(_, _, rank) in &across {
        places.place(rank);
    }
    places.fill(&unbound);
    places.object_of
}

fn lies_inside(mask: &CpuSet, allowed: &CpuSet, object: &CpuSet) -> bool {
    let object = object.as_words();
    let pairs = mask.as_words().iter().zip(allowed.as_words()).enumerate();
    pairs
        .map(|(index, (mask, allowed))| mask & allowed & !object.get(index).unwrap_or(&0))
        .all(|outside| outside == 0)
}

fn allowed_cpus(mask: &CpuSet, allowed: &CpuSet) -> usize {
    let pairs = mask.as_words().iter().zip(allowed.as_words());
    pairs.map(|(mask, allowed)| (mask & allowed).count_ones() as usize).sum()
}

/// Places being filled.
struct Places<'a> {
    compatible: &'a Compatibility,
    max_per_object: usize,
    load: SmallVec<[usize; 16]>,
    object_of: Vec<Option<usize>>,
    /// Number of places left on objects on which some rank can work.
    free: usize,
    /// True if a placed rank could also work elsewhere, so that searching for moves can help.
    movable: bool,
}

impl<'a> Places<'a> {
    fn new(request: &DistributeRequest<'_>, compatible: &'a Compatibility) -> Self {
        Self {
            compatible,
            max_per_object: request.max_per_object,
            load: smallvec![0; request.objects.len()],
            object_of: vec![None; request.masks.len()],
            free: compatible.usable().saturating_mul(request.max_per_object),
            movable: false,
        }
    }

    /// Gives a rank a place, moving placed ranks if necessary. No rank ever loses its place.
    fn place(&mut self, rank: usize) -> bool {
        if self.free == 0 {
            return false;
        }
        if self.movable { self.place_by_moves(rank) } else { self.place_directly(rank) }
    }

    fn place_directly(&mut self, rank: usize) -> bool {
        let least_loaded = self.compatible.objects_of(rank).min_by_key(|&object| self.load[object]);
        let Some(object) = least_loaded.filter(|&object| self.load[object] < self.max_per_object)
        else {
            return false;
        };
        self.load[object] += 1;
        self.assign(rank, object);
        true
    }

    /// Gives places to ranks that can work on every usable object, on the least loaded objects in
    /// turn: no chain of moves could end better.
    fn fill(&mut self, ranks: &[usize]) {
        let mut ranks = ranks.iter().copied().take(self.free).peekable();
        let usable: SmallVec<[usize; 16]> = ranks
            .peek()
            .map(|&rank| self.compatible.objects_of(rank).collect())
            .unwrap_or_default();
        let mut level = usable.iter().map(|&object| self.load[object]).min().unwrap_or(0);
        while ranks.peek().is_some() {
            for &object in usable.iter() {
                if self.load[object] == level {
                    let Some(rank) = ranks.next() else { return };
                    self.load[object] += 1;
                    self.assign(rank, object);
                }
            }
            level += 1;
        }
    }

    /// Searches, breadth first, every object that a chain of moves can reach, and ends the chain at
    /// the least loaded one; among equals at the one that takes the fewest moves.
    fn place_by_moves(&mut self, rank: usize) -> bool {
        let mut reached: SmallVec<[u64; 4]> = SmallVec::from_slice(self.compatible.row(rank));
        // For an object reached by a move: the rank that would move there.
        let mut mover: SmallVec<[Option<usize>; 16]> = smallvec![None; self.load.len()];
        let mut frontier = reached.clone();
        let mut best: Option<usize> = None;
        while let Some(nearest) = bits(&frontier).min_by_key(|&object| self.load[object]) {
            if best.is_none_or(|object| self.load[nearest] < self.load[object]) {
                best = Some(nearest);
            }
            if self.load[nearest] == 0 {
                break;
            }
            let mut next: SmallVec<[u64; 4]> = smallvec![0; frontier.len()];
            for (other, object) in self.object_of.iter().enumerate() {
                let Some(object) = *object else { continue };
                if frontier[object / 64] >> (object % 64) & 1 == 0 {
                    continue;
                }
                for (index, &word) in self.compatible.row(other).iter().enumerate() {
                    let fresh = word & !reached[index];
                    reached[index] |= fresh;
                    next[index] |= fresh;
                    bits(&[fresh]).for_each(|bit| mover[index * 64 + bit] = Some(other));
                }
            }
            frontier = next;
        }
        let Some(mut free) = best.filter(|&object| self.load[object] < self.max_per_object) else {
            return false;
        };
        self.load[free] += 1;
        while let Some(moved) = mover[free] {
            let Some(left) = self.object_of[moved].replace(free) else { break };
            free = left;
        }
        self.assign(rank, free);
        true
    }

    fn assign(&mut self, rank: usize, object: usize) {
        self.object_of[rank] = Some(object);
        self.free -= 1;
        self.movable |= self.compatible.degree(rank) > 1;
    }
}
