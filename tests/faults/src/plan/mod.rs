//! Events of a round, as plain data.

mod draw;
mod show;

use std::time::Duration;

use quo::ObjectType;

/// Abilities of the machine.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// New namespaces can be created, as by root.
    pub namespaces: bool,
}

/// A round, drawn from a seed and a round number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// Seed of all rounds of a run.
    pub seed: u64,
    /// Number of this round.
    pub round: u64,
    /// Number of processes, at least two.
    pub members: usize,
    /// Machine that the members see.
    pub machine: Machine,
    /// The round has its own PID namespace.
    pub own_world: bool,
    /// Member in a different PID namespace from the others.
    pub stray: Option<usize>,
    /// Bind each member to one CPU at its start.
    pub bound: bool,
    /// Number of idle threads in each member; the first one has its own mask.
    pub threads: usize,
    /// Dead members are reaped at once, not only at the end.
    pub reap: bool,
    /// Lists of members, each with its own barrier.
    pub parts: Vec<Vec<usize>>,
    /// Stages of the script, in order.
    pub stages: Vec<Stage>,
    /// Fate of the victims.
    pub fate: Fate,
    /// Stage and victim of each strike; a victim is struck once.
    pub strikes: Vec<Strike>,
}

/// The machine that the members see.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Machine {
    /// The machine the members run on.
    Live,
    /// A synthetic machine with initial bindings.
    Simulated {
        /// Value of `QUO_TOPOLOGY`.
        topology: &'static str,
        /// Value of `QUO_BINDING`.
        binding: &'static str,
    },
}

/// One step of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Creates the context.
    Create,
    /// A barrier without a limit.
    Barrier,
    /// A barrier with a limit, either short enough to expire or long enough not to.
    Timed {
        /// Limit of the barrier.
        limit: Duration,
    },
    /// The barrier of one of the parts.
    Part(usize),
    /// Binds the calling rank.
    Push(Push),
    /// Pops the calling rank's last binding.
    Pop,
    /// A distribution over objects of a type, with a maximum number of ranks per object.
    Distribute(ObjectType, usize),
    /// A phase over objects of a type.
    Phase(ObjectType),
    /// A phase on an array with this number of elements per rank.
    RunOn(usize),
    /// Memory shared by all members.
    Allocate(usize),
    /// Memory shared by the members of one part.
    AllocateAmong(usize),
    /// A separate group over the machine.
    Group,
    /// Some members leave, the others pass barriers, then the leavers rejoin.
    Away {
        /// Members that leave.
        who: Vec<usize>,
        /// Number of barriers that the others pass.
        barriers: usize,
    },
    /// One member leaves and rejoins several times while the others pass barriers with a limit.
    Churn {
        /// Member that leaves and rejoins.
        who: usize,
        /// Number of times it leaves.
        times: usize,
        /// Number of barriers that the others pass.
        barriers: usize,
    },
    /// Some members lend their CPUs at times, the others borrow; then all pass a barrier.
    Lend(Vec<usize>),
    /// Releases the context.
    Free,
}

/// Target of a binding.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Push {
    /// Object of a type, by this number modulo the number of such objects.
    Object(ObjectType, usize),
    /// Object of this type that encloses the current mask.
    Enclosing(ObjectType),
}

/// Fate of a victim.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Nothing: the round has to be clean.
    Nothing,
    /// It is killed.
    Kill,
    /// It is killed, and a child it forked survives.
    Orphan,
    /// It is killed, and a new process gets its PID.
    Recycle,
    /// It is stopped for a while.
    Stop(Duration),
    /// It is stopped for a while and then killed.
    StopKill(Duration),
    /// It ends without freeing anything, by `exit` or `_exit`.
    Exit {
        /// Exit handlers run.
        handlers: bool,
    },
    /// It executes another program.
    Exec,
    /// It is slow for a while.
    Slow(Duration),
    /// It forks a child.
    Fork(Child),
}

/// What a member's child does.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Child {
    /// Ends at once.
    Ends,
    /// Tries to act as the member.
    Acts,
    /// Drops the inherited context.
    Drops,
    /// Runs until the round is over.
    Lingers,
}

impl Fate {
    /// Names of all kinds of fates, as returned by [`kind`](Self::kind).
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

    /// Returns the name of the fate without its details.
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

    /// Returns true if the victim is no longer a member afterwards.
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
    /// Stage of the strike.
    pub stage: usize,
    /// Moment within the stage.
    pub moment: Moment,
}

/// A moment of a stage.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Before the stage begins.
    Before,
    /// This long after the stage begins, by a timer in the victim.
    Inside(Duration),
    /// This long after the stage begins, by a process that watches.
    Watched(Duration),
    /// After the stage, before the next one.
    After,
}

/// A call in which several members meet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Meeting {
    /// Number of the meeting within the stage.
    pub call: usize,
    /// Members that take part.
    pub who: Vec<usize>,
    /// The meeting may time out.
    pub may_time_out: bool,
    /// The meeting takes place only if the meeting before it succeeded.
    pub follows: bool,
    /// Bond that decides how dead members are counted out.
    pub bond: Bond,
}

/// What ties the members of a meeting together.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Bond {
    /// The node's membership: without members that have left, and without the dead once they are
    /// expelled.
    Node,
    /// A part of the node's membership.
    Part,
    /// The group under the context, which no member leaves and from which none is expelled.
    Group,
}

/// First number of the calls made by members that are away.
pub const LOCAL: usize = 100;

/// Stage, after all others, in which the survivors of a failed creation try again.
pub const RETRY: usize = 9_999;

impl Plan {
    /// Returns the meetings of a stage, in order.
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

    /// Returns the strike meant for a member.
    #[must_use]
    pub fn strike_at(&self, member: usize) -> Option<&Strike> {
        self.strikes.iter().find(|strike| strike.victim == member)
    }

    /// Returns the members that try again after a death has made the creation fail.
    #[must_use]
    pub fn second_crew(&self) -> Vec<usize> {
        let falls = |member| self.strike_at(member).is_some_and(|strike| strike.stage == 0);
        (0..self.members).filter(|&member| !(self.fate.is_end() && falls(member))).collect()
    }
}

/// A limit that the others meet unless something hangs.
pub const SURE: Duration = Duration::from_secs(30);
