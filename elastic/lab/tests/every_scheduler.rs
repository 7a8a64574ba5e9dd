//! Every scheduler on random workloads of all classes: nodes, times and work add up.

use elastic_lab::simulate::{Ending, Outcome, Settings, Simulation};
use elastic_lab::workload::{JobSpec, Model, Name, Program, ResizeCost, Work, Workload};
use elastic_policy::job::{Class, Limits};
use elastic_policy::state::Cluster;
use elastic_policy::time::{Span, Time};
use proptest::prelude::*;

const NODES: u32 = 16;

fn job() -> impl Strategy<Value = JobSpec> {
    let sizes = (1_u32..9, 0_u32..4, 0_u32..12);
    let times = (0_u64..300, 1_u32..12, 1_u32..4, 1_u64..60, 0_u64..3, 0_u64..60);
    let class = prop::sample::select(vec![
        Class::Rigid,
        Class::Moldable,
        Class::Resizable,
        Class::Malleable,
    ]);
    (class, sizes, times, any::<bool>(), 0_i32..2).prop_map(
        |(class, (start, less, more), times, acknowledges, priority)| {
            let (submitted, iterations, resize_every, each, cost, leave) = times;
            let limits = match class {
                Class::Rigid => Limits::exactly(start),
                Class::Resizable => Limits::between(start, (start + more).min(NODES), start),
                _ => Limits::between(
                    start.saturating_sub(less).max(1),
                    (start + more).min(NODES),
                    start,
                ),
            };
            let parallel = each as f64 * f64::from(start);
            let work = if class == Class::Rigid {
                Work::Fixed(Span::seconds(u64::from(iterations) * each))
            } else {
                Work::Iterative(Box::new(Program {
                    resize_every,
                    resize_cost: ResizeCost { any: Span::seconds(cost), table: Vec::new() },
                    leave_after: Span::seconds(leave),
                    acknowledges,
                    mpi_ratio: vec![(1, 0.001), (NODES, 0.2)],
                    ..Program::new(iterations, Model::Amdahl { serial: 0.5, parallel })
                }))
            };
            JobSpec {
                name: Name::Number(0),
                submitted: Time::seconds(submitted),
                class,
                limits,
                share: None,
                priority,
                walltime: Span::seconds(u64::from(iterations) * (each + 1)),
                work,
            }
        },
    )
}

fn run(name: &str, workload: &Workload) -> Result<Outcome, TestCaseError> {
    let mut policy = elastic_policy::named::policy(name).expect("a name of the list");
    let mut settings = Settings::new(Cluster { nodes: NODES, cores_per_node: 1 });
    settings.keep_course = true;
    settings.tick = Some(Span::seconds(60));
    let mut nobody = ();
    let simulation = Simulation::new(workload, settings, policy.as_mut(), &mut nobody);
    simulation.run().map_err(|error| TestCaseError::fail(error.to_string()))
}

/// Returns the node milliseconds of the pieces, or the first node that two jobs had at once.
fn node_time(outcome: &Outcome) -> Result<u64, String> {
    let mut by_node: Vec<Vec<(Time, Time, u32)>> = vec![Vec::new(); NODES as usize];
    let mut sum = 0;
    for piece in &outcome.pieces {
        sum += u64::from(piece.nodes.count) * piece.to.since(piece.from).0;
        for node in piece.nodes.first..piece.nodes.end() {
            by_node[node as usize].push((piece.from, piece.to, piece.job));
        }
    }
    for (node, times) in by_node.iter_mut().enumerate() {
        times.sort_unstable();
        if let Some(pair) = times.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            return Err(format!("node {node}: {pair:?}"));
        }
    }
    Ok(sum)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(60) })]

    #[test]
    fn nodes_and_times_add_up(jobs in prop::collection::vec(job(), 1..25)) {
        let workload = Workload::new(jobs, None);
        for (name, _) in elastic_policy::named::ALL {
            let outcome = run(name, &workload)?;
            let used: u64 = outcome.records.iter().map(|record| record.node_time).sum();
            let of_pieces = node_time(&outcome).map_err(|node| TestCaseError::fail(format!("{name}: {node}")))?;
            prop_assert_eq!(used, of_pieces, "{}", name);
            let busy: u64 = outcome
                .load
                .windows(2)
                .map(|pair| u64::from(pair[0].busy) * pair[1].at.since(pair[0].at).0)
                .sum();
            prop_assert_eq!(used, busy, "{}", name);
            for (record, spec) in outcome.records.iter().zip(&workload.jobs) {
                prop_assert!(record.started.is_some_and(|at| at >= spec.submitted), "{name}: {record:?}");
                prop_assert!(spec.limits.allows(record.started_on), "{name}: {record:?}");
                prop_assert!(record.largest <= spec.limits.max, "{name}: {record:?}");
                if record.resizes == 0 && record.ending == Ending::Completed {
                    let expected = match &spec.work {
                        Work::Fixed(length) => *length,
                        Work::Iterative(program) => {
                            let each = program.model.seconds(&[], record.started_on);
                            Span::from_seconds(each * f64::from(program.iterations))
                        }
                    };
                    let off = record.execution().0.abs_diff(expected.0);
                    prop_assert!(off <= u64::from(NODES), "{name}: {record:?}, not {expected}");
                }
            }
            prop_assert_eq!(&run(name, &workload)?, &outcome, "{} is not deterministic", name);
        }
    }
}
