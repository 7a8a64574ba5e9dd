//! The judge: compares the members' journals with the promises of the runtime.
//!
//! The victim's own journal shows where it was struck: the last call it ended, the last call it
//! began, and the calls it never began. Each meeting of the script then has a set of allowed
//! outcomes:
//!
//! - all survivors get the same class of outcome, and the same value if the outcome is good; if the
//!   victim recorded an outcome, it agrees;
//! - the outcome is not good if a victim is counted, never began the meeting, and no member has
//!   named the victim before;
//! - the outcome is a death only if a victim is counted, did not end the meeting, and not every
//!   member has named the victim before; the members named are such victims;
//! - the outcome is a timeout only if the limit is short.

use std::collections::{BTreeMap, BTreeSet};

use crate::journal::{Entry, Outcome};
use crate::plan::{Bond, Fate, LOCAL, Meeting, Plan, RETRY, Stage};

/// How a process of a round ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It exited with this status.
    Exited(i32),
    /// A signal ended it.
    Killed(i32),
    /// It executed another program.
    Replaced,
    /// It was still running when the time was up; what it was doing then.
    Hung(String),
}

/// Evidence about a finished round.
#[derive(Clone, Debug)]
pub struct Evidence {
    /// Journal of each member.
    pub journals: Vec<Vec<Entry>>,
    /// Ending of each member.
    pub endings: Vec<Ending>,
}

/// Exit status of a victim that ends without freeing anything.
pub const WALKED_OUT: i32 = 7;

/// Local call by which a member that was away rejoins its parts.
pub const BACK: usize = LOCAL + 99;

/// Returns the number of a local call: the `turn`-th departure, or the return after it.
#[must_use]
pub fn local_call(turn: usize, coming: bool) -> usize {
    LOCAL + 2 * turn + usize::from(coming)
}

const SIGKILL: i32 = 9;

/// Number of failures whose reason a barrier remembers: a documented limit of the runtime.
const REMEMBERED: usize = 4;

/// Returns everything that is wrong with a round, one sentence each.
#[must_use]
pub fn judge(plan: &Plan, evidence: &Evidence) -> Vec<String> {
    let mut court = Court {
        plan,
        evidence,
        named: BTreeMap::new(),
        told: BTreeSet::new(),
        complaints: Vec::new(),
    };
    court.hear_members();
    court.hear_endings();
    // A hang explains whatever the meetings lack.
    if evidence.endings.iter().all(|ending| !matches!(ending, Ending::Hung(_))) {
        court.hear_meetings();
        court.hear_local_calls();
    }
    court.complaints
}

/// Returns true if all members that knew the name of some shared memory were killed while they
/// created it, so that only a sweep can remove it.
#[must_use]
pub fn leaves_to_sweep(plan: &Plan, evidence: &Evidence) -> bool {
    let court = Court {
        plan,
        evidence,
        named: BTreeMap::new(),
        told: BTreeSet::new(),
        complaints: Vec::new(),
    };
    (0..plan.stages.len()).filter(|&s| matches!(plan.stages[s], Stage::AllocateAmong(_))).any(
        |stage| {
            plan.meetings(stage).iter().all(|meeting| {
                let died = |&m: &usize| court.fell(m) && court.outcome(m, stage, 0).is_none();
                meeting.who.iter().all(died)
            })
        },
    )
}

/// Whether barriers count on a victim.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Standing {
    Counted,
    Out,
    /// It was struck while it left or rejoined.
    Unsure,
}

struct Court<'a> {
    plan: &'a Plan,
    evidence: &'a Evidence,
    /// Members that have named each victim so far.
    named: BTreeMap<usize, BTreeSet<usize>>,
    /// Victims named by a meeting of the whole node.
    told: BTreeSet<usize>,
    complaints: Vec<String>,
}

