//! Signals while a command runs as a child, and while a display refreshes itself.
#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// The command that receives signals; 0 for none.
static CHILD: AtomicI32 = AtomicI32::new(0);
/// A signal that arrived before there was a command to pass it to.
static EARLY: AtomicI32 = AtomicI32::new(0);
/// True if a signal has requested the end.
static ASKED: AtomicBool = AtomicBool::new(false);

/// Signals that request the end or an action of a program.
const PASSED: [i32; 9] = [
    libc::SIGHUP,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGTERM,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGCONT,
    libc::SIGWINCH,
];

extern "C" fn pass_on(signal: i32, info: *mut libc::siginfo_t, _context: *mut libc::c_void) {
    if [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT].contains(&signal) {
        ASKED.store(true, Ordering::Relaxed);
    }
    // SAFETY: the kernel passes a valid siginfo to a handler installed with SA_SIGINFO.
    let from_process = unsafe { (*info).si_code } <= 0;
    let child = CHILD.load(Ordering::SeqCst);
    // A signal from a terminal, that is from the kernel, has reached the command already, which is
    // in the same group.
    if from_process && child == 0 {
        EARLY.store(signal, Ordering::SeqCst);
    }
    if from_process && child > 0 {
        // SAFETY: kill may be called in a handler. The child has not been waited for while its
        // number stands here, so the number is still its own.
        unsafe { libc::kill(child, signal) };
    }
}

/// Installs the handlers before the command is started, so that no signal ends only this process.
/// The command itself starts with the defaults: handlers do not survive exec.
pub fn handle() {
    for signal in PASSED {
        // SAFETY: an all-zero sigaction is valid; the handler has the signature SA_SIGINFO asks for
        // and calls only what may be called in a handler.
        unsafe {
            let mut before: libc::sigaction = std::mem::zeroed();
            libc::sigaction(signal, std::ptr::null(), &mut before);
            // A signal that was ignored on entry (nohup) stays ignored, for the command too.
            if before.sa_sigaction == libc::SIG_IGN {
                continue;
            }
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = pass_on as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Passes signals to this process from now on, including one that arrived since `handle`, while the
/// command was being started.
pub fn pass_to(child: u32) {
    let child = i32::try_from(child).unwrap_or(0);
    CHILD.store(child, Ordering::SeqCst);
    let early = EARLY.swap(0, Ordering::SeqCst);
    if early != 0 && child > 0 {
        // SAFETY: the child has not been waited for, so the number is its own.
        unsafe { libc::kill(child, early) };
    }
}

/// Waits for the end of a child. Its number stays its own until signals are no longer passed to it.
///
/// # Errors
/// If the kernel refuses to wait for the child.
pub fn wait(child: &mut std::process::Child) -> std::io::Result<ExitStatus> {
    let id = child.id();
    loop {
        // SAFETY: an all-zero siginfo is valid, and waitid writes only to it. WNOWAIT leaves the
        // child to be waited for below.
        let result = unsafe {
            let mut info: libc::siginfo_t = std::mem::zeroed();
            libc::waitid(libc::P_PID, id, &mut info, libc::WEXITED | libc::WNOWAIT)
        };
        let error = std::io::Error::last_os_error();
        if result == 0 || error.kind() != std::io::ErrorKind::Interrupted {
            break;
        }
    }
    CHILD.store(0, Ordering::Relaxed);
    child.wait()
}

/// Returns true if a signal requested the end of the program.
#[must_use]
pub fn asked_to_end() -> bool {
    ASKED.load(Ordering::Relaxed)
}

/// Returns the exit status of the command; ends this process by the signal that ended the command.
#[must_use]
pub fn end_like(status: ExitStatus) -> u8 {
    if let Some(code) = status.code() {
        return code as u8;
    }
    let signal = status.signal().unwrap_or(libc::SIGKILL);
    // SAFETY: plain calls; an all-zero sigaction has the default handler, and the limit keeps a
    // second core file from being written for the same end.
    unsafe {
        let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        libc::setrlimit(libc::RLIMIT_CORE, &none);
        let action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, &action, std::ptr::null_mut());
        libc::raise(signal);
    }
    128u8.wrapping_add(signal as u8)
}
