//! Runs a program of elements in a shared object. The driver is in the libquo that the object is
//! linked with.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr;

use anyhow::{Context, Result, bail};

/// `QUO_program_main`.
type Main = unsafe extern "C" fn(*const c_void, c_int, *mut *mut c_char) -> c_int;
/// `QUO_last_error`.
type LastError = unsafe extern "C" fn() -> *const c_char;

/// Runs the shared object named by the first word; the other words are its driver's, and after `--`
/// its own.
pub fn run(words: Vec<OsString>) -> Result<u8> {
    let words = words.into_iter().map(|word| CString::new(word.into_vec()));
    let words = words.collect::<Result<Vec<_>, _>>().context("run: a word has a zero byte")?;
    let Some(path) = words.first() else { bail!("run: no program is named") };
    // Without a slash the loader would search its own folders.
    let shown = path.to_string_lossy().into_owned();
    let file = std::fs::canonicalize(&shown).with_context(|| format!("run: opening {shown}"))?;
    let file =
        CString::new(file.into_os_string().into_vec()).context("run: a path has a zero byte")?;
    // Plugins of MPI need its symbols to be global.
    // SAFETY: a C string; the object's initialisers are the user's program.
    let object = unsafe { libc::dlopen(file.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if object.is_null() {
        bail!("run: {shown} cannot be loaded: {}", loader_error());
    }
    let program = symbol(object, c"QUO_program", &shown)?;
    let main = symbol(object, c"QUO_program_main", &shown)?;
    let last = symbol(object, c"QUO_last_error", &shown)?;
    // SAFETY: the functions of these names in libquo have these types; an object that defines others is no program.
    let (main, last) = unsafe {
        (
            std::mem::transmute::<*mut c_void, Main>(main),
            std::mem::transmute::<*mut c_void, LastError>(last),
        )
    };
    let mut arguments: Vec<*mut c_char> =
        words.iter().map(|word| word.as_ptr().cast_mut()).collect();
    let count = c_int::try_from(arguments.len()).context("run: too many words")?;
    arguments.push(ptr::null_mut());
    // SAFETY: `QUO_program` is a QUO_program_t, and the words live until the call returns.
    let code = unsafe { main(program, count, arguments.as_mut_ptr()) };
    if code == 0 {
        return Ok(0);
    }
    // SAFETY: a C string that lives until the next failure of a call in this thread.
    let text = unsafe { CStr::from_ptr(last()) };
    bail!("{}", text.to_string_lossy())
}

fn symbol(object: *mut c_void, name: &CStr, shown: &str) -> Result<*mut c_void> {
    // SAFETY: the object is open, and stays open.
    let found = unsafe { libc::dlsym(object, name.as_ptr()) };
    if found.is_null() {
        let name = name.to_string_lossy();
        bail!(
            "run: {shown} has no {name}: a program exports its QUO_program_t as QUO_program, and is linked with libquo"
        );
    }
    Ok(found)
}

/// Returns the text of the loader's last error.
fn loader_error() -> String {
    // SAFETY: returns a C string that lives until the next call of the loader in this thread, or
    // null.
    let text = unsafe { libc::dlerror() };
    if text.is_null() {
        return "no cause is known".to_owned();
    }
    // SAFETY: as above.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
