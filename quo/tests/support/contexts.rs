//! Ranks that each have a context.

use std::path::Path;
use std::time::Duration;

use quo::Context;
use quo::context::CreateOptions;
use quo::group::local::LocalSpace;

use super::{Ranks, Segments};

/// A machine that most tests of contexts simulate.
pub const TWO_PACKAGES: &str = "pack:2 core:4 pu:2";

/// Sets a variable for this process, which has one thread.
pub fn set(name: &str, value: &str) {
    // SAFETY: the ranks of these tests are forked from a process with one thread and have one too.
    unsafe { std::env::set_var(name, value) };
}

/// Options for a test whose segments lie in `directory`.
pub fn options(directory: &Path) -> CreateOptions {
    CreateOptions::new().with_directory(directory).with_create_timeout(Duration::from_secs(30))
}

/// Forks ranks that each create a context and run `body` in it; all have to succeed.
pub fn with_contexts(size: usize, environment: &[(&str, &str)], body: impl Fn(&Context)) {
    let segments = Segments::new();
    let space = LocalSpace::new(size, segments.path()).unwrap();
    Ranks::fork(size, |rank| {
        for (name, value) in environment {
            set(name, value);
        }
        let group = space.join(rank).unwrap();
        let context = Context::create_with(group, options(segments.path())).unwrap();
        body(&context);
        context.barrier().unwrap();
        context.free().unwrap();
    })
    .succeed();
    drop(space);
    segments.assert_empty();
}
