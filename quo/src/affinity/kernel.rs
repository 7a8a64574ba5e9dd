//! Back end that uses the Linux kernel.
//!
//! Masks are read and written by the system calls themselves, because the C library's fixed set
//! ends at CPU 1,023 and the kernel's does not.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::fs::{Mode, OFlags};

use super::{Backend, EVERY_CPU, Ledger, ThreadId};
use crate::cpuset::CpuSet;
use crate::own_file::OwnFile;

/// Words of the first try: 1,024 CPUs.
const FIRST_WORDS: usize = 16;
/// Words at which to give up: no kernel is built for more CPUs.
const LAST_WORDS: usize = 1 << 14;

/// Threads up to which a check of each of them costs less than a list.
const CHEAP_THREADS: usize = 4;

/// Masks of this process's threads, as the kernel has them.
#[derive(Debug)]
pub struct Kernel {
    /// The C library's flag for "this process has one thread", if available: a load instead of a
    /// system call.
    alone: Option<&'static AtomicU8>,
    // `/proc/self/task`, kept open: its link count is the number of threads plus two.
    tasks: OwnFile,
    /// True if `/proc` uses the thread numbers of this process's own namespace.
    own_numbers: bool,
    ledger: Mutex<Ledger>,
}

impl Kernel {
    /// Opens the task directory of this process.
    ///
    /// # Errors
    /// The system's own error, for instance if `/proc` is not mounted.
    pub fn new() -> io::Result<Self> {
        let tasks = OwnFile::keep(open_tasks()?)?;
        let own_numbers = proc_counts_as_we_do();
        Ok(Self { alone: single_threaded_mark(), tasks, own_numbers, ledger: Mutex::default() })
    }
}

fn open_tasks() -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(rustix::fs::open("/proc/self/task", flags, Mode::empty())?)
}

/// Returns true if `/proc` shows the process ids of this process's own namespace. It does not in a
/// new PID namespace without a new `/proc` mount: the ids shown there belong to other processes
/// here.
pub(crate) fn proc_counts_as_we_do() -> bool {
    let own = rustix::process::getpid().as_raw_nonzero().to_string();
    std::fs::read_link("/proc/self").is_ok_and(|shown| shown.as_os_str() == own.as_str())
}

/// Returns a thread's number in its own namespace, from its `status` file.
fn innermost_number(status: &str) -> Option<ThreadId> {
    let line = status.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// Returns glibc's `__libc_single_threaded` (2.32 and later): nonzero only while no second thread
/// was made.
fn single_threaded_mark() -> Option<&'static AtomicU8> {
    // SAFETY: looks a name up in the libraries that are loaded.
    let mark = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    // SAFETY: the C library documents the name as one byte that lives as long as the process; it is
    // written by plain stores of whole bytes, which a relaxed load may observe.
    unsafe { mark.cast::<AtomicU8>().as_ref() }
}

/// Returns the current mask of a process or thread, with one system call. `0` is the calling
/// thread.
///
/// # Errors
/// [`io::ErrorKind::NotFound`] for a thread that has ended, otherwise the system's own error.
pub fn mask_of(thread: ThreadId) -> io::Result<CpuSet> {
    with_room(&|words| read_mask(thread, words), &mut [0; FIRST_WORDS])
}

/// Returns a mask from `read`, which refuses fewer words than the kernel has.
fn with_room(
    read: &impl Fn(&mut [u64]) -> io::Result<usize>,
    words: &mut [u64],
) -> io::Result<CpuSet> {
    match read(words) {
        Ok(filled) => Ok(CpuSet::from_words(&words[..filled])),
        Err(error) if error.raw_os_error() == Some(libc::EINVAL) && words.len() < LAST_WORDS => {
            with_room(read, &mut vec![0; words.len() * 2])
        }
        Err(error) => Err(error),
    }
}

fn read_mask(thread: ThreadId, words: &mut [u64]) -> io::Result<usize> {
    let bytes = std::mem::size_of_val(words);
    // SAFETY: the kernel writes at most `bytes` bytes to the buffer, which is that long and mutable.
    let filled =
        unsafe { libc::syscall(libc::SYS_sched_getaffinity, thread, bytes, words.as_mut_ptr()) };
    match usize::try_from(filled) {
        Ok(filled) => Ok(filled.div_ceil(size_of::<u64>())),
        Err(_) => Err(thread_error()),
    }
}

fn write_mask(thread: ThreadId, mask: &CpuSet) -> io::Result<()> {
    let words = mask.as_words();
    let bytes = std::mem::size_of_val(words);
    // SAFETY: the kernel reads at most `bytes` bytes from the buffer, which is that long.
    let status =
        unsafe { libc::syscall(libc::SYS_sched_setaffinity, thread, bytes, words.as_ptr()) };
    if status == 0 { Ok(()) } else { Err(thread_error()) }
}

/// Returns true if `process` has the thread, which does not notice the question.
fn is_thread_of(process: ThreadId, thread: ThreadId) -> bool {
    // SAFETY: signal 0 is not sent, only checked.
    unsafe { libc::syscall(libc::SYS_tgkill, process, thread, 0) == 0 }
}

