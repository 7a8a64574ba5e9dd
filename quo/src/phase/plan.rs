//! Options of a phase, and the part of each rank in it.

use std::ops::Range;
use std::time::Duration;

use super::exclusive::Sharing;
use super::pinning::Pinning;
use crate::context::quota::{self, Quotas};
use crate::cpuset::CpuSet;
use crate::plan::{Distribution, Policy, blocks, split_by_weight};
use crate::topology::{ObjectType, Topology};

/// How threading libraries get their number of threads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Threads {
    /// Leaves their numbers unchanged; the program sets them itself, see
    /// [`Worker::threads`](super::Worker).
    Keep,
    /// Sets the OpenMP and BLAS libraries found in the process, however they were loaded, to the
    /// worker's number of CPUs for the duration of the phase, and resets them afterwards. The
    /// default, in every language. A process may have several OpenMP runtimes; all are set, except
    /// if two of LLVM or Intel are loaded and none is in use or allowed next to the other
    /// (`KMP_DUPLICATE_LIB_OK`).
    ///
    /// If an OpenMP runtime pins its threads (`OMP_PROC_BIND`, `OMP_PLACES`, `GOMP_CPU_AFFINITY`,
    /// `KMP_AFFINITY`) or is LLVM's or Intel's, which confine theirs, the phase starts with an
    /// empty region of that many threads and binds the threads to the worker's CPUs until it ends:
    /// each to one CPU if the variables pin, see [`Pinning`]. The same region counts the threads if
    /// `OMP_DYNAMIC` lets the runtime choose.
    ///
    /// GNU's OpenMP decides once, when the process starts and from the CPUs it has then, how long
    /// its threads spin before they sleep. In a rank that starts on one core they hardly spin at
    /// all, even after a push to many; loops with little work between barriers then benefit from
    /// `OMP_WAIT_POLICY=active` with a small `GOMP_SPINCOUNT`, such as 3000.
    #[default]
    Follow,
}

/// The cores of a hybrid processor that a phase uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cores {
    /// All cores. Workers of one object share the fast cores and the slow ones evenly, by the
    /// [speed](crate::topology::CoreKind::speed) of each. The default.
    #[default]
    #[doc(alias = "QUO_CORES_ALL")]
    All,
    /// Cores of the fastest kind that the worker's object has. For work that waits for its slowest
    /// thread, such as OpenMP loops with a static schedule.
    #[doc(alias = "QUO_CORES_FASTEST")]
    Fastest,
}

impl Cores {
    /// Returns the CPUs of a set that the phase uses.
    fn among(self, cpus: CpuSet, topology: &Topology) -> CpuSet {
        match self {
            Self::All => cpus,
            Self::Fastest => topology.fastest(&cpus),
        }
    }
}

/// Request of a phase: its number of workers on each object, and their threads.
///
/// ```
/// use quo::phase::{PhaseSpec, Threads};
/// use quo::topology::ObjectType;
/// let spec = PhaseSpec::over(ObjectType::NumaNode)
///     .max_per_object(1)
///     .threads(Threads::Keep) // this solver sets its own thread counts
///     .name("diffusion");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct PhaseSpec {
    pub(super) over: ObjectType,
    pub(super) max_per_object: i64,
    pub(super) policy: Policy,
    pub(super) threads: Threads,
    pub(super) pinning: Pinning,
    pub(super) cores: Cores,
    pub(super) sharing: Sharing,
    pub(super) sharing_limit: Option<Duration>,
    pub(super) name: String,
}

impl PhaseSpec {
    /// Requests one worker per object of a type, whose threading libraries follow its binding. On a
    /// machine without packages, [`ObjectType::Package`] means the whole machine.
    pub fn over(over: ObjectType) -> Self {
        Self {
            over,
            max_per_object: 1,
            policy: Policy::default(),
            threads: Threads::default(),
            pinning: Pinning::default(),
            cores: Cores::default(),
            sharing: Sharing::default(),
            sharing_limit: None,
            name: "phase".to_owned(),
        }
    }

