//! Back end for a simulated machine: masks are remembered, nothing is bound.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::{Backend, CALLER, Ledger, ThreadId};
use crate::cpuset::CpuSet;

/// One simulated mask for all threads of the process.
#[derive(Debug)]
pub struct Simulated {
    mask: Mutex<CpuSet>,
    ledger: Mutex<Ledger>,
}

impl Simulated {
    /// Returns a simulated process bound to `mask`.
    #[must_use]
    pub fn new(mask: CpuSet) -> Self {
        Self { mask: Mutex::new(mask), ledger: Mutex::default() }
    }

    /// Returns the simulated process on the machine called `machine`: created with `initial` the
    /// first time, and shared by every later context of this process, like a real mask.
    #[must_use]
    pub fn shared(machine: &str, initial: CpuSet) -> Arc<Self> {
        static MACHINES: OnceLock<Mutex<HashMap<String, Arc<Simulated>>>> = OnceLock::new();
        let mut machines =
            MACHINES.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner);
        let process =
            machines.entry(machine.to_owned()).or_insert_with(|| Arc::new(Self::new(initial)));
        Arc::clone(process)
    }
}

impl Backend for Simulated {
    fn thread_count(&self) -> io::Result<usize> {
        Ok(1)
    }

    fn threads(&self, threads: &mut Vec<ThreadId>, _count: usize) -> io::Result<()> {
        threads.clear();
        threads.push(CALLER);
        Ok(())
    }

    fn caller(&self) -> ThreadId {
        CALLER
    }

    fn mask(&self, _thread: ThreadId) -> io::Result<CpuSet> {
        Ok(self.mask.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }

    fn set_mask(&self, _thread: ThreadId, mask: &CpuSet) -> io::Result<()> {
        *self.mask.lock().unwrap_or_else(PoisonError::into_inner) = mask.clone();
        Ok(())
    }

    fn ledger(&self) -> &Mutex<Ledger> {
        &self.ledger
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity::BindingStack;

    #[test]
    fn simulated_mask_follows_pushes_and_pops() {
        let process = Arc::new(Simulated::new(CpuSet::from_range(0..4)));
        let mut stack = BindingStack::new(Arc::clone(&process) as Arc<dyn Backend>);
        stack.push(CpuSet::single(2)).unwrap();
        assert_eq!(process.mask(CALLER).unwrap(), CpuSet::single(2));
        assert_eq!(stack.entries(), [(CpuSet::from_range(0..4), CpuSet::single(2))]);
        stack.pop().unwrap();
        assert_eq!(process.mask(CALLER).unwrap(), CpuSet::from_range(0..4));
        assert_eq!((process.thread_count().unwrap(), process.everything()), (1, None));
        let mut threads = vec![7];
        process.threads(&mut threads, 1).unwrap();
        assert_eq!(threads, [CALLER]);
    }
}
