//! Constants and rows of a trace. `docs/trace-format.md` has the same tables; a test compares them.

use super::moments::Moments;
use crate::plain::{Text, plain};

mod measured;

pub use measured::*;

/// The first eight bytes of a trace.
pub const MAGIC: [u8; 8] = *b"MEMPROF\0";
/// Version of this layout.
pub const VERSION: u32 = 4;
/// Oldest version that is read: its cells and segment rows are shorter.
pub const OLDEST_VERSION: u32 = 2;
/// Follows the version and reveals another byte order.
pub const ENDIAN_MARK: u32 = 0x0102_0304;
/// The header fills the first page; its last four bytes are the checksum of the others.
pub const HEADER_SIZE: usize = 4096;
/// Offset of that checksum.
pub const HEADER_CHECKSUM: usize = HEADER_SIZE - 4;
/// Offset of the first section entry in the header.
pub const SECTION_TABLE: usize = 64;
/// Capacity of the section table.
pub const SECTIONS_LIMIT: usize = 16;
/// Offset of the identity in the header.
pub const IDENTITY: usize = SECTION_TABLE + SECTIONS_LIMIT * SectionEntry::SIZE;
/// Component numbers in any table are smaller.
pub const COMPONENTS_LIMIT: usize = 256;
/// Value for no object, no component, no phase.
pub const NONE: u32 = u32::MAX;
/// The same in two bytes.
pub const NONE_SHORT: u16 = u16::MAX;
/// Initial width of the timeline's bins as a power of two, in nanoseconds: 16.8 ms.
pub const BIN_SHIFT: u32 = 24;
/// A ring block: its head and its records.
pub const BLOCK_SIZE: usize = 4096;
/// Number of records in a block.
pub const BLOCK_RECORDS: usize = (BLOCK_SIZE - BlockHead::SIZE) / Record::SIZE;
/// Upper bits of the sequence number of every slot and block in use; no single flipped bit makes
/// such a number zero, the number of an unused slot.
pub const SEQUENCE_MARK: u64 = 0xC0DE << 48;
/// Upper bit of `used` in a block head that has been committed.
pub const COMMITTED: u32 = 1 << 31;
/// Number of frames kept of a call stack.
pub const FRAMES: usize = 16;

plain! {
    /// The first bytes of a trace.
    pub struct HeaderStart [64] {
        0 magic: [u8; 8],
        8 version: u32,
        /// [`ENDIAN_MARK`].
        12 endian: u32,
        /// Size of the whole file, as created.
        16 file_size: u64,
        /// [`HEADER_SIZE`].
        24 header_size: u32,
        /// Entries of the section table in use.
        28 sections: u32,
        /// [`BIN_SHIFT`].
        32 bin_shift: u32,
        /// Bytes of a bitmap in a segment row.
        36 bitmap_bytes: u32,
        /// Zero.
        40 reserved: [u64; 3],
    }
}

plain! {
    /// One section: slots of equal size, or the blocks of the ring.
    pub struct SectionEntry [32] {
        /// [`super::SectionKind`].
        0 kind: u32,
        /// Bytes of a slot or block.
        4 slot_size: u32,
        /// Number of slots.
        8 slots: u32,
        /// Maximum number of different rows; less than `slots`.
        12 capacity: u32,
        /// Offset from the beginning of the file.
        16 offset: u64,
        /// `slot_size * slots`.
        24 length: u64,
    }
}

plain! {
    /// Identity of the process. Written once.
    pub struct Identity [544] {
        /// Rank in the job; -1 if this is not a rank.
        0 rank: i32,
        /// Ranks in the job; -1 if not known.
        4 size: i32,
        /// Rank on its node; -1 if not known.
        8 local_rank: i32,
        12 pid: u32,
        16 parent_pid: u32,
        /// 0 for the first program this process ran with a trace, 1 after an exec, and so on.
        20 image: u32,
        /// Start time of the process: field 22 of `/proc/PID/stat`.
        24 start_ticks: u64,
        /// Realtime clock when the trace began, in nanoseconds since 1970.
        32 realtime_ns: u64,
        /// Monotonic clock of the node when the trace began; all times in the trace count from here.
        40 monotonic_ns: u64,
        48 page_size: u32,
        /// Zero.
        52 reserved: u32,
        /// Distinguishes nodes, and boots of a node.
        56 boot_id: [u8; 16],
        72 host: Text<64>,
        136 job: Text<64>,
        200 program: Text<256>,
        /// Zero.
        456 reserved2: [u64; 9],
        /// Memory of the node; 0 if not known.
        528 node_memory: u64,
        /// Smallest memory limit of the control groups of the process; 0 without one.
        536 memory_limit: u64,
    }
}

