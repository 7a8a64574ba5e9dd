//! Which rank this is, from the environment that launchers set.
