//! Settings from the environment, read once.
