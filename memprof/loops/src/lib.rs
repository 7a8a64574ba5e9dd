//! Loops of a program, found while it runs by the places that it calls MPI from.
//!
//! [`Graph`](graph::Graph) is told each call of MPI as it returns: the address that called, and the times. A call site
//! that comes a second time closes a loop, whose body are the sites since the first. From then on the graph is verified:
//! a call along a known edge costs one comparison, and only what is new changes it. [`notice`] bounds how often others
//! are told, and [`reduce`] makes a tree of each process's loops and merges the trees of all.
//!
//! Nothing here makes a system call or reads a clock; times are in any unit. The graph allocates nothing. The method is
//! that of Wei et al., "A new algorithm for identifying loops in decompilation" (SAS 2007), on line.
//!
//! floors: graph < notice < reduce

#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod graph;
pub mod notice;
pub mod reduce;
