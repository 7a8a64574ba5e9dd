//! Helpers of the tests of changing ranks.

use quo::context::CreateOptions;
use quo::group::LocalGroup;
use quo::node::SegmentName;
use quo::{Context, ObjectType};

use crate::support::contexts::options;
use crate::support::{Ranks, Segments};

/// Meeting places of a test, by number: known before the ranks are forked.
pub struct Places {
    pub segments: Segments,
    names: Vec<SegmentName>,
}

impl Places {
    pub fn new(count: usize) -> Self {
        let names = (0..count).map(|_| SegmentName::random().unwrap()).collect();
        Self { segments: Segments::new(), names }
    }

    pub fn meet(&self, place: usize, rank: usize, size: usize) -> LocalGroup {
        LocalGroup::meet(&self.names[place], self.segments.path(), rank, size).unwrap()
    }

    pub fn options(&self) -> CreateOptions {
        options(self.segments.path())
    }

    pub fn create(&self, place: usize, rank: usize, size: usize) -> Context {
        Context::create_with(self.meet(place, rank, size), self.options()).unwrap()
    }

    pub fn join(&self, place: usize, rank: usize, size: usize) -> Context {
        Context::join(self.meet(place, rank, size), self.options()).unwrap()
    }

    pub fn finish(self, ranks: Ranks) {
        ranks.succeed();
        self.segments.assert_empty();
    }
}

/// Checks everything that must hold for a context with `size` ranks on one node.
pub fn check(context: &Context, rank: usize, size: usize) {
    assert_eq!((context.rank(), context.size()), (rank, size));
    assert_eq!((context.node_rank(), context.node_size()), (rank, size));
    assert_eq!(context.rank_of(size), None);
    let all: Vec<usize> = (0..size).collect();
    assert_eq!(context.ranks_on(ObjectType::Machine, 0).unwrap(), all);
    assert_eq!(context.explain().unwrap().ranks.len(), size);
    for _ in 0..3 {
        context.barrier().unwrap();
    }
}