fn thread_error() -> io::Error {
    let error = io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::ESRCH) {
        io::Error::from(io::ErrorKind::NotFound)
    } else {
        error
    }
}

/// Parses a name of digits; `None` for `.` and `..`.
fn number(name: &[u8]) -> Option<ThreadId> {
    name.iter().try_fold(0, |number: ThreadId, digit| {
        let digit = digit.is_ascii_digit().then(|| ThreadId::from(digit - b'0'))?;
        number.checked_mul(10)?.checked_add(digit)
    })
}

impl Kernel {
    /// Returns the number in this namespace of a thread that `/proc` shows; `None` if the thread
    /// has ended.
    fn own_number(&self, shown: ThreadId) -> Option<ThreadId> {
        if self.own_numbers {
            return Some(shown);
        }
        innermost_number(&std::fs::read_to_string(format!("/proc/self/task/{shown}/status")).ok()?)
    }
}

impl Backend for Kernel {
    fn thread_count(&self) -> io::Result<usize> {
        if self.alone.is_some_and(|alone| alone.load(Ordering::Relaxed) != 0) {
            return Ok(1);
        }
        let links = match self.tasks.verified() {
            Some((_, status)) => status.st_nlink,
            // The program has closed the folder.
            None => rustix::fs::fstat(open_tasks()?)?.st_nlink,
        };
        Ok(usize::try_from(links).unwrap_or(usize::MAX).saturating_sub(2))
    }

    fn threads(&self, threads: &mut Vec<ThreadId>, count: usize) -> io::Result<()> {
        threads.clear();
        // The buffer holds about thirty entries at a time, without an allocation.
        let mut buffer = [MaybeUninit::uninit(); 1_024];
        let anew;
        let tasks = match self.tasks.verified() {
            Some((tasks, _)) => tasks,
            None => {
                anew = open_tasks()?;
                anew.as_fd()
            }
        };
        rustix::fs::seek(tasks, rustix::fs::SeekFrom::Start(0))?;
        let mut folder = rustix::fs::RawDir::new(tasks, &mut buffer);
        while let Some(entry) = folder.next() {
            let shown = number(entry?.file_name().to_bytes());
            threads.extend(shown.and_then(|shown| self.own_number(shown)));
            if threads.len() >= count {
                break;
            }
        }
        Ok(())
    }

    fn are_all_here(&self, threads: &[ThreadId]) -> bool {
        if threads.len() > CHEAP_THREADS {
            return false;
        }
        // Asked anew each time: a forked child keeps its parent's list.
        let process = rustix::process::getpid().as_raw_nonzero().get();
        let caller = self.caller();
        // A thread of another process that got the number of an ended one is refused, too.
        threads.iter().all(|&thread| thread == caller || is_thread_of(process, thread))
    }

    fn caller(&self) -> ThreadId {
        thread_local!(static NUMBER: Cell<ThreadId> = const { Cell::new(0) });
        NUMBER.with(|number| {
            if number.get() == 0 {
                number.set(rustix::thread::gettid().as_raw_nonzero().get());
            }
            number.get()
        })
    }

    fn mask(&self, thread: ThreadId) -> io::Result<CpuSet> {
        mask_of(thread)
    }

    fn set_mask(&self, thread: ThreadId, mask: &CpuSet) -> io::Result<()> {
        write_mask(thread, mask)
    }

    fn ledger(&self) -> &Mutex<Ledger> {
        &self.ledger
    }

