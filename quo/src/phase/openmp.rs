//! OpenMP threads of a worker: how many a region gets, and moving threads that a runtime pins
//! elsewhere to the worker's CPUs.
//!
//! A runtime makes its list of places when it starts, which is before the first push, and pins the
//! threads that it starts later by that list. It does not pin threads again when a later team of
//! the same size reuses them: a region at the start of a phase finds the threads, which are then
//! moved. GNU's runtime pins by environment variables only; LLVM's and Intel's confine threads
//! without one. A process may have several runtimes, each with its own threads.

use std::fmt;
use std::sync::OnceLock;

use super::pinning::{Given, Order, Pinning, restore};
use crate::affinity::{Backend, ThreadId};
use crate::cpuset::CpuSet;
use crate::threading::{Family, Fewer, OpenMpRuntime, ThreadControls};

const PROC_BIND: &str = "OMP_PROC_BIND";
const PLACES: &str = "OMP_PLACES";
const GOMP: &str = "GOMP_CPU_AFFINITY";
const KMP: &str = "KMP_AFFINITY";

/// The values of `KMP_AFFINITY` that pin; its other words modify these.
const KMP_TYPES: [&str; 6] = ["balanced", "compact", "explicit", "logical", "physical", "scatter"];

/// An environment variable that pins OpenMP threads, with its value.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Pin {
    variable: &'static str,
    value: String,
}

impl fmt::Display for Pin {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}={}", self.variable, self.value)
    }
}

/// Returns the variable that pins the threads of a runtime, given the variables that are set. Pure.
fn pin(family: Family, value: impl Fn(&str) -> Option<String>) -> Option<Pin> {
    let set = |variable: &'static str| {
        value(variable).filter(|value| !value.is_empty()).map(|value| Pin { variable, value })
    };
    if family == Family::Kmp {
        if let Some(pin) = set(KMP) {
            // If set at all, it overrides the others.
            let words = pin.value.to_ascii_lowercase();
            let pins = words.split(',').any(|word| KMP_TYPES.contains(&word.trim()));
            return pins.then_some(pin);
        }
        if let Some(pin) = set(GOMP) {
            return Some(pin);
        }
    }
    let bind = set(PROC_BIND);
    if bind.as_ref().is_some_and(|bind| bind.value.trim().eq_ignore_ascii_case("false")) {
        return None;
    }
    bind.or_else(|| set(PLACES)).or_else(|| set(GOMP))
}

impl Pin {
    /// Returns the order in which the variable assigns places to threads; `None` if it keeps them
    /// together. Pure.
    fn order(&self) -> Option<Order> {
        let words = self.value.to_ascii_lowercase();
        // The first entry of a list is for the outermost team.
        let first = words.split(',').next().unwrap_or_default().trim();
        match self.variable {
            PROC_BIND if matches!(first, "master" | "primary") => None,
            PROC_BIND if first == "spread" => Some(Order::Spread),
            KMP if words.split(',').any(|word| word.trim() == "scatter") => Some(Order::Spread),
            _ => Some(Order::Close),
        }
    }
}

impl Pinning {
    /// Returns the order in which threads of a runtime get one CPU each; `None` if each may use
    /// all.
    fn order(self, pin: Option<&Pin>) -> Option<Order> {
        match self {
            Self::Environment => pin?.order(),
            Self::None => None,
            Self::Close => Some(Order::Close),
            Self::Spread => Some(Order::Spread),
        }
    }
}

/// Returns the variable that pins the threads of the runtimes of a family in this process.
fn pin_of(family: Family) -> Option<&'static Pin> {
    static PINS: OnceLock<[Option<Pin>; 2]> = OnceLock::new();
    let [gnu, kmp] = PINS.get_or_init(|| [Family::Gnu, Family::Kmp].map(|it| pin(it, variable)));
    match family {
        Family::Gnu => gnu.as_ref(),
        Family::Kmp => kmp.as_ref(),
    }
}

fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

/// Returns the names of the OpenMP runtimes of this process, each with its family.
pub(crate) fn names(controls: &ThreadControls) -> Vec<String> {
    let name = |(runtime, _): (std::sync::Arc<OpenMpRuntime>, bool)| match runtime.family {
        Family::Gnu => runtime.name.clone(),
        Family::Kmp => format!("{} (LLVM's or Intel's)", runtime.name),
    };
    controls.openmp_runtimes().into_iter().map(name).collect()
}

