//! Rows of measurements: the summary, the timeline, and the history of samples.

#[allow(unused_imports, reason = "the documentation of fields names them")]
use super::{COMMITTED, NONE, SEQUENCE_MARK};
use crate::plain::plain;

plain! {
    /// Precedes the component rows of the summary. Bytes, and nanoseconds since the trace began.
    pub struct SummaryHead [288] {
        0 time: u64,
        /// Resident bytes as the kernel counts them (statm), at that time.
        8 kernel_resident: u64,
        /// Resident bytes found by the walk over all mappings, with hugetlb and page tables.
        16 walked: u64,
        24 unattributed: u64,
        32 page_tables: u64,
        40 hugetlb: u64,
        48 swapped: u64,
        /// Part of the resident bytes shared with other processes.
        56 shared: u64,
        /// In transparent huge pages.
        64 huge: u64,
        /// Greatest `walked` ever.
        72 peak: u64,
        80 peak_time: u64,
        /// Phase at the peak, or [`NONE`].
        88 peak_phase: u32,
        /// MPI function at the peak: a name index plus 1; 0 outside.
        92 peak_function: u32,
        /// Peak of the resident bytes recorded by the kernel (VmHWM).
        96 kernel_peak: u64,
        /// Owned by all components.
        104 owned: u64,
        112 owned_peak: u64,
        120 owned_peak_time: u64,
        128 samples_full: u64,
        136 samples_quick: u64,
        144 samples_release: u64,
        /// Releases without a sample before them.
        152 releases_skipped: u64,
        /// Processor time of the sampler.
        160 cpu_ns: u64,
        /// Present interval between samples.
        168 interval_ns: u64,
        /// Longest time that one call held the kernel's lock on the mappings.
        176 longest_hold_ns: u64,
        /// Resident bytes of pages that several components share, split by estimate: an upper bound
        /// of the error of each component.
        184 mixed: u64,
        /// Held by the profiler.
        192 tool: u64,
        /// Longest duration of a sample.
        200 longest_sample_ns: u64,
        /// Number of MPI calls seen; 0 if not counted.
        208 mpi_calls: u64,
        /// Mappings seen at the last walk.
        216 mappings: u64,
        /// Threads seen.
        224 threads: u64,
        /// Page faults that the kernel reported; 0 if reports were not requested.
        232 faults: u64,
        /// Page faults that the kernel could not report, for lack of room or permission.
        240 faults_lost: u64,
        /// Rows that found no room in a table of the profiler, by the kind of the table: [`lost`](super::lost).
        248 lost: [u32; 10],
    }
}

plain! {
    /// A component in the summary; the row's number is that of the component.
    pub struct SummaryRow [160] {
        /// Owned now: blocks and ranges.
        0 owned: u64,
        8 owned_peak: u64,
        16 owned_peak_time: u64,
        24 resident: u64,
        32 resident_peak: u64,
        40 resident_peak_time: u64,
        /// Part of `resident` that is mapped shared.
        48 shared: u64,
        /// Part of `resident` in huge pages, transparent or hugetlb.
        56 huge: u64,
        64 swapped: u64,
        72 allocations: u64,
        80 frees: u64,
        /// Total bytes ever allocated.
        88 allocated: u64,
        /// When `walked` was greatest.
        96 resident_at_peak: u64,
        104 owned_at_peak: u64,
        /// Phase and MPI function at the peaks, as in the head.
        112 resident_peak_phase: u32,
        116 resident_peak_function: u32,
        120 owned_peak_phase: u32,
        124 owned_peak_function: u32,
        /// Part of `owned` in blocks of the allocator.
        128 blocks: u64,
        /// Part of `owned` in mappings.
        136 ranges: u64,
        /// Upper bound of the error of `resident`.
        144 error: u64,
        /// Free bytes of the allocator in pages that the component used last, when `walked` was
        /// greatest.
        152 slack_at_peak: u64,
    }
}

plain! {
    /// Free pages of the C library's heaps, behind the components of a summary, and shorter than one
    /// of these. Arrays: at the last sample, and when `walked` was greatest.
    pub struct SlackRow [112] {
        /// Resident bytes of the main heap in whole pages without a live block.
        0 main: [u64; 2],
        /// Part of `main` behind the last live block.
        16 main_top: [u64; 2],
        /// As `main`, in the heaps of all thread arenas.
        32 arenas: [u64; 2],
        /// Part of `arenas` behind the last live block of the newest heap of each arena.
        48 arenas_top: [u64; 2],
        /// Upper bound of what `main` and `arenas` have beyond these numbers.
        64 uncertain: [u64; 2],
        /// Thread arenas with resident memory.
        80 number_of_arenas: [u32; 2],
        /// Component with most bytes in the last page of the main heap with a live block; [`NONE`]
        /// if it is not known.
        88 holder: [u32; 2],
        /// Sampled call stack of a block there, or [`NONE`].
        96 holder_site: [u32; 2],
        /// Component of the allocator, or [`NONE`] for the C library's: of another one the
        /// other fields are zero.
        104 allocator: u32,
        /// Arenas in front of this row.
        108 rows: u32,
    }
}

