//! CPUs of running contexts, limited by a process outside of them.
#![allow(clippy::unwrap_used, missing_docs)]

mod support;

use quo::affinity::Target;
use quo::context::{Split, limit_cpus};
use quo::group::Group;
use quo::group::local::{LocalGroup, LocalSpace};
use quo::phase::PhaseSpec;
use quo::{Context, CpuSet, ErrorKind, ObjectType};
use support::contexts::options;
use support::{Ranks, Segments};

fn main() -> std::process::ExitCode {
    support::run(&[
        ("limit_holds_from_the_next_phase_on", limit_holds_from_the_next_phase_on),
        ("lifted_limit_gives_bindings_back", lifted_limit_gives_bindings_back),
        ("limit_waits_for_the_pop_of_what_is_pushed", limit_waits_for_the_pop),
        ("scope_without_limited_cpus_keeps_its_part", scope_without_limited_cpus_keeps_its_part),
        ("kernel_holds_ranks_inside_the_limit", kernel_holds_ranks_inside_the_limit),
        ("limits_without_sense_are_refused", limits_without_sense_are_refused),
    ])
}

fn set(list: &str) -> CpuSet {
    list.parse().unwrap()
}

/// Two ranks with a context, and a process that is not a rank and limits rank 0 between steps.
struct Job {
    all: LocalGroup,
    context: Option<Context>,
    first: i32,
}

impl Job {
    /// Sets a limit while no rank is in a call; all take part.
    fn limit(&self, cpus: Option<&str>) {
        self.all.barrier().unwrap();
        if self.context.is_none() {
            assert!(limit_cpus(self.first, cpus.map(set).as_ref()).unwrap() >= 1);
        }
        self.all.barrier().unwrap();
    }
}

fn with_job(environment: &[(&str, &str)], body: impl Fn(&Job)) {
    let segments = Segments::new();
    let space = LocalSpace::new(2, segments.path()).unwrap();
    let everyone = LocalSpace::new(3, segments.path()).unwrap();
    Ranks::fork(3, |rank| {
        for (name, value) in environment {
            support::contexts::set(name, value);
        }
        let all = everyone.join(rank).unwrap();
        let context = (rank < 2).then(|| {
            let group = space.join(rank).unwrap();
            Context::create_with(group, options(segments.path())).unwrap()
        });
        let ids = quo::group::allgather_bytes(
            &all,
            &std::process::id().to_ne_bytes(),
            &quo::group::WaitLimits::for_at_most(support::LIMIT),
        );
        let first = i32::from_ne_bytes(ids.unwrap()[0].clone().try_into().unwrap());
        let job = Job { all, context, first };
        body(&job);
        job.all.barrier().unwrap();
        if let Some(context) = job.context {
            context.free().unwrap();
        }
    })
    .succeed();
    drop((space, everyone));
    segments.assert_empty();
}

const BOUND: [(&str, &str); 2] = [("QUO_TOPOLOGY", "pack:2 core:4 pu:1"), ("QUO_BINDING", "core")];

fn workers(context: &Context) -> Option<String> {
    let phase = context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap();
    phase.run(|worker| worker.cpus().to_string()).unwrap().value
}

fn limit_holds_from_the_next_phase_on() {
    with_job(&BOUND, |job| {
        let phase = job
            .context
            .as_ref()
            .map(|context| context.phase(PhaseSpec::over(ObjectType::Machine)).unwrap());
        let check = |cpus: &str| {
            let (Some(phase), Some(context)) = (&phase, &job.context) else { return };
            let outcome = phase.run(|worker| worker.cpus().to_string()).unwrap();
            assert_eq!(outcome.value, (context.rank() == 0).then(|| cpus.to_owned()));
            assert_eq!(context.topology().allowed(), &set(cpus));
        };
        check("0-7");
        for cpus in ["0-3", "2-5", "7", "0-7"] {
            job.limit(Some(cpus));
            check(cpus);
            check(cpus);
        }
        job.limit(None);
        check("0-7");
    });
}

fn lifted_limit_gives_bindings_back() {
    with_job(&BOUND, |job| {
        let check = |bindings: [&str; 2]| {
            let Some(context) = &job.context else { return };
            workers(context);
            assert_eq!(context.binding().unwrap(), set(bindings[context.rank()]));
            assert_eq!(context.push_depth(), 0);
            let told = context.explain().unwrap().warnings;
            let is_limited = told.iter().any(|text| text.contains("limited to"));
            assert_eq!(is_limited, bindings != ["0", "1"], "{told:?}");
            assert_eq!(context.pop().unwrap_err().kind(), ErrorKind::Pop);
        };
        check(["0", "1"]);
        job.limit(Some("1-3"));
        check(["1-3", "1"]);
        job.limit(Some("4"));
        check(["4", "4"]);
        job.limit(None);
        check(["0", "1"]);
    });
}

fn limit_waits_for_the_pop() {
    with_job(&BOUND, |job| {
        let pushed = job
            .context
            .as_ref()
            .map(|context| context.push_guard(&Target::Object(ObjectType::Package, 0)).unwrap());
        job.limit(Some("4-7"));
        if let (Some(guard), Some(context)) = (pushed, &job.context) {
            let works = workers(context);
            assert_eq!(works, (context.rank() == 0).then(|| "4-7".to_owned()));
            assert_eq!(context.binding().unwrap(), set("0-3"), "pushed before");
            guard.pop().unwrap();
            assert_eq!(context.binding().unwrap(), set("4-7"));
        }
    });
}

fn scope_without_limited_cpus_keeps_its_part() {
    with_job(&BOUND[..1], |job| {
        let scope = job
            .context
            .as_ref()
            .map(|context| context.split(&Split::equally(2), context.rank()).unwrap());
        job.limit(Some("1-2"));
        if let Some(scope) = scope {
            // Only rank 0 was named, and it is only a member of its own scope.
            assert_eq!(workers(&scope).unwrap(), ["1-2", "4-7"][scope.part()]);
            scope.free().unwrap();
        }
    });
}

fn kernel_holds_ranks_inside_the_limit() {
    let mask = || quo::affinity::kernel::mask_of(0).unwrap();
    if mask() != CpuSet::from_range(0..2) {
        quo_tests::suite::skip("needs exactly CPUs 0 and 1");
    }
    with_job(&[], |job| {
        for (limit, cpus) in [(Some("1"), "1"), (Some("0"), "0"), (None, "0-1")] {
            job.limit(limit);
            let Some(context) = &job.context else { continue };
            assert_eq!(workers(context), (context.rank() == 0).then(|| cpus.to_owned()));
            assert_eq!(mask(), set(cpus));
            assert_eq!(context.allowed(), set(cpus));
        }
    });
}

fn limits_without_sense_are_refused() {
    with_job(&BOUND, |job| {
        if job.context.is_none() {
            let error = limit_cpus(job.first, Some(&set("90-99"))).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.to_string().contains("its job may use 0-7"), "{error}");
            let own = i32::try_from(std::process::id()).unwrap();
            let error = limit_cpus(own, None).unwrap_err().to_string();
            assert!(error.contains("has no context"), "{error}");
            assert!(
                limit_cpus(i32::MAX, None).unwrap_err().to_string().contains("there is no process")
            );
        }
        job.all.barrier().unwrap();
        if let Some(context) = &job.context {
            assert_eq!(workers(context), (context.rank() == 0).then(|| "0-7".to_owned()));
        }
    });
}
