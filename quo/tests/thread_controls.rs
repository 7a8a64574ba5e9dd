//! Thread counts of libraries that are loaded late, in a separate process: a library that one test
//! loads would be visible to every other test of the process.
#![allow(unsafe_code)]
#![allow(clippy::unwrap_used)]

use std::ffi::{CString, c_int, c_void};
use std::path::Path;
use std::process::Command;

use quo::phase::{ThreadControls, ThreadLibrary};

struct Library(*mut c_void);

impl Library {
    fn open(path: &Path) -> Self {
        Self::try_open(path, libc::RTLD_GLOBAL).unwrap()
    }

    /// Opens the library only if it is loaded.
    fn open_again(path: &Path) -> Option<Self> {
        Self::try_open(path, libc::RTLD_NOLOAD)
    }

    fn try_open(path: &Path, flags: c_int) -> Option<Self> {
        let path = CString::new(path.to_str().unwrap()).unwrap();
        // SAFETY: the library is the one compiled below and has no initialisers.
        let handle = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | flags) };
        (!handle.is_null()).then_some(Self(handle))
    }

    fn get(&self, name: &str) -> i64 {
        let name = CString::new(name).unwrap();
        // SAFETY: the handle is open.
        let symbol = unsafe { libc::dlsym(self.0, name.as_ptr()) };
        assert!(!symbol.is_null(), "{name:?}");
        if name.to_bytes().starts_with(b"bli") {
            // SAFETY: the C file declares the function with this type.
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> i64>(symbol)() }
        } else {
            // SAFETY: the C file declares the function with this type.
            unsafe { std::mem::transmute::<*mut c_void, extern "C" fn() -> c_int>(symbol)() }.into()
        }
    }

    fn counts(&self) -> [i64; 4] {
        [
            self.get("omp_get_max_threads"),
            self.get("openblas_get_num_threads"),
            self.get("MKL_Get_Max_Threads"),
            self.get("bli_thread_get_num_threads"),
        ]
    }

    fn close(self) {
        // SAFETY: the handle is open, and nothing of the library is in use.
        assert_eq!(unsafe { libc::dlclose(self.0) }, 0);
    }
}

#[test]
fn thread_counts_of_late_libraries_are_set_and_restored() {
    let controls = ThreadControls::new();
    assert_eq!(controls.libraries(), [], "this process loads no threading library by itself");
    let saved = controls.set(3);
    assert_eq!(saved.settings().count(), 0);
    saved.restore();

    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("libthreading.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/threading_libraries.c");
    let compiled =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&path).arg(source).status();
    assert!(compiled.expect("a C compiler named cc is needed").success());

    let library = Library::open(&path);
    assert_eq!(
        controls.libraries(),
        [ThreadLibrary::OpenMp, ThreadLibrary::OpenBlas, ThreadLibrary::Mkl, ThreadLibrary::Blis],
        "libraries loaded after the first look are found"
    );
    let before = [6, 5, 3, -1];
    assert_eq!(library.counts(), before);
    let saved = controls.set(2);
    assert_eq!(library.counts(), [2; 4]);
    assert_eq!(saved.settings().map(|setting| setting.before).collect::<Vec<_>>(), before);
    assert!(saved.settings().all(|setting| setting.threads == 2));

    let inner = controls.set(0);
    assert_eq!(library.counts(), [1; 4], "a count is at least 1");
    inner.restore();
    assert_eq!(library.counts(), [2; 4]);
    {
        let _dropped = controls.set(usize::MAX);
        assert_eq!(library.counts(), [i64::from(c_int::MAX); 4]);
    }
    assert_eq!(library.counts(), [2; 4], "dropping restores too");
    saved.restore();
    assert_eq!(library.counts(), before, "also the count that one library changes for another");

    let pending = controls.set(2);
    library.close();
    let library = Library::open_again(&path).expect("a library that was found stays loaded");
    pending.restore();
    assert_eq!(library.counts(), before);
    library.close();
}