plain! {
    /// Before the payload of every slot. The checksum covers bytes 0..16 and 20..24 of the head with
    /// `length` bytes of payload after them.
    pub struct SlotHead [24] {
        /// 0: unused or being written. Of two slots with the same index, the greater is newer.
        0 sequence: u64,
        /// Of the row.
        8 index: u32,
        /// Bytes of payload in use.
        12 length: u32,
        /// CRC-32 (IEEE).
        16 checksum: u32,
        /// Zero.
        20 reserved: u32,
    }
}

plain! {
    /// Changing state of the whole trace: one row, two slots.
    pub struct StateRow [144] {
        /// [`flags`].
        0 flags: u64,
        /// Different rows written so far, by table.
        8 components: u32,
        12 objects: u32,
        16 notes: u32,
        20 names: u32,
        24 phases: u32,
        28 phase_peaks: u32,
        32 segments: u32,
        36 sites: u32,
        /// Rows that found no room, in all tables.
        40 rows_lost: u64,
        /// When this was written.
        48 time: u64,
        /// Time when the process closed the trace; 0 before.
        56 closed_time: u64,
        /// Blocks begun in the ring so far.
        64 blocks: u64,
        /// File name of the MPI library; empty until one is seen.
        72 mpi_library: Text<64>,
        /// Zero.
        136 reserved: u64,
    }
}

/// Bits of [`StateRow::flags`].
pub mod flags {
    /// An MPI library is loaded.
    pub const MPI_SEEN: u64 = 1 << 0;
    /// `MPI_Init*` has returned.
    pub const INITIALIZED: u64 = 1 << 1;
    /// `MPI_Finalize` has been called.
    pub const FINALIZED: u64 = 1 << 2;
    /// The process ended by exit, or returned from main.
    pub const CLOSED: u64 = 1 << 3;
    /// The program is linked statically.
    pub const STATIC: u64 = 1 << 4;
    /// The program contains its own allocator: blocks are not seen.
    pub const OWN_ALLOCATOR: u64 = 1 << 5;
    /// Forked or given up: later events are not recorded.
    pub const DETACHED: u64 = 1 << 6;
    /// Call stacks are sampled.
    pub const STACKS: u64 = 1 << 7;
    /// Peaks of owned bytes are exact, by atomic counters.
    pub const EXACT_PEAKS: u64 = 1 << 8;
    /// Recording is off for now (`MPI_Pcontrol(0)`).
    pub const PAUSED: u64 = 1 << 9;
    /// MPI calls are not seen.
    pub const NO_BOUNDARY: u64 = 1 << 10;
    /// Residency is not known page by page.
    pub const NO_RESIDENCY: u64 = 1 << 11;
    /// The process has replaced its program by exec.
    pub const REPLACED: u64 = 1 << 12;
    /// The kernel reports every page fault.
    pub const FAULTS: u64 = 1 << 13;
    /// Every process was to be recorded, not only ranks.
    pub const ALL_PROCESSES: u64 = 1 << 14;
}

plain! {
    /// A component that can own memory.
    pub struct ComponentRow [104] {
        /// [`super::Class`].
        0 class: u8,
        /// Zero.
        1 flags: u8,
        /// Row of the object it belongs to, or [`NONE_SHORT`].
        2 object: u16,
        /// For a stack: the component of the code that the thread runs; else [`NONE_SHORT`].
        4 parent: u16,
        /// Zero.
        6 reserved: u16,
        /// Distinguishes the component from others of its class: a file name; empty if it is the
        /// only one.
        8 name: Text<96>,
    }
}

plain! {
    /// A loaded object.
    pub struct ObjectRow [232] {
        /// Offset added to addresses in the file.
        0 base: u64,
        /// First address mapped.
        8 start: u64,
        /// Bytes from `start` to the end of the mapping.
        16 size: u64,
        24 component: u32,
        /// Bytes of `build_id` in use.
        28 build_id_length: u32,
        32 build_id: [u8; 20],
        /// [`object`].
        52 flags: u32,
        56 path: Text<176>,
    }
}

/// Bits of [`ObjectRow::flags`].
pub mod object {
    /// No longer loaded.
    pub const UNLOADED: u32 = 1;
}

plain! {
    /// A failure, or a fact that should be known.
    pub struct NoteRow [152] {
        0 time: u64,
        8 code: u32,
        /// Number of occurrences.
        12 count: u32,
        16 text: Text<136>,
    }
}

plain! {
    /// A name that other rows refer to by its index: MPI functions.
    pub struct NameRow [48] {
        0 name: Text<48>,
    }
}