impl Court<'_> {
    fn complain(&mut self, text: String) {
        self.complaints.push(text);
    }

    fn everyone(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.plan.members
    }

    fn finished(&self, member: usize) -> bool {
        self.evidence.journals[member].contains(&Entry::Finished)
    }

    /// Returns true if a member was ended by its fate before it finished the script.
    fn fell(&self, member: usize) -> bool {
        self.plan.fate.is_end() && self.plan.strike_at(member).is_some() && !self.finished(member)
    }

    fn began(&self, member: usize, stage: usize, call: usize) -> bool {
        self.evidence.journals[member].contains(&Entry::Begin(stage, call))
    }

    fn outcome(&self, member: usize, stage: usize, call: usize) -> Option<&Outcome> {
        self.evidence.journals[member].iter().find_map(|entry| match entry {
            Entry::End(s, c, outcome) if (*s, *c) == (stage, call) => Some(outcome),
            _ => None,
        })
    }

    fn hear_members(&mut self) {
        for member in self.everyone() {
            for entry in &self.evidence.journals[member] {
                if let Entry::Complaint(text) = entry {
                    self.complaints.push(format!("member {member}: {text}"));
                }
            }
        }
    }

    fn hear_endings(&mut self) {
        for member in self.everyone() {
            let ending = &self.evidence.endings[member];
            let by_fate = match self.plan.fate {
                Fate::Exit { .. } => Ending::Exited(WALKED_OUT),
                Fate::Exec => Ending::Replaced,
                _ => Ending::Killed(SIGKILL),
            };
            let struck = self.plan.fate.is_end() && self.plan.strike_at(member).is_some();
            let fine = match (struck, self.finished(member)) {
                (false, finished) => finished && *ending == Ending::Exited(0),
                (true, false) => *ending == by_fate,
                // The strike came after the end of the script.
                (true, true) => *ending == Ending::Exited(0) || *ending == by_fate,
            };
            let explained = |entry: &Entry| matches!(entry, Entry::Complaint(_));
            if !fine && !self.evidence.journals[member].iter().any(explained) {
                let text = match ending {
                    Ending::Hung(state) => format!("member {member} hangs: {state}"),
                    _ => format!("member {member} ended otherwise than it should: {ending:?}"),
                };
                self.complain(text);
            }
        }
    }

    fn hear_meetings(&mut self) {
        for stage in 0..self.plan.stages.len() {
            let mut good = true;
            for meeting in self.plan.meetings(stage) {
                if meeting.follows && !good {
                    break;
                }
                good = self.hear_meeting(stage, &meeting);
            }
            if stage == 0 && !good {
                return self.hear_second_attempt();
            }
        }
    }

    /// Returns true if the meeting's outcome was good.
    fn hear_meeting(&mut self, stage: usize, meeting: &Meeting) -> bool {
        let place = format!("stage {stage} call {} ({:?})", meeting.call, self.plan.stages[stage]);
        let mut outcomes: Vec<(usize, Outcome)> = Vec::new();
        for &member in &meeting.who {
            match self.outcome(member, stage, meeting.call) {
                Some(outcome) => outcomes.push((member, outcome.clone())),
                None if self.fell(member) => {}
                // The member's complaint or ending is reported already.
                None if !self.finished(member) => return false,
                None => {
                    self.complain(format!("member {member} has no outcome of {place}"));
                    return false;
                }
            }
        }
        let Some((_, first)) = outcomes.first().cloned() else { return true };
        let far_behind = self.failures_after(stage, meeting) >= REMEMBERED;
        let alike = |outcome: &Outcome| match (outcome, &first) {
            (Outcome::Dead(_), Outcome::Dead(_)) => true,
            (Outcome::Other(_), Outcome::Other(_)) => true,
            (Outcome::Dead(_), Outcome::TimedOut) | (Outcome::TimedOut, Outcome::Dead(_)) => {
                far_behind
            }
            (one, other) => one == other,
        };
        if !outcomes.iter().all(|(_, outcome)| alike(outcome)) {
            self.complain(format!("members differ on {place}: {outcomes:?}"));
        }
        let victims: Vec<usize> = self.everyone().filter(|&member| self.fell(member)).collect();
        let hinders: Vec<usize> =
            victims.iter().copied().filter(|&v| self.must_fail(v, stage, meeting)).collect();
        // The victim's arrival may have been counted although members that learned of the death in
        // a part have expelled it: then the node's next meeting fails for this victim, and also
        // names every member expelled since.
        let in_line = meeting.bond == Bond::Node
            && victims.iter().any(|v| !self.told.contains(v) && self.stands_in_line(*v, stage));
        let excuses: Vec<usize> = victims
            .iter()
            .copied()
            .filter(|v| self.may_fail(*v, stage, meeting) || in_line && !self.told.contains(v))
            .collect();
        for (member, outcome) in &outcomes {
            match outcome {
                Outcome::Good(_) if !hinders.is_empty() => self.complain(format!(
                    "member {member} got through {place} without {hinders:?}, who never came"
                )),
                Outcome::Dead(names) => {
                    // Also victims that got a bad outcome here and died before this journal line.
                    let as_well = |name: &usize| {
                        victims.contains(name)
                            && outcomes
                                .iter()
                                .any(|(m, o)| m == name && !matches!(o, Outcome::Good(_)))
                    };
                    let known = |name: &usize| excuses.contains(name) || as_well(name);
                    if !names.iter().any(|name| excuses.contains(name)) || !names.iter().all(known)
                    {
                        self.complain(format!(
                            "member {member} takes {names:?} for dead at {place}; \
                             it could be {excuses:?}"
                        ));
                    }
                }
                Outcome::TimedOut if !meeting.may_time_out && !far_behind => {
                    self.complain(format!("member {member} timed out at {place}"));
                }
                // The message is right: the dead member had arrived for a barrier and was counted.
                Outcome::Other(text)
                    if text.contains("the call they make: a barrier on rank")
                        && victims.iter().any(|&v| self.stands_in_line(v, stage)) => {}
                Outcome::Other(text) => {
                    self.complain(format!("member {member} failed at {place}: {text}"));
                }
                Outcome::Good(_) | Outcome::TimedOut => {}
            }
        }
        if meeting.bond != Bond::Group {
            for (member, outcome) in &outcomes {
                if let Outcome::Dead(names) = outcome {
                    for name in names {
                        self.named.entry(*name).or_default().insert(*member);
                        if meeting.bond == Bond::Node {
                            self.told.insert(*name);
                        }
                    }
                }
            }
        }
        matches!(first, Outcome::Good(_))
    }

    /// Returns the number of the node's later meetings that failed for some member. A barrier
    /// remembers the reason of a few failures only: a member further behind learns that the barrier
    /// failed, but perhaps not why.
    fn failures_after(&self, stage: usize, meeting: &Meeting) -> usize {
        let next = (stage..self.plan.stages.len())
            .flat_map(|s| self.plan.meetings(s).into_iter().map(move |later| (s, later)));
        next.filter(|(s, later)| {
            later.bond == meeting.bond && (*s, later.call) > (stage, meeting.call)
        })
        .filter(|(s, later)| {
            later.who.iter().any(|&member| {
                let outcome = self.outcome(member, *s, later.call);
                outcome.is_some_and(|outcome| !matches!(outcome, Outcome::Good(_)))
            })
        })
        .count()
    }

    /// Returns true if a meeting cannot succeed without a victim.
    fn must_fail(&self, victim: usize, stage: usize, meeting: &Meeting) -> bool {
        let counted_out = match meeting.bond {
            Bond::Group => false,
            Bond::Node => self.named.contains_key(&victim) || self.stands_in_line(victim, stage),
            Bond::Part => {
                self.named.contains_key(&victim)
                    || !meeting.who.contains(&victim)
                    || self.outsiders_expel(victim, stage, &meeting.who)
            }
        };
        !counted_out
            && !self.began(victim, stage, meeting.call)
            && self.standing(victim, stage, meeting.bond) == Standing::Counted
    }

    /// Returns true if a member without a part in a stage may have been ahead and have expelled a
    /// victim.
    fn outsiders_expel(&self, victim: usize, stage: usize, part: &[usize]) -> bool {
        self.everyone().filter(|member| !part.contains(member)).any(|member| {
            self.evidence.journals[member].iter().any(|entry| {
                matches!(entry, Entry::End(at, _, Outcome::Dead(names))
                    if *at > stage && names.contains(&victim))
            })
        })
    }

    /// Returns true if a victim was struck in a barrier that no member ended, because all others
    /// were away: its arrival may still count when they are back.
    fn stands_in_line(&self, victim: usize, stage: usize) -> bool {
        (0..stage)
            .filter(|&s| matches!(self.plan.stages[s], Stage::Away { .. } | Stage::Churn { .. }))
            .any(|earlier| {
                self.plan.meetings(earlier).iter().any(|meeting| {
                    self.began(victim, earlier, meeting.call)
                        && meeting
                            .who
                            .iter()
                            .all(|&m| self.outcome(m, earlier, meeting.call).is_none())
                })
            })
    }

    /// Returns true if the end of a victim is a reason for a meeting to fail.
    fn may_fail(&self, victim: usize, stage: usize, meeting: &Meeting) -> bool {
        let everyone_knows = meeting.bond != Bond::Group
            && self.named.get(&victim).is_some_and(|by| {
                let mut came = meeting.who.iter().filter(|m| self.began(**m, stage, meeting.call));
                came.all(|member| by.contains(member))
            });
        let belongs = meeting.bond != Bond::Part || meeting.who.contains(&victim);
        let lived_on = self.evidence.journals[victim]
            .iter()
            .any(|entry| matches!(entry, Entry::Begin(at, _) if *at > stage));
        belongs
            && !everyone_knows
            && !lived_on
            && self.outcome(victim, stage, meeting.call).is_none()
            && self.standing(victim, stage, meeting.bond) != Standing::Out
    }

    /// Returns a victim's membership in a bond at a stage, from its last journal line so far about
    /// leaving or rejoining.
    fn standing(&self, victim: usize, stage: usize, bond: Bond) -> Standing {
        if bond == Bond::Group {
            return Standing::Counted;
        }
        let trip =
            (0..=stage).rev().filter(|&trip| self.plan.goes_away(victim, trip)).find_map(|trip| {
                let entries = self.evidence.journals[victim].iter().rev();
                let mut steps = entries.filter_map(|entry| match entry {
                    Entry::Begin(at, call) if *at == trip && *call >= LOCAL => Some((*call, false)),
                    Entry::End(at, call, _) if *at == trip && *call >= LOCAL => Some((*call, true)),
                    _ => None,
                });
                Some((trip, steps.next()?))
            });
        let Some((trip, (call, ended))) = trip else { return Standing::Counted };
        let leaving = call != BACK && (call - LOCAL).is_multiple_of(2);
        if trip == stage {
            // The others meet again only after the member has rejoined.
            let unsure = matches!(self.plan.stages[trip], Stage::Churn { .. }) || leaving && !ended;
            return if unsure { Standing::Unsure } else { Standing::Out };
        }
        match (leaving, ended) {
            (true, true) => Standing::Out,
            (true, false) => Standing::Unsure,
            _ if call == BACK && (ended || bond == Bond::Node) => Standing::Counted,
            (false, true) if bond == Bond::Node => Standing::Counted,
            (false, _) => Standing::Unsure,
        }
    }

    /// When a death makes the creation fail, the survivors can create a new context.
    fn hear_second_attempt(&mut self) {
        for member in self.plan.second_crew() {
            for call in 0..2 {
                let outcome = self.outcome(member, RETRY, call).cloned();
                if !self.fell(member) && !matches!(outcome, Some(Outcome::Good(_))) {
                    self.complain(format!(
                        "member {member} could not begin again after the failure (call {call}): \
                         {outcome:?}"
                    ));
                }
            }
        }
    }

    /// Checks that calls which involve no other member succeed.
    fn hear_local_calls(&mut self) {
        for member in self.everyone() {
            for entry in &self.evidence.journals[member] {
                let Entry::End(stage, call, outcome) = entry else { continue };
                let meets = *stage == RETRY
                    || self.plan.meetings(*stage).iter().any(|meeting| meeting.call == *call);
                if !meets && !matches!(outcome, Outcome::Good(_)) {
                    self.complaints.push(format!(
                        "member {member}: call {call} of stage {stage} ({:?}): {outcome:?}",
                        self.plan.stages[*stage]
                    ));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