plain! {
    /// An arena of the C library, between the components of a summary and its free pages, and as
    /// long as one of the components. Arrays as in [`SlackRow`]; the two arenas of a row may differ.
    /// The first have most free memory, and a row without an arena at a moment is zero then.
    pub struct ArenaRow [160] {
        /// Resident bytes.
        0 resident: [u64; 2],
        /// Part of them in live blocks.
        16 in_use: [u64; 2],
        /// Part of them in whole pages without a live block.
        32 free_pages: [u64; 2],
        /// Part of `free_pages` that `malloc_trim` leaves: behind the last live block of an arena
        /// that is not the main arena.
        48 kept: [u64; 2],
        /// Upper bound of what `free_pages` has beyond this number.
        64 uncertain: [u64; 2],
        /// Part of the free memory that `left_by` has left.
        80 left: [u64; 2],
        /// 0 for the main arena; others are numbered by address.
        96 number: [u32; 2],
        /// Arenas of this row: more than one in the last row, if that is the sum of all further ones.
        104 arenas: [u32; 2],
        /// Component with most bytes in the last page with a live block; [`NONE`] if it is not known.
        112 holder: [u32; 2],
        /// Sampled call stack of a block there, or [`NONE`].
        120 holder_site: [u32; 2],
        /// Component that has left most of the free memory; [`NONE`] if it is not known.
        128 left_by: [u32; 2],
        /// Zero.
        136 reserved: [u64; 3],
    }
}

const _: () = assert!(ArenaRow::SIZE == SummaryRow::SIZE);

const _: () = assert!(SlackRow::SIZE < SummaryRow::SIZE);

plain! {
    /// Precedes the cells of a bin of the timeline.
    pub struct BinHead [72] {
        /// The bin is `1 << (bin_shift + level)` nanoseconds wide and begins at `number` times that.
        0 level: u32,
        4 number: u32,
        /// Full samples in it.
        8 samples: u32,
        /// Other samples in it.
        12 others: u32,
        16 first_time: u64,
        24 last_time: u64,
        /// Of `walked`, over full samples.
        32 total_min: u64,
        40 total_max: u64,
        48 total_mean: u64,
        /// Greatest `kernel_resident`, over all samples.
        56 kernel_max: u64,
        /// KiB by which the anonymous pages exceed the process's share of them: minimum, rounded
        /// down.
        64 beyond_min: u32,
        /// KiB of anonymous pages that other processes share: maximum, rounded up.
        68 common_max: u32,
    }
}

plain! {
    /// A component in a bin, in KiB rounded up. A component that no sample of the bin names has zeros.
    pub struct Cell [32] {
        0 resident_min: u32,
        4 resident_max: u32,
        8 resident_mean: u32,
        /// Over all samples, and reads of the ledger between them.
        12 owned_max: u32,
        /// Lower bound of the resident memory, from the full sample before the bin to the last in
        /// it: see [`crate::bounds`].
        16 floor: u32,
        /// Upper bound for the same time; `u32::MAX` where it is not known.
        20 ceiling: u32,
        /// Highest amount in pages that no other process maps, over the held findings of full
        /// samples.
        24 private_max: u32,
        /// The same in pages that other processes may map.
        28 shared_max: u32,
    }
}

plain! {
    /// Precedes the records of a ring block. The checksum covers bytes 0..16, then the records in
    /// use; `used` and `checksum` change together in one store.
    pub struct BlockHead [32] {
        /// 1 for the first block ever, with [`SEQUENCE_MARK`]; 0 if unused.
        0 sequence: u64,
        /// Of its first record.
        8 first_time: u64,
        /// Records in use, with [`COMMITTED`]; 0 before the first.
        16 used: u32,
        20 checksum: u32,
        /// Zero.
        24 reserved: u64,
    }
}

plain! {
    /// One line of history.
    pub struct Record [32] {
        /// [`record`].
        0 kind: u8,
        /// [`sample`] for samples, [`edge`] for phases.
        1 flags: u8,
        2 component: u16,
        4 argument: u32,
        /// Nanoseconds since the trace began.
        8 time: u64,
        16 a: u64,
        24 b: u64,
    }
}

/// Values of [`Record::kind`].
pub mod record {
    /// Argument: number of records of the sample that follow. `a`: kernel's resident, `b`: walked.
    pub const SAMPLE: u8 = 1;
    /// `a`: owned, `b`: resident. Components without a record in a full sample are all zero.
    pub const COMPONENT: u8 = 2;
    /// More data of the preceding component. `a`: resident and shared, `b`: swapped.
    pub const EXTRA: u8 = 3;
    /// Argument: row of the phase.
    pub const PHASE: u8 = 4;
    /// Argument: row of the note.
    pub const NOTE: u8 = 5;
}

/// Bits of [`Record::flags`] of a sample.
pub mod sample {
    /// Names every component that is not all zero.
    pub const FULL: u8 = 1;
    /// Totals only; `walked` is that of the last full sample.
    pub const QUICK: u8 = 2;
    /// Taken because much memory was about to be released.
    pub const RELEASE: u8 = 4;
    /// Taken because a phase began or ended.
    pub const PHASE: u8 = 8;
    /// Taken because the program requested it.
    pub const ASKED: u8 = 16;
    /// The last one: the process is ending.
    pub const LAST: u8 = 32;
}

/// Values of [`Record::flags`] of a phase.
pub mod edge {
    /// The phase begins.
    pub const BEGIN: u8 = 1;
    /// The phase ends.
    pub const END: u8 = 2;
}