plain! {
    /// A part of the run.
    pub struct PhaseRow [304] {
        0 name: Text<48>,
        /// [`phase`].
        48 kind: u32,
        /// Parent of the phase when it first began, or [`NONE`].
        52 parent: u32,
        /// Number of times it began.
        56 entries: u64,
        /// Time over all entries; for one that is open, until this was written. Version 2 omits an
        /// open one.
        64 total_ns: u64,
        /// Time of the first begin.
        72 first_time: u64,
        /// Time of the last end.
        80 last_time: u64,
        /// Number of times it is open now.
        88 open: u32,
        /// Highest resident bytes of the process at a sample in the phase, in KiB; the largest
        /// number also stands for more. 0 where no sample was taken in it, and in older traces.
        92 resident_kib: u32,
        /// `entries` over time, set by the writer; zero in older traces.
        96 moments: Moments,
    }
}

/// Values of [`PhaseRow::kind`].
pub mod phase {
    /// Begun by the profiler: init, main, finalize.
    pub const AUTOMATIC: u32 = 0;
    /// Begun by `MPI_Pcontrol`.
    pub const CONTROL: u32 = 1;
    /// Begun by the program through the interface of the profiler.
    pub const USER: u32 = 2;
    /// Begun by quo.
    pub const QUO: u32 = 3;
}

plain! {
    /// Highest memory of a component during a phase. One for each component, in one row.
    pub struct PhasePeak [16] {
        0 owned: u64,
        8 resident: u64,
    }
}

plain! {
    /// A mapping shared with other processes, and which pages of the file or object are present. A
    /// bitmap follows, with one bit for each granule from the beginning of the file, lowest bit
    /// first.
    pub struct SegmentRow [176] {
        0 device: u64,
        8 inode: u64,
        /// Of the file or object.
        16 size: u64,
        24 component: u32,
        /// [`segment`].
        28 flags: u32,
        /// A granule is `1 << granule_shift` bytes. One page where the bitmap is long enough.
        32 granule_shift: u32,
        /// Bytes of bitmap in use.
        36 bitmap_length: u32,
        /// Exact where a granule is a page; otherwise a page counts as often as it is mapped.
        40 present: u64,
        48 time: u64,
        /// As `present`, but a page counts as often as it is mapped, as it does for the component.
        /// 0 in older traces: as `present`.
        56 counted: u64,
        64 path: Text<96>,
        /// Bytes of granules that were present in an earlier sample and are not in the bitmap.
        160 dropped: u64,
        /// Highest difference between `counted` and `present`.
        168 doubled: u64,
    }
}

/// Indexes in [`SummaryHead::lost`].
pub mod lost {
    /// Names of the counts.
    pub const NAMES: [&str; 8] =
        ["objects", "segments", "sites", "blocks", "granules", "ranges", "threads", "handles"];
    /// Loaded objects, highest number at one time: mappings and calls of further ones have no
    /// owner.
    pub const OBJECTS: usize = 0;
    /// Mappings of files and of shared memory that a node counts for each process, highest number
    /// at one time.
    pub const SEGMENTS: usize = 1;
    /// Sampled blocks without a stored call stack.
    pub const SITES: usize = 2;
    /// Large blocks without an entry: their pages count as the allocator's.
    pub const BLOCKS: usize = 3;
    /// Times that a small block was not recorded: as for `BLOCKS`.
    pub const GRANULES: usize = 4;
    /// Mappings without a stored owner.
    pub const RANGES: usize = 5;
    /// Threads with unknown home and stack.
    pub const THREADS: usize = 6;
    /// MPI objects that are not counted, and sums over memory of GPUs.
    pub const HANDLES: usize = 7;
}

/// Bits of [`SegmentRow::flags`].
pub mod segment {
    /// In huge pages that `VmRSS` does not count.
    pub const HUGETLB: u32 = 1;
    /// No longer mapped.
    pub const GONE: u32 = 2;
    /// Counted for another component earlier.
    pub const MOVED: u32 = 4;
    /// The row was another file's earlier, whose data are gone.
    pub const REUSED: u32 = 8;
}

plain! {
    /// Allocation site: a call stack, innermost frame first, with weighted bytes.
    pub struct SiteRow [448] {
        0 component: u32,
        /// Frames in use.
        4 frames: u32,
        /// Estimated from the sampled blocks.
        8 live: u64,
        16 peak: u64,
        24 total: u64,
        /// Blocks sampled.
        32 samples: u64,
        /// Row of the object of each frame, or [`NONE`].
        40 objects: [u32; 16],
        /// Address in the file of that object, or in memory if there is none.
        104 offsets: [u64; 16],
        /// `live` when `walked` was greatest; also 0 if a sample had no time to read it.
        232 at_peak: u64,
        /// `live` in KiB over time, set by the writer; zero in older traces.
        240 moments: Moments,
    }
}

