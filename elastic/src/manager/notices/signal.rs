//! SIGTERM, intercepted while a world lives: the first one is a notice, and every further one has
//! its earlier effect.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::event::{EventfdFlags, eventfd};

/// The process that intercepts the signal: in a forked process it is no notice.
static HOLDER: AtomicI32 = AtomicI32::new(0);
/// True once the first SIGTERM has arrived.
static HAS_COME: AtomicBool = AtomicBool::new(false);
/// Descriptor that the first SIGTERM is written to; -1 without a listener. Never closed, so that
/// the handler cannot write elsewhere.
static LISTENER: AtomicI32 = AtomicI32::new(-1);
/// The earlier handler and its flags, for use by the handler.
static EARLIER: (AtomicUsize, AtomicI32) = (AtomicUsize::new(libc::SIG_DFL), AtomicI32::new(0));
/// Number of worlds that intercept the signal, and the handler to restore when the last one ends.
static HELD: Mutex<(usize, Option<libc::sigaction>)> = Mutex::new((0, None));

/// A signal handler that takes `siginfo_t`.
type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

/// Intercepts SIGTERM until it is dropped.
#[derive(Debug)]
pub(crate) struct SigtermGuard(());

impl SigtermGuard {
    /// Makes the next SIGTERM a notice. An earlier handler is called as well; without one, this
    /// SIGTERM does not end the process.
    pub(crate) fn hold() -> Self {
        let mut held = held();
        if held.0 == 0 {
            HAS_COME.store(false, Ordering::SeqCst);
            // A process number is positive.
            HOLDER.store(std::process::id().cast_signed(), Ordering::SeqCst);
            let earlier = action(None);
            EARLIER.0.store(earlier.sa_sigaction, Ordering::SeqCst);
            EARLIER.1.store(earlier.sa_flags, Ordering::SeqCst);
            let mut own = earlier;
            own.sa_sigaction = on_term as Handler as usize;
            own.sa_flags =
                libc::SA_SIGINFO | libc::SA_RESTART | (earlier.sa_flags & libc::SA_ONSTACK);
            action(Some(&own));
            held.1 = Some(earlier);
        }
        held.0 += 1;
        Self(())
    }

    /// Returns a descriptor that becomes readable at the first SIGTERM.
    ///
    /// # Errors
    /// The descriptor cannot be made.
    pub(super) fn listen() -> std::io::Result<BorrowedFd<'static>> {
        static COUNTER: OnceLock<OwnedFd> = OnceLock::new();
        let counter = match COUNTER.get() {
            Some(counter) => counter,
            None => {
                let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
                let counter = eventfd(0, flags)?;
                COUNTER.get_or_init(|| counter)
            }
        };
        // An unread notice of an earlier world is discarded.
        let _ = rustix::io::read(counter, &mut [0; 8]);
        LISTENER.store(counter.as_raw_fd(), Ordering::SeqCst);
        if HAS_COME.load(Ordering::SeqCst) {
            rustix::io::write(counter, &1_u64.to_ne_bytes())?;
        }
        Ok(std::os::fd::AsFd::as_fd(counter))
    }
}

impl Drop for SigtermGuard {
    fn drop(&mut self) {
        let mut held = held();
        held.0 -= 1;
        if held.0 > 0 {
            return;
        }
        LISTENER.store(-1, Ordering::SeqCst);
        let is_own = action(None).sa_sigaction == on_term as Handler as usize;
        if let Some(earlier) = held.1.take()
            // A handler installed later may call this one, which then only passes the signal on.
            && is_own
        {
            action(Some(&earlier));
        }
        HAS_COME.store(true, Ordering::SeqCst);
    }
}

fn held() -> MutexGuard<'static, (usize, Option<libc::sigaction>)> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sets the action of SIGTERM, if given, and returns the previous one.
fn action(new: Option<&libc::sigaction>) -> libc::sigaction {
    let new = new.map_or(ptr::null(), ptr::from_ref);
    let mut old = MaybeUninit::zeroed();
    // SAFETY: both pointers are to such a structure, or the new one is null. Its handler is this
    // module's or was installed before, and SIGTERM may be handled, so the call does not fail; if
    // it did, zeros are the default action.
    unsafe {
        libc::sigaction(libc::SIGTERM, new, old.as_mut_ptr());
        old.assume_init()
    }
}

