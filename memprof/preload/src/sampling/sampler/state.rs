//! State of the sampler, kept from sample to sample.

use memprof_trace::layout::{ArenaRow, NONE, SlackRow, SummaryHead, SummaryRow};
use memprof_trace::write::ComponentSample;

use super::agreement::Agreement;
use super::attribute::Totals;
use super::budget::Duty;
use super::entry::{Copies, Entry, NO_ENTRY};
use super::free_pages;
use super::peaks::Peaks;
use super::publish::Published;
use super::segments::Segments;
use super::sources::Sources;
use super::world::Owners;
use crate::base::component::{Component, LIMIT};
use crate::base::diagnostics::{self, Code};
use crate::base::kernel;
use crate::ledger::heap::{self, Ledger};
use crate::recording::writer;

/// Number of mappings walked together.
pub const BATCH: usize = 2048;
/// Number of devices of which the kind is remembered.
pub const DEVICES: usize = 16;

/// State kept from sample to sample, grouped by its use. The initial state is all zeros, so that it
/// takes no bytes of the file: a field without a value is an `Option`, not a special number.
pub struct Sampler {
    pub sources: Sources,
    pub walked: Walked,
    pub record: Record,
    pub last: LastSample,
    pub owned: Owned,
    pub phases: Peaks,
    pub duty: Option<Duty>,
    pub published: Published,
    pub agreement: Agreement,
    ready: bool,
    stopped: bool,
}

/// State of the walks over the mappings.
pub struct Walked {
    pub entries: [Entry; BATCH],
    pub owners: Owners,
    pub totals: Totals,
    pub segments: Segments,
    /// Devices of files, and whether their pages are huge.
    pub devices: [(u64, bool); DEVICES],
    pub device_count: usize,
    /// True if the process used huge pages at the last sample.
    pub has_hugetlb: bool,
    /// True if the current sample examines each page of a file; and the time of the last one that
    /// did.
    pub is_thorough: bool,
    pub thorough: u64,
    /// Copies found in mappings that are not writable.
    pub copies: Copies,
    /// Owned bytes of each component when the walk began, and the total bytes allocated or mapped
    /// for it until then.
    pub began: [(u64, u64); LIMIT],
}

/// Counters that are written to the trace with a sample.
pub struct Record {
    pub ledger: [Ledger; LIMIT],
    pub ranges: [(u64, u64); LIMIT],
    pub samples: [ComponentSample; LIMIT],
    pub rows: [SummaryRow; LIMIT],
    pub head: SummaryHead,
    pub slack: SlackRow,
    pub arenas: [ArenaRow; free_pages::ROWS],
    /// Bytes of tags in blocks.
    pub tags: u64,
}

/// Findings of the last full sample.
pub struct LastSample {
    /// Resident bytes as the kernel counts them.
    pub resident: u64,
    /// Owned bytes of all components, in blocks and in mappings.
    pub owned: (u64, u64),
    /// Large blocks in flight when the tables were about to be read.
    pub in_flight: heap::in_flight::Before<LIMIT>,
    /// Bytes by which the process's private pages exceed its share of them.
    pub beyond: u64,
    /// Resident bytes without an owner, and the allocator's.
    pub unattributed: u64,
    pub slack: u64,
}

impl LastSample {
    const fn new() -> LastSample {
        LastSample {
            resident: 0,
            owned: (0, 0),
            in_flight: heap::in_flight::Before::new(),
            beyond: 0,
            unattributed: 0,
            slack: 0,
        }
    }
}

impl Walked {
    const fn new() -> Walked {
        Walked {
            entries: [NO_ENTRY; BATCH],
            owners: Owners::new(),
            totals: Totals::new(),
            segments: Segments::new(),
            devices: [(0, false); DEVICES],
            device_count: 0,
            has_hugetlb: false,
            is_thorough: false,
            thorough: 0,
            copies: Copies::new(),
            began: [(0, 0); LIMIT],
        }
    }
}

impl Record {
    const fn new() -> Record {
        const NOTHING: Ledger =
            Ledger { owned: 0, peak: 0, allocations: 0, frees: 0, allocated_total: 0 };
        Record {
            ledger: [NOTHING; LIMIT],
            ranges: [(0, 0); LIMIT],
            samples: [NO_SAMPLE; LIMIT],
            rows: [NO_ROW; LIMIT],
            head: NO_HEAD,
            slack: NO_SLACK,
            arenas: [NO_ARENA; free_pages::ROWS],
            tags: 0,
        }
    }
}

impl Sampler {
    pub const fn new() -> Sampler {
        Sampler {
            sources: Sources::new(),
            walked: Walked::new(),
            record: Record::new(),
            last: LastSample::new(),
            owned: Owned::new(),
            phases: Peaks::new(),
            duty: None,
            published: Published::new(),
            agreement: Agreement::new(),
            ready: false,
            stopped: false,
        }
    }

    /// Opens the files that are read repeatedly.
    pub fn prepare(&mut self, duty: Duty, allocator: Option<Component>) {
        self.duty = Some(duty);
        self.walked.owners.allocator_is(allocator);
        self.record.slack.allocator = allocator.map_or(NONE, |allocator| allocator.0.into());
        if !self.sources.open() {
            diagnostics::say(
                Code::NoResidency,
                format_args!("the kernel does not tell which pages are resident"),
            );
            writer::flags(memprof_trace::layout::flags::NO_RESIDENCY, 0);
        }
        self.record.head.peak_phase = NONE;
        self.walked.thorough = kernel::monotonic();
        self.ready = true;
        self.stopped = false;
    }

    pub fn stop(&mut self) {
        self.stopped = true;
    }

    pub fn is_ready(&self) -> bool {
        self.ready && !self.stopped
    }

    /// Resets the sampler, in a forked child.
    pub fn forget(&mut self) {
        self.sources.close();
        self.walked.segments.forget();
        self.published = Published::new();
        self.record.rows.fill(NO_ROW);
        self.record.head = NO_HEAD;
        self.record.slack = NO_SLACK;
        self.record.arenas.fill(NO_ARENA);
        self.phases.forget();
        self.owned = Owned::new();
        self.agreement = Agreement::new();
        // The first sample of the child must come at once, like that of any process.
        self.last = LastSample::new();
        self.ready = false;
    }

    /// Returns the resident bytes as the kernel counts them.
    pub fn kernel_resident(&mut self) -> u64 {
        self.sources.resident()
    }
}

/// Owned bytes last written.
pub struct Owned {
    /// Bytes of all components together.
    pub total: u64,
    pub each: [u64; LIMIT],
}

impl Owned {
    pub const fn new() -> Owned {
        Owned { total: 0, each: [0; LIMIT] }
    }
}

const NO_SAMPLE: ComponentSample = ComponentSample {
    component: 0,
    owned: 0,
    resident: 0,
    shared: 0,
    swapped: 0,
    allocated: 0,
    owned_peak: 0,
    image: 0,
};

// SAFETY: plain numbers.
#[allow(unsafe_code)]
const NO_ROW: SummaryRow = unsafe { core::mem::zeroed() };

// SAFETY: plain numbers.
#[allow(unsafe_code)]
const NO_SLACK: SlackRow = unsafe { core::mem::zeroed() };

// SAFETY: plain numbers.
#[allow(unsafe_code)]
const NO_ARENA: ArenaRow = unsafe { core::mem::zeroed() };

// SAFETY: plain numbers.
#[allow(unsafe_code)]
const NO_HEAD: SummaryHead = unsafe { core::mem::zeroed() };
