//! Cost of a context's calls in one process: queries, pushes, distribution, creation.
#![allow(clippy::unwrap_used, missing_docs)]

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use criterion::{Criterion, criterion_group, criterion_main};
use quo::affinity::kernel::mask_of;
use quo::affinity::{Backend, CALLER, Kernel, Target};
use quo::context::CreateOptions;
use quo::group::local::LocalSpace;
use quo::{Context, ObjectType};

fn context(directory: &std::path::Path) -> Context {
    let space = LocalSpace::new(1, directory).unwrap();
    let options = CreateOptions::new().with_directory(directory);
    Context::create_with(space.join(0).unwrap(), options).unwrap()
}

fn calls(bench: &mut Criterion) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let context = context(directory.path());
    let kernel = Kernel::new().unwrap();
    let narrow = quo::CpuSet::single(context.topology().allowed().first().unwrap());
    let wide = context.topology().allowed().clone();

    bench.bench_function("kernel: read a mask", |b| b.iter(|| mask_of(CALLER).unwrap()));
    bench.bench_function("kernel: widen and restore", |b| {
        kernel.set_mask(CALLER, &narrow).unwrap();
        b.iter(|| {
            kernel.set_mask(CALLER, &wide).unwrap();
            kernel.set_mask(CALLER, &narrow).unwrap();
        });
    });
    bench.bench_function("kernel: count threads", |b| b.iter(|| kernel.thread_count().unwrap()));
    bench.bench_function("push and pop an object", |b| {
        b.iter(|| {
            context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
            context.pop().unwrap();
        });
    });
    bench.bench_function("push and pop the enclosing object", |b| {
        b.iter(|| {
            context.push(&Target::Enclosing(ObjectType::Machine)).unwrap();
            context.pop().unwrap();
        });
    });
    // As many as a rank of Open MPI 4 has.
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let ended = std::sync::Mutex::new(ended);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| ended.lock().unwrap().recv().is_err());
        }
        bench.bench_function("push and pop an object, three threads", |b| {
            b.iter(|| {
                context.push(&Target::Object(ObjectType::Machine, 0)).unwrap();
                context.pop().unwrap();
            });
        });
        drop(end);
    });
    bench.bench_function("is_bound", |b| b.iter(|| context.is_bound().unwrap()));
    bench.bench_function("is_on", |b| b.iter(|| context.is_on(ObjectType::Core, 0).unwrap()));
    bench.bench_function("ranks_on, one rank", |b| {
        b.iter(|| context.ranks_on(ObjectType::Core, 0).unwrap());
    });
    bench.bench_function("count_inside", |b| {
        b.iter(|| context.count_inside(ObjectType::Machine, 0, black_box(ObjectType::Core)));
    });
    bench.bench_function("auto_distrib, one rank", |b| {
        b.iter(|| context.auto_distrib(ObjectType::Core, 1).unwrap());
    });
    let word = AtomicU64::new(0);
    bench.bench_function("two stores to an atomic word", |b| {
        b.iter(|| {
            black_box(&word).store(1, Ordering::Release);
            black_box(&word).store(2, Ordering::Release);
        });
    });
    bench.bench_function("lend and take back", |b| b.iter(|| context.lend_while(|| ()).unwrap()));
    bench
        .bench_function("borrow with nothing lent", |b| b.iter(|| drop(context.borrow().unwrap())));
    bench.bench_function("barrier, one rank", |b| b.iter(|| context.barrier().unwrap()));
    let phase = context.phase(quo::phase::PhaseSpec::over(ObjectType::Machine)).unwrap();
    bench.bench_function("an empty phase, one rank", |b| b.iter(|| phase.run(|_| ()).unwrap()));
    kernel.set_mask(CALLER, &wide).unwrap();
}

fn life(bench: &mut Criterion) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    bench.bench_function("one discovery of the machine", |b| {
        b.iter(|| quo::Topology::live().unwrap());
    });
    let _first = context(directory.path());
    bench.bench_function("a later create and free, one rank, group included", |b| {
        b.iter(|| context(directory.path()).free().unwrap());
    });
    let group = || LocalSpace::new(1, directory.path()).unwrap().join(0).unwrap();
    bench.bench_function("a group of one rank", |b| b.iter(group));
    let context = context(directory.path());
    let phase = context.phase(quo::phase::PhaseSpec::over(ObjectType::Machine)).unwrap();
    bench.bench_function("adapt and plan anew, one rank, group included", |b| {
        b.iter(|| {
            context.adapt(group()).unwrap();
            phase.run(|_| ()).unwrap();
        });
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .measurement_time(std::time::Duration::from_secs(1))
        .warm_up_time(std::time::Duration::from_millis(300));
    targets = calls, life
}
criterion_main!(benches);
