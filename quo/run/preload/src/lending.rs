//! This rank's context, its lending and borrowing, and the thread numbers of its regions.
//!
//! Everything except [`most_threads`] and [`begin`] must be called only by the main thread, which
//! owns the rank's CPUs.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

use quo::Context;
use quo::context::CreateOptions;
use quo::cpuset::CpuSet;
use quo::group::LocalGroup;

use crate::job::Place;
use crate::{places, presence};

static CONTEXT: OnceLock<Context> = OnceLock::new();
/// Reason why there is no context, if creating it failed.
static TROUBLE: OnceLock<String> = OnceLock::new();
/// True while the rank lends.
static LENDS: AtomicBool = AtomicBool::new(false);
/// Number of CPUs currently borrowed.
static BORROWED: AtomicUsize = AtomicUsize::new(0);
/// Number of ranks that lent when this one last borrowed.
static LENDERS: AtomicUsize = AtomicUsize::new(0);
/// True if MPI has ended.
static OVER: AtomicBool = AtomicBool::new(false);
/// True if the program depends on its number of threads.
static KEEPS: AtomicBool = AtomicBool::new(false);
/// Number of threads that regions may have beyond the program's own number.
static ROOM: AtomicUsize = AtomicUsize::new(0);
/// Number of CPUs of the rank itself.
static OWN_CPUS: AtomicUsize = AtomicUsize::new(1);
/// Number of CPUs of other ranks that threads can use; 0 if OpenMP binds its threads itself.
static REACH: AtomicUsize = AtomicUsize::new(0);

/// How often this rank lent and borrowed, for the report.
static TIMES_LENT: AtomicU64 = AtomicU64::new(0);
static TIMES_BORROWED: AtomicU64 = AtomicU64::new(0);
static REGIONS: AtomicU64 = AtomicU64::new(0);

/// Sets the number of CPUs of the rank, and the maximum number that it can have beyond these; 0 if
/// OpenMP binds its threads itself.
pub fn set_room(own: usize, cpus: usize) {
    OWN_CPUS.store(own, Relaxed);
    REACH.store(cpus, Relaxed);
    ROOM.store(cpus, Relaxed);
}

/// Returns the number of threads of a team for which the rank itself has no CPU.
pub fn surplus(team: usize) -> usize {
    team.saturating_sub(OWN_CPUS.load(Relaxed))
}

/// Returns the maximum number of threads of a region whose program requests `own`. Any thread.
pub fn most_threads(own: usize) -> usize {
    own + ROOM.load(Relaxed)
}

/// Makes regions keep the program's own number of threads from now on. Returns the number of CPUs
/// given back.
pub fn keep_threads() -> usize {
    KEEPS.store(ROOM.swap(0, Relaxed) > 0 || KEEPS.load(Relaxed), Relaxed);
    give_back()
}

/// Meets the other ranks of the node. Called once, by the thread in which MPI was initialised, when
/// all of them are on their way. Returns a line for the user if none will lend.
pub fn begin(place: &Place) -> Option<String> {
    let absent = match presence::absent(place) {
        Ok(absent) => absent,
        Err(error) => {
            let _ = TROUBLE.set(format!("cannot ask for the other ranks of the node: {error}"));
            return None;
        }
    };
    if absent.is_empty() {
        if let Err(reason) = meet(place) {
            let _ = TROUBLE.set(reason);
        }
        return CONTEXT.get().filter(|_| place.rank == 0 && place.size > 1).and_then(unbound);
    }
    let reason = presence::reason(&absent);
    let is_first = (0..place.rank).all(|rank| absent.contains(&rank));
    let note = is_first.then(|| format!("no rank of this node lends: {reason}"));
    let _ = TROUBLE.set(reason);
    note
}

/// Returns a line for the user if ranks of the node are not bound, so that little or nothing is lent.
fn unbound(context: &Context) -> Option<String> {
    let masks = (0..context.node_size()).map(|rank| context.binding_of(rank));
    let masks = masks.collect::<Result<Vec<_>, _>>().ok()?;
    let effect = effect_of_wide_masks(&masks)?;
    Some(format!("{effect}; bind each rank to its own CPUs, as by mpirun --bind-to core"))
}

/// Returns what does not work if ranks may use all CPUs of the others, given the masks of all. A CPU
/// is lent only while all ranks that may use it wait. Pure.
fn effect_of_wide_masks(masks: &[CpuSet]) -> Option<String> {
    let all = masks.iter().fold(CpuSet::new(), |all, mask| all.union(mask));
    let widest = masks.iter().position(|mask| *mask == all).filter(|_| all.len() > 1)?;
    if masks.iter().all(|mask| *mask == all) {
        return Some("no rank of this node lends: all may use the same CPUs".to_owned());
    }
    Some(format!(
        "ranks of this node lend only while rank {widest} of the node waits, which may use all CPUs"
    ))
}

fn meet(place: &Place) -> Result<(), String> {
    if std::env::var_os("QUO_TOPOLOGY").is_some() {
        return Err("the machine is simulated (QUO_TOPOLOGY)".to_owned());
    }
    let directory = Path::new(presence::DIRECTORY);
    let name = format!("quo-{}-{}", rustix::process::geteuid().as_raw(), place.secret);
    let name = name.parse().map_err(text)?;
    let group = LocalGroup::meet(&name, directory, place.rank, place.size).map_err(text)?;
    let options = CreateOptions::new().with_directory(directory);
    let context = Context::create_with(group, options).map_err(text)?;
    // The first rank's part is the whole table.
    let bytes = if place.rank == 0 { places::TABLE_BYTES } else { 0 };
    if let Ok(table) = context.allocate(bytes) {
        places::share(table);
    }
    let _ = CONTEXT.set(context);
    Ok(())
}

