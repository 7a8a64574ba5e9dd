//! System calls made directly: they are no cancellation points, nothing interposes them, and
//! `errno` keeps the program's value.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Error of the kernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

#[cfg(target_arch = "x86_64")]
unsafe fn raw(number: libc::c_long, words: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller answers for the call; the kernel changes only the named registers.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number as isize => result,
            in("rdi") words[0], in("rsi") words[1], in("rdx") words[2],
            in("r10") words[3], in("r8") words[4], in("r9") words[5],
            lateout("rcx") _, lateout("r11") _,
            options(nostack),
        );
    }
    result
}

#[cfg(target_arch = "aarch64")]
unsafe fn raw(number: libc::c_long, words: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller answers for the call; the kernel changes only the named register.
    unsafe {
        core::arch::asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") words[0] as isize => result,
            in("x1") words[1], in("x2") words[2], in("x3") words[3],
            in("x4") words[4], in("x5") words[5],
            options(nostack),
        );
    }
    result
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
unsafe fn raw(number: libc::c_long, words: [usize; 6]) -> isize {
    // SAFETY: the caller answers for the call; errno is put back.
    unsafe {
        let errno = libc::__errno_location();
        let before = *errno;
        let result =
            libc::syscall(number, words[0], words[1], words[2], words[3], words[4], words[5]);
        let failure = *errno;
        *errno = before;
        if result == -1 { -(failure as isize) } else { result as isize }
    }
}

/// # Safety
/// As for the system call itself.
pub unsafe fn call(number: libc::c_long, words: [usize; 6]) -> Result<usize, Errno> {
    // SAFETY: the caller's promise.
    let result = unsafe { raw(number, words) };
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// An open file, closed by [`close`] only: descriptors of the tool live as long as the process.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct File(pub i32);

/// Opens for reading.
pub fn open(path: &CStr) -> Result<File, Errno> {
    open_with(path, libc::O_RDONLY | libc::O_CLOEXEC, 0)
}

/// Opens with flags and mode as of `open(2)`.
pub fn open_with(path: &CStr, flags: i32, mode: u32) -> Result<File, Errno> {
    let words =
        [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0];
    // SAFETY: the path ends with a zero byte.
    let result = unsafe { call(libc::SYS_openat, words) };
    result.map(|descriptor| File(descriptor as i32))
}

/// The path that the program was started by, for places without `/proc`.
pub fn started_as() -> &'static [u8] {
    // SAFETY: the kernel put a text with a zero at its end on the first stack, where it stays.
    unsafe {
        let path = libc::getauxval(libc::AT_EXECFN) as *const core::ffi::c_char;
        if path.is_null() { b"" } else { CStr::from_ptr(path).to_bytes() }
    }
}

/// Limit of the stack of the first thread.
pub fn stack_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills what it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    if known { limit.rlim_cur } else { u64::MAX }
}

/// Reads at an offset; short reads are the caller's business.
pub fn read_at(file: File, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let words = [file.0 as usize, into.as_mut_ptr() as usize, into.len(), offset as usize, 0, 0];
    // SAFETY: the buffer is as long as said.
    unsafe { call(libc::SYS_pread64, words) }
}