/// Returns warnings about the OpenMP runtimes of this process: runtimes that no phase may set,
/// variables that pin their threads, and variables that give teams other thread counts than a phase
/// sets.
pub(crate) fn warnings(controls: &ThreadControls) -> Vec<String> {
    let runtimes = controls.openmp_runtimes();
    let mut warnings = Vec::new();
    let left_out: Vec<&str> = runtimes
        .iter()
        .filter(|(_, is_callable)| !is_callable)
        .map(|(runtime, _)| runtime.name.as_str())
        .collect();
    if !left_out.is_empty() {
        warnings.push(format!(
            "phases do not set the thread count of {}: a process with two OpenMP runtimes of LLVM or Intel is ended by \
             the second one that is used; load one of them, or set KMP_DUPLICATE_LIB_OK=true",
            left_out.join(" and ")
        ));
    }
    let mut pins: Vec<(&Pin, bool)> = Vec::new();
    for (runtime, _) in &runtimes {
        if let Some(pin) = pin_of(runtime.family)
            && !pins.iter().any(|(known, _)| *known == pin)
        {
            pins.push((pin, runtime.has_regions()));
        }
    }
    warnings.extend(pins.into_iter().map(|(pin, movable)| warning_of(pin, movable)));
    if !runtimes.is_empty() {
        warnings.extend(inner_teams(&variable("OMP_NUM_THREADS").unwrap_or_default()));
    }
    if runtimes.iter().any(|(runtime, _)| runtime.family == Family::Kmp) {
        warnings.extend(uncounted(&variable(KMP).unwrap_or_default()));
    }
    warnings
}

/// Warns about a list of numbers, of which a phase sets the first. Pure.
fn inner_teams(list: &str) -> Option<String> {
    let (_, inner) = list.split_once(',')?;
    let more = inner.split(',').any(|number| number.trim().parse::<u32>().is_ok_and(|it| it > 1));
    more.then(|| {
        format!(
            "OMP_NUM_THREADS={list}: a phase sets the number of the outermost teams, and each of their threads has an \
             inner team of {inner}: more threads than CPUs"
        )
    })
}

/// Warns about values of `KMP_AFFINITY` that make a runtime count CPUs the rank does not have.
/// Pure.
fn uncounted(value: &str) -> Option<String> {
    let has = |word: &str| value.split(',').any(|it| it.trim().eq_ignore_ascii_case(word));
    (has("disabled") || has("norespect")).then(|| {
        format!(
            "KMP_AFFINITY={value}: omp_get_num_procs counts the CPUs of the machine and not those of the rank; take \
             the number of threads that the phase returns"
        )
    })
}

/// Returns the text of the warning about a pin; `movable` if phases can move the threads. Pure.
fn warning_of(pin: &Pin, movable: bool) -> String {
    let variable = pin.variable;
    let extent = if movable {
        "a phase that sets thread counts places the threads of its teams one per CPU of the worker instead, and \
         not those that start later (inner teams); other phases and pushes move none"
    } else {
        "neither phases nor pushes can move them"
    };
    format!(
        "{pin} pins OpenMP threads to CPUs that the runtime chose at its start; {extent}: \
         unset {variable}, or pin threads by QUO_phase_pin_thread"
    )
}

/// Where a worker's threads run.
pub(super) struct On<'a> {
    /// `None` on a simulated machine: nothing is moved.
    pub(super) backend: Option<&'a dyn Backend>,
    /// CPUs of the worker.
    pub(super) cpus: &'a CpuSet,
    /// Pinning that the phase requests.
    pub(super) pinning: Pinning,
    /// Returns these CPUs one by one, and the mask of the caller before the phase.
    pub(super) places: &'a dyn Fn() -> (Vec<CpuSet>, CpuSet),
}

impl On<'_> {
    /// Returns the mask of each thread of a team. If `inner` teams follow, whose threads some
    /// runtimes start on the CPUs that the caller had before the phase, the team takes these CPUs
    /// last.
    fn masks(&self, order: Option<Order>, count: usize, inner: bool) -> Vec<CpuSet> {
        let Some(order) = order.filter(|_| count > 1) else {
            return vec![self.cpus.clone(); count];
        };
        let (mut places, before) = (self.places)();
        if inner {
            places.sort_by_key(|place| place.intersects(&before));
        }
        let mask =
            |number| places.get(order.place(number, count, places.len())).unwrap_or(self.cpus);
        (0..count).map(|number| mask(number).clone()).collect()
    }
}

/// OpenMP threads of a worker whose thread counts a phase has set.
#[derive(Debug, Default)]
pub(super) struct Teams {
    /// Threads that were moved, with their masks before and in the phase.
    moved: Vec<Given>,
    /// Fewest threads that the next region of any runtime gets.
    pub(super) threads: usize,
    /// Threads that inherit the mask of a pinned caller.
    heirs: Option<Heirs>,
    /// For each runtime, why it gives fewer threads than planned and which threads are not pinned.
    pub(super) notes: Vec<String>,
}

