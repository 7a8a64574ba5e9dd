//! A child is on its own: it keeps the ledgers, and leaves the file to its parent.
//!
//! All locks are taken before a fork, outer ones first, so that what they guard is whole in the child.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicBool, Ordering};

use crate::thread::{Guard, local};
use crate::{
    boundary, component, heap, hooks, memory, note, objects, phases, ranges, sampler, start, writer,
};

static REGISTERED: AtomicBool = AtomicBool::new(false);

unsafe extern "C" {
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> i32;
}

/// Has the three handlers called from now on.
pub fn register() {
    if !REGISTERED.swap(true, Ordering::AcqRel) {
        let _guard = Guard::enter();
        // SAFETY: the handlers stay as long as the object, which is never unloaded.
        unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) };
    }
}

extern "C" fn prepare() {
    let guard = Guard::enter();
    start::lock().lock();
    hooks::lock().lock();
    phases::lock().lock();
    sampler::lock().lock();
    objects::before_fork();
    writer::lock().lock();
    heap::before_fork();
    component::lock().lock();
    ranges::lock().lock();
    note::lock().lock();
    memory::lock().lock();
    // Until the handler after the fork the thread is the tool's.
    core::mem::forget(guard);
}

fn release(child: bool) {
    memory::lock().unlock();
    note::lock().unlock();
    ranges::lock().unlock();
    component::lock().unlock();
    heap::after_fork(child);
    writer::lock().unlock();
    objects::after_fork();
    sampler::lock().unlock();
    phases::lock().unlock();
    hooks::lock().unlock();
    start::lock().unlock();
    let guard = &local().guard;
    guard.set(guard.get() - 1);
}

extern "C" fn parent() {
    release(false);
}

extern "C" fn child() {
    writer::detach();
    sampler::forget();
    release(true);
    ranges::forget_calls();
    boundary::after_fork();
    start::forked();
}
