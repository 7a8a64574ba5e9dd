//! The allocator that the program would have had without us.

#![allow(unsafe_code)]

use core::ffi::{CStr, c_int, c_void};
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

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
