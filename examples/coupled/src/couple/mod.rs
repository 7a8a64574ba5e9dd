//! Ways in which L0 calls L1: one file per way.
//!
//! | mode | who runs L1 | how the data gets there | what the others do |
//! |---|---|---|---|
//! | [`under`] | every rank | it is there | there are no others |
//! | [`over`] | the first ranks of each node | messages | spin in `MPI_Barrier` |
//! | quo: [`quo_caller`], [`heat_library`], [`foreign_library`] | ranks selected by `quo` | memory the node shares | sleep |

pub mod foreign_library;
pub mod heat_library;
pub mod over;
pub mod quo_caller;
mod shared;
pub mod under;

use anyhow::{Result, bail};
use mpi::topology::SimpleCommunicator;
use quo::Context;

use crate::deck::{Deck, Over};
use crate::flow::{FlowBlock, Mesh};
use crate::l1;
use crate::layout::Layout;
use crate::timeline::Recorder;

/// A way to run L1.
pub trait Coupling {
    /// Number of ranks that run L1, over all nodes.
    fn workers(&self) -> usize;

    /// Returns true if this rank does.
    fn is_worker(&self) -> bool;

    /// Threads of L1 on this rank; 0 if it does not run L1.
    fn threads(&self) -> usize;

    /// Moves the heat of `block` on by `dt` seconds of diffusion and records its work. Collective over all ranks.
    /// `None` on ranks that did not run L1.
    ///
    /// # Errors
    /// Of the runtime below, the same on all ranks of a node.
    fn diffuse(
        &mut self,
        block: &mut FlowBlock,
        dt: f64,
        recorder: &mut Recorder,
    ) -> Result<Option<Result<l1::Solve, l1::Failure>>>;

    /// The ranks are others, and the context knows them already: makes anew the parts that depend on them, for blocks
    /// of `values` values. Collective over the new ranks.
    ///
    /// # Errors
    /// If shared memory is not to be had, or this way knows no other ranks.
    fn adapt(&mut self, layout: &Layout, values: usize) -> Result<()> {
        let _ = (layout, values);
        bail!("L1 is run in a way that keeps its ranks")
    }

    /// The context through which ranks sleep and lend their cores, if there is one.
    fn context(&self) -> Option<&Context> {
        None
    }

    /// Gives back the parts that were set up. Collective over all ranks.
    ///
    /// # Errors
    /// Of the runtime below.
    fn finish(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// Problem that L1 is asked to solve, the same at every step but for the time.
#[derive(Copy, Clone, Debug)]
pub struct Problem {
    mesh: Mesh,
    solver: l1::Solver,
    kappa: f64,
    tolerance: f64,
    max_iterations: usize,
}

impl Problem {
    /// From a deck.
    pub fn new(deck: &Deck, solver: l1::Solver) -> Self {
        let part = &deck.diffusion;
        Problem {
            mesh: deck.mesh(),
            solver,
            kappa: part.kappa,
            tolerance: part.tolerance,
            max_iterations: part.max_iterations,
        }
    }

    /// Sets on how many threads this rank's steps are solved.
    pub fn set_threads(&self, threads: usize) {
        self.solver.set_threads(threads);
    }

    /// As the heat library takes it, for a rank's rows of `values` values.
    pub fn task(&self, values: usize, over: Over, max: usize) -> l1::library::Task {
        let Mesh { nx, dx, dy, .. } = self.mesh;
        l1::library::Task {
            block: l1::Block { nx, rows: values / (2 * nx), dx, dy },
            kappa: self.kappa,
            tolerance: self.tolerance,
            max_iterations: self.max_iterations,
            over,
            max,
        }
    }

    /// Calls L1 on consecutive rows, each its depths followed by its heats.
    pub fn solve(
        &self,
        workers: &SimpleCommunicator,
        dt: f64,
        rows: &mut [f64],
    ) -> Result<l1::Solve, l1::Failure> {
        let Mesh { nx, dx, dy, .. } = self.mesh;
        let block = l1::Block { nx, rows: rows.len() / (2 * nx), dx, dy };
        let options = l1::Options {
            dt,
            kappa: self.kappa,
            tolerance: self.tolerance,
            max_iterations: self.max_iterations,
        };
        l1::diffuse(self.solver, Some(workers), &block, &options, rows)
    }
}