/// Handles SIGTERM: makes only async-signal-safe calls, and preserves `errno`.
extern "C" fn on_term(signal: c_int, facts: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: returns the address of this thread's `errno`, which lives as long as the thread.
    let error_number = unsafe { libc::__errno_location() };
    // SAFETY: as above.
    let before = unsafe { *error_number };
    // SAFETY: takes nothing and cannot fail.
    let is_holder = unsafe { libc::getpid() } == HOLDER.load(Ordering::SeqCst);
    let is_notice = is_holder && !HAS_COME.swap(true, Ordering::SeqCst);
    let listener = LISTENER.load(Ordering::SeqCst);
    if is_notice && listener >= 0 {
        let one = 1_u64.to_ne_bytes();
        // SAFETY: the descriptor is never closed, and the bytes exist. A full counter is readable
        // already.
        unsafe { libc::write(listener, one.as_ptr().cast(), one.len()) };
    }
    match EARLIER.0.load(Ordering::SeqCst) {
        libc::SIG_IGN => {}
        libc::SIG_DFL if is_notice => {}
        libc::SIG_DFL => {
            // SAFETY: sets the default action, and raises the signal, which ends the process when
            // this handler returns.
            unsafe {
                libc::signal(signal, libc::SIG_DFL);
                libc::raise(signal);
            }
        }
        earlier if EARLIER.1.load(Ordering::SeqCst) & libc::SA_SIGINFO != 0 => {
            // SAFETY: the flags of the installed handler state that it has this type.
            let earlier = unsafe { std::mem::transmute::<usize, Handler>(earlier) };
            earlier(signal, facts, context);
        }
        earlier => {
            // SAFETY: the flags of the installed handler state that it has this type.
            let earlier = unsafe { std::mem::transmute::<usize, extern "C" fn(c_int)>(earlier) };
            earlier(signal);
        }
    }
    // SAFETY: as above.
    unsafe { *error_number = before };
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, Output};

    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    use super::*;

    /// Variable of a process in which a test may send itself signals.
    const ALONE: &str = "ELASTIC_TEST_SIGNALS";

    /// Runs a test of this name in a separate process. Returns `None` in that process.
    pub(in super::super) fn alone(name: &str) -> Option<Output> {
        if std::env::var_os(ALONE).is_some() {
            return None;
        }
        let name = format!("manager::notices::{name}");
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &name, "--nocapture"]).env(ALONE, "1");
        Some(command.output().unwrap())
    }

    pub(in super::super) fn raise() {
        // SAFETY: takes any signal; handlers run before it returns.
        unsafe { libc::raise(libc::SIGTERM) };
    }

    fn has_come(listener: BorrowedFd<'_>) -> bool {
        let mut all = [PollFd::new(&listener, PollFlags::IN)];
        poll(&mut all, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn first_sigterm_is_a_notice_and_second_ends_process() {
        let name = "signal::tests::first_sigterm_is_a_notice_and_second_ends_process";
        if let Some(output) = alone(name) {
            assert_eq!(output.status.signal(), Some(libc::SIGTERM), "{output:?}");
            assert!(String::from_utf8_lossy(&output.stdout).contains("noticed"), "{output:?}");
            return;
        }
        let _term = SigtermGuard::hold();
        let listener = SigtermGuard::listen().unwrap();
        assert!(!has_come(listener));
        raise();
        assert!(has_come(listener));
        println!("noticed");
        raise();
    }

    static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn count(_: c_int) {
        CALLS.fetch_add(1, Ordering::SeqCst);
    }

    #[test]
    fn earlier_handler_is_called_each_time_and_restored() {
        let name = "signal::tests::earlier_handler_is_called_each_time_and_restored";
        if let Some(output) = alone(name) {
            assert!(output.status.success(), "{output:?}");
            return;
        }
        let mut own = action(None);
        own.sa_sigaction = count as extern "C" fn(c_int) as usize;
        action(Some(&own));
        let term = SigtermGuard::hold();
        raise();
        // Rank 0 may begin to listen after the signal.
        assert!(has_come(SigtermGuard::listen().unwrap()));
        raise();
        let other = SigtermGuard::hold();
        drop(term);
        raise();
        assert_eq!(CALLS.load(Ordering::SeqCst), 3);
        drop(other);
        assert_eq!(action(None).sa_sigaction, own.sa_sigaction);
        raise();
        assert_eq!(CALLS.load(Ordering::SeqCst), 4);
        // The next world gets its own notice.
        let _term = SigtermGuard::hold();
        assert!(!has_come(SigtermGuard::listen().unwrap()));
        raise();
        assert!(has_come(SigtermGuard::listen().unwrap()));
    }

    #[test]
    fn handler_that_came_later_stays_at_the_end() {
        let name = "signal::tests::handler_that_came_later_stays_at_the_end";
        if let Some(output) = alone(name) {
            assert!(output.status.success(), "{output:?}");
            return;
        }
        let term = SigtermGuard::hold();
        let mut later = action(None);
        later.sa_sigaction = count as extern "C" fn(c_int) as usize;
        later.sa_flags &= !libc::SA_SIGINFO;
        action(Some(&later));
        drop(term);
        assert_eq!(action(None).sa_sigaction, later.sa_sigaction);
    }
}
