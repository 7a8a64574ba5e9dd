//! Cost of a plan: every rank computes one on each distribution, so the small case is hot.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use quo::CpuSet;
use quo::plan::{DistributeRequest, Policy, distribute};

const CPUS_PER_OBJECT: usize = 4;

/// How the ranks were launched.
#[derive(Clone, Copy)]
enum Launch {
    Bound,
    Unbound,
    /// Every mask reaches into the next object, which makes the search hardest.
    Overlapping,
}

fn masks(ranks: usize, objects: usize, launch: Launch) -> Vec<CpuSet> {
    let cpus = objects * CPUS_PER_OBJECT;
    let mask = |rank: usize| {
        let first = rank * cpus / ranks;
        match launch {
            Launch::Bound => CpuSet::single(first),
            Launch::Unbound => CpuSet::from_range(0..cpus),
            Launch::Overlapping => (first..first + CPUS_PER_OBJECT + 1).map(|c| c % cpus).collect(),
        }
    };
    (0..ranks).map(mask).collect()
}

fn plans(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("distribute");
    for (ranks, count) in [(2, 2), (64, 8), (256, 256)] {
        let objects: Vec<CpuSet> = (0..count)
            .map(|o| CpuSet::from_range(o * CPUS_PER_OBJECT..(o + 1) * CPUS_PER_OBJECT))
            .collect();
        let allowed = CpuSet::from_range(0..count * CPUS_PER_OBJECT);
        for (name, launch) in [
            ("bound", Launch::Bound),
            ("unbound", Launch::Unbound),
            ("overlapping", Launch::Overlapping),
        ] {
            let masks = masks(ranks, count, launch);
            let request = DistributeRequest {
                objects: &objects,
                allowed: &allowed,
                masks: &masks,
                max_per_object: 1,
                policy: Policy::Spread,
            };
            let id = BenchmarkId::new(name, format!("{ranks} ranks, {count} objects"));
            group.bench_function(id, |bench| bench.iter(|| distribute(black_box(&request))));
        }
    }
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
