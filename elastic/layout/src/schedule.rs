//! Messages between ranks, in steps.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::distribution::Distribution;
use super::meet::{Family, meet};
use super::message::{End, Message, Source};
use super::steps::{Edge, Pair, Plan};
use super::{LayoutError, Statistics};

/// Schedule that moves an array from one distribution to another, in steps without contention: in
/// each step no rank sends twice and none receives twice. Data that stay on their rank are copied.
///
/// All ranks that make a schedule from equal distributions get the same one. Each rank then
/// computes its own part, which takes time and memory for its own messages and at most a few words
/// for every other rank, so this works for 10^5 ranks.
///
/// ```
/// use elastic_layout::{Distribution, Grid, Ranks, Schedule};
///
/// let old = Distribution::checkerboard((48, 48), (2, 2), Grid::new(2, 2), Ranks::first(4))?;
/// let new = Distribution::checkerboard((48, 48), (2, 2), Grid::new(3, 4), Ranks::first(12))?;
/// let schedule = Schedule::between(&old, &new, size_of::<f64>())?;
/// assert_eq!(schedule.steps(), 5);
///
/// // What rank 1 does, with any transport:
/// let part = schedule.of(1);
/// let (before, mut after) = (vec![1; part.old_bytes()], vec![0; part.new_bytes()]);
/// for kept in part.kept() {
///     kept.copy(&before, &mut after)?;
/// }
/// for step in part.steps() {
///     if let Some(message) = step.send() {
///         let mut packed = vec![0; message.bytes()];
///         message.pack(&before, &mut packed)?; // and send it to message.peer()
///     }
///     if let Some(message) = step.receive() {
///         let packed = vec![1; message.bytes()]; // as it came from message.peer()
///         message.unpack(&packed, &mut after)?;
///     }
/// }
/// assert!(after.iter().all(|&byte| byte == 1));
/// # Ok::<(), elastic_layout::LayoutError>(())
/// ```
///
/// The number of steps is the minimum, which is the number of messages of the busiest rank: between
/// block-cyclic distributions with equal blocks RC / min(P, Q) in the terms of the dissertation
/// (section 3.4.1), or one less if all the ranks of the smaller set keep some of their data. In the
/// cases without a proof [`Schedule::is_minimal`] returns false.
///
/// Sizes need not be divisible. Old and new ranks may be the same, overlap or be disjoint.
///
/// Source: dissertation of R. Sudarsan (Virginia Tech, 2009), section 3.4. Its order of messages is
/// kept where it has no contention; `docs/design/elastic-world.md` lists where it has some.
#[derive(Clone, Debug)]
pub struct Schedule {
    old: Distribution,
    new: Distribution,
    element: usize,
    plan: Arc<Plan>,
    steps: usize,
}

impl Schedule {
    /// Makes the schedule from one distribution to another, for elements of `element` bytes. Local
    /// and pure. The time depends on the number of ranks, not of elements.
    ///
    /// # Errors
    /// [`LayoutError::Shape`] if the two do not describe an array of the same shape,
    /// [`LayoutError::EmptyElement`] if an element has no bytes, [`LayoutError::TooLarge`] if the
    /// array has more bytes than fit into an address.
    pub fn between(
        old: &Distribution,
        new: &Distribution,
        element: usize,
    ) -> Result<Self, LayoutError> {
        if old.extents() != new.extents() {
            return Err(LayoutError::Shape { old: old.extents(), new: new.extents() });
        }
        let pair = Pair { old, new };
        let plan = Arc::new(Plan::choose(pair));
        let steps = plan.steps(pair);
        let schedule = Self { old: old.clone(), new: new.clone(), element, plan, steps };
        schedule.with_element(element)
    }

    /// Returns the schedule for elements of another size, such as the column indices that go with the
    /// values of a sparse matrix.
    ///
    /// # Errors
    /// [`LayoutError::EmptyElement`], [`LayoutError::TooLarge`].
    pub fn with_element(&self, element: usize) -> Result<Self, LayoutError> {
        if element == 0 {
            return Err(LayoutError::EmptyElement);
        }
        if [&self.old, &self.new].into_iter().any(|side| !side.fits(element)) {
            return Err(LayoutError::TooLarge { call: "schedule" });
        }
        Ok(Self { element, ..self.clone() })
    }

    /// Returns the distribution that data are moved from.
    #[must_use]
    pub fn before(&self) -> &Distribution {
        &self.old
    }

    /// Returns the distribution that data are moved to.
    #[must_use]
    pub fn after(&self) -> &Distribution {
        &self.new
    }

    /// Size of an element in bytes.
    #[must_use]
    pub fn element(&self) -> usize {
        self.element
    }

    /// Number of steps.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// Returns true if it is known that no schedule has fewer steps.
    #[must_use]
    pub fn is_minimal(&self) -> bool {
        self.plan.is_minimal()
    }

    /// Returns all ranks that hold data before or after, or could, in ascending order.
    #[must_use]
    pub fn ranks(&self) -> Vec<usize> {
        let all: BTreeSet<usize> = self.old.ranks().iter().chain(self.new.ranks().iter()).collect();
        all.into_iter().collect()
    }

