//! Exchange of ghost rows and agreement on the time step between ranks.

use std::time::{Duration, Instant};

use mpi::collective::SystemOperation;
use mpi::request::{WaitGuard, scope};
use mpi::topology::SimpleCommunicator;
use mpi::traits::{Communicator, CommunicatorCollectives, Destination, Source};

use super::{Edge, FlowBlock};

/// Message buffers of one rank, and the time it has spent in MPI.
pub struct Halo {
    send: [Vec<f64>; 2],
    receive: [Vec<f64>; 2],
    waited: Duration,
}

impl Halo {
    /// Buffers for `block`.
    pub fn new(block: &FlowBlock) -> Self {
        let pair = || [vec![0.0; block.edge_len()], vec![0.0; block.edge_len()]];
        Halo { send: pair(), receive: pair(), waited: Duration::ZERO }
    }

    /// Time spent in MPI since this was last asked.
    pub fn take_waited(&mut self) -> Duration {
        std::mem::take(&mut self.waited)
    }

    /// Fills the ghost rows of `block` from the ranks below and above, walls at the ends.
    /// Collective over `ranks`, with blocks in the order of ranks.
    pub fn exchange(&mut self, block: &mut FlowBlock, ranks: &SimpleCommunicator) {
        let (rank, size) = (ranks.rank(), ranks.size());
        let below = (rank > 0).then(|| rank - 1);
        let above = (rank + 1 < size).then(|| rank + 1);
        let [down, up] = &mut self.send;
        for (edge, neighbour, message) in [(Edge::Below, below, down), (Edge::Above, above, up)] {
            match neighbour {
                Some(_) => block.pack_edge(edge, message),
                None => block.wall(edge),
            }
        }
        let start = Instant::now();
        let [from_below, from_above] = &mut self.receive;
        scope(|scope| {
            let mut guards = Vec::with_capacity(4);
            for (neighbour, receive) in [(below, &mut *from_below), (above, &mut *from_above)] {
                if let Some(rank) = neighbour {
                    let request =
                        ranks.process_at_rank(rank).immediate_receive_into(scope, &mut receive[..]);
                    guards.push(Wait::Receive(WaitGuard::from(request)));
                }
            }
            for (neighbour, send) in [(below, &self.send[0]), (above, &self.send[1])] {
                if let Some(rank) = neighbour {
                    let request = ranks.process_at_rank(rank).immediate_send(scope, &send[..]);
                    guards.push(Wait::Send(WaitGuard::from(request)));
                }
            }
        });
        self.waited += start.elapsed();
        if below.is_some() {
            block.unpack_edge(Edge::Below, &self.receive[0]);
        }
        if above.is_some() {
            block.unpack_edge(Edge::Above, &self.receive[1]);
        }
    }

    /// The largest of all ranks' values. Collective over `ranks`.
    pub fn largest(&mut self, value: f64, ranks: &SimpleCommunicator) -> f64 {
        let start = Instant::now();
        let mut worst = value;
        ranks.all_reduce_into(&value, &mut worst, SystemOperation::max());
        self.waited += start.elapsed();
        worst
    }
}

/// A request under way; dropping it waits.
enum Wait<'a, S: mpi::request::Scope<'a>> {
    Receive(WaitGuard<'a, [f64], S>),
    Send(WaitGuard<'a, [f64], S>),
}
