//! The sampling thread.

#![allow(unsafe_code)]

use core::ffi::c_void;
use core::ptr;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use crate::base::component::Component;
use crate::base::diagnostics::{self, Code};
use crate::base::kernel::{self, SignalsBlocked};
use crate::base::memory;
use crate::base::options::Options;
use crate::base::thread::Guard;
use crate::ledger::heap;
use crate::recording::{conflicts, phases, writer};
use crate::sampling::faults;

use super::budget::{Duty, LONGEST_AGE};

static STARTED: AtomicBool = AtomicBool::new(false);
/// Word that the thread waits on between ticks; it is never woken.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// Nanoseconds between two writes of the trace to its disk; 0 for never.
static FLUSH: AtomicU64 = AtomicU64::new(0);

/// Stack size of the thread, in addition to what the C library puts there.
const STACK: usize = 128 * 1024;

/// Prepares the sampler once there is a trace, and opens the kernel files that are read repeatedly.
/// The thread takes the first sample, so the program does not wait for it.
pub fn prepare_sampler(options: &Options, allocator: Option<Component>) {
    let duty = Duty::new(options.interval, options.duty * 0.9, kernel::monotonic());
    FLUSH.store(options.flush, Ordering::Relaxed);
    super::with(|sampler| sampler.prepare(duty, allocator));
}

/// Starts the thread, once. It lives until the process ends.
pub fn start() {
    if !writer::is_recording() || STARTED.swap(true, Ordering::AcqRel) {
        return;
    }
    let _guard = Guard::enter();
    // The new thread inherits the blocked signals of this one: all.
    let _signals = SignalsBlocked::enter();
    let size = (STACK + least_stack()).next_multiple_of(kernel::page());
    let Some(stack) = memory::map(size) else { return failed(libc::ENOMEM) };
    // SAFETY: the first call creates the attributes and the last destroys them; the stack is the
    // tool's alone, permanently.
    let result = unsafe {
        let mut attributes = core::mem::zeroed::<libc::pthread_attr_t>();
        libc::pthread_attr_init(&raw mut attributes);
        libc::pthread_attr_setdetachstate(&raw mut attributes, libc::PTHREAD_CREATE_DETACHED);
        libc::pthread_attr_setstack(&raw mut attributes, stack.as_ptr().cast(), size);
        let mut thread = core::mem::zeroed();
        let result =
            libc::pthread_create(&raw mut thread, &raw const attributes, run, ptr::null_mut());
        libc::pthread_attr_destroy(&raw mut attributes);
        result
    };
    if result != 0 {
        failed(result);
    }
}

fn failed(error: i32) {
    diagnostics::say(
        Code::NoSampler,
        format_args!("the sampling thread could not be started (error {error})"),
    );
}

/// Returns the bytes of a stack that the C library uses for thread-local variables.
fn least_stack() -> usize {
    type Least = unsafe extern "C" fn(*const libc::pthread_attr_t) -> usize;
    // SAFETY: the name is zero-terminated.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__pthread_get_minstack".as_ptr()) };
    if found.is_null() {
        return libc::PTHREAD_STACK_MIN + 64 * 1024;
    }
    // SAFETY: glibc's function of this name has this type, and reads only its own variables.
    unsafe {
        let least = core::mem::transmute::<*mut c_void, Least>(found);
        let mut attributes = core::mem::zeroed::<libc::pthread_attr_t>();
        libc::pthread_attr_init(&raw mut attributes);
        let size = least(&raw const attributes);
        libc::pthread_attr_destroy(&raw mut attributes);
        size
    }
}

/// Forgets the thread, which does not exist in the child of a fork.
pub fn forget() {
    STARTED.store(false, Ordering::Release);
}

