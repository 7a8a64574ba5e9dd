//! Pinning of each thread of a worker to one CPU: the options, the places, and threads pinned by a
//! call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::affinity::{Backend, ThreadId};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::topology::{ObjectType, Topology};

const CALL: &str = "pin a thread";

/// The CPUs that each OpenMP thread of a worker may use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pinning {
    /// As the variables that pin a runtime's threads request (`OMP_PROC_BIND`, `OMP_PLACES`,
    /// `GOMP_CPU_AFFINITY`, `KMP_AFFINITY`), but on the worker's CPUs: one thread per CPU, close or
    /// spread. All of the worker's CPUs for each thread if no variable pins. The default.
    #[default]
    #[doc(alias = "QUO_PINNING_ENVIRONMENT")]
    Environment,
    /// All of the worker's CPUs for each thread, whatever the variables say.
    #[doc(alias = "QUO_PINNING_NONE")]
    None,
    /// One thread per CPU, in the order of the machine: neighbours share a core or a cache.
    #[doc(alias = "QUO_PINNING_CLOSE")]
    Close,
    /// One thread per CPU, at even distances: if there are fewer threads than CPUs, they are far
    /// apart.
    #[doc(alias = "QUO_PINNING_SPREAD")]
    Spread,
}

/// Order in which threads take CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    Close,
    Spread,
}

impl Order {
    /// Returns the index of a thread's place among `places`. Pure.
    pub(super) fn place(self, number: usize, count: usize, places: usize) -> usize {
        match self {
            Self::Spread if count < places => number * places / count.max(1),
            // If there are more threads than CPUs, they share the CPUs evenly.
            _ if count > places => number * places / count,
            _ => number,
        }
    }
}

/// Returns the CPUs of a worker, one by one in the order of the machine. Pure.
pub(super) fn places(topology: &Topology, cpus: &CpuSet) -> Vec<CpuSet> {
    let each = topology.objects(ObjectType::Pu).iter().map(|pu| pu.cpuset.intersection(cpus));
    each.filter(|place| !place.is_empty()).collect()
}

/// A thread with its previous mask and the mask it was given.
#[derive(Clone, Debug)]
pub(super) struct Given {
    pub(super) thread: ThreadId,
    pub(super) before: CpuSet,
    pub(super) now: CpuSet,
}

/// Restores the masks of threads of this process, except threads that have ended or whose mask was
/// changed since.
pub(super) fn restore(backend: &dyn Backend, given: Vec<Given>) {
    if given.is_empty() {
        return;
    }
    // The id of a thread that has ended may belong to another process by now.
    let mut alive = Vec::new();
    if backend.threads(&mut alive, usize::MAX).is_err() {
        return;
    }
    alive.sort_unstable();
    for Given { thread, before, now } in given {
        if alive.binary_search(&thread).is_ok() && backend.mask(thread).is_ok_and(|it| it == now) {
            // Best effort: its CPUs may no longer be allowed.
            let _ = backend.set_mask(thread, &before);
        }
    }
}

/// Threads that pin themselves in a run of a phase.
#[derive(Clone, Debug, Default)]
pub(super) struct Pins(Arc<Mutex<Option<Open>>>);

#[derive(Debug)]
struct Open {
    /// `None` on a simulated machine.
    backend: Option<Arc<dyn Backend>>,
    order: Order,
    topology: Arc<Topology>,
    cpus: CpuSet,
    /// Places on these CPUs; computed for the first thread.
    places: Vec<CpuSet>,
    given: Vec<Given>,
}

impl Pins {
    /// Lets threads pin themselves to these CPUs.
    pub(super) fn open(
        &self,
        backend: Option<Arc<dyn Backend>>,
        pinning: Pinning,
        topology: Arc<Topology>,
        cpus: CpuSet,
    ) {
        let order = if pinning == Pinning::Spread { Order::Spread } else { Order::Close };
        let (places, given) = (Vec::new(), Vec::new());
        *self.lock() = Some(Open { backend, order, topology, cpus, places, given });
    }

    /// Stops pinning and restores the threads' masks.
    pub(super) fn close(&self) {
        if let Some(Open { backend: Some(backend), given, .. }) = self.lock().take() {
            restore(&*backend, given);
        }
    }

    /// Binds the calling thread, number `number` of `count`, to its place.
    pub(super) fn pin(&self, phase: &str, number: usize, count: usize) -> Result<(), Error> {
        let invalid = |reason| Error::InvalidArgument { call: CALL, reason };
        if number >= count {
            return Err(invalid(format!(
                "there is no thread {number} among {count}: numbers are from 0"
            )));
        }
        let mut open = self.lock();
        let Some(Open { backend, order, topology, cpus, places, given }) = &mut *open else {
            return Err(invalid(format!("this rank does not work in a run of `{phase}` now")));
        };
        let Some(backend) = backend else { return Ok(()) };
        if places.is_empty() {
            *places = self::places(topology, cpus);
        }
        if places.is_empty() {
            return Ok(());
        }
        let thread = backend.caller();
        let now = places[order.place(number, count, places.len())].clone();
        let system = |action| {
            move |source| {
                Error::Bind(crate::affinity::BindError::System { call: CALL, action, source })
            }
        };
        let before = backend.mask(thread).map_err(system("reading the mask"))?;
        backend.set_mask(thread, &now).map_err(system("setting the mask"))?;
        match given.iter_mut().find(|it| it.thread == thread && it.now == before) {
            Some(known) => known.now = now,
            None => {
                given.retain(|it| it.thread != thread);
                given.push(Given { thread, before, now });
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        // After a panic, the list is still correct for the threads in it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_take_places_close_spread_or_share_them() {
        let all = |order: Order, count: usize, places| {
            (0..count).map(|number| order.place(number, count, places)).collect::<Vec<_>>()
        };
        assert_eq!(all(Order::Close, 3, 8), [0, 1, 2]);
        assert_eq!(all(Order::Spread, 3, 8), [0, 2, 5]);
        assert_eq!(all(Order::Spread, 4, 4), [0, 1, 2, 3]);
        assert_eq!(all(Order::Close, 4, 2), [0, 0, 1, 1]);
        assert_eq!(all(Order::Spread, 4, 2), [0, 0, 1, 1]);
    }

    #[test]
    fn places_follow_the_order_of_the_machine() {
        let machine = Topology::from_synthetic("core:2 pu:2").unwrap();
        let shown: Vec<String> =
            places(&machine, &"0,2-3".parse().unwrap()).iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["0", "2", "3"]);
    }

    #[test]
    fn thread_outside_of_a_run_is_refused() {
        let pins = Pins::default();
        assert!(pins.pin("solve", 0, 1).unwrap_err().to_string().contains("`solve`"));
        let machine = Arc::new(Topology::from_synthetic("core:2 pu:1").unwrap());
        pins.open(None, Pinning::Close, machine, CpuSet::from_range(0..2));
        assert!(pins.pin("solve", 2, 2).is_err());
        assert!(pins.pin("solve", 1, 2).is_ok());
        pins.close();
        assert!(pins.pin("solve", 1, 2).is_err());
    }
}
