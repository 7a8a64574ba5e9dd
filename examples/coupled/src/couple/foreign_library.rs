//! Callee-driven, with a library in another language: the heat library in C++ has `quo` inside, and
//! nothing here knows of it.

use anyhow::Result;

use super::{Coupling, Problem};
use crate::deck::Over;
use crate::flow::FlowBlock;
use crate::l1;
use crate::l1::library::Library;
use crate::layout::Layout;
use crate::timeline::{Phase, Recorder};

/// The library and the bytes copied to and from it.
pub struct ForeignLibrary {
    library: Library,
    worker_count: usize,
    rows: Vec<f64>,
}

impl ForeignLibrary {
    /// At most `max` workers per object of type `over` on each node, for blocks of `values` values.
    /// Collective over all ranks.
    ///
    /// # Errors
    /// If the library cannot be set up; the same on every rank.
    pub fn new(
        problem: Problem,
        layout: &Layout,
        values: usize,
        over: Over,
        max: usize,
    ) -> Result<Self> {
        let library = Library::new(&layout.ranks, &problem.task(values, over, max))?;
        let worker_count = layout.total(usize::from(library.used().worker));
        Ok(ForeignLibrary { library, worker_count, rows: vec![0.0; values] })
    }
}

impl Coupling for ForeignLibrary {
    fn workers(&self) -> usize {
        self.worker_count
    }

    fn is_worker(&self) -> bool {
        self.library.used().worker
    }

    fn threads(&self) -> usize {
        self.library.used().threads
    }

    fn diffuse(
        &mut self,
        block: &mut FlowBlock,
        dt: f64,
        recorder: &mut Recorder,
    ) -> Result<Option<Result<l1::Solve, l1::Failure>>> {
        recorder.enter(Phase::Remap, 1);
        block.copy_rows_out(&mut self.rows);
        let l1::library::Used { worker, threads } = self.library.used();
        if worker {
            // How many threads it has is known when it has had them.
            recorder.enter(Phase::Diffusion, threads.max(1));
        } else {
            recorder.enter(Phase::Wait, 1);
        }
        let solve = self.library.step(dt, &mut self.rows)?;
        recorder.enter(Phase::Remap, 1);
        block.copy_heat_in(&self.rows);
        Ok(worker.then_some(solve))
    }

    fn finish(self: Box<Self>) -> Result<()> {
        self.library.free();
        Ok(())
    }
}
