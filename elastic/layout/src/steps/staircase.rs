//! Schedules from runs to runs: messages in the order of the array are a path, and are coloured
//! along it.
//!
//! Successive messages share the sender or the receiver. A message that shares a rank with the
//! previous one takes the lowest step which that rank has not used, which is never more than the
//! number of messages of the busiest rank. The published lists (section 3.4.2) are in this order
//! too; they count data that stay on their rank as a message.

use super::super::axis::Axis;
use super::{Edge, Pair};

/// Returns true if both distributions are runs along the only axis that is cut.
pub(super) fn fits(pair: Pair) -> bool {
    axes(pair).is_some()
}

fn axes<'a>(pair: Pair<'a>) -> Option<(&'a Axis, &'a Axis)> {
    let (old, new) = (pair.old, pair.new);
    let runs = |old: &Axis, new: &Axis| old.is_single_run() && new.is_single_run();
    let single = |old: &Axis, new: &Axis| old.parts() == 1 && new.parts() == 1;
    if single(&old.rows, &new.rows) && runs(&old.columns, &new.columns) {
        (old.rows.extent() > 0).then_some((&old.columns, &new.columns))
    } else if single(&old.columns, &new.columns) && runs(&old.rows, &new.rows) {
        (old.columns.extent() > 0).then_some((&old.rows, &new.rows))
    } else {
        None
    }
}

/// Steps that a rank has used so far: the first one, and all from 0 up to `next`.
#[derive(Clone, Copy)]
struct Used {
    part: usize,
    first: usize,
    next: usize,
}

impl Used {
    /// Takes the lowest unused step.
    fn take(&mut self) -> usize {
        if self.next == self.first {
            self.next += 1;
        }
        self.next += 1;
        self.next - 1
    }
}

/// All messages along a pair of axes, in the order of the array.
pub(super) struct Walk<'a, IsSelf> {
    old: &'a Axis,
    new: &'a Axis,
    at: (usize, usize),
    used_old: Option<Used>,
    used_new: Option<Used>,
    is_self: IsSelf,
}

impl<'a, IsSelf: Fn(usize, usize) -> bool> Walk<'a, IsSelf> {
    pub fn new(old: &'a Axis, new: &'a Axis, is_self: IsSelf) -> Self {
        Self { old, new, at: (0, 0), used_old: None, used_new: None, is_self }
    }
}

impl<IsSelf: Fn(usize, usize) -> bool> Iterator for Walk<'_, IsSelf> {
    type Item = Edge;

    fn next(&mut self) -> Option<Edge> {
        loop {
            let (old, new) = self.at;
            if old >= self.old.parts() || new >= self.new.parts() {
                return None;
            }
            let ((start, end), (new_start, new_end)) = (run(self.old, old), run(self.new, new));
            // The run that ends first is complete.
            if end <= new_end {
                self.at.0 += 1;
            } else {
                self.at.1 += 1;
            }
            if start.max(new_start) < end.min(new_end) {
                let step = (!(self.is_self)(old, new)).then(|| self.step(old, new));
                return Some(Edge { old, new, step, passed_on: false });
            }
        }
    }
}

impl<IsSelf> Walk<'_, IsSelf> {
    fn step(&mut self, old: usize, new: usize) -> usize {
        let used_old = self.used_old.filter(|used| used.part == old);
        let used_new = self.used_new.filter(|used| used.part == new);
        // A rank pair shared with the previous message would have two runs in common.
        let (step, used_old, used_new) = match (used_old, used_new) {
            (Some(mut used), _) => {
                let step = used.take();
                (step, used, Used { part: new, first: step, next: 0 })
            }
            (None, Some(mut used)) => {
                let step = used.take();
                (step, Used { part: old, first: step, next: 0 }, used)
            }
            (None, None) => {
                let fresh = |part| Used { part, first: 0, next: 0 };
                (0, fresh(old), fresh(new))
            }
        };
        self.used_old = Some(used_old);
        self.used_new = Some(used_new);
        step
    }
}

fn run(axis: &Axis, part: usize) -> (usize, usize) {
    let comb = axis.comb(part);
    if comb.is_empty() {
        let start = comb.first.min(comb.end);
        return (start, start);
    }
    comb.block_at(0)
}

pub(super) fn edges<'a>(pair: Pair<'a>) -> impl Iterator<Item = Edge> + 'a {
    let walk = move |(old, new): (&'a Axis, &'a Axis)| {
        Walk::new(old, new, move |old, new| pair.is_self(old, new))
    };
    axes(pair).map(walk).into_iter().flatten()
}

pub(super) fn steps(pair: Pair) -> usize {
    edges(pair).filter_map(|edge| edge.step).max().map_or(0, |step| step + 1)
}
