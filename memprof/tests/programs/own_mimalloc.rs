//! Allocates through mimalloc, which is part of the executable: large and small blocks on two
//! threads, half of which are freed before the ranks exchange their sums.

#![allow(clippy::print_stdout)] // The test reads it.

use mpi::collective::SystemOperation;
use mpi::traits::{Communicator, CommunicatorCollectives};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Large blocks of each thread, of a MiB each.
const LARGE: usize = 16;
/// Small blocks of each thread.
const SMALL: usize = 100_000;

/// Returns the sum of some bytes of blocks that were written and of which half were freed.
fn work(seed: usize) -> u64 {
    let mut large: Vec<Vec<u8>> = (0..LARGE).map(|at| vec![(at + seed) as u8; 1 << 20]).collect();
    let mut small: Vec<Box<usize>> = (0..SMALL).map(|at| Box::new(at + seed)).collect();
    large.truncate(LARGE / 2);
    small.truncate(SMALL / 2);
    let sum: u64 = large.iter().map(|block| u64::from(block[block.len() / 2])).sum();
    sum + small.iter().map(|block| **block as u64 % 2).sum::<u64>()
}

fn main() {
    let universe = mpi::initialize().expect("MPI was not initialized before");
    let world = universe.world();
    let other = std::thread::spawn(|| work(1));
    let sum = work(0) + other.join().expect("the other thread ends");
    let mut all = 0_u64;
    world.all_reduce_into(&sum, &mut all, SystemOperation::sum());
    if world.rank() == 0 {
        println!("sum {all}");
    }
}