    /// Returns one rank's part. A rank that holds nothing before or after does nothing.
    #[must_use]
    pub fn of(&self, rank: usize) -> Part {
        let pair = Pair { old: &self.old, new: &self.new };
        let mut common = Common::of(self);
        let mut part = Part {
            rank,
            old_bytes: self.old.room(rank) * self.element,
            new_bytes: self.new.room(rank) * self.element,
            kept: Vec::new(),
            steps: Vec::new(),
        };
        let mut steps: BTreeMap<usize, Step> = BTreeMap::new();
        if let Some(old) = self.old.ranks().position(rank) {
            for edge in self.plan.sends(pair, old) {
                if let Some(message) = common.message(&edge, true) {
                    part.put(&mut steps, edge.step, message, |step| &mut step.send);
                }
            }
        }
        if let Some(new) = self.new.ranks().position(rank) {
            for edge in self.plan.passed_on(pair, new) {
                if let Some(message) = common.message(&edge, true) {
                    part.put(&mut steps, edge.step, message, |step| &mut step.send);
                }
            }
            // Kept data were found from the other side.
            for edge in self.plan.receives(pair, new).iter().filter(|edge| edge.step.is_some()) {
                if let Some(message) = common.message(edge, false) {
                    part.put(&mut steps, edge.step, message, |step| &mut step.receive);
                }
            }
        }
        part.steps = steps.into_values().collect();
        part
    }

    /// Returns the amounts of all ranks together. Visits every message.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let pair = Pair { old: &self.old, new: &self.new };
        let mut common = Common::of(self);
        let mut all = Statistics { steps: self.steps, ..Statistics::default() };
        self.plan.all(pair, |edge| {
            if let Some(message) = common.message(&edge, true) {
                all.add(message.bytes(), edge.step.is_some());
            }
        });
        all
    }
}

/// Common indices of pairs of parts, by axis, cached once found.
struct Common<'a> {
    schedule: &'a Schedule,
    /// Of layers, rows and columns.
    axes: [OfAxis; 3],
}

/// Common indices of pairs of an old and a new part.
type OfAxis = HashMap<(usize, usize), Arc<[Family]>>;

impl<'a> Common<'a> {
    fn of(schedule: &'a Schedule) -> Self {
        Self { schedule, axes: std::array::from_fn(|_| HashMap::new()) }
    }

    /// Returns the message of an edge, as the sender or the receiver sees it; `None` if the two
    /// have no elements in common.
    fn message(&mut self, edge: &Edge, to_sender: bool) -> Option<Message> {
        let schedule = self.schedule;
        let (old, new) = if edge.passed_on {
            (&schedule.new, &schedule.new)
        } else {
            (&schedule.old, &schedule.new)
        };
        let (sender, receiver) = (old.ranks.at(edge.old), new.ranks.at(edge.new));
        let (from, to) = (old.parts_of(sender)?, new.parts_of(receiver)?);
        let mut common = |along: usize| {
            let found = self.axes[along].entry((from[along], to[along])).or_insert_with(|| {
                let old = old.comb(old.axis(along), from[along]);
                meet(&old, &new.comb(new.axis(along), to[along])).into()
            });
            (!found.is_empty()).then(|| Arc::clone(found))
        };
        let (layers, rows, columns) = (common(0)?, common(1)?, common(2)?);
        Some(Message {
            peer: if to_sender { receiver } else { sender },
            source: if edge.passed_on { Source::New } else { Source::Old },
            element: schedule.element,
            layers,
            rows,
            columns,
            from: End {
                begin: old.begin(from),
                strides: old.strides(from),
                room: old.room(sender),
            },
            to: End { begin: new.begin(to), strides: new.strides(to), room: new.room(receiver) },
        })
    }
}

/// Part of a rank in a schedule.
#[derive(Clone, Debug)]
pub struct Part {
    rank: usize,
    old_bytes: usize,
    new_bytes: usize,
    kept: Vec<Message>,
    steps: Vec<Step>,
}

impl Part {
    fn put(
        &mut self,
        steps: &mut BTreeMap<usize, Step>,
        number: Option<usize>,
        message: Message,
        side: impl Fn(&mut Step) -> &mut Option<Message>,
    ) {
        match number {
            None => self.kept.push(message),
            Some(number) => {
                let step =
                    steps.entry(number).or_insert(Step { number, send: None, receive: None });
                *side(step) = Some(message);
            }
        }
    }

    /// The rank.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.rank
    }

    /// Size in bytes of the memory that data are moved from.
    #[must_use]
    pub fn old_bytes(&self) -> usize {
        self.old_bytes
    }

    /// Size in bytes of the memory that data are moved to.
    #[must_use]
    pub fn new_bytes(&self) -> usize {
        self.new_bytes
    }

    /// Data that stay on the rank and are copied from the old memory to the new one. They may be
    /// copied at any time: no message brings the same elements.
    #[must_use]
    pub fn kept(&self) -> &[Message] {
        &self.kept
    }

    /// The steps in which the rank sends or receives, ascending. A rank ends one step before it
    /// begins the next one; apart from that ranks need not wait for each other.
    #[must_use]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Amounts that this rank sends and keeps.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        let sent = self.steps.iter().filter_map(|step| step.send.as_ref());
        let mut own = Statistics { steps: self.steps.len(), ..Statistics::default() };
        sent.for_each(|message| own.add(message.bytes(), true));
        self.kept.iter().for_each(|message| own.add(message.bytes(), false));
        own
    }
}

/// A rank's part in one step: at most one outgoing and one incoming message, at the same time.
#[derive(Clone, Debug)]
pub struct Step {
    number: usize,
    send: Option<Message>,
    receive: Option<Message>,
}

impl Step {
    /// Returns the number of the step in the schedule, from 0. All ranks use the same numbers,
    /// which can therefore distinguish messages.
    #[must_use]
    pub fn number(&self) -> usize {
        self.number
    }

    /// The message sent.
    #[must_use]
    pub fn send(&self) -> Option<&Message> {
        self.send.as_ref()
    }

    /// The message received.
    #[must_use]
    pub fn receive(&self) -> Option<&Message> {
        self.receive.as_ref()
    }
}
