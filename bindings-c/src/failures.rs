//! Reaction to failed calls according to `QUO_ERRORS`, and the line at the program's end about
//! failures that the program ignored.
//!
//! A failure counts as noticed if `QUO_last_error` is called in its thread before the thread's next
//! failure, or `QUO_strerror` for its code. Ordinary results, such as a timeout, are never counted.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::c_int;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, TryLockError};
use std::{mem, process};

use quo::environment::{self, Reaction};
use quo::notice;

use crate::codes::Code;

/// Failures of one function that the program ignored.
struct Unasked {
    call: String,
    count: u64,
    /// Text of the first failure.
    text: String,
}

static UNASKED: Mutex<Vec<Unasked>> = Mutex::new(Vec::new());

/// Rank of this process among all; negative until MPI has reported it.
static RANK: AtomicI32 = AtomicI32::new(-1);

/// Returns the names of phases that have begun and not ended.
static BEGUN: OnceLock<fn() -> Vec<String>> = OnceLock::new();

/// The process that watches its own end; a forked child is another process and reports nothing.
static WATCHING: AtomicU32 = AtomicU32::new(0);

thread_local! {
    /// Number of the last failure of this thread while it is unnoticed, and its code.
    static LAST: Cell<Option<(usize, c_int)>> = const { Cell::new(None) };
}

fn reaction() -> Reaction {
    static REACTION: OnceLock<Reaction> = OnceLock::new();
    // Create fails for any other text; until then a line is better than nothing.
    *REACTION.get_or_init(|| environment::reaction().unwrap_or(Reaction::Print))
}

/// Returns true for codes that report an ordinary result, which programs check.
fn is_answer(call: &str, code: Code) -> bool {
    match code {
        Code::Timeout | Code::Refused | Code::Aborted => true,
        // The end of the process frees everything that late destructors cannot.
        Code::CallAfterFinalize => call.ends_with("_free"),
        _ => false,
    }
}

/// Reacts to a failure of `call` that is returned as `number`.
pub(crate) fn react(call: &str, code: Code, number: c_int, text: &str) {
    match reaction() {
        Reaction::Return => {
            if !is_answer(call, code) {
                count(call, number, text);
            }
        }
        Reaction::Print => notice::say(&format!("{}{text}", rank())),
        // An extra pop changes nothing, and lets a program find the first of its pushes.
        Reaction::Abort if is_answer(call, code) || code == Code::Pop => {
            notice::say(&format!("{}{text}", rank()));
        }
        Reaction::Abort => {
            notice::say(&format!("{}{text}; QUO_ERRORS=abort ends the job", rank()));
            if quo_mpi::is_usable().is_ok() {
                quo_mpi::abort(number);
            }
            process::abort();
        }
    }
}

fn count(call: &str, number: c_int, text: &str) {
    watch();
    let Ok(mut unasked) = UNASKED.lock() else { return };
    let place = match unasked.iter().position(|known| known.call == call) {
        Some(place) => place,
        None => {
            unasked.push(Unasked { call: call.to_owned(), count: 0, text: String::new() });
            unasked.len() - 1
        }
    };
    let known = &mut unasked[place];
    if known.count == 0 {
        text.clone_into(&mut known.text);
    }
    known.count += 1;
    let _ = LAST.try_with(|last| last.set(Some((place, number))));
}

/// Records that the program asks about this thread's last failure: for its text, or for the meaning
/// of one code.
pub(crate) fn asked(code: Option<c_int>) {
    let last = LAST.try_with(|last| {
        let found = last.get().filter(|&(_, number)| code.is_none_or(|code| code == number));
        if found.is_some() {
            last.set(None);
        }
        found
    });
    let Ok(Some((place, _))) = last else { return };
    let Ok(mut unasked) = UNASKED.lock() else { return };
    if let Some(known) = unasked.get_mut(place) {
        known.count = known.count.saturating_sub(1);
    }
}

/// Sets how the phases that have begun and not ended are found at the program's end.
pub(crate) fn phases_by(begun: fn() -> Vec<String>) {
    let _ = BEGUN.set(begun);
    watch();
}

