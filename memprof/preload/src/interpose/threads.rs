//! Threads know where they come from: the object of the function they start in, or MPI.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use super::hooked::{Function, hook, real};
use crate::base::component::{self, Component};
use crate::base::overflow_counters::{self, Table};
use crate::base::thread::{Guard, local};
use crate::ledger::ranges;
use crate::owners;
use crate::sampling::sampler;

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Orders for a new thread.
#[derive(Copy, Clone)]
struct Order {
    start: usize,
    argument: *mut c_void,
    home: Component,
    /// Start and length of the stack, where the program has given one.
    stack: (usize, usize),
}

struct Place {
    taken: AtomicU32,
    order: UnsafeCell<Order>,
}

// SAFETY: written by who took it, before the thread that reads it is made.
unsafe impl Sync for Place {}

/// Threads that are made and have not begun, at most; more are not told.
const PLACES: usize = 512;

static ORDERS: [Place; PLACES] = [const {
    Place {
        taken: AtomicU32::new(0),
        order: UnsafeCell::new(Order {
            start: 0,
            argument: core::ptr::null_mut(),
            home: Component::UNATTRIBUTED,
            stack: (0, 0),
        }),
    }
}; PLACES];

hook! {
    pthread_create => create;
}

unsafe extern "C-unwind" fn create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    start: usize,
    argument: *mut c_void,
    _e: usize,
    _f: usize,
    caller: usize,
    stack: usize,
) -> c_int {
    // SAFETY: the real function.
    let real: unsafe extern "C-unwind" fn(
        *mut libc::pthread_t,
        *const libc::pthread_attr_t,
        usize,
        *mut c_void,
    ) -> c_int = unsafe { core::mem::transmute(real(Function::PthreadCreate)) };
    let place = if local().guard.get() > 0 {
        None
    } else {
        let place = take();
        if place.is_none() {
            overflow_counters::add(Table::Threads);
        }
        place
    };
    let Some(place) = place else {
        // SAFETY: the caller's words.
        return unsafe { real(thread, attributes, start, argument) };
    };
    // SAFETY: the place is ours.
    unsafe {
        let (home, stack) = (home(start, caller, stack), given(attributes));
        *place.order.get() = Order { start, argument, home, stack };
    }
    let told = core::ptr::from_ref(place).cast_mut().cast();
    // SAFETY: as the caller asks, but for where the thread begins.
    let result = unsafe { real(thread, attributes, begin as *const () as usize, told) };
    if result != 0 {
        place.taken.store(0, Ordering::Release);
    }
    result
}

/// The stack that the program gives by its attributes; no length where it gives none.
///
/// # Safety
///
/// Attributes as of [`libc::pthread_create`].
unsafe fn given(attributes: *const libc::pthread_attr_t) -> (usize, usize) {
    let (mut low, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: as promised; the call only writes what it is given.
    let told = !attributes.is_null()
        && unsafe { libc::pthread_attr_getstack(attributes, &raw mut low, &raw mut size) } == 0;
    // Without one the upper end is at zero.
    if told && (low as usize).wrapping_add(size) != 0 && !low.is_null() {
        (low as usize, size)
    } else {
        (0, 0)
    }
}

fn take() -> Option<&'static Place> {
    ORDERS.iter().find(|place| {
        place.taken.load(Ordering::Relaxed) == 0
            && place.taken.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok()
    })
}

/// In a child after fork: threads that had not begun in the parent are not here.
pub fn after_fork() {
    for place in &ORDERS {
        place.taken.store(0, Ordering::Release);
    }
}

/// Home of a thread that begins at `start` and is made by this call.
fn home(start: usize, caller: usize, stack: usize) -> Component {
    let begins_in = owners::caller(start);
    if begins_in.neutral {
        // A library's common start (C++): whose call it is.
        return owners::owner(caller, stack);
    }
    if local().inside_mpi(stack) && !component::class(begins_in.component).is_mpi() {
        return owners::mpi().unwrap_or(begins_in.component);
    }
    begins_in.component
}

/// Beginning of threads.
///
/// # Safety
///
/// `told` is a place filled in by [`create`].
unsafe extern "C-unwind" fn begin(told: *mut c_void) -> *mut c_void {
    // SAFETY: as promised; nobody else uses the place until it is given back.
    let place = unsafe { &*told.cast::<Place>() };
    // SAFETY: as above.
    let order = unsafe { *place.order.get() };
    place.taken.store(0, Ordering::Release);
    local().home.set(order.home);
    let stack = {
        let _guard = Guard::enter();
        let here = 0u8;
        crate::sampling::faults::thread_begins();
        let owner = owners::stacks_of(order.home);
        match order.stack {
            (_, 0) => ranges::stack(core::ptr::from_ref(&here) as usize, owner),
            (start, length) => {
                ranges::given(start, length, owner);
                (0, 0)
            }
        }
    };
    // SAFETY: what the program wanted to run, with its argument.
    let result = unsafe {
        let start: Start = core::mem::transmute(order.start);
        start(order.argument)
    };
    if order.stack.1 > 0 {
        ranges::given_back(order.stack.0);
    }
    // The C library gives the stack's pages back without a call that can be seen.
    sampler::before_release(stack.0, stack.1);
    result
}
