//! Origin of threads: the object of the function that a thread starts in, or MPI.

#![allow(unsafe_code)]

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, Ordering};

use super::hooked::{Function, hook, real};
use crate::base::component::Component;
use crate::base::dictionary;
use crate::base::overflow_counters::{self, Table};
use crate::base::thread::{Guard, local};
use crate::ledger::ranges;
use crate::owners;
use crate::sampling::sampler;

type Start = unsafe extern "C-unwind" fn(*mut c_void) -> *mut c_void;

/// Parameters of a new thread.
#[derive(Copy, Clone)]
struct Order {
    start: usize,
    argument: *mut c_void,
    home: Component,
    /// Start and length of the stack, where the program has provided one.
    stack: (usize, usize),
}

struct Place {
    taken: AtomicU32,
    order: UnsafeCell<Order>,
}

// SAFETY: written by the thread that took the entry, before the thread that reads it is created.
unsafe impl Sync for Place {}

/// Maximum number of created threads that have not begun; the parameters of more are not passed.
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
        // SAFETY: the caller's arguments.
        return unsafe { real(thread, attributes, start, argument) };
    };
    // SAFETY: this thread has taken the entry.
    unsafe {
        let (home, stack) = (home(start, caller, stack), given(attributes));
        *place.order.get() = Order { start, argument, home, stack };
    }
    let told = core::ptr::from_ref(place).cast_mut().cast();
    // SAFETY: the caller's arguments, except for the start function.
    let result = unsafe { real(thread, attributes, begin as *const () as usize, told) };
    if result != 0 {
        place.taken.store(0, Ordering::Release);
    }
    result
}

/// Returns the stack that the program provides in the attributes; a length of 0 where it provides
/// none.
///
/// # Safety
///
/// `attributes` are as for [`libc::pthread_create`].
unsafe fn given(attributes: *const libc::pthread_attr_t) -> (usize, usize) {
    let (mut low, mut size) = (core::ptr::null_mut(), 0);
    // SAFETY: guaranteed by the caller; the call only writes its results.
    let told = !attributes.is_null()
        && unsafe { libc::pthread_attr_getstack(attributes, &raw mut low, &raw mut size) } == 0;
    // Without a stack, the upper end is zero.
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

/// Resets the entries in a child after fork: threads that had not begun in the parent do not exist
/// there.
pub fn after_fork() {
    for place in &ORDERS {
        place.taken.store(0, Ordering::Release);
    }
}

/// Returns the home of a thread that begins at `start` and is created by this call.
fn home(start: usize, caller: usize, stack: usize) -> Component {
    let begins_in = owners::caller(start);
    if begins_in.neutral {
        // In a library's common start function (C++), the caller determines the owner.
        return owners::owner(caller, stack);
    }
    if local().inside_mpi(stack) && !dictionary::class(begins_in.component).is_mpi() {
        return owners::mpi().unwrap_or(begins_in.component);
    }
    begins_in.component
}

/// Start function of created threads.
///
/// # Safety
///
/// `told` is an entry filled in by [`create`].
unsafe extern "C-unwind" fn begin(told: *mut c_void) -> *mut c_void {
    // SAFETY: guaranteed by the caller; the entry is not used elsewhere until it is released.
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
    // SAFETY: the program's start function, with its argument.
    let result = unsafe {
        let start: Start = core::mem::transmute(order.start);
        start(order.argument)
    };
    if order.stack.1 > 0 {
        ranges::given_back(order.stack.0);
    }
    // The C library releases the pages of the stack without a call that the tool could see.
    sampler::before_release(stack.0, stack.1);
    result
}
