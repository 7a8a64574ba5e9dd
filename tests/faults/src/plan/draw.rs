//! Draws a round.

use std::time::Duration;

use quo::ObjectType;

use super::{Abilities, Child, Fate, Machine, Moment, Plan, Push, SURE, Stage, Strike};
use crate::dice::Dice;

/// Longest time from the beginning of a stage to a strike inside it.
const LONGEST: Duration = Duration::from_millis(3);

/// Approximate duration of a creation.
const CREATION: Duration = Duration::from_millis(15);

const MACHINES: &[(usize, Machine)] = &[
    (6, Machine::Live),
    (2, Machine::Simulated { topology: "pack:2 core:4 pu:2", binding: "core" }),
    (1, Machine::Simulated { topology: "pack:2 core:4 pu:2", binding: "none" }),
    (1, Machine::Simulated { topology: "pack:2 numa:2 core:3 pu:1", binding: "numa" }),
];

impl Plan {
    /// Draws the round of a seed with this number, on a machine with these abilities.
    #[must_use]
    pub fn draw(seed: u64, round: u64, abilities: Abilities) -> Self {
        let dice = &mut Dice::new(&[seed, round]);
        let members = dice.weighted(&[(30, 2), (30, 3), (20, 4), (10, 5), (6, 6), (3, 8), (1, 12)]);
        let machine = dice.weighted(MACHINES);
        let fate = draw_fate(dice, abilities);
        let parts: Vec<Vec<usize>> =
            (0..dice.between(1, 2)).map(|_| draw_part(dice, members)).collect();
        let stages = draw_stages(dice, members, machine, parts.len());
        let strikes = draw_strikes(dice, fate, members, stages.len());
        let own_world = fate == Fate::Recycle || abilities.namespaces && dice.chance(30);
        let stray = (abilities.namespaces && dice.chance(20)).then(|| dice.below(members));
        Self {
            seed,
            round,
            members,
            machine,
            own_world,
            // A PID is reused within the round's own namespace.
            stray: stray.filter(|_| fate != Fate::Recycle),
            bound: machine == Machine::Live && dice.chance(40),
            threads: dice.pick(&[0, 0, 1, 2]),
            reap: fate == Fate::Recycle || dice.chance(50),
            parts,
            stages,
            fate,
            strikes,
        }
    }
}

fn draw_fate(dice: &mut Dice, abilities: Abilities) -> Fate {
    let hold = Duration::from_millis(dice.pick(&[1, 10, 100, 400, 800, 1_300]));
    let child = dice.pick(&[Child::Ends, Child::Acts, Child::Drops, Child::Lingers]);
    let handlers = dice.chance(50);
    let recycle = if abilities.namespaces { 6 } else { 0 };
    dice.weighted(&[
        (2, Fate::Nothing),
        (36, Fate::Kill),
        (6, Fate::Orphan),
        (recycle, Fate::Recycle),
        (12, Fate::Stop(hold)),
        (5, Fate::StopKill(hold)),
        (10, Fate::Exit { handlers }),
        (9, Fate::Exec),
        (5, Fate::Slow(hold)),
        (9, Fate::Fork(child)),
    ])
}

/// Draws at least one member, in ascending order.
fn draw_part(dice: &mut Dice, members: usize) -> Vec<usize> {
    let always = dice.below(members);
    (0..members).filter(|&member| member == always || dice.chance(60)).collect()
}

fn draw_stages(dice: &mut Dice, members: usize, machine: Machine, parts: usize) -> Vec<Stage> {
    let mut stages = vec![Stage::Create];
    let mut pushed = 0;
    for _ in 0..dice.between(3, 14) {
        let stage = match dice.below(16) {
            0..2 => Stage::Barrier,
            2..4 => Stage::Timed { limit: draw_limit(dice) },
            4 => Stage::Part(dice.below(parts)),
            5 => {
                pushed += 1;
                Stage::Push(draw_push(dice, machine))
            }
            6 if pushed > 0 => {
                pushed -= 1;
                Stage::Pop
            }
            6 | 7 => Stage::Distribute(draw_type(dice, machine), dice.between(1, 3)),
            8 => Stage::Phase(draw_type(dice, machine)),
            9 => Stage::RunOn(dice.pick(&[1, 2, 100, 5_000])),
            10 => Stage::Allocate(dice.pick(&[0, 1, 100, 100_000])),
            11 => Stage::AllocateAmong(dice.below(parts)),
            12 if dice.chance(50) => Stage::Group,
            12 | 13 => {
                let stays = dice.below(members);
                let mut who = draw_part(dice, members);
                who.retain(|&member| member != stays);
                Stage::Away { who, barriers: dice.between(1, 4) }
            }
            14 => Stage::Lend(draw_part(dice, members)),
            _ => Stage::Churn {
                who: dice.below(members),
                times: dice.between(1, 6),
                barriers: dice.between(1, 4),
            },
        };
        stages.push(stage);
    }
    // A death in the last stages is still noticed.
    if dice.chance(80) {
        stages.push(Stage::Barrier);
    }
    stages.push(Stage::Free);
    stages
}