    /// Sets the maximum number of workers per object; the default is one. They share the object's
    /// CPUs without overlap, by whole cores while there are enough.
    pub fn max_per_object(mut self, workers: usize) -> Self {
        self.max_per_object = i64::try_from(workers).unwrap_or(i64::MAX);
        self
    }

    /// Sets the policy by which workers are selected.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Sets how threading libraries get their number of threads.
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = threads;
        self
    }

    /// Sets the CPUs that each OpenMP thread of a worker may use. Without effect with
    /// [`Threads::Keep`] and on a simulated machine. The phase starts with an empty region in each
    /// runtime, whose threads it pins until it ends. Threads that start later, such as those of
    /// inner teams, pin themselves by [`Phase::pin_thread`](super::Phase::pin_thread). Threads
    /// started by a pinned thread inherit its CPU.
    pub fn pinning(mut self, pinning: Pinning) -> Self {
        self.pinning = pinning;
        self
    }

    /// Sets the cores of a hybrid processor to use.
    pub fn cores(mut self, cores: Cores) -> Self {
        self.cores = cores;
        self
    }

    /// Sets how the phase treats phases of other contexts and jobs that want the same CPUs; the
    /// same on every rank. Entering is then collective over the node. Without effect on a simulated
    /// machine.
    ///
    /// Workers of one such phase must not share CPUs: there can be at most as many workers as CPUs.
    /// A phase inside another one waits for the outer one, so it fails at the limit.
    pub fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    /// Sets the time that the phase waits for its CPUs, after which it fails on every rank with
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout). The default is the timeout of the
    /// context's creation.
    pub fn sharing_limit(mut self, limit: Duration) -> Self {
        self.sharing_limit = Some(limit);
        self
    }

    /// Sets the name in metrics, traces and explanations.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Returns the type of the objects to spread workers over on this machine: some virtual
    /// machines have no packages.
    pub(super) fn over_on(&self, machine: &Topology) -> ObjectType {
        match self.over {
            ObjectType::Package if machine.count(ObjectType::Package) == 0 => ObjectType::Machine,
            over => over,
        }
    }
}

/// A worker's part in a phase.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub(super) cpus: CpuSet,
    pub(super) threads: usize,
    pub(super) ranks: Range<usize>,
}

impl Assignment {
    /// Returns the CPUs the worker is bound to for the phase.
    #[must_use]
    pub fn cpus(&self) -> &CpuSet {
        &self.cpus
    }

    /// Restricts the part of a worker that may use these CPUs only: to its share, or if none is
    /// left to the object it works on.
    pub(super) fn within(mut self, allowed: &CpuSet, object: &CpuSet) -> Self {
        if self.cpus.is_subset(allowed) {
            return self;
        }
        let parts = [&self.cpus, object].map(|part| part.intersection(allowed));
        if let Some(part) = parts.into_iter().find(|part| !part.is_empty()) {
            self.threads = self.threads.min(part.len());
            self.cpus = part;
        }
        self
    }

    /// Restricts the part to some of its CPUs.
    pub(super) fn narrow(&mut self, cpus: &CpuSet) {
        self.threads = self.threads.min(cpus.len());
        self.cpus = cpus.clone();
    }

    /// Restricts the part to at most `threads` threads.
    pub(super) fn limit_threads(&mut self, threads: usize) {
        self.threads = self.threads.min(threads).max(1);
    }

    /// Returns the number of threads that fills those CPUs, capped by the CPU quota of the worker's
    /// control group; 1 if there are more workers than CPUs. In a run of a phase that sets thread
    /// counts, at most the number that every OpenMP runtime of the process gives a region.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.threads
    }

    /// Returns the node ranks whose data the worker processes.
    #[must_use]
    pub fn ranks(&self) -> Range<usize> {
        self.ranks.clone()
    }
}

