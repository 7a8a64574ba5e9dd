//! Highest resident memory in each phase, from samples.

use crate::base::component::{Component, LIMIT};

/// Number of phases that have peaks.
pub const PHASES: usize = 64;

/// Memory of the process and its owned bytes at the end of a phase in which no sample was taken.
#[derive(Copy, Clone)]
pub struct Left {
    pub resident: u64,
    pub owned: u64,
}

/// The kernel's answer at an edge, and the last sample's at that time.
#[derive(Copy, Clone)]
pub struct Asked {
    pub resident: u64,
    pub time: u64,
    pub sampled: u64,
}

impl Asked {
    pub const NEVER: Asked = Asked { resident: 0, time: 0, sampled: 0 };
}

/// Peaks of phases, from samples.
pub struct Peaks {
    /// Highest resident memory while each phase was open.
    pub resident: [[u64; LIMIT]; PHASES],
    /// The same for the whole process: less than the sum where components had their peaks at
    /// different moments.
    pub totals: [u64; PHASES],
    /// Phases with peaks that have not been written: one bit for each.
    pub unwritten: u64,
    /// True for each phase in which a sample was taken.
    pub seen: [bool; PHASES],
    /// Memory at the end of those phases that have no peak yet.
    pub left: [Option<Left>; PHASES],
    /// Total resident memory when an edge last asked for it, the time, and the last sample's value
    /// then.
    pub asked: Asked,
    /// True if a phase other than the first has ended.
    pub others_ended: bool,
    /// True if much has changed since the last full sample and a phase has begun that must not
    /// count that sample.
    pub outdated: bool,
}

impl Peaks {
    pub const fn new() -> Peaks {
        Peaks {
            resident: [[0; LIMIT]; PHASES],
            totals: [0; PHASES],
            unwritten: 0,
            seen: [false; PHASES],
            left: [None; PHASES],
            asked: Asked::NEVER,
            others_ended: false,
            outdated: false,
        }
    }

    /// Resets the peaks, in a forked child.
    pub fn forget(&mut self) {
        self.resident = [[0; LIMIT]; PHASES];
        self.totals = [0; PHASES];
        self.seen = [false; PHASES];
        self.left = [None; PHASES];
        self.asked = Asked::NEVER;
        self.others_ended = false;
    }

    /// Returns the highest memory of each component in a phase.
    pub fn of(&self, phase: u16) -> Option<&[u64; LIMIT]> {
        self.resident.get(usize::from(phase))
    }

    /// Returns the highest memory of the process in a phase; 0 where no sample was taken.
    pub fn total(&self, phase: u16) -> u64 {
        self.totals[usize::from(phase) % PHASES]
    }

    /// Returns the phases with sampled peaks that are not written yet: one bit for each.
    pub fn unwritten(&self) -> u64 {
        self.unwritten
    }

    /// Returns true if a sample was taken in the phase.
    pub fn was_seen(&self, phase: u16) -> bool {
        self.seen.get(usize::from(phase)).is_none_or(|seen| *seen)
    }

    /// Returns true if the phase has peaks, which always include the tool's memory.
    pub fn has(&self, phase: u16) -> bool {
        self.of(phase).is_none_or(|peaks| peaks[usize::from(Component::TOOL.0)] > 0)
    }
}
