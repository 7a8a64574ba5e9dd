//! Start of processes: what each MPI and launcher can do, and how a spawned process joins.

pub(crate) mod back_end;
pub(crate) mod host_probe;
pub(crate) mod slot_capacity;
pub(crate) mod starter;