impl Teams {
    /// Examines the team of `threads` threads that the caller's next region gets in each runtime,
    /// and moves it to the CPUs that the caller was bound to if the runtime pins or confines
    /// threads, or if the phase requests pinning.
    pub(super) fn by_phase<'a>(
        on: &On<'_>,
        runtimes: impl Iterator<Item = &'a OpenMpRuntime>,
        threads: usize,
    ) -> Self {
        let mut teams = Self { threads, ..Self::default() };
        let runtimes: Vec<&OpenMpRuntime> = runtimes.collect();
        // Moved after all regions have run: new threads inherit the mask of the caller.
        let mut found: Vec<(Vec<ThreadId>, Vec<CpuSet>)> = Vec::new();
        for runtime in &runtimes {
            let fewer = runtime.fewer(threads);
            let pin = pin_of(runtime.family);
            let order = on.pinning.order(pin);
            let confines = runtime.family == Family::Kmp || pin.is_some() || order.is_some();
            let moves = on.backend.filter(|_| confines);
            let inner = order.is_some() && runtime.has_inner_teams();
            if inner && moves.is_some() {
                teams.notes.push(inner_note(&runtime.name));
            }
            if threads > 1 && moves.is_some() && order.is_some() && !runtime.has_regions() {
                teams.notes.push(regions_note(&runtime.name));
            }
            let is_asked = threads > 1
                && runtime.has_regions()
                && fewer != Some(Fewer::Levels)
                && (moves.is_some() || fewer == Some(Fewer::Dynamic));
            if is_asked {
                // Threads of one runtime that spin after the region would disturb another
                // runtime's.
                let team = runtime.team(threads, runtimes.len() > 1);
                teams.count(runtime, threads, team.len(), fewer);
                if moves.is_some() {
                    let masks = on.masks(order, team.len(), inner);
                    found.push((team, masks));
                }
                continue;
            }
            let given = match fewer {
                Some(Fewer::Levels) => 1,
                Some(Fewer::Limit(limit)) => limit.min(threads),
                Some(Fewer::Dynamic) | None => threads,
            };
            teams.count(runtime, threads, given, fewer);
            if let Some(backend) = moves {
                // A runtime may bind the thread that calls it first.
                found.push((vec![backend.caller()], on.masks(None, 1, false)));
            }
        }
        if let Some(backend) = on.backend.filter(|_| !found.is_empty()) {
            teams.shift(backend, found, on.cpus);
        }
        teams
    }

    fn count(&mut self, runtime: &OpenMpRuntime, planned: usize, given: usize, why: Option<Fewer>) {
        if given < planned {
            self.threads = self.threads.min(given.max(1));
            self.notes.push(note(&runtime.name, planned, given, why));
        }
    }

    fn shift(
        &mut self,
        backend: &dyn Backend,
        found: Vec<(Vec<ThreadId>, Vec<CpuSet>)>,
        cpus: &CpuSet,
    ) {
        let caller = backend.caller();
        for (thread, now) in found.into_iter().flat_map(|(team, masks)| team.into_iter().zip(masks))
        {
            if thread == caller && self.heirs.is_some() {
                continue; // The first team has placed it.
            }
            // A thread that cannot be moved works where it is.
            let Ok(before) = backend.mask(thread) else { continue };
            if thread == caller && now != *cpus {
                self.heirs = Heirs::of(backend, &now, cpus);
            }
            if before != now && backend.set_mask(thread, &now).is_ok() {
                // The runtime may have pinned the caller too: it gets the mask of the push, for the
                // pop.
                let before = if thread == caller { cpus.clone() } else { before };
                self.moved.push(Given { thread, before, now });
            }
        }
    }

    /// Restores the threads' masks, except masks changed since. Must be called before the pop,
    /// which treats threads with the mask of the phase as the caller's followers.
    pub(super) fn restore(self, backend: &dyn Backend) {
        let mut given = self.moved;
        if let Some(heirs) = self.heirs {
            given.extend(heirs.found(backend));
        }
        restore(backend, given);
    }
}

/// Threads that a pinned caller starts in the phase inherit its CPU. At its end they get the mask
/// of the push, and follow the pop.
#[derive(Debug)]
struct Heirs {
    /// Threads that existed before, in ascending order.
    known: Vec<ThreadId>,
    pinned: CpuSet,
    cpus: CpuSet,
}

impl Heirs {
    fn of(backend: &dyn Backend, pinned: &CpuSet, cpus: &CpuSet) -> Option<Self> {
        let mut known = Vec::new();
        backend.threads(&mut known, usize::MAX).ok()?;
        known.sort_unstable();
        Some(Self { known, pinned: pinned.clone(), cpus: cpus.clone() })
    }