extern "C" fn run(_: *mut c_void) -> *mut c_void {
    // For the whole life of the thread.
    let _guard = Guard::enter();
    // SAFETY: names this thread; the name is zero-terminated.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"memprof".as_ptr(), 0, 0, 0) };
    conflicts::be_unseen();
    let mut idle = 0;
    let mut last = Last { record: kernel::monotonic(), ..Last::default() };
    let between_flushes = Some(FLUSH.load(Ordering::Relaxed)).filter(|time| *time > 0);
    let mut flushed = kernel::monotonic();
    // Cost of the thread when it was last charged, and the number of ticks.
    let (mut charged, mut ticks) = (0, 0_u64);
    loop {
        let tick = super::with(|sampler| {
            let cost = kernel::thread_time();
            let look = cost.saturating_sub(charged).saturating_sub(last.sampled);
            if ticks > 0 {
                sampler.looked(look)
            } else {
                sampler.charge(look)
            }
            ticks += 1;
            (charged, last.sampled) = (cost, 0);
            let age = sampler.age().max(kernel::monotonic().saturating_sub(last.record));
            sampler.duty.map_or(LONGEST_AGE, |duty| duty.tick(idle, age))
        });
        wait(between_flushes.map_or(tick, |time| tick.min(time)));
        if !writer::is_recording() {
            return ptr::null_mut();
        }
        let publishes = super::with(|sampler| sampler.is_stale());
        if publishes {
            writer::phases();
        }
        idle = if run_tick(&mut last) { 0 } else { idle + 1 };
        if between_flushes.is_some_and(|time| kernel::monotonic().saturating_sub(flushed) >= time) {
            writer::flush();
            flushed = kernel::monotonic();
        }
    }
}

/// Waits until the next tick, and reads the kernel's page fault events meanwhile.
fn wait(tick: u64) {
    let end = kernel::monotonic().saturating_add(tick);
    while faults::is_on() && writer::is_recording() {
        let left = end.saturating_sub(kernel::monotonic());
        if left == 0 {
            return;
        }
        kernel::wait(&NEVER, 0, left.min(faults::INTERVAL));
        faults::read_rings();
    }
    kernel::wait(&NEVER, 0, end.saturating_sub(kernel::monotonic()));
}

/// Findings of the last tick.
#[derive(Default)]
struct Last {
    resident: u64,
    owned: u64,
    full: u64,
    record: u64,
    /// True if something has changed since the last full sample.
    pending: bool,
    /// Cost of the last full sample, which charges itself.
    sampled: u64,
}

/// Runs one tick. Returns true if anything has changed.
fn run_tick(last: &mut Last) -> bool {
    super::with(|sampler| {
        if !sampler.is_ready() {
            return false;
        }
        let now = kernel::monotonic();
        let resident = sampler.kernel_resident();
        let (owned, _) = heap::all();
        // Other processes may write to shared pages, or end: then more of the pages are this
        // process's own.
        let has_common = sampler.last.beyond > 0;
        let changed = resident != last.resident || owned != last.owned || has_common;
        (last.resident, last.owned) = (resident, owned);
        // A change waits until a full sample is affordable.
        last.pending |= changed;
        let Some(duty) = sampler.duty else { return false };
        // A full sample in between, before a release or on request, counts as well.
        let is_due = now.saturating_sub(last.full) >= duty.interval();
        let then = sampler.last.resident;
        let has_grown = duty.follows_growth(now, then, resident);
        // A process that is killed early must have a sample too.
        let is_first = then == 0;
        let is_affordable = last.pending && is_due && duty.affordable(now, resident);
        let is_wanted = has_grown || is_first || is_affordable;
        if is_wanted && !phases::paused() {
            let before = sampler.record.head.cpu_ns;
            sampler.full(0);
            last.sampled = sampler.record.head.cpu_ns - before;
            (last.full, last.record, last.pending) = (now, now, false);
            return true;
        }
        if sampler.owns_otherwise(owned) {
            sampler.write_owned(owned);
        }
        let much = resident.abs_diff(sampler.record.head.kernel_resident) > resident / 100;
        if much || now.saturating_sub(last.record) >= LONGEST_AGE {
            sampler.quick();
            last.record = now;
        }
        if sampler.is_stale() {
            sampler.record.head.time = writer::now();
            sampler.publish();
        }
        changed
    })
}
