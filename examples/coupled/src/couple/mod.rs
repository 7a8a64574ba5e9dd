//! Ways in which L0 calls L1: one file per way.
//!
//! | mode | ranks that run L1 | how the data gets there | what the others do |
//! |---|---|---|---|
//! | [`under`] | every rank | it is there | there are no others |
//! | [`over`] | the first ranks of each node | messages | spin in `MPI_Barrier` |
//! | quo: [`quo_caller`], [`heat_library`] | ranks selected by `quo` | memory the node shares | sleep |

mod heat_library;
mod over;
mod quo_caller;
mod shared;
mod under;

use anyhow::{Context as _, Result, bail, ensure};
use mpi::topology::SimpleCommunicator;
use quo::{Context, ObjectType};
use quo_mpi::MpiGroup;

use crate::deck::{Deck, Variant};
use crate::flow::FlowBlock;
use crate::l1::{Failure, Problem, Solve};
use crate::layout::{Layout, agree};
use crate::result::Mode;
use crate::timeline::Recorder;

/// Outcome of a step of L1 on a rank; `None` if the rank did not run L1.
pub type Step = Option<Result<Solve, Failure>>;

/// A way to run L1.
pub trait Coupling {
    /// The ranks that run L1.
    fn team(&self) -> &Team;

    /// Moves the heat of `block` on by `dt` seconds of diffusion and records its work. Collective over all ranks.
    ///
    /// # Errors
    /// Of the runtime below, the same on all ranks of a node.
    fn diffuse(&mut self, block: &mut FlowBlock, dt: f64, recorder: &mut Recorder) -> Result<Step>;

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

/// The ranks that run L1.
pub struct Team {
    /// A communicator of them, on these ranks.
    pub workers: Option<SimpleCommunicator>,
    /// Number of them, over all nodes.
    pub count: usize,
    /// Threads of L1 on this rank; 0 if it does not run L1.
    pub threads: usize,
}

impl Team {
    /// Of the ranks that give a number of threads. Collective over all ranks.
    fn new(layout: &Layout, threads: Option<usize>) -> Team {
        Team {
            workers: layout.among(threads.is_some()),
            count: layout.total(usize::from(threads.is_some())),
            threads: threads.unwrap_or(0),
        }
    }
}

/// Problem and ranks of a run.
pub struct Setup<'a> {
    pub deck: &'a Deck,
    pub layout: &'a Layout,
    /// Values in the rows of this rank.
    pub values: usize,
}

impl Setup<'_> {
    fn problem(&self) -> Problem {
        let (mesh, part) = (self.deck.mesh(), &self.deck.diffusion);
        Problem {
            nx: mesh.nx,
            dx: mesh.dx,
            dy: mesh.dy,
            kappa: part.kappa,
            tolerance: part.tolerance,
            max_iterations: part.max_iterations,
        }
    }

    /// At most so many workers per object of this type on each node.
    fn spread(&self) -> (ObjectType, usize) {
        (self.deck.coupling.over.object_type(), self.deck.coupling.max)
    }

    /// The context `given`, or a new one over the ranks. Collective.
    fn context(&self, given: Option<Context>) -> Result<Context> {
        let ranks = &self.layout.ranks;
        let create = || {
            let group = MpiGroup::new(ranks).context("making a group for the context")?;
            Context::create(group).context("creating the context")
        };
        given.map_or_else(|| agree(ranks, create()), Ok)
    }

    /// Sets up `mode`; with `quo` over the context `given`, else over a new one. Collective over
    /// all ranks.
    ///
    /// # Errors
    /// If the machine cannot be discovered, or a context or shared memory is not to be had.
    pub fn coupling(
        &self,
        mode: Mode,
        variant: Variant,
        given: Option<Context>,
    ) -> Result<Box<dyn Coupling>> {
        Ok(match (mode, variant) {
            (Mode::Under, _) => Box::new(under::Under::new(self)),
            (Mode::Over, _) => Box::new(over::Over::new(self)?),
            (Mode::Quo, Variant::Caller) => Box::new(quo_caller::QuoCaller::new(self, given)?),
            (Mode::Quo, Variant::Callee) => Box::new(heat_library::HeatLibrary::new(self, given)?),
        })
    }
}

/// Fails unless the context sees the nodes that MPI does: blocks are in the order of node ranks.
fn same_node(context: &Context, layout: &Layout) -> Result<()> {
    let (own, theirs) = (context.node_rank(), layout.node_rank());
    ensure!(
        (own, context.node_size()) == (theirs, layout.node_size()),
        "the context has other nodes than MPI: this rank is {own} on its node, not {theirs}"
    );
    Ok(())
}