/// Watches the end of MPI, if it runs, and of the process.
pub(crate) fn watch() {
    let own = process::id();
    if WATCHING.load(Ordering::Relaxed) != own {
        // A forked child inherits its parent's handler and does not become a rank.
        if WATCHING.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return;
        }
        // SAFETY: `at_exit` has no arguments or result and does not unwind.
        unsafe { libc::atexit(at_exit) };
    }
    if quo_mpi::is_usable().is_ok() {
        if RANK.load(Ordering::Relaxed) < 0 {
            RANK.store(quo_mpi::world_rank().unwrap_or(-1), Ordering::Relaxed);
        }
        quo_mpi::at_finalize(at_finalize);
    }
}

fn rank() -> String {
    let mut rank = RANK.load(Ordering::Relaxed);
    if rank < 0 && quo_mpi::is_usable().is_ok() {
        rank = quo_mpi::world_rank().unwrap_or(-1);
    }
    if rank < 0 { format!("process {}: ", process::id()) } else { format!("rank {rank}: ") }
}

extern "C" fn at_finalize() {
    report("MPI_Finalize");
}

extern "C" fn at_exit() {
    report("its exit");
}

/// Reports what the program cannot have noticed, once for the job's ranks of this node.
fn report(when: &str) {
    if WATCHING.load(Ordering::Relaxed) != process::id() {
        return;
    }
    // Phases open at MPI's end have been reported then, by one rank for all.
    static CONSIDERED: AtomicBool = AtomicBool::new(false);
    let begun = match BEGUN.get() {
        Some(begun) if !CONSIDERED.swap(true, Ordering::Relaxed) => begun(),
        _ => Vec::new(),
    };
    // Another thread may be inside a call, or never return from it.
    let mut unasked = match UNASKED.try_lock() {
        Ok(unasked) => unasked,
        Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        Err(TryLockError::WouldBlock) => return,
    };
    unasked.retain(|known| known.count > 0);
    let unasked = mem::take(&mut *unasked);
    if let Some(text) = summary(&begun, &unasked, when)
        && notice::is_first_of_job("unnoticed")
    {
        notice::say(&format!("{}{text}", rank()));
    }
}

fn summary(begun: &[String], unasked: &[Unasked], when: &str) -> Option<String> {
    let mut text = String::new();
    if !begun.is_empty() {
        let (phases, have) = if begun.len() == 1 { ("phase", "has") } else { ("phases", "have") };
        let names = begun.join("`, `");
        let _ = write!(text, "{phases} `{names}` {have} begun and not ended before {when}");
    }
    if !unasked.is_empty() {
        let all: u64 = unasked.iter().map(|known| known.count).sum();
        let calls: Vec<String> =
            unasked.iter().map(|known| format!("{} {}", known.call, known.count)).collect();
        let separator = if text.is_empty() { "" } else { "; " };
        let errors = if all == 1 { "error" } else { "errors" };
        let _ = write!(
            text,
            "{separator}{all} {errors} that nobody asked QUO_last_error() about before {when} ({}), the first: {}; \
             QUO_ERRORS=print shows each, QUO_ERRORS=abort stops at the first",
            calls.join(", "),
            unasked[0].text
        );
    }
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unasked(call: &str, count: u64, text: &str) -> Unasked {
        Unasked { call: call.to_owned(), count, text: text.to_owned() }
    }

    #[test]
    fn summary_without_trouble_is_none() {
        assert_eq!(summary(&[], &[], "MPI_Finalize"), None);
    }

    #[test]
    fn summary_names_phases_calls_and_first_text() {
        let begun = ["solve".to_owned(), "io".to_owned()];
        let errors =
            [unasked("QUO_phase_begin", 2, "QUO_phase_begin: x"), unasked("QUO_free", 1, "y")];
        let text = summary(&begun, &errors, "MPI_Finalize").unwrap();
        assert!(text.starts_with("phases `solve`, `io` have begun and not ended"), "{text}");
        assert!(text.contains("; 3 errors that nobody asked"), "{text}");
        assert!(
            text.contains("(QUO_phase_begin 2, QUO_free 1), the first: QUO_phase_begin: x"),
            "{text}"
        );
    }

    #[test]
    fn timeouts_and_late_frees_are_answers() {
        assert!(is_answer("QUO_barrier_timed", Code::Timeout));
        assert!(is_answer("QUO_free", Code::CallAfterFinalize));
        assert!(!is_answer("QUO_barrier", Code::CallAfterFinalize));
        assert!(!is_answer("QUO_phase_begin", Code::Busy));
    }
}
