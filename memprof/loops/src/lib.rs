//! Loops of a program, found while it runs from its call sites of MPI.
//!
//! [`Graph`](graph::Graph) receives each MPI call when it returns: the return address, and the
//! times. A call site that is reached a second time closes a loop, whose body consists of the sites
//! since the first visit. From then on the graph is verified: a call along a known edge costs one
//! comparison, and only new edges change the graph. [`notice`] limits how often the graph is
//! reported, and [`reduce`] makes a tree of each process's loops and merges the trees of all
//! processes.
//!
//! Nothing here makes a system call or reads a clock; times are in any unit. The graph allocates
//! nothing. The method is an online version of Wei et al., "A new algorithm for identifying loops
//! in decompilation" (SAS 2007).
//!
//! floors: graph < notice < reduce

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod graph;
pub mod notice;
pub mod reduce;