    fn everything(&self) -> Option<CpuSet> {
        Some(CpuSet::from_range(0..EVERY_CPU))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_and_lists_the_threads_of_this_process() {
        let kernel = Kernel::new().unwrap();
        let caller = kernel.caller();
        let mut threads = Vec::new();
        kernel.threads(&mut threads, usize::MAX).unwrap();
        assert!(threads.contains(&caller));
        assert!(kernel.thread_count().unwrap() >= 1);
        assert_eq!(kernel.mask(caller).unwrap(), kernel.mask(super::super::CALLER).unwrap());
    }

    #[test]
    fn file_in_the_place_of_the_folder_is_left_alone() {
        use std::io::{Seek, Write};

        let mut other = tempfile::tempfile().unwrap();
        other.write_all(b"data").unwrap();
        let mut kernel = Kernel::new().unwrap();
        crate::own_file::tests::replace(&mut kernel.tasks, &other);
        let mut threads = Vec::new();
        kernel.threads(&mut threads, usize::MAX).unwrap();
        assert!(threads.contains(&kernel.caller()) && kernel.thread_count().unwrap() >= 1);
        assert_eq!(other.stream_position().unwrap(), 4);
    }

    #[test]
    fn a_foreign_proc_does_not_lead_to_foreign_threads() {
        assert_eq!(innermost_number("Pid:\t16030\nNSpid:\t16030\t8\t1\n"), Some(1));
        assert_eq!(innermost_number("Pid:\t16030\n"), None);
        let kernel = Kernel { own_numbers: false, ..Kernel::new().unwrap() };
        let mut threads = Vec::new();
        kernel.threads(&mut threads, usize::MAX).unwrap();
        assert!(threads.contains(&kernel.caller()));
    }

    #[test]
    fn a_thread_that_does_not_exist_is_not_found() {
        let error = mask_of(i32::MAX).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn task_folder_is_not_left_to_programs_that_are_started() {
        let flags = rustix::io::fcntl_getfd(open_tasks().unwrap()).unwrap();
        assert!(flags.contains(rustix::io::FdFlags::CLOEXEC));
    }

    #[test]
    fn numbers_of_proc_are_compared_with_our_own() {
        let shown = std::fs::read_to_string("/proc/self/stat").unwrap();
        let is_own = shown.starts_with(&format!("{} ", std::process::id()));
        assert_eq!(proc_counts_as_we_do(), is_own);
    }

    #[test]
    fn second_thread_is_counted_and_listed() {
        let kernel = Kernel::new().unwrap();
        std::thread::scope(|scope| {
            let (sender, receiver) = std::sync::mpsc::channel();
            let (end, ended) = std::sync::mpsc::channel::<()>();
            scope.spawn(move || {
                sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
                let _ = ended.recv();
            });
            let other = receiver.recv().unwrap();
            assert!(kernel.thread_count().unwrap() >= 2);
            let mut threads = Vec::new();
            kernel.threads(&mut threads, usize::MAX).unwrap();
            assert!(threads.contains(&other) && threads.contains(&kernel.caller()));
            kernel.threads(&mut threads, 1).unwrap();
            assert_eq!(threads.len(), 1);
            drop(end);
        });
    }

    #[test]
    fn ended_foreign_and_many_threads_are_not_all_here() {
        let kernel = Kernel::new().unwrap();
        let caller = kernel.caller();
        let (sender, receiver) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
            let _ = ended.recv();
        });
        let number = receiver.recv().unwrap();
        assert!(kernel.are_all_here(&[caller, number]));
        assert!(!kernel.are_all_here(&[caller, number, caller, number, caller]));
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert!(!kernel.are_all_here(&[caller, parent]));
        drop(end);
        other.join().unwrap();
        // The kernel removes an ended thread shortly after its join.
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while kernel.are_all_here(&[caller, number]) {
            assert!(std::time::Instant::now() < limit, "an ended thread is still here");
            std::thread::yield_now();
        }
    }

    #[test]
    fn mask_is_set_and_read_back() {
        let kernel = Kernel::new().unwrap();
        let before = kernel.mask(super::super::CALLER).unwrap();
        assert!(before.is_subset(&kernel.everything().unwrap()));
        let one = CpuSet::single(before.last().unwrap());
        kernel.set_mask(kernel.caller(), &one).unwrap();
        assert_eq!(kernel.mask(kernel.caller()).unwrap(), one);
        // More CPUs than there can be mean all allowed ones.
        kernel.set_mask(kernel.caller(), &kernel.everything().unwrap()).unwrap();
        assert!(before.is_subset(&kernel.mask(kernel.caller()).unwrap()));
        kernel.set_mask(super::super::CALLER, &before).unwrap();
        let error = kernel.set_mask(super::super::CALLER, &CpuSet::new()).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EINVAL));
        assert_eq!(kernel.mask(kernel.caller()).unwrap(), before);
    }

    #[test]
    fn pushes_are_kept_by_the_kernel_that_made_them() {
        let kernel = Kernel::new().unwrap();
        assert_eq!(kernel.ledger().lock().unwrap().add_stack(), 1);
        assert_eq!(kernel.ledger().lock().unwrap().add_stack(), 2);
    }

    #[test]
    fn kernel_of_more_cpus_is_asked_with_more_room() {
        let sizes = std::cell::RefCell::new(Vec::new());
        let ask = |least: usize| {
            sizes.borrow_mut().clear();
            let read = |words: &mut [u64]| {
                sizes.borrow_mut().push(words.len());
                if words.len() < least {
                    return Err(io::Error::from_raw_os_error(libc::EINVAL));
                }
                words[least - 1] = 1;
                Ok(least)
            };
            with_room(&read, &mut [0; FIRST_WORDS]).map_err(|error| error.raw_os_error())
        };
        assert_eq!(ask(FIRST_WORDS), Ok(CpuSet::single((FIRST_WORDS - 1) * 64)));
        assert_eq!(*sizes.borrow(), [FIRST_WORDS]);
        assert_eq!(ask(200), Ok(CpuSet::single(199 * 64)));
        assert_eq!(*sizes.borrow(), [16, 32, 64, 128, 256]);
        assert_eq!(ask(LAST_WORDS + 1), Err(Some(libc::EINVAL)));
        assert_eq!(sizes.borrow().last(), Some(&LAST_WORDS));
        let refused = |_: &mut [u64]| Err(io::Error::from_raw_os_error(libc::EPERM));
        let error = with_room(&refused, &mut [0; FIRST_WORDS]).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(libc::EPERM));
    }
}
