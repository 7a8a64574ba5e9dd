//! Events of a round, as plain data.

mod draw;
mod show;

use std::time::Duration;

use quo::ObjectType;

/// Abilities of the machine at hand.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// Namespaces of our own can be made: the abilities of root.
    pub namespaces: bool,
}

/// A round, drawn from a seed and a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed of all rounds of a run.
    pub seed: u64,
    /// Which of them this is.
    pub round: u64,
    /// Number of processes, at least two.
    pub members: usize,
    /// The machine they see.
    pub machine: Machine,
    /// The round has a PID namespace to itself.
    pub own_world: bool,
    /// A member that has another PID namespace than the rest.
    pub stray: Option<usize>,
    /// Bind each member to one CPU before it begins.
    pub bound: bool,
    /// Idle threads in each member; the first has a mask of its own.
    pub threads: usize,
    /// Remains of the dead are collected at once, and not only at the end.
    pub reap: bool,
    /// Lists of members that have a barrier of their own.
    pub parts: Vec<Vec<usize>>,
    /// The script, one stage after the other.
    pub stages: Vec<Stage>,
    /// Fate of the victims.
    pub fate: Fate,
    /// Stage and victim of each strike; each victim once.
    pub strikes: Vec<Strike>,
}

/// The machine that the members see.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The one they run on.
    Live,
    /// A synthetic one, with initial bindings.
    Simulated {
        /// The value of `QUO_TOPOLOGY`.
        topology: &'static str,
        /// The value of `QUO_BINDING`.
        binding: &'static str,
    },
}

/// One step of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The context is made.
    Create,
    /// A barrier without a limit.
    Barrier,
    /// A barrier with a limit, which is so short that it may be over, or so long that it is not.
    Timed {
        /// The limit.
        limit: Duration,
    },
    /// The barrier of one of the parts.
    Part(usize),
    /// The calling rank binds itself.
    Push(Push),
    /// The calling rank takes back its last push.
    Pop,
    /// A distribution over objects of a type, so many for each.
    Distribute(ObjectType, usize),
    /// A phase over objects of a type.
    Phase(ObjectType),
    /// A phase on an array of so many numbers for each rank.
    RunOn(usize),
    /// Memory shared by all.
    Allocate(usize),
    /// Memory shared by one of the parts.
    AllocateAmong(usize),
    /// A group of its own over the machine.
    Group,
    /// Some leave, the others pass barriers, then those come back.
    Away {
        /// The member that leaves.
        who: Vec<usize>,
        /// Number of barriers that the others pass.
        barriers: usize,
    },
    /// One leaves and comes back several times while the others pass barriers with a limit.
    Churn {
        /// The member that comes and goes.
        who: usize,
        /// Number of times.
        times: usize,
        /// Number of barriers that the others pass.
        barriers: usize,
    },
    /// Some lend their CPUs now and then, the others borrow; then all pass a barrier.
    Lend(Vec<usize>),
    /// The context is released.
    Free,
}

/// Target of a binding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// The object of a type whose number is this one modulo how many there are.
    Object(ObjectType, usize),
    /// The object of this type that encloses the present mask.
    Enclosing(ObjectType),
}

/// Fate of a victim.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: the round has to be clean.
    Nothing,
    /// It is killed.
    Kill,
    /// It is killed, and a child that it forked lives on.
    Orphan,
    /// It is killed, and a new process gets its number.
    Recycle,
    /// It is stopped for a while.
    Stop(Duration),
    /// It is stopped for a while and then killed.
    StopKill(Duration),
    /// It ends without freeing anything, by `exit` or by `_exit`.
    Exit {
        /// Exit handlers run.
        handlers: bool,
    },
    /// It executes another program.
    Exec,
    /// It takes its time.
    Slow(Duration),
    /// It forks a child.
    Fork(Child),
}

/// Action of a member's child.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Child {
    /// It ends at once.
    Ends,
    /// It tries to act as the member.
    Acts,
    /// It drops the context it inherited.
    Drops,
    /// It lives on until the round is over.
    Lingers,
}

impl Fate {
    /// All kinds of fates, by the names of [`kind`](Self::kind).
    pub const KINDS: [&str; 10] = [
        "nothing",
        "kill",
        "orphan",
        "recycle",
        "stop",
        "stop-kill",
        "exit",
        "exec",
        "slow",
        "fork",
    ];

