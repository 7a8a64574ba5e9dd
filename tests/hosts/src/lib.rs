//! Several hosts on one machine: a network namespace each, with its own name, `/dev/shm` and `/run`.
