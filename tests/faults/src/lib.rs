//! Seeded, bounded, replayable faults at random points of the node runtime.