plain! {
    /// Pages of one component that were first touched from the same place: a cell of the matrix of
    /// owners and touchers.
    pub struct TouchRow [32] {
        /// Owner of the memory.
        0 owner: u16,
        /// Component of the code that touched the memory, or [`NONE_SHORT`].
        2 toucher: u16,
        /// MPI function: a name index plus 1; 0 outside.
        4 function: u32,
        /// Number of page faults.
        8 faults: u64,
        /// Bytes that became resident by these faults.
        16 bytes: u64,
        /// Zero.
        24 reserved: u64,
    }
}

plain! {
    /// Time of a region inside and outside of MPI, for the thread that began MPI, over all periods
    /// in which the region was open, until now. Kinds of functions are, in this order: between two
    /// ranks, collective, one-sided, files, completion of requests, others.
    pub struct TimeRow [192] {
        /// In the region.
        0 elapsed_ns: u64,
        /// Outside of MPI, in a barrier of quo that lets others use the processors.
        8 lent_ns: u64,
        /// Number of times that the processors were lent.
        16 lent_calls: u64,
        /// Total time inside MPI in other threads.
        24 others_ns: u64,
        /// Number of MPI calls by other threads.
        32 others_calls: u64,
        /// Inside MPI by kind; kinds beyond are zero.
        40 mpi_ns: [u64; 8],
        /// Number of MPI calls by kind.
        104 calls: [u64; 8],
        /// When this was written.
        168 time: u64,
        /// Outside of MPI, in OpenMP parallel regions.
        176 openmp_ns: u64,
        /// Number of parallel regions.
        184 openmp_regions: u64,
    }
}

plain! {
    /// Call site of MPI, and the loop of the program that begins there. Times are those of the
    /// thread that began MPI.
    pub struct LoopRow [328] {
        /// Row of the object that calls, or [`NONE`].
        0 object: u32,
        /// Function: a name index plus 1.
        4 function: u32,
        /// Return address of the calls, in the file of that object, or in memory if there is none.
        8 offset: u64,
        /// Row of the head of the loop around it, or [`NONE`]; a lower number.
        16 around: u32,
        /// Kind of the function, by its index in [`TimeRow::mpi_ns`].
        20 kind: u32,
        /// 1 if a loop begins here.
        24 is_head: u32,
        /// Zero.
        28 reserved: u32,
        /// Number of calls; 0 in a row that is no longer valid.
        32 calls: u64,
        /// Inside these calls.
        40 spent_ns: u64,
        /// Iterations of the loop that were measured.
        48 turns: u64,
        /// Total time from one call here to the next, over these iterations.
        56 time_ns: u64,
        /// Part of it inside MPI, also in inner loops.
        64 mpi_ns: u64,
        /// The same of the last iterations.
        72 recent_time_ns: u64,
        80 recent_mpi_ns: u64,
        /// MPI calls from call sites that found no room, in the whole process.
        88 lost: u64,
        /// When this was written.
        96 time: u64,
        /// Zero.
        104 reserved2: [u64; 2],
        /// `calls` over time, set by the writer; zero in older traces.
        120 moments: Moments,
    }
}

plain! {
    /// Place of the program that makes MPI objects of one kind by one function, or a sum over the
    /// memory of GPUs of one kind: of a call site, of a component, or of the process.
    pub struct HandleRow [64] {
        /// Row of the object that calls, or [`NONE`].
        0 object: u32,
        /// Function: a name index plus 1.
        4 function: u32,
        /// Return address of the calls, in the file of that object, or in memory if there is none.
        8 offset: u64,
        /// Kind of the objects: an index of [`handle::NAMES`], or of [`handle::GPU_NAMES`] with
        /// [`handle::GPU`] added.
        16 kind: u32,
        /// For memory of a GPU: its component plus 1, or 0 for all of the process; otherwise 0.
        20 component: u32,
        /// Number of objects, or bytes, ever made.
        24 made: u64,
        /// Part of these that is freed.
        32 freed: u64,
        /// Most alive at once.
        40 peak: u64,
        /// When this was written.
        48 time: u64,
        /// For memory of a GPU: number of blocks ever allocated; otherwise 0.
        56 blocks: u64,
    }
}

/// Values of [`HandleRow::kind`].
pub mod handle {
    /// Names of the kinds.
    pub const NAMES: [&str; 12] = [
        "communicator",
        "group",
        "datatype",
        "request",
        "window",
        "info",
        "errhandler",
        "file",
        "op",
        "session",
        "buffer",
        "port",
    ];
    /// First kind of memory of GPUs.
    pub const GPU: u32 = 32;
    /// Names of the kinds of that memory.
    pub const GPU_NAMES: [&str; 3] = ["device", "managed", "pinned"];
}

const _: () = {
    assert!(BLOCK_RECORDS == 127);
    assert!(IDENTITY + Identity::SIZE <= HEADER_CHECKSUM);
};