    fn found(self, backend: &dyn Backend) -> Vec<Given> {
        let mut now = Vec::new();
        // Best effort, like all restoring.
        let _ = backend.threads(&mut now, usize::MAX);
        let is_heir = |thread: &ThreadId| self.known.binary_search(thread).is_err();
        let given = |thread| Given { thread, before: self.cpus.clone(), now: self.pinned.clone() };
        now.into_iter().filter(is_heir).map(given).collect()
    }
}

/// Returns the note about threads of inner teams, which start in the phase. Pure.
fn inner_note(runtime: &str) -> String {
    format!(
        "{runtime} may have inner teams, whose threads it starts on its own places or on the CPU of the thread that \
         starts them: pin them by QUO_phase_pin_thread"
    )
}

/// Returns the note about a runtime whose threads cannot be found. Pure.
fn regions_note(runtime: &str) -> String {
    format!(
        "the threads of {runtime} are not pinned, as it has no GOMP_parallel: pin them by QUO_phase_pin_thread"
    )
}

/// Returns the note about a team that is smaller than planned. Pure.
fn note(runtime: &str, planned: usize, given: usize, why: Option<Fewer>) -> String {
    let why = match why {
        Some(Fewer::Limit(limit)) => format!("its limit is {limit} (OMP_THREAD_LIMIT)"),
        Some(Fewer::Levels) => {
            "the phase began in a parallel region, or no region may be active (OMP_MAX_ACTIVE_LEVELS)"
                .to_owned()
        }
        Some(Fewer::Dynamic) => {
            "it may choose (OMP_DYNAMIC), by the load of the machine for instance, and may choose \
             otherwise for the next region"
                .to_owned()
        }
        None => "it does not say why (KMP_ALL_THREADS, KMP_DEVICE_THREAD_LIMIT, the system's limits)"
            .to_owned(),
    };
    format!("{runtime} gives {given} of the {planned} threads that were planned: {why}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_inner_teams_are_a_warning() {
        assert!(inner_teams("4,2").unwrap().contains("OMP_NUM_THREADS=4,2"));
        assert_eq!(inner_teams("4,1"), None);
        assert_eq!(inner_teams("4"), None);
        assert!(uncounted("verbose,norespect").unwrap().contains("omp_get_num_procs"));
        assert_eq!(uncounted("compact"), None);
    }

    type Variables = &'static [(&'static str, &'static str)];

    fn pinned_by(family: Family, variables: Variables) -> Option<String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(variable, _)| *variable == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        pin(family, value).map(|pin| pin.to_string())
    }

    #[test]
    fn each_runtime_is_pinned_by_the_variables_it_obeys() {
        use Family::{Gnu, Kmp};
        let table: [(Family, Variables, Option<&str>); 16] = [
            (Gnu, &[], None),
            (Gnu, &[(PROC_BIND, "")], None),
            (Gnu, &[(PROC_BIND, "close"), (PLACES, "cores")], Some("OMP_PROC_BIND=close")),
            (Gnu, &[(PLACES, "cores"), (GOMP, "0 1")], Some("OMP_PLACES=cores")),
            (Gnu, &[(GOMP, "0 1")], Some("GOMP_CPU_AFFINITY=0 1")),
            (Gnu, &[(PROC_BIND, "FALSE"), (PLACES, "cores"), (GOMP, "0 1")], None),
            (Gnu, &[(KMP, "compact")], None),
            (Kmp, &[], None),
            (Kmp, &[(PROC_BIND, "spread")], Some("OMP_PROC_BIND=spread")),
            (Kmp, &[(PROC_BIND, "false"), (PLACES, "cores")], None),
            (Kmp, &[(PROC_BIND, "false"), (GOMP, "0 1")], Some("GOMP_CPU_AFFINITY=0 1")),
            (Kmp, &[(KMP, "compact"), (PROC_BIND, "false")], Some("KMP_AFFINITY=compact")),
            (Kmp, &[(KMP, "verbose,Scatter")], Some("KMP_AFFINITY=verbose,Scatter")),
            (Kmp, &[(KMP, "verbose,none")], None),
            (Kmp, &[(KMP, "none"), (PROC_BIND, "close")], None),
            (Kmp, &[(KMP, "disabled")], None),
        ];
        for (family, variables, expected) in table {
            let found = pinned_by(family, variables);
            assert_eq!(found.as_deref(), expected, "{family:?} {variables:?}");
        }
    }

    #[test]
    fn warning_names_the_variable_and_its_value() {
        let pin = Pin { variable: PLACES, value: "cores".to_owned() };
        for (movable, extent) in [(true, "one per CPU"), (false, "neither")] {
            let text = warning_of(&pin, movable);
            assert!(text.starts_with("OMP_PLACES=cores pins") && text.contains(extent), "{text}");
        }
    }
}