    /// Its name without its details.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Nothing => "nothing",
            Self::Kill => "kill",
            Self::Orphan => "orphan",
            Self::Recycle => "recycle",
            Self::Stop(_) => "stop",
            Self::StopKill(_) => "stop-kill",
            Self::Exit { .. } => "exit",
            Self::Exec => "exec",
            Self::Slow(_) => "slow",
            Self::Fork(_) => "fork",
        }
    }

    /// Returns true if the victim is no member afterwards.
    #[must_use]
    pub fn is_end(self) -> bool {
        !matches!(self, Self::Nothing | Self::Stop(_) | Self::Slow(_) | Self::Fork(_))
    }
}

/// Place of a strike.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Strike {
    /// The victim.
    pub victim: usize,
    /// In which stage.
    pub stage: usize,
    /// At which moment of it.
    pub moment: Moment,
}

/// A moment of a stage.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before it begins.
    Before,
    /// So long after it begins, by a timer of the victim's own.
    Inside(Duration),
    /// So long after it begins, by somebody who looks on.
    Watched(Duration),
    /// After it, before the next.
    After,
}

/// A call in which several members meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Its number within the stage.
    pub call: usize,
    /// Members that take part.
    pub who: Vec<usize>,
    /// It may time out.
    pub may_time_out: bool,
    /// It is made only if the meeting before it was a success.
    pub follows: bool,
    /// The way in which the dead are counted out.
    pub bond: Bond,
}

/// Tie between the members of a meeting.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bond {
    /// The node's membership: it has left who left, and the dead until they are expelled.
    Node,
    /// A part of the node's membership.
    Part,
    /// The group under the context, which nobody leaves and from which nobody is expelled.
    Group,
}

/// Calls of members that are away have numbers from here on.
pub const LOCAL: usize = 100;

/// The stage, beyond all others, in which the survivors of a failed creation try again.
pub const RETRY: usize = 9_999;

impl Plan {
    /// The meetings of a stage, in order.
    #[must_use]
    pub fn meetings(&self, stage: usize) -> Vec<Meeting> {
        let everyone: Vec<usize> = (0..self.members).collect();
        let meeting = |call, bond, who: &[usize]| Meeting {
            call,
            who: who.to_vec(),
            may_time_out: false,
            follows: call > 0,
            bond,
        };
        let row = |count| (0..count).map(|call| meeting(call, Bond::Node, &everyone)).collect();
        let without = |gone: &[usize]| -> Vec<usize> {
            everyone.iter().copied().filter(|member| !gone.contains(member)).collect()
        };
        match &self.stages[stage] {
            Stage::Create | Stage::Group => vec![meeting(0, Bond::Group, &everyone)],
            Stage::Barrier | Stage::Distribute(..) | Stage::Allocate(_) | Stage::Lend(_) => row(1),
            Stage::Phase(_) => row(2),
            Stage::RunOn(_) => row(3),
            Stage::Timed { limit } => {
                vec![Meeting { may_time_out: *limit < SURE, ..meeting(0, Bond::Node, &everyone) }]
            }
            Stage::Part(part) | Stage::AllocateAmong(part) => {
                vec![meeting(0, Bond::Part, &self.parts[*part])]
            }
            Stage::Away { who, barriers } => (0..*barriers)
                .map(|call| Meeting { follows: false, ..meeting(call, Bond::Node, &without(who)) })
                .collect(),
            Stage::Churn { who, barriers, .. } => (0..*barriers)
                .map(|call| Meeting {
                    follows: false,
                    may_time_out: true,
                    ..meeting(call, Bond::Node, &without(&[*who]))
                })
                .collect(),
            Stage::Push(_) | Stage::Pop | Stage::Free => Vec::new(),
        }
    }

    /// Returns true if a member leaves the node for a while in a stage.
    #[must_use]
    pub fn goes_away(&self, member: usize, stage: usize) -> bool {
        match &self.stages[stage] {
            Stage::Away { who, .. } => who.contains(&member),
            Stage::Churn { who, .. } => *who == member,
            _ => false,
        }
    }

    /// The strike that is meant for a member.
    #[must_use]
    pub fn strike_at(&self, member: usize) -> Option<&Strike> {
        self.strikes.iter().find(|strike| strike.victim == member)
    }

    /// Members that are there to try again when a death has made the creation fail.
    #[must_use]
    pub fn second_crew(&self) -> Vec<usize> {
        let falls = |member| self.strike_at(member).is_some_and(|strike| strike.stage == 0);
        (0..self.members).filter(|&member| !(self.fate.is_end() && falls(member))).collect()
    }
}

/// A limit that is not over before the others come, unless something hangs.
pub const SURE: Duration = Duration::from_secs(30);