fn draw_limit(dice: &mut Dice) -> Duration {
    if dice.chance(50) { SURE } else { Duration::from_millis(dice.pick(&[0, 1, 3, 20, 200, 600])) }
}

fn draw_type(dice: &mut Dice, machine: Machine) -> ObjectType {
    let everywhere = [ObjectType::Machine, ObjectType::Core, ObjectType::Pu];
    match machine {
        Machine::Live => dice.pick(&everywhere),
        Machine::Simulated { .. } => {
            dice.pick(&[ObjectType::Package, ObjectType::Machine, ObjectType::Core])
        }
    }
}

fn draw_push(dice: &mut Dice, machine: Machine) -> Push {
    if dice.chance(20) {
        Push::Enclosing(ObjectType::Machine)
    } else {
        Push::Object(draw_type(dice, machine), dice.below(16))
    }
}

fn draw_strikes(dice: &mut Dice, fate: Fate, members: usize, stages: usize) -> Vec<Strike> {
    if fate == Fate::Nothing {
        return Vec::new();
    }
    let first = dice.below(members);
    // Creation is the longest stage, and the one with the most ways to fail.
    let stage = if dice.chance(20) { 0 } else { dice.below(stages) };
    let mut moment = draw_moment(dice);
    if let (0, Moment::Inside(after) | Moment::Watched(after), true) =
        (stage, &mut moment, dice.chance(70))
    {
        *after = Duration::from_micros(dice.below(CREATION.as_micros() as usize) as u64);
    }
    let mut strikes = vec![Strike { victim: first, stage, moment }];
    // Only one PID is reused at a time.
    if members > 2 && fate != Fate::Recycle && dice.chance(20) {
        strikes.push(Strike {
            victim: (first + dice.between(1, members - 1)) % members,
            stage: dice.between(1, stages - 1),
            moment: draw_moment(dice),
        });
    }
    strikes
}

fn draw_moment(dice: &mut Dice) -> Moment {
    let after = dice.moment(LONGEST);
    dice.weighted(&[
        (25, Moment::Before),
        (40, Moment::Inside(after)),
        (20, Moment::Watched(after)),
        (15, Moment::After),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    const ABLE: Abilities = Abilities { namespaces: true };

    fn many() -> impl Iterator<Item = Plan> {
        (0..4_000).map(|round| Plan::draw(3, round, ABLE))
    }

    #[test]
    fn a_round_is_the_same_whenever_it_is_drawn() {
        assert!(many().take(50).eq(many().take(50)));
        assert_ne!(Plan::draw(1, 0, ABLE), Plan::draw(2, 0, ABLE));
    }

    #[test]
    fn somebody_survives_and_everybody_is_struck_once() {
        for plan in many() {
            let mut victims: Vec<usize> = plan.strikes.iter().map(|strike| strike.victim).collect();
            victims.sort_unstable();
            victims.dedup();
            assert_eq!(victims.len(), plan.strikes.len());
            assert!(victims.len() < plan.members && victims.iter().all(|&v| v < plan.members));
            assert!(plan.strikes.iter().all(|strike| strike.stage < plan.stages.len()));
            assert!(plan.strikes.iter().filter(|strike| strike.stage == 0).count() <= 1);
        }
    }

    #[test]
    fn every_fate_meets_every_kind_of_stage() {
        let mut met = std::collections::BTreeSet::new();
        for plan in (0..12_000).map(|round| Plan::draw(3, round, ABLE)) {
            for strike in &plan.strikes {
                let stage = std::mem::discriminant(&plan.stages[strike.stage]);
                met.insert(format!("{} {stage:?}", plan.fate.kind()));
            }
        }
        assert_eq!(met.len(), 9 * 16, "{met:?}");
    }

    #[test]
    fn scripts_can_be_followed() {
        for plan in many() {
            assert_eq!(plan.stages.first(), Some(&Stage::Create));
            assert_eq!(plan.stages.last(), Some(&Stage::Free));
            let mut pushed = 0_usize;
            for stage in &plan.stages {
                match stage {
                    Stage::Push(_) => pushed += 1,
                    Stage::Pop => pushed = pushed.checked_sub(1).unwrap(),
                    Stage::Away { who, .. } => assert!(who.len() < plan.members),
                    _ => {}
                }
            }
            assert!(plan.parts.iter().all(|part| !part.is_empty() && part.is_sorted()));
        }
    }

    #[test]
    fn without_namespaces_none_is_asked_for() {
        for round in 0..2_000 {
            let plan = Plan::draw(3, round, Abilities::default());
            assert!(!plan.own_world && plan.stray.is_none() && plan.fate != Fate::Recycle);
        }
    }
}