/// Returns the part of every node rank in a phase over `objects`: `None` for ranks that sleep.
/// Pure, the same on every rank.
///
/// Workers of one object share its allowed CPUs by whole cores, without overlap, and evenly by the
/// speeds of the cores while there are enough; together the workers serve all ranks.
#[must_use]
pub fn assignments(
    distribution: &Distribution,
    objects: &[CpuSet],
    topology: &Topology,
    used: Cores,
) -> Vec<Option<Assignment>> {
    let cores: Vec<CpuSet> =
        topology.objects(ObjectType::Core).iter().map(|core| core.cpuset.clone()).collect();
    let workers = distribution.selected();
    let ranks = blocks(distribution.object_of.len(), &workers);
    let mut parts = vec![None; distribution.object_of.len()];
    for (object, cpus) in objects.iter().enumerate() {
        // Objects with the same CPUs, such as the two memories of one NUMA domain, share workers.
        if objects[..object].contains(cpus) {
            continue;
        }
        let mut here: Vec<usize> = (object..objects.len())
            .filter(|&other| objects[other] == *cpus)
            .flat_map(|other| distribution.workers_on(other))
            .collect();
        here.sort_unstable();
        let cpus = used.among(cpus.intersection(topology.allowed()), topology);
        let weight = |core: &CpuSet| topology.weight_of(core);
        let Ok(shares) = split_by_weight(&cpus, &cores, weight, here.len()) else { continue };
        for (worker, share) in here.into_iter().zip(shares) {
            // If there are more workers than CPUs, the remaining workers share the object.
            let threads = share.len().max(1);
            let cpus = if share.is_empty() { cpus.clone() } else { share };
            let place = workers.iter().position(|&known| known == worker);
            let ranks = place.and_then(|place| ranks.get(place).cloned()).unwrap_or(0..0);
            parts[worker] = Some(Assignment { cpus, threads, ranks });
        }
    }
    parts
}

/// Deals out the objects without a worker, each as a whole to the worker with the fewest CPUs.
/// Pure.
pub(super) fn deal<'a>(
    parts: &mut [Option<Assignment>],
    objects: impl Iterator<Item = &'a CpuSet>,
    topology: &Topology,
    used: Cores,
) {
    for object in objects {
        let fewest = parts.iter_mut().flatten().min_by_key(|part| part.cpus.len());
        let Some(part) = fewest else { return };
        let more = used.among(object.intersection(topology.allowed()), topology);
        part.cpus = part.cpus.union(&more);
        part.threads = part.cpus.len();
    }
}