fn text(error: impl std::error::Error + 'static) -> String {
    quo::error::with_causes(&error)
}

fn context() -> Option<&'static Context> {
    CONTEXT.get().filter(|_| !OVER.load(Relaxed))
}

/// Returns true if the rank can lend.
pub fn is_ready() -> bool {
    context().is_some()
}

/// Lends, unless the rank lends already; gives back borrowed CPUs first. Returns the number of CPUs
/// given back, by which OpenMP's number of threads must be reduced.
pub fn lend() -> usize {
    if LENDS.load(Relaxed) {
        return 0;
    }
    let given = give_back();
    if let Some(context) = context()
        && context.start_lending().is_ok()
    {
        LENDS.store(true, Relaxed);
        TIMES_LENT.fetch_add(1, Relaxed);
    }
    given
}

/// Takes the rank's CPUs back, if it lent them.
#[inline]
pub fn reclaim() {
    let Some(context) = CONTEXT.get().filter(|_| LENDS.load(Relaxed)) else { return };
    let _ = context.stop_lending();
    LENDS.store(false, Relaxed);
    places::evict();
}

/// Returns the number of threads to use beyond the program's own number, `own`, in the region that
/// starts: for borrowed CPUs that the program's threads leave free. Borrows if others lend, and
/// gives back if an owner has returned.
pub fn extra_threads(own: usize) -> usize {
    if ROOM.load(Relaxed) == 0 {
        borrow_for_team(own)
    } else {
        borrow().saturating_sub(surplus(own))
    }
}

/// Like [`extra_threads`], for a region with a fixed number of threads: borrows for threads without
/// a CPU of the rank. Returns 0.
pub fn borrow_for_team(team: usize) -> usize {
    if surplus(team) > 0 {
        borrow();
    } else {
        reclaim();
        if ROOM.load(Relaxed) == 0 {
            give_back();
        }
    }
    0
}

/// Borrows if others lend, and gives back if an owner has returned. Returns the number of CPUs.
fn borrow() -> usize {
    let Some(context) = context() else { return 0 };
    reclaim();
    let room = REACH.load(Relaxed);
    if room == 0 {
        return 0;
    }
    let lenders = context.lenders();
    let borrowed = BORROWED.load(Relaxed);
    if borrowed > 0 {
        REGIONS.fetch_add(1, Relaxed);
        // More lenders than before means more CPUs to borrow.
        if !context.is_wanted_back() && lenders <= LENDERS.load(Relaxed) {
            return borrowed;
        }
        give_back();
    }
    if lenders == 0 {
        return 0;
    }
    let Ok(loan) = context.borrow_unbound() else { return 0 };
    let cpus = loan.cpus().len().min(room);
    if cpus > 0 {
        places::begin(OWN_CPUS.load(Relaxed), loan.cpus());
        BORROWED.store(cpus, Relaxed);
        LENDERS.store(lenders, Relaxed);
        TIMES_BORROWED.fetch_add(1, Relaxed);
        REGIONS.fetch_add(u64::from(borrowed == 0), Relaxed);
    }
    loan.keep();
    cpus
}

/// Returns true if this rank has borrowed CPUs.
pub fn borrows() -> bool {
    BORROWED.load(Relaxed) > 0
}

/// Returns true if an owner wants back what this rank has borrowed. One load per owner.
pub fn is_wanted() -> bool {
    borrows() && context().is_some_and(Context::is_wanted_back)
}

/// Gives back all borrowed CPUs. Returns their number.
pub fn give_back() -> usize {
    let borrowed = BORROWED.load(Relaxed);
    if borrowed > 0 {
        BORROWED.store(0, Relaxed);
        places::end();
        if let Some(context) = CONTEXT.get() {
            let _ = context.give_back();
        }
    }
    borrowed
}

/// Ends lending and borrowing for good, before MPI ends. Returns the line of the report.
pub fn end() -> Option<String> {
    if let Some(reason) = TROUBLE.get() {
        return Some(format!("does not lend: {reason}"));
    }
    context()?;
    reclaim();
    give_back();
    OVER.store(true, Relaxed);
    let keeps = match KEEPS.load(Relaxed) {
        true => {
            "; the program sets or asks for its number of threads: regions keep it, and borrow for threads beyond the \
             rank's own CPUs only (--malleable lets it vary)"
        }
        false => "",
    };
    Some(format!(
        "lent {} times, borrowed {} times, {} regions on borrowed CPUs{keeps}",
        TIMES_LENT.load(Relaxed),
        TIMES_BORROWED.load(Relaxed),
        REGIONS.load(Relaxed)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unbound_ranks_have_an_effect_and_bound_ones_none() {
        let effect = |masks: &[&str]| {
            let masks: Vec<CpuSet> = masks.iter().map(|mask| mask.parse().unwrap()).collect();
            effect_of_wide_masks(&masks)
        };
        assert!(effect(&["0-3", "0-3"]).unwrap().starts_with("no rank of this node lends"));
        assert!(
            effect(&["0", "1", "0-1"]).unwrap().contains("only while rank 2 of the node waits")
        );
        for bound in [&["0", "1"][..], &["0-1", "0-1", "2-3", "2-3"], &["0", "0"]] {
            assert_eq!(effect(bound), None, "{bound:?}");
        }
    }
}
