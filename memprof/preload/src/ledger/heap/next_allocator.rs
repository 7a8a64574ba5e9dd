//! The next allocator: the one that the program would use without the tool.

#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use super::tag;
use crate::base::arch;
use crate::base::arch::Errno;
use crate::base::symbols;
use crate::base::thread::Guard;
use crate::owners::dladdr;

/// Address of a function, 0 until it is known.
pub struct Slot(AtomicUsize);

impl Slot {
    const fn new() -> Slot {
        Slot(AtomicUsize::new(0))
    }

    /// Returns the address; the first call looks it up. Returns zero while another thread does so,
    /// or if the process has no such function.
    #[inline(always)]
    fn get(&self) -> usize {
        match self.0.load(Ordering::Acquire) {
            0 => self.find(),
            address => address,
        }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> usize {
        resolve();
        self.0.load(Ordering::Acquire)
    }
}

static MALLOC: Slot = Slot::new();
static CALLOC: Slot = Slot::new();
static REALLOC: Slot = Slot::new();
static FREE: Slot = Slot::new();
static MEMALIGN: Slot = Slot::new();
static ALIGNED_ALLOC: Slot = Slot::new();
static POSIX_MEMALIGN: Slot = Slot::new();
static PVALLOC: Slot = Slot::new();
static USABLE: Slot = Slot::new();

const UNKNOWN: u32 = 0;
const LOOKING: u32 = 1;
const KNOWN: u32 = 2;
static PROGRESS: AtomicU32 = AtomicU32::new(UNKNOWN);

pub type Allocate = unsafe extern "C" fn(usize) -> *mut u8;
type AllocateTwo = unsafe extern "C" fn(usize, usize) -> *mut u8;
type Reallocate = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type AllocateInto = unsafe extern "C" fn(*mut *mut u8, usize, usize) -> c_int;
pub type Free = unsafe extern "C" fn(*mut u8);
type Usable = unsafe extern "C" fn(*const u8) -> usize;

/// Defines an accessor for each function, which returns `None` while the function is not known.
macro_rules! functions {
    ($($name:ident: $kind:ty = $slot:ident;)*) => {$(
        #[inline(always)]
        pub fn $name() -> Option<$kind> {
            match $slot.get() {
                0 => None,
                // SAFETY: the address that the loader returned for the function of this name.
                address => Some(unsafe { core::mem::transmute::<usize, $kind>(address) }),
            }
        }
    )*};
}

functions! {
    malloc: Allocate = MALLOC;
    calloc: AllocateTwo = CALLOC;
    realloc: Reallocate = REALLOC;
    free: Free = FREE;
    memalign: AllocateTwo = MEMALIGN;
    aligned_alloc: AllocateTwo = ALIGNED_ALLOC;
    posix_memalign: AllocateInto = POSIX_MEMALIGN;
    pvalloc: Allocate = PVALLOC;
    usable: Usable = USABLE;
}

/// Words that the fast paths of malloc and free read, in a cache line that is not written after
/// startup.
#[repr(C, align(64))]
pub struct Quick {
    /// True if the real allocator is the GNU C library's and stores the size before each block, as
    /// a test with blocks of many sizes has shown.
    pub open: AtomicBool,
    pub malloc: AtomicUsize,
    free: AtomicUsize,
    /// Key of the tags.
    key: AtomicU64,
}

pub static QUICK: Quick = Quick {
    open: AtomicBool::new(false),
    malloc: AtomicUsize::new(0),
    free: AtomicUsize::new(0),
    key: AtomicU64::new(0),
};

/// Returns true if the size of a block can be read from its header.
#[inline(always)]
pub fn is_quick() -> bool {
    QUICK.open.load(Ordering::Acquire)
}

/// Returns the real malloc.
///
/// # Safety
/// [`is_quick`] has returned true.
#[inline(always)]
pub unsafe fn quick_malloc() -> Allocate {
    // SAFETY: the address that the loader returned for malloc was stored before.
    unsafe { core::mem::transmute::<usize, Allocate>(QUICK.malloc.load(Ordering::Relaxed)) }
}

/// Returns the real free.
///
/// # Safety
/// [`is_quick`] has returned true.
#[inline(always)]
pub unsafe fn quick_free() -> Free {
    // SAFETY: the address that the loader returned for free was stored before.
    unsafe { core::mem::transmute::<usize, Free>(QUICK.free.load(Ordering::Relaxed)) }
}

/// Returns the usable bytes of a block; 0 where no tag is wanted, or the size is not known.
///
/// # Safety
/// `block` is a live block of the real allocator.
#[inline(always)]
pub unsafe fn room_for_tag(block: *const u8) -> usize {
    if is_quick() {
        // SAFETY: the word belongs to the block.
        let header = unsafe { block.sub(size_of::<usize>()).cast::<usize>().read() };
        if header & MAPPED == 0 {
            return size_in_header(header);
        }
    }
    // SAFETY: guaranteed by the caller.
    unsafe { size_by_question(block) }
}

#[cold]
#[inline(never)]
unsafe fn size_by_question(block: *const u8) -> usize {
    if is_disabled() {
        return 0;
    }
    // SAFETY: guaranteed by the caller.
    usable().map_or(0, |usable| unsafe { usable(block) })
}

/// True if the ledger is not kept, so that all calls pass through.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// Stops all counting. Blocks that have tags are freed like all others.
pub fn disable() {
    ASIDE.store(true, Ordering::SeqCst);
    QUICK.open.store(false, Ordering::SeqCst);
}

/// Returns true if the ledger is disabled.
pub fn is_disabled() -> bool {
    ASIDE.load(Ordering::Relaxed)
}

/// Bit in the header of a block of the GNU C library, the word before the block that holds its
/// size, including that word, and three flag bits. The bit says that the block is a mapping of its
/// own; for such a block some versions reserve one word, others two.
pub const MAPPED: usize = 2;
const BITS: usize = 7;

/// Returns the bytes that the C library uses for a block, with its header, if the block is not in a
/// separate mapping and the bytes are less than `limit`, a power of two. Requires [`is_quick`];
/// returns `None` for blocks of the tool's own arena.
///
/// # Safety
/// `block` is a live block of the real allocator or the arena.
#[inline(always)]
pub unsafe fn chunk_below(block: *const u8, limit: usize) -> Option<usize> {
    // SAFETY: the word belongs to the block.
    let header = unsafe { block.sub(size_of::<usize>()).cast::<usize>().read() };
    (header & (MAPPED | !(limit - 1)) == 0).then_some(header & !BITS)
}

/// Bytes of a chunk that are neither the program's nor the allocator's slack: the header and a tag.
pub const OVERHEAD: usize = size_of::<usize>() + tag::SIZE;

/// Returns the word before a block. The kernel reads it if possible: under a tool that replaces the
/// allocator without a trace, such as valgrind, the word is not part of the block, and a direct
/// read would be reported as an error of the program.
///
/// # Safety
/// `block` is a live block.
unsafe fn header_of(block: *const u8) -> usize {
    let mut word = [0; size_of::<usize>()];
    let before = block.wrapping_sub(word.len());
    if crate::base::kernel::peek(before as usize, &mut word) {
        return usize::from_ne_bytes(word);
    }
    // SAFETY: allocators keep metadata before a block.
    unsafe { before.cast::<usize>().read() }
}

#[inline(always)]
fn size_in_header(header: usize) -> usize {
    (header & !BITS).wrapping_sub(size_of::<usize>())
}

/// Sizes of the test blocks. None is a separate mapping: after such a block is freed, the C library
/// maps fewer blocks and trims later, and the program's blocks would be at other addresses than
/// without the tool.
const TRIED: [usize; 10] = [0, 8, 24, 25, 64, 1032, 1033, 5000, 70_000, 100_000];

/// Returns true if the headers of blocks agree with malloc_usable_size.
fn headers_tell() -> bool {
    if !cfg!(all(target_env = "gnu", target_pointer_width = "64")) {
        return false;
    }
    let of_c_library = symbols::dlsym_next(c"gnu_get_libc_version");
    let allocator = MALLOC.0.load(Ordering::Acquire);
    if of_c_library == 0 || !same_object(of_c_library, allocator) {
        return false;
    }
    let (Some(malloc), Some(memalign), Some(free), Some(usable)) =
        (malloc(), memalign(), free(), usable())
    else {
        return false;
    };
    TRIED.into_iter().all(|size| {
        // SAFETY: the blocks are allocated, examined and freed here.
        unsafe {
            let blocks = [malloc(size), memalign(64, size)];
            let told = blocks.iter().all(|block| {
                !block.is_null() && {
                    let bytes = usable(*block);
                    bytes >= size && size_in_header(header_of(*block)) == bytes
                }
            });
            blocks.into_iter().for_each(|block| free(block));
            told
        }
    })
}

/// Returns true if the allocator behind the tool is not the C library's and leaves some calls to
/// the C library: aligned blocks by some of the names, or the size of a block. Only one of the two
/// can serve a call.
pub fn is_partial() -> bool {
    let allocator = MALLOC.0.load(Ordering::Acquire);
    let its = |slot: &Slot| same_object(slot.0.load(Ordering::Acquire), allocator);
    is_disabled() || its(&MEMALIGN) != its(&ALIGNED_ALLOC)
}

/// Returns true if the size of a block can be queried: the allocator implements the query, or
/// passes on blocks of the C library, as the header before each block shows.
fn sizes_are_told() -> bool {
    let (allocator, tells) = (MALLOC.0.load(Ordering::Acquire), USABLE.0.load(Ordering::Acquire));
    if tells == 0 || same_object(allocator, tells) {
        return true;
    }
    let (Some(malloc), Some(free)) = (malloc(), free()) else { return false };
    TRIED.into_iter().all(|size| {
        // SAFETY: the block is allocated and freed here; the kernel reads its header.
        unsafe {
            let block = malloc(size);
            let mut word = [0; 8];
            let known =
                !block.is_null() && crate::base::kernel::peek(block as usize - 8, &mut word);
            free(block);
            let chunk = usize::from_ne_bytes(word) & !7;
            known && chunk.is_multiple_of(16) && (size + 8..=size + 8192).contains(&chunk)
        }
    })
}

pub fn same_object(one: usize, other: usize) -> bool {
    dladdr::of(one).is_some_and(|holder| dladdr::of(other).is_some_and(|other| holder == other))
}

/// Returns the key of the tags.
#[inline(always)]
pub fn key() -> u64 {
    QUICK.key.load(Ordering::Relaxed)
}

/// Looks up the functions. Returns at once, without them, if another thread is doing so or if the
/// call is nested in such a lookup.
fn resolve() {
    if PROGRESS.compare_exchange(UNKNOWN, LOOKING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return;
    }
    if arch::sanitizer() {
        // The sanitizer replaces even the comparison of bytes, and may not be initialized yet.
        disable();
    }
    let errno = Errno::save();
    let _guard = Guard::enter();
    // Never zero, which is the mark of a thread without counters.
    QUICK.key.store(tag::key(random_word() | 1), Ordering::Relaxed);
    dladdr::prepare();
    // Functions that take a block are first: a thread that sees `malloc` then sees them too.
    for (slot, name) in [
        (&USABLE, c"malloc_usable_size"),
        (&FREE, c"free"),
        (&REALLOC, c"realloc"),
        (&CALLOC, c"calloc"),
        (&MEMALIGN, c"memalign"),
        (&ALIGNED_ALLOC, c"aligned_alloc"),
        (&POSIX_MEMALIGN, c"posix_memalign"),
        (&PVALLOC, c"pvalloc"),
        (&MALLOC, c"malloc"),
    ] {
        slot.0.store(symbols::dlsym_next(name), Ordering::Release);
    }
    if cfg!(not(any(test, feature = "archive"))) && !sizes_are_told() {
        disable();
    }
    if headers_tell() && !is_disabled() {
        QUICK.malloc.store(MALLOC.0.load(Ordering::Acquire), Ordering::Release);
        QUICK.free.store(FREE.0.load(Ordering::Acquire), Ordering::Release);
        QUICK.open.store(true, Ordering::Release);
    }
    PROGRESS.store(KNOWN, Ordering::Release);
    errno.restore();
}

/// Waits until the functions are known. Returns false if the calling thread is looking them up, or
/// after a limit.
pub fn settled() -> bool {
    for _ in 0..1_000_000 {
        match PROGRESS.load(Ordering::Acquire) {
            KNOWN => return true,
            LOOKING if crate::base::thread::local().guard.get() > 0 => return false,
            UNKNOWN => resolve(),
            _ => core::hint::spin_loop(),
        }
    }
    false
}

/// Returns a word from the random bytes that the kernel provides for this process.
fn random_word() -> u64 {
    // SAFETY: no precondition.
    let bytes = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const u64;
    if bytes.is_null() {
        return ptr::from_ref(&PROGRESS) as u64;
    }
    // SAFETY: the kernel put 16 bytes there. The second half is used, since the first keys stack
    // protectors.
    let word = unsafe { bytes.add(1).read_unaligned() };
    word.rotate_left(23) ^ 0x6d65_6d70_726f_6621
}
