//! Every decision of every scheduler, with its reason, in fixed pseudo-random worlds.
//!
//! Times, sizes and measurements are coarse, so that ties and limits that are just reached are
//! frequent. A change that is meant to alter decisions has to update the table below; the lines of
//! [`decisions`] show the differences.

use super::*;
use crate::rigid::{Conservative, Easy, Fcfs};

const WORLDS: u64 = 120;
const STEPS: u32 = 90;

/// Pseudo-random numbers that are the same on all platforms.
struct Draw(u64);

impl Draw {
    fn below(&mut self, end: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }

    /// Draws a step of a world with jobs of all classes, or with rigid jobs and jobs that one kind of
    /// scheduler resizes.
    fn step(&mut self, world: u64) -> Step {
        let job = self.below(1 << 20) as usize;
        let classes: [u8; 4] =
            [[0, 1, 2, 3], [0, 2, 2, 2], [0, 3, 3, 3], [0, 0, 1, 3]][world as usize % 4];
        match self.below(16) {
            0..4 => Step::Submit {
                class: classes[self.below(4) as usize],
                min: 1 + self.below(6) as u32,
                more: 2 * self.below(8) as u32,
                rule: self.below(4) as u8,
                walltime: 30 * self.below(12),
                priority: self.below(3) as i32,
            },
            4..6 => Step::End(job),
            6..11 => match classes[1] {
                3 => self.measured(job),
                _ => Step::Point {
                    job,
                    seconds: 2.0 * self.below(16) as f64,
                    left: self.below(12) as u32,
                },
            },
            11 => self.measured(job),
            12 => Step::Resized { job, cost: 10 * self.below(4) },
            13 => Step::Left(job),
            _ => Step::Tick,
        }
    }

    fn measured(&mut self, job: usize) -> Step {
        let mut ratio = || [0.0, 0.0, 0.001, 0.001, 0.005, 0.05, 0.2][self.below(7) as usize];
        Step::Measured { job, total: ratio(), recent: ratio() }
    }
}

fn schedulers() -> Vec<Box<dyn Policy>> {
    let mut all = policies();
    all.push(Box::new(TwoParts {
        at_most: 2,
        look_ahead: Span::seconds(60),
        ..TwoParts::default()
    }));
    for (balancing, filling) in [(true, false), (false, true)] {
        let mut backfill = ElasticBackfill::default();
        (backfill.balancing, backfill.filling) = (balancing, filling);
        all.push(Box::new(backfill));
    }
    all.push(Box::new(Fcfs));
    all.push(Box::new(Easy::default()));
    all.push(Box::new(Easy { only_short: true }));
    all.push(Box::new(Conservative::default()));
    all
}

/// Returns the decisions of a scheduler in one world, one line each.
fn decisions(policy: &mut dyn Policy, world: u64) -> Vec<String> {
    let mut draw = Draw(world);
    let mut state = cluster(8 + draw.below(24) as u32);
    let (mut now, mut submitted, mut lines) = (0, 0, Vec::new());
    for _ in 0..STEPS {
        now += 10 * draw.below(4);
        state.advance(Time::seconds(now)).unwrap();
        let step = draw.step(world);
        let Some(event) = event(&mut state, &mut submitted, &step) else { continue };
        if !matches!(event, Event::Submitted(_)) {
            state.record(event).unwrap();
        }
        let decided = decide(&mut state, policy, &[event]);
        lines.extend(decided.iter().map(|one| format!("{now} {:?}: {}", one.action, one.reason.0)));
    }
    lines
}

/// FNV-1a of 32 bits.
fn digest(lines: &[String]) -> u32 {
    let bytes = lines.iter().flat_map(|line| line.bytes().chain([b'\n']));
    bytes.fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[test]
fn all_schedulers_decide_and_explain_as_recorded() {
    let mut table = String::from("\n");
    for index in 0..schedulers().len() {
        let mut lines = Vec::new();
        let mut name = String::new();
        for world in 0..WORLDS {
            let mut policy = schedulers().swap_remove(index);
            lines.extend(decisions(policy.as_mut(), world));
            name = policy.name().to_owned();
        }
        table += &format!("{name:18} {:5} decisions {:08x}\n", lines.len(), digest(&lines));
    }
    assert_eq!(table, RECORDED);
}

const RECORDED: &str = "
pba-q               3997 decisions 5e0e1f3c
fair-q              4006 decisions 06fc44e4
fcfs-li-q           3973 decisions 6a7cb3c9
greedy-r            3937 decisions c67090e5
fair-r              3965 decisions e4e646b3
pba                 6810 decisions 7186fdaf
fcfs-pr             6808 decisions 752d4b98
max-b               6776 decisions 4571c729
pba-q               3997 decisions 0f2ce6ad
elastic-backfill    2954 decisions 352c825b
two-parts-egs       1341 decisions 694ca9eb
two-parts-fpsma     1328 decisions 8fd0b494
two-parts-egs       1226 decisions 91bb25dd
elastic-backfill    2924 decisions 54d941ab
elastic-backfill    2964 decisions 097328f2
fcfs                 922 decisions 036131d7
easy                2944 decisions 250695ae
easy-short          3937 decisions ce188363
conservative        7871 decisions a7ad24b6
";
