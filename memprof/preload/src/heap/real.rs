//! The allocator that the program would have had without us.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::arch;
use crate::arch::Errno;
use crate::thread::Guard;

/// The address of a function, 0 until it is known.
pub struct Slot(AtomicUsize);

impl Slot {
    const fn new() -> Slot {
        Slot(AtomicUsize::new(0))
    }

    /// The function; looked up by the first who asks. Zero while somebody looks it up, or if the
    /// process has none.
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

/// What the hashes in tags are keyed with.
static SECRET: AtomicU64 = AtomicU64::new(0);

const UNKNOWN: u32 = 0;
const LOOKING: u32 = 1;
const KNOWN: u32 = 2;
static PROGRESS: AtomicU32 = AtomicU32::new(UNKNOWN);

type Allocate = unsafe extern "C" fn(usize) -> *mut u8;
type AllocateTwo = unsafe extern "C" fn(usize, usize) -> *mut u8;
type Reallocate = unsafe extern "C" fn(*mut u8, usize) -> *mut u8;
type AllocateInto = unsafe extern "C" fn(*mut *mut u8, usize, usize) -> c_int;
type Free = unsafe extern "C" fn(*mut u8);
type Usable = unsafe extern "C" fn(*const u8) -> usize;

/// Defines a look at each function: none while it is not known.
macro_rules! functions {
    ($($name:ident: $kind:ty = $slot:ident;)*) => {$(
        #[inline(always)]
        pub fn $name() -> Option<$kind> {
            match $slot.get() {
                0 => None,
                // SAFETY: the address that the loader gave for the function of this name.
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

/// How large a block of the GNU C library is stands before it. Used where a look at blocks of many
/// sizes has shown that it is so.
static HEADERS: AtomicBool = AtomicBool::new(false);

/// How many bytes of a block can be used; 0 where no tag is wanted, or the size is not known.
///
/// # Safety
/// A live block of the real allocator.
#[inline(always)]
pub unsafe fn room_for_tag(block: *const u8) -> usize {
    if HEADERS.load(Ordering::Relaxed) {
        // SAFETY: the block is a live one, and its size stands before it.
        unsafe { size_by_header(block) }
    } else {
        // SAFETY: as the caller's.
        unsafe { size_by_question(block) }
    }
}

#[cold]
#[inline(never)]
unsafe fn size_by_question(block: *const u8) -> usize {
    if stands_aside() {
        return 0;
    }
    // SAFETY: as the caller's.
    usable().map_or(0, |usable| unsafe { usable(block) })
}

/// The ledger is not kept: everything passes through.
static ASIDE: AtomicBool = AtomicBool::new(false);

/// From now on nothing is counted. Blocks that have tags are freed as all others.
pub fn stand_aside() {
    ASIDE.store(true, Ordering::SeqCst);
    HEADERS.store(false, Ordering::SeqCst);
}

/// Whether the ledger has been given up.
fn stands_aside() -> bool {
    ASIDE.load(Ordering::Relaxed)
}

/// The word before a block: its size with that word, and three bits, of which the second says that
/// the block was mapped, and then two words belong to the C library.
#[inline(always)]
unsafe fn size_by_header(block: *const u8) -> usize {
    const WORD: usize = size_of::<usize>();
    // SAFETY: the word belongs to the block.
    let header = unsafe { block.sub(WORD).cast::<usize>().read() };
    let mapped = header >> 1 & 1;
    (header & !7).wrapping_sub(WORD + WORD * mapped)
}

/// Whether the headers of blocks say what malloc_usable_size does.
fn headers_tell() -> bool {
    if !cfg!(all(target_env = "gnu", target_pointer_width = "64")) {
        return false;
    }
    let of_c_library = next(c"gnu_get_libc_version");
    let allocator = MALLOC.0.load(Ordering::Acquire);
    if of_c_library == 0 || !same_object(of_c_library, allocator) {
        return false;
    }
    let (Some(malloc), Some(memalign), Some(free), Some(usable)) =
        (malloc(), memalign(), free(), usable())
    else {
        return false;
    };
    const SIZES: [usize; 10] = [0, 8, 24, 25, 64, 1032, 1033, 5000, 70_000, 1 << 20];
    SIZES.into_iter().all(|size| {
        // SAFETY: blocks made, looked at and freed here.
        unsafe {
            let blocks = [malloc(size), memalign(64, size)];
            let told = blocks.iter().all(|block| {
                !block.is_null() && {
                    let bytes = usable(*block);
                    bytes >= size && size_by_header(*block) == bytes
                }
            });
            blocks.into_iter().for_each(|block| free(block));
            told
        }
    })
}

fn same_object(one: usize, other: usize) -> bool {
    let base = |address: usize| {
        // SAFETY: plain data, for which zeroes are valid.
        let mut found: libc::Dl_info = unsafe { core::mem::zeroed() };
        // SAFETY: the call writes to `found` only.
        let known = unsafe { libc::dladdr(address as *const _, &mut found) } != 0;
        known.then_some(found.dli_fbase as usize)
    };
    base(one).is_some() && base(one) == base(other)
}

/// The key of the tags' hashes.
#[inline(always)]
pub fn secret() -> u64 {
    SECRET.load(Ordering::Relaxed)
}

/// Finds the functions. Whoever comes while another thread, or the same one further up, is at it
/// goes on without them.
fn resolve() {
    if PROGRESS.compare_exchange(UNKNOWN, LOOKING, Ordering::AcqRel, Ordering::Acquire).is_err() {
        return;
    }
    if arch::sanitizer() {
        // It replaces even comparing bytes, and may not have come to itself yet.
        stand_aside();
    }
    let errno = Errno::save();
    let _guard = Guard::enter();
    SECRET.store(random_word(), Ordering::Relaxed);
    super::registry::prepare();
    // Those that work on blocks come first: who sees `malloc` sees them too.
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
        slot.0.store(next(name), Ordering::Release);
    }
    HEADERS.store(headers_tell() && !stands_aside(), Ordering::Release);
    PROGRESS.store(KNOWN, Ordering::Release);
    errno.restore();
}

/// Waits for the thread that looks the functions up, unless that is this one.
pub fn settled() -> bool {
    for _ in 0..1_000_000 {
        match PROGRESS.load(Ordering::Acquire) {
            KNOWN => return true,
            LOOKING if crate::thread::local().guard.get() > 0 => return false,
            UNKNOWN => resolve(),
            _ => core::hint::spin_loop(),
        }
    }
    false
}

/// The function of this name in the objects behind ours, 0 if there is none.
pub fn next(name: &CStr) -> usize {
    look(libc::RTLD_NEXT, name)
}

/// The function of this name as a handle sees it, 0 if there is none.
#[cfg(all(feature = "archive", not(test)))]
pub fn look(_handle: *mut c_void, name: &CStr) -> usize {
    crate::archive::real(name)
}

/// The function of this name as a handle sees it, 0 if there is none.
#[cfg(any(not(feature = "archive"), test))]
pub fn look(handle: *mut c_void, name: &CStr) -> usize {
    // SAFETY: the name ends with a zero. The loader tells the objects behind ours by the address this
    // call returns to, so it must not become a jump: the result is used after it.
    let address = unsafe { libc::dlsym(handle, name.as_ptr()) };
    core::hint::black_box(address) as usize
}

/// From the kernel's own random bytes for this process.
fn random_word() -> u64 {
    // SAFETY: no precondition.
    let bytes = unsafe { libc::getauxval(libc::AT_RANDOM) } as *const u64;
    if bytes.is_null() {
        return ptr::from_ref(&PROGRESS) as u64;
    }
    // SAFETY: the kernel put 16 bytes there. The second half: the first keys stack protectors.
    let word = unsafe { bytes.add(1).read_unaligned() };
    word.rotate_left(23) ^ 0x6d65_6d70_726f_6621
}
