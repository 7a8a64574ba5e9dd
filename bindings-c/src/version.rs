//! Version and errors.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::{c_char, c_int};

use crate::codes::Code;
use crate::failures;
use crate::guard::{entry, last};
use crate::types::RawOut;

/// Number in `libquo.so.8`, and the revision of that interface.
const BINARY_INTERFACE: (c_int, c_int) = (8, 0);

#[unsafe(no_mangle)]
pub extern "C" fn QUO_version(version: RawOut<c_int>, subversion: RawOut<c_int>) -> c_int {
    entry("QUO_version", || {
        let (version, subversion) =
            (version.checked("version")?, subversion.checked("subversion")?);
        version.set(BINARY_INTERFACE.0);
        subversion.set(BINARY_INTERFACE.1);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_strerror(code: c_int) -> *const c_char {
    failures::asked(Some(code));
    Code::of_number(code).map_or(c"not a return code of this library", |code| code.text()).as_ptr()
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_last_error() -> *const c_char {
    last()
}
