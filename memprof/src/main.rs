//! `memprof`: where every byte went, per component, per rank, over time.

fn main() {}
