//! Parts of a program that contains MPI, as its symbols show them.

use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::symbols::{self, Part};
use super::table::Range;

/// Capacity for parts. A linker makes three or four.
const LIMIT: usize = 64;

/// Start and end of each part, and 1 if it belongs to MPI.
static PARTS: [[AtomicUsize; 3]; LIMIT] = [const { [const { AtomicUsize::new(0) }; 3] }; LIMIT];
static COUNT: AtomicUsize = AtomicUsize::new(0);
/// True if the program contains MPI, whether its symbols show parts or not.
static HOLD: AtomicBool = AtomicBool::new(false);

/// Reads the parts from the symbols of the program, whose file is mapped at `base` and whose memory
/// extends from `low` to `high`.
pub fn divide(base: usize, low: usize, high: usize) {
    let (mut count, mut after) = (0, low);
    symbols::read(|start, end, part| {
        let (start, end) =
            (base.wrapping_add(start as usize), base.wrapping_add(end as usize).min(high));
        if count < LIMIT && after <= start && start < end {
            for (to, value) in PARTS[count].iter().zip([start, end, usize::from(part == Part::Mpi)])
            {
                to.store(value, Ordering::Relaxed);
            }
            (count, after) = (count + 1, end);
        }
    });
    COUNT.store(count, Ordering::Release);
    HOLD.store(true, Ordering::Release);
}

/// Returns true if the program, the first object examined, contains MPI.
pub fn hold_mpi() -> bool {
    HOLD.load(Ordering::Acquire)
}

/// Returns true if the symbols of the program showed parts.
pub fn are_known() -> bool {
    COUNT.load(Ordering::Acquire) > 0
}

/// Writes the ranges of a program and its parts into `ranges`. Returns their number.
pub fn ranges(whole: &Range, ranges: &mut [Range]) -> usize {
    let (mut count, mut at) = (0, whole.low);
    let mut add = |range: Range| {
        if range.low < range.high
            && let Some(place) = ranges.get_mut(count)
        {
            *place = range;
            count += 1;
        }
    };
    let known = COUNT.load(Ordering::Acquire);
    for part in PARTS[..known].iter() {
        let [low, high, mpis] = [0, 1, 2].map(|word: usize| part[word].load(Ordering::Relaxed));
        add(Range { low: at, high: low, ..*whole });
        let component = match mpis {
            0 => whole.component,
            _ => super::mpi().unwrap_or(whole.component),
        };
        add(Range { low, high, component, neutral: false, ..*whole });
        at = high;
    }
    add(Range { low: at, ..*whole });
    count
}
