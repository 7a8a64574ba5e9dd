//! Differences of version 1 from the newest: a reader takes these rows for those of today.

use super::v2::{self, FRAMES};
use crate::plain::plain;

/// Of that layout.
pub const VERSION: u32 = 1;

plain! {
    /// A component in a bin. Memory between samples is not known.
    pub struct Cell [16] {
        0 resident_min: u32,
        4 resident_max: u32,
        8 resident_mean: u32,
        12 owned_max: u32,
    }
}

impl From<Cell> for v2::Cell {
    fn from(old: Cell) -> Self {
        let Cell { resident_min, resident_max, resident_mean, owned_max } = old;
        Self { resident_min, resident_max, resident_mean, owned_max, floor: 0, ceiling: u32::MAX }
    }
}

plain! {
    /// A call stack. Memory at the peak of the process is not known.
    pub struct SiteRow [232] {
        0 component: u32,
        4 frames: u32,
        8 live: u64,
        16 peak: u64,
        24 total: u64,
        32 samples: u64,
        40 objects: [u32; FRAMES],
        104 offsets: [u64; FRAMES],
    }
}

impl From<SiteRow> for v2::SiteRow {
    fn from(old: SiteRow) -> Self {
        let SiteRow { component, frames, live, peak, total, samples, objects, offsets } = old;
        Self { component, frames, live, peak, total, samples, objects, offsets, at_peak: 0 }
    }
}