/// Reads a small file from its begin to its end, or until the buffer is full.
pub fn read_all(file: File, into: &mut [u8]) -> Result<usize, Errno> {
    let mut length = 0;
    while length < into.len() {
        match read_at(file, &mut into[length..], length as u64) {
            Ok(0) => break,
            Ok(more) => length += more,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(length)
}

/// The content of a small file.
pub fn read_path<'b>(path: &CStr, into: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let file = open(path)?;
    let length = read_all(file, into);
    close(file);
    Ok(&into[..length?])
}

pub fn close(file: File) {
    // SAFETY: takes a number only.
    let _ = unsafe { call(libc::SYS_close, [file.0 as usize, 0, 0, 0, 0, 0]) };
}

/// The same open file at the first free number from `from` on.
pub fn duplicate(file: File, from: i32) -> Result<File, Errno> {
    let words = [file.0 as usize, libc::F_DUPFD_CLOEXEC as usize, from as usize, 0, 0, 0];
    // SAFETY: takes numbers only.
    unsafe { call(libc::SYS_fcntl, words) }.map(|descriptor| File(descriptor as i32))
}

/// Writes so many zeroes at an offset, all of them from one page.
pub fn write_zeroes_at(file: File, bytes: usize, offset: u64) -> Result<(), Errno> {
    static ZEROES: [u8; 4096] = [0; 4096];
    const PARTS: usize = 32;
    let mut done = 0;
    while done < bytes {
        let mut parts = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; PARTS];
        let mut left = bytes - done;
        for part in &mut parts {
            let length = left.min(ZEROES.len());
            *part = libc::iovec { iov_base: ZEROES.as_ptr().cast_mut().cast(), iov_len: length };
            left -= length;
        }
        let at = offset as usize + done;
        let words = [file.0 as usize, parts.as_ptr() as usize, PARTS, at, 0, 0];
        // SAFETY: the parts are as long as said, and only read.
        match unsafe { call(libc::SYS_pwritev, words) } {
            Ok(0) => return Err(Errno(libc::ENOSPC)),
            Ok(more) => done += more,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Which file a descriptor stands for: its device and its inode.
pub fn identity(file: File) -> Result<(u64, u64), Errno> {
    // SAFETY: plain numbers.
    let mut about: libc::stat = unsafe { core::mem::zeroed() };
    let words = [file.0 as usize, (&raw mut about) as usize, 0, 0, 0, 0];
    // SAFETY: the kernel fills what it is given.
    unsafe { call(libc::SYS_fstat, words) }?;
    Ok((about.st_dev, about.st_ino))
}

/// Asks a file system that copies rewritten blocks to write a new file in its place, so that its room is its own for
/// good. Most have no such question, and need none.
pub fn write_in_place(file: File) {
    const GET: usize = 0x8008_6601;
    const SET: usize = 0x4008_6602;
    const NO_COPIES: u64 = 0x0080_0000;
    let mut flags = 0_u64;
    let words = [file.0 as usize, GET, (&raw mut flags) as usize, 0, 0, 0];
    // SAFETY: the kernel writes four bytes of the word.
    if unsafe { call(libc::SYS_ioctl, words) }.is_ok() {
        flags |= NO_COPIES;
        let words = [file.0 as usize, SET, (&raw mut flags) as usize, 0, 0, 0];
        // SAFETY: the kernel reads four bytes of the word.
        let _ = unsafe { call(libc::SYS_ioctl, words) };
    }
}

/// Copies memory of this process, at addresses that may be none. False if not all of it is there.
pub fn peek(address: usize, into: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    let (local, remote) = (core::ptr::from_ref(&local), core::ptr::from_ref(&remote));
    // SAFETY: the kernel writes as much as there is room, and checks where it reads.
    let copied = unsafe {
        call(
            libc::SYS_process_vm_readv,
            [process() as usize, local as usize, 1, remote as usize, 1, 0],
        )
    };
    copied == Ok(into.len())
}

/// Target of a symbolic link; cut off where the buffer ends.
pub fn read_link<'b>(path: &CStr, into: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let words = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        into.as_mut_ptr() as usize,
        into.len(),
        0,
        0,
    ];
    // SAFETY: the buffer is as long as said.
    let length = unsafe { call(libc::SYS_readlinkat, words)? };
    Ok(&into[..length])
}

pub fn unlink(path: &CStr) -> Result<(), Errno> {
    let words = [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the path ends with a zero byte.
    unsafe { call(libc::SYS_unlinkat, words) }.map(|_| ())
}

/// Gives an open file without a name one that nothing else has.
pub fn link_file(file: File, path: &CStr) -> Result<(), Errno> {
    let words = [file.0 as usize, c"".as_ptr() as usize, libc::AT_FDCWD as usize];
    let words =
        [words[0], words[1], words[2], path.as_ptr() as usize, libc::AT_EMPTY_PATH as usize, 0];
    // SAFETY: the paths end with a zero byte.
    let linked = unsafe { call(libc::SYS_linkat, words) };
    match linked {
        Err(Errno(libc::ENOENT | libc::EPERM)) => {}
        linked => return linked.map(|_| ()),
    }
    // Kernels before 6.10 want a privilege for that.
    let mut place = crate::base::options::Text::<32>::empty();
    let _ = core::fmt::Write::write_fmt(&mut place, format_args!("/proc/self/fd/{}\0", file.0));
    let place = CStr::from_bytes_until_nul(place.as_bytes()).unwrap_or(c"");
    let (here, flags) = (libc::AT_FDCWD as usize, libc::AT_SYMLINK_FOLLOW as usize);
    let words = [here, place.as_ptr() as usize, here, path.as_ptr() as usize, flags, 0];
    // SAFETY: as above.
    unsafe { call(libc::SYS_linkat, words) }.map(|_| ())
}

/// Gives a file a second name that nothing else has.
pub fn link(from: &CStr, path: &CStr) -> Result<(), Errno> {
    let here = libc::AT_FDCWD as usize;
    let words = [here, from.as_ptr() as usize, here, path.as_ptr() as usize, 0, 0];
    // SAFETY: the paths end with a zero byte.
    unsafe { call(libc::SYS_linkat, words) }.map(|_| ())
}

/// Gives a file another name that nothing else has.
pub fn rename_new(from: &CStr, path: &CStr) -> Result<(), Errno> {
    let (here, flags) = (libc::AT_FDCWD as usize, libc::RENAME_NOREPLACE as usize);
    let words = [here, from.as_ptr() as usize, here, path.as_ptr() as usize, flags, 0];
    // SAFETY: the paths end with a zero byte.
    unsafe { call(libc::SYS_renameat2, words) }.map(|_| ())
}

pub fn write(file: File, bytes: &[u8]) {
    let words = [file.0 as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: the buffer is as long as said.
    let _ = unsafe { call(libc::SYS_write, words) };
}

/// Writes all of it at an offset.
pub fn write_at(file: File, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let at = offset as usize + done;
        let words = [file.0 as usize, rest.as_ptr() as usize, rest.len(), at, 0, 0];
        // SAFETY: the buffer is as long as said.
        match unsafe { call(libc::SYS_pwrite64, words) } {
            Ok(0) => return Err(Errno(libc::ENOSPC)),
            Ok(more) => done += more,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Gives a new file its size, and room on the disk for all of it.
pub fn allocate(file: File, size: usize) -> Result<(), Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills what it is given.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    // To go beyond the limit would be a signal that ends the program.
    if known && (size as u64) > limit.rlim_cur {
        return Err(Errno(libc::EFBIG));
    }
    // SAFETY: takes numbers only.
    unsafe { call(libc::SYS_fallocate, [file.0 as usize, 0, 0, size, 0, 0]) }.map(|_| ())
}

/// Waits until the written bytes of a file are on its disk, or until it is known that there is no room.
pub fn sync(file: File) -> Result<(), Errno> {
    // SAFETY: takes a number only.
    unsafe { call(libc::SYS_fdatasync, [file.0 as usize, 0, 0, 0, 0, 0]) }.map(|_| ())
}

/// Waits until the stores into a mapped file are on its disk; memory that is no file's is nothing to wait for.
pub fn flush(address: usize, bytes: usize) {
    // SAFETY: changes no memory.
    let _ = unsafe { call(libc::SYS_msync, [address, bytes, libc::MS_SYNC as usize, 0, 0, 0]) };
}

/// Private memory of zeroes.
pub fn map_anonymous(bytes: usize) -> Result<usize, Errno> {
    map_at(0, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

/// Readable and writable memory with `flags` of `mmap(2)`; `MAP_FIXED` only over the tool's own.
pub fn map_at(address: usize, bytes: usize, flags: i32, descriptor: i32) -> Result<usize, Errno> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let words = [address, bytes, rights as usize, flags as usize, descriptor as isize as usize, 0];
    // SAFETY: a new mapping, or over one of the tool's own.
    unsafe { call(libc::SYS_mmap, words) }
}

/// A mapping is touched here and there: pages around are not read ahead.
pub fn advise_random(address: usize, bytes: usize) {
    // SAFETY: changes no memory.
    let _ =
        unsafe { call(libc::SYS_madvise, [address, bytes, libc::MADV_RANDOM as usize, 0, 0, 0]) };
}

/// Gives memory back that [`map_anonymous`] gave.
///
/// # Safety
/// Nobody uses it any more.
pub unsafe fn unmap(start: usize, bytes: usize) {
    // SAFETY: the caller's promise.
    let _ = unsafe { call(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]) };
}

/// The calling thread's number.
pub fn thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) }.map_or(0, |number| number as i32)
}

/// Returns true if there is a thread of this number in the process.
pub fn is_thread(number: i32) -> bool {
    // SAFETY: signal 0 is only asked about.
    let told = unsafe { call(libc::SYS_tgkill, [process() as usize, number as usize, 0, 0, 0, 0]) };
    told.is_ok()
}

/// The process as the kernel sees it now, not as a parent before a fork did.
pub fn process() -> u32 {
    // SAFETY: takes nothing.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32
}

/// The process that made this one.
pub fn parent() -> u32 {
    // SAFETY: takes nothing.
    unsafe { call(libc::SYS_getppid, [0; 6]) }.unwrap_or(0) as u32
}

/// The most bytes that were ever resident, as the kernel counts.
pub fn most_resident() -> u64 {
    // SAFETY: zeroes are numbers, and the kernel fills what it is given.
    unsafe {
        let mut usage = core::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        (usage.ru_maxrss as u64) << 10
    }
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: a valid place for the answer.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Monotonic time in nanoseconds.
pub fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Wall-clock time in nanoseconds since 1970.
pub fn realtime() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Processor time of the calling thread in nanoseconds.
pub fn thread_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Waits while `word` is `expected`, at most so long. Wakes early at times.
pub fn wait(word: &AtomicU32, expected: u32, nanoseconds: u64) {
    let time = libc::timespec {
        tv_sec: (nanoseconds / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanoseconds % 1_000_000_000) as _,
    };
    let words = [
        word.as_ptr() as usize,
        (libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG) as usize,
        expected as usize,
        (&raw const time) as usize,
        0,
        0,
    ];
    // SAFETY: the word and the time outlive the call.
    let _ = unsafe { call(libc::SYS_futex, words) };
}

/// The size of a page.
pub fn page() -> usize {
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    match PAGE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: asks for a number.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
            PAGE.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// Blocks all signals of the calling thread while it lives.
pub struct SignalsBlocked(u64);

impl SignalsBlocked {
    pub fn enter() -> SignalsBlocked {
        let all = u64::MAX;
        let mut before = 0_u64;
        let words = [
            libc::SIG_BLOCK as usize,
            (&raw const all) as usize,
            (&raw mut before) as usize,
            8,
            0,
            0,
        ];
        // SAFETY: both sets are eight bytes, as the kernel's are.
        let _ = unsafe { call(libc::SYS_rt_sigprocmask, words) };
        SignalsBlocked(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let words = [libc::SIG_SETMASK as usize, (&raw const self.0) as usize, 0, 8, 0, 0];
        // SAFETY: the set is eight bytes, as the kernel's is.
        let _ = unsafe { call(libc::SYS_rt_sigprocmask, words) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_without_errno() {
        assert_eq!(open(c"/nowhere/at/all"), Err(Errno(libc::ENOENT)));
        let mut buffer = [0; 64];
        assert_eq!(read_at(File(-1), &mut buffer, 0), Err(Errno(libc::EBADF)));
    }

    #[test]
    fn small_files_are_read_whole() {
        let mut buffer = [0; 4096];
        let status = read_path(c"/proc/self/status", &mut buffer).unwrap();
        assert!(status.starts_with(b"Name:"));
        assert_eq!(process(), std::process::id());
    }

    #[test]
    fn wait_for_a_changed_word_ends_at_once() {
        let word = AtomicU32::new(1);
        wait(&word, 0, u64::MAX);
    }

    #[test]
    fn signals_are_blocked_for_a_while_only() {
        fn blocked() -> bool {
            // SAFETY: asks for the set of this thread.
            unsafe {
                let mut set = core::mem::zeroed();
                libc::pthread_sigmask(libc::SIG_BLOCK, core::ptr::null(), &raw mut set);
                libc::sigismember(&raw const set, libc::SIGUSR1) == 1
            }
        }
        assert!(!blocked());
        let guard = SignalsBlocked::enter();
        assert!(blocked());
        drop(guard);
        assert!(!blocked());
    }
}
