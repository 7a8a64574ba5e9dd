//! State machines in shared memory, free of system calls. Each is generic over the atomic type, so
//! that the model checker runs the same code as the processes.

pub(crate) mod barrier;
pub(crate) mod lending;
