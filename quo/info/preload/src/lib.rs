//! The object that `quo-info doctor` loads into a program. At the program's first call that begins
//! MPI the process records its mappings and its MPI, and becomes `quo-info doctor --rank`, which
//! keeps the mask, the limits and the environment of the rank. MPI does not begin, and the
//! program's own work is not reached.
#![allow(unsafe_code)]

use std::ffi::{CStr, OsString, c_char, c_int, c_void};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

/// Folder for what the ranks record, private to the user.
const FOLDER: &str = "QUO_DOCTOR_FOLDER";
/// Path of `quo-info`.
const COMMAND: &str = "QUO_DOCTOR_COMMAND";
/// More than the text of any MPI.
const VERSION_BYTES: usize = 32 * 1024;

/// Records the process and replaces it. Returns only in a process that is not examined.
fn examine() {
    let (Some(folder), Some(command)) = (std::env::var_os(FOLDER), std::env::var_os(COMMAND))
    else {
        return;
    };
    let error = become_the_doctor(Path::new(&folder), &command);
    // A file says why: the program's own standard error may be closed.
    let file = Path::new(&folder).join(format!("{}.error", std::process::id()));
    let _ = std::fs::write(file, error.to_string());
    // With another status launchers would end the other ranks before these have recorded themselves.
    // SAFETY: ends this process, without the exit handlers of a program that is not to run.
    unsafe { libc::_exit(0) };
}

fn become_the_doctor(folder: &Path, command: &OsString) -> std::io::Error {
    let own = |kind: &str| folder.join(format!("{}.{kind}", std::process::id()));
    let recorded = std::fs::read("/proc/self/maps")
        .and_then(|maps| std::fs::write(own("maps"), maps))
        .and_then(|()| std::fs::write(own("mpi"), version()));
    match recorded {
        Err(error) => error,
        Ok(()) => Command::new(command).args(["doctor", "--rank"]).env_remove("LD_PRELOAD").exec(),
    }
}

/// Returns what the program's MPI says about itself; empty if it does not.
fn version() -> Vec<u8> {
    type Ask = unsafe extern "C" fn(*mut c_char, *mut c_int) -> c_int;
    // SAFETY: the name is zero-terminated; the lookup has no other effect.
    let found = unsafe { libc::dlsym(libc::RTLD_NEXT, c"MPI_Get_library_version".as_ptr()) };
    if found.is_null() {
        return Vec::new();
    }
    // SAFETY: the function that MPI defines under this name has this type.
    let ask = unsafe { std::mem::transmute::<*mut c_void, Ask>(found) };
    let (mut text, mut length) = (vec![0_u8; VERSION_BYTES], 0);
    // SAFETY: MPI allows this call before it begins, and the buffer is longer than any MPI's text.
    unsafe { ask(text.as_mut_ptr().cast(), &raw mut length) };
    text[VERSION_BYTES - 1] = 0;
    CStr::from_bytes_until_nul(&text).map_or_else(|_| Vec::new(), |text| text.to_bytes().to_vec())
}

/// Defines functions that examine the process, and else call MPI's function of the same name.
macro_rules! begin {
    ($($name:ident($($argument:ident),*);)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name($($argument: *mut c_void),*) -> c_int {
            examine();
            type Real = unsafe extern "C" fn($(argument_type!($argument)),*) -> c_int;
            // SAFETY: as in `version`.
            let real = unsafe {
                libc::dlsym(libc::RTLD_NEXT, concat!(stringify!($name), "\0").as_ptr().cast())
            };
            if real.is_null() {
                return 1;
            }
            // SAFETY: MPI's function of this name, which takes as many words as this one.
            unsafe { std::mem::transmute::<*mut c_void, Real>(real)($($argument),*) }
        }
    )*};
}

/// The type of each argument: all are passed in registers, as words.
macro_rules! argument_type {
    ($argument:ident) => {
        *mut c_void
    };
}

begin! {
    MPI_Init(argc, argv);
    MPI_Init_thread(argc, argv, required, provided);
    MPI_Session_init(info, handler, session);
    mpi_init_(error);
    mpi_init_thread_(required, provided, error);
    mpi_session_init_(info, handler, session, error);
    mpi_init_f08_(error);
    mpi_init_thread_f08_(required, provided, error);
    mpi_session_init_f08_(info, handler, session, error);
}