/// Lowers the threads of workers to the CPU quotas of their control groups. Pure.
pub(super) fn cap_threads(parts: &mut [Option<Assignment>], quotas: &[Quotas]) {
    let mut threads: Vec<usize> =
        parts.iter().map(|part| part.as_ref().map_or(0, |part| part.threads)).collect();
    quota::cap(&mut threads, quotas);
    for (part, threads) in parts.iter_mut().zip(threads) {
        if let Some(part) = part {
            part.threads = threads;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_of_one_object_share_cores_and_serve_all_ranks() {
        let machine = Topology::from_synthetic("pack:2 core:4 pu:2").unwrap();
        let packages: Vec<CpuSet> =
            machine.objects(ObjectType::Package).iter().map(|p| p.cpuset.clone()).collect();
        let object_of = vec![Some(0), None, Some(0), None, Some(1), None, None, None];
        let parts = assignments(&Distribution { object_of }, &packages, &machine, Cores::All);
        let show = |rank: usize| {
            let part: &Assignment = parts[rank].as_ref().unwrap();
            (part.cpus().to_string(), part.threads(), part.ranks())
        };
        assert_eq!(show(0), ("0-3".to_owned(), 4, 0..3));
        assert_eq!(show(2), ("4-7".to_owned(), 4, 3..6));
        assert_eq!(show(4), ("8-15".to_owned(), 8, 6..8));
        assert!(parts[1].is_none());
    }

    #[test]
    fn unoccupied_cpus_go_to_workers_with_the_fewest() {
        let machine = Topology::from_synthetic("pack:3 core:2 pu:1").unwrap();
        let part = |cpus: &str| {
            let cpus: CpuSet = cpus.parse().unwrap();
            Some(Assignment { threads: cpus.len(), cpus, ranks: 0..1 })
        };
        let mut parts = [part("0"), None, part("1")];
        let packages = machine.objects(ObjectType::Package);
        deal(&mut parts, packages[1..].iter().map(|package| &package.cpuset), &machine, Cores::All);
        let shown: Vec<_> =
            parts.iter().flatten().map(|part| (part.cpus.to_string(), part.threads)).collect();
        assert_eq!(shown, [("0,2-3".to_owned(), 3), ("1,4-5".to_owned(), 3)]);
    }

    #[test]
    fn a_worker_with_cpus_of_its_own_works_inside_them() {
        let set = |text: &str| text.parse::<CpuSet>().unwrap();
        let within = |allowed: &str| {
            let part = Assignment { cpus: set("0-3"), threads: 4, ranks: 0..2 };
            let part = part.within(&set(allowed), &set("0-7"));
            (part.cpus().to_string(), part.threads())
        };
        assert_eq!(within("0-7"), ("0-3".to_owned(), 4));
        assert_eq!(within("2-5"), ("2-3".to_owned(), 2));
        assert_eq!(within("5"), ("5".to_owned(), 1));
        // Nothing fits: the push has to report it.
        assert_eq!(within("9"), ("0-3".to_owned(), 4));
    }

    #[test]
    fn excess_workers_run_one_thread_on_the_whole_object() {
        let machine = Topology::from_synthetic("core:2 pu:1").unwrap();
        let whole = [CpuSet::from_range(0..2)];
        let plan = Distribution { object_of: vec![Some(0); 3] };
        let parts = assignments(&plan, &whole, &machine, Cores::All);
        let shown: Vec<_> =
            parts.iter().flatten().map(|part| (part.cpus().to_string(), part.threads())).collect();
        assert_eq!(shown, [("0".to_owned(), 1), ("1".to_owned(), 1), ("0-1".to_owned(), 1)]);
    }

    #[test]
    fn workers_of_two_equal_objects_do_not_overlap() {
        let machine = Topology::from_synthetic("core:4 pu:1").unwrap();
        let twice = [CpuSet::from_range(0..4), CpuSet::from_range(0..4)];
        let plan = Distribution { object_of: vec![Some(0), Some(1)] };
        let parts = assignments(&plan, &twice, &machine, Cores::All);
        let shown: Vec<_> = parts.iter().flatten().map(|part| part.cpus().to_string()).collect();
        assert_eq!(shown, ["0-1", "2-3"]);
    }

    /// Two workers on a processor of six fast cores with two PUs and eight slow cores.
    fn on_a_hybrid(used: Cores) -> Vec<(String, usize)> {
        let xml = include_str!("../../tests/machines/fast-and-slow-cores.xml");
        let machine = Topology::from_xml(xml).unwrap();
        let whole = [machine.machine_cpuset().clone()];
        let plan = Distribution { object_of: vec![Some(0), Some(0)] };
        let parts = assignments(&plan, &whole, &machine, used);
        parts.iter().flatten().map(|part| (part.cpus().to_string(), part.threads())).collect()
    }

    #[test]
    fn two_workers_share_fast_and_slow_cores_evenly() {
        let parts = on_a_hybrid(Cores::All);
        assert_eq!(parts, [("0-5,12-15".to_owned(), 10), ("6-11,16-19".to_owned(), 10)]);
    }

    #[test]
    fn fastest_cores_alone_are_shared_where_asked_for() {
        let parts = on_a_hybrid(Cores::Fastest);
        assert_eq!(parts, [("0-5".to_owned(), 6), ("6-11".to_owned(), 6)]);
    }
}
