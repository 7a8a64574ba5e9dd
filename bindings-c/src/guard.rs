//! Common entry of every call of the C interface: panics end here, errors become codes, and the
//! text of the last error is kept for the thread.
#![cfg_attr(test, allow(unsafe_code))]

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use quo::Error;
use quo::error::with_causes;
use quo::group::GroupError;
use quo::node::NodeError;

use crate::codes::Code;
use crate::failures;

/// Failure of a call: the code to return and the text to keep.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) code: Code,
    text: String,
}

impl Failure {
    pub(crate) fn new(code: Code, text: impl Into<String>) -> Self {
        Self { code, text: text.into() }
    }

    pub(crate) fn invalid(text: impl Into<String>) -> Self {
        Self::new(Code::InvalidArgument, text)
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Converts an error; in this interface an index that does not exist is an invalid argument.
    pub(crate) fn of_index(error: Error) -> Self {
        let mut failure = Self::from(error);
        if failure.code == Code::NotFound {
            failure.code = Code::InvalidArgument;
        }
        failure
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let code = match (&error, error.kind()) {
            (Error::Node(NodeError::Left), _) => Code::Detached,
            (Error::Group(GroupError::NotInitialized), _) => Code::CallBeforeInit,
            (_, kind) => Code::from(kind),
        };
        Self { code, text: with_causes(&error) }
    }
}

thread_local! {
    static LAST: RefCell<Option<CString>> = const { RefCell::new(None) };
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs the body of the function `call` and returns its return code.
pub(crate) fn entry(call: &'static str, body: impl FnOnce() -> Result<(), Failure>) -> c_int {
    entry_with_code(call, || body().map(|()| Code::Success))
}

/// Like [`entry`], for functions that have more than one way to succeed.
pub(crate) fn entry_with_code(
    call: &'static str,
    body: impl FnOnce() -> Result<Code, Failure>,
) -> c_int {
    let mut done = Code::Success;
    let number = entry_with_number(call, || {
        done = body().map_err(|failure| (failure.code as c_int, failure))?;
        Ok(())
    });
    if number == 0 { done as c_int } else { number }
}

/// Like [`entry`], for functions whose failures have numbers other than those of the codes.
pub(crate) fn entry_with_number(
    call: &'static str,
    body: impl FnOnce() -> Result<(), (c_int, Failure)>,
) -> c_int {
    let _inside = Mark::set(true);
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(())) => 0,
        Ok(Err((number, failure))) => {
            fail(call, failure.code, number, &format!("{call}: {}", failure.text));
            number
        }
        Err(panic) => {
            let cause = panic
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| panic.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "no cause is known".to_owned());
            // A payload whose drop panics must not get out either.
            std::mem::forget(panic);
            let text = format!("{call}: a defect of the library: {cause}");
            fail(call, Code::Internal, Code::Internal as c_int, &text);
            Code::Internal as c_int
        }
    }
}

/// Makes a text the thread's last error, and reacts to it as the environment specifies.
pub(crate) fn fail(call: &str, code: Code, number: c_int, text: &str) {
    keep(text);
    // A defect here must not get out either, nor hide the failure.
    let _ = catch_unwind(|| failures::react(call, code, number, text));
}

fn keep(text: &str) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    // Fails for a thread that is being torn down, which cannot ask any more.
    let _ = LAST.try_with(|last| last.try_borrow_mut().map(|mut last| *last = Some(text)));
}

/// Returns the text of the thread's last failure; valid until its next one.
pub(crate) fn last() -> *const c_char {
    failures::asked(None);
    const NOTHING: &CStr = c"";
    LAST.try_with(|last| {
        last.try_borrow().map_or(NOTHING.as_ptr(), |last| {
            last.as_ref().map_or(NOTHING.as_ptr(), |text| text.as_ptr())
        })
    })
    .unwrap_or(NOTHING.as_ptr())
}

/// Marks the thread as being inside or outside the library.
pub(crate) struct Mark {
    before: bool,
}

impl Mark {
    fn set(inside: bool) -> Self {
        Self { before: INSIDE.try_with(|mark| mark.replace(inside)).unwrap_or(inside) }
    }

    /// Marks the thread as outside, for the duration of a call into the program's own code.
    pub(crate) fn outside() -> Self {
        Self::set(false)
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        let _ = INSIDE.try_with(|mark| mark.set(self.before));
    }
}

/// Keeps the standard library from printing panics that [`entry`] reports; other panics are printed
/// as before.
pub(crate) fn stay_quiet() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !INSIDE.try_with(Cell::get).unwrap_or(false) {
                before(info);
            }
        }));
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn last_text() -> String {
        // SAFETY: `last` returns a C string that lives until the thread's next failure.
        unsafe { CStr::from_ptr(last()) }.to_str().unwrap().to_owned()
    }

    #[test]
    fn a_failure_gives_its_code_and_leaves_its_text() {
        let code = entry("QUO_example", || Err(Failure::invalid("the index is -1\0")));
        assert_eq!(code, Code::InvalidArgument as c_int);
        assert_eq!(last_text(), "QUO_example: the index is -1 ");
        assert_eq!(entry("QUO_other", || Ok(())), 0);
        assert_eq!(last_text(), "QUO_example: the index is -1 ");
    }

    #[test]
    fn a_panic_ends_in_the_funnel_and_prints_nothing() {
        stay_quiet();
        let code = entry("QUO_example", || panic!("on purpose {}", 7));
        assert_eq!(code, Code::Internal as c_int);
        assert_eq!(last_text(), "QUO_example: a defect of the library: on purpose 7");
    }

    #[test]
    fn the_text_belongs_to_the_thread() {
        entry("QUO_example", || Err(Failure::invalid("here")));
        std::thread::spawn(|| assert_eq!(last_text(), "")).join().unwrap();
    }
}
