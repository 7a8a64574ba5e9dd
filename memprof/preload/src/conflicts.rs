//! Others that stand where we do: allocators, sanitizers, preloaded tools, memory hooks of MPI.
