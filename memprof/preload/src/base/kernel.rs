//! Direct system calls: they are no cancellation points, nothing interposes them, and they keep the
//! program's `errno`.

#![allow(unsafe_code)]

use core::ffi::CStr;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// Error number from the kernel.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

#[cfg(target_arch = "x86_64")]
unsafe fn raw(number: libc::c_long, words: [usize; 6]) -> isize {
    let result: isize;
    // SAFETY: the caller guarantees the call; the kernel changes only the named registers.
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
    // SAFETY: the caller guarantees the call; the kernel changes only the named register.
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
    // SAFETY: the caller guarantees the call; errno is restored.
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
    // SAFETY: guaranteed by the caller.
    let result = unsafe { raw(number, words) };
    if (-4095..0).contains(&result) { Err(Errno(-result as i32)) } else { Ok(result as usize) }
}

/// An open file. Only [`close`] closes it: descriptors of the tool live as long as the process.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct File(pub i32);

/// Opens a file for reading.
pub fn open(path: &CStr) -> Result<File, Errno> {
    open_with(path, libc::O_RDONLY | libc::O_CLOEXEC, 0)
}

/// Opens a file with flags and mode of `open(2)`.
pub fn open_with(path: &CStr, flags: i32, mode: u32) -> Result<File, Errno> {
    let words =
        [libc::AT_FDCWD as usize, path.as_ptr() as usize, flags as usize, mode as usize, 0, 0];
    // SAFETY: the path is zero-terminated.
    let result = unsafe { call(libc::SYS_openat, words) };
    result.map(|descriptor| File(descriptor as i32))
}

/// Returns the path that the program was started with, for systems without `/proc`.
pub fn started_as() -> &'static [u8] {
    // SAFETY: the kernel put a zero-terminated text on the first stack, where it stays.
    unsafe {
        let path = libc::getauxval(libc::AT_EXECFN) as *const core::ffi::c_char;
        if path.is_null() { b"" } else { CStr::from_ptr(path).to_bytes() }
    }
}

/// Returns the stack limit of the first thread.
pub fn stack_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &raw mut limit) } == 0;
    if known { limit.rlim_cur } else { u64::MAX }
}

/// Reads at an offset. The caller handles short reads.
pub fn read_at(file: File, into: &mut [u8], offset: u64) -> Result<usize, Errno> {
    let words = [file.0 as usize, into.as_mut_ptr() as usize, into.len(), offset as usize, 0, 0];
    // SAFETY: the buffer has the stated length.
    unsafe { call(libc::SYS_pread64, words) }
}

/// Reads a small file from its start to its end, or until the buffer is full.
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

/// Returns the contents of a small file.
pub fn read_path<'b>(path: &CStr, into: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let file = open(path)?;
    let length = read_all(file, into);
    close(file);
    Ok(&into[..length?])
}

pub fn close(file: File) {
    // SAFETY: takes only a number.
    let _ = unsafe { call(libc::SYS_close, [file.0 as usize, 0, 0, 0, 0, 0]) };
}

/// Duplicates an open file to the first free number from `from` on.
pub fn duplicate(file: File, from: i32) -> Result<File, Errno> {
    let words = [file.0 as usize, libc::F_DUPFD_CLOEXEC as usize, from as usize, 0, 0, 0];
    // SAFETY: takes only numbers.
    unsafe { call(libc::SYS_fcntl, words) }.map(|descriptor| File(descriptor as i32))
}

/// Writes `bytes` zeros at an offset, all of them from one page.
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
        // SAFETY: the parts have the stated lengths, and are only read.
        match unsafe { call(libc::SYS_pwritev, words) } {
            Ok(0) => return Err(Errno(libc::ENOSPC)),
            Ok(more) => done += more,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the device and the inode of the file that a descriptor refers to.
pub fn identity(file: File) -> Result<(u64, u64), Errno> {
    // SAFETY: plain numbers.
    let mut about: libc::stat = unsafe { core::mem::zeroed() };
    let words = [file.0 as usize, (&raw mut about) as usize, 0, 0, 0, 0];
    // SAFETY: the kernel fills the structure.
    unsafe { call(libc::SYS_fstat, words) }?;
    Ok((about.st_dev, about.st_ino))
}

/// Asks a file system that copies rewritten blocks to write a new file in place, so that its disk
/// space is reserved permanently. Most file systems lack this request and do not need it.
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

/// Copies memory of this process, at addresses that may not be mapped. Returns false if part of it
/// is not.
pub fn peek(address: usize, into: &mut [u8]) -> bool {
    let local = libc::iovec { iov_base: into.as_mut_ptr().cast(), iov_len: into.len() };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: into.len() };
    let (local, remote) = (core::ptr::from_ref(&local), core::ptr::from_ref(&remote));
    // SAFETY: the kernel writes no more than fits, and checks the addresses that it reads.
    let copied = unsafe {
        call(
            libc::SYS_process_vm_readv,
            [process() as usize, local as usize, 1, remote as usize, 1, 0],
        )
    };
    copied == Ok(into.len())
}

/// Returns the target of a symbolic link, cut to the length of the buffer.
pub fn read_link<'b>(path: &CStr, into: &'b mut [u8]) -> Result<&'b [u8], Errno> {
    let words = [
        libc::AT_FDCWD as usize,
        path.as_ptr() as usize,
        into.as_mut_ptr() as usize,
        into.len(),
        0,
        0,
    ];
    // SAFETY: the buffer has the stated length.
    let length = unsafe { call(libc::SYS_readlinkat, words)? };
    Ok(&into[..length])
}

pub fn unlink(path: &CStr) -> Result<(), Errno> {
    let words = [libc::AT_FDCWD as usize, path.as_ptr() as usize, 0, 0, 0, 0];
    // SAFETY: the path is zero-terminated.
    unsafe { call(libc::SYS_unlinkat, words) }.map(|_| ())
}

/// Gives an unnamed open file a name, which must not exist.
pub fn link_file(file: File, path: &CStr) -> Result<(), Errno> {
    let words = [file.0 as usize, c"".as_ptr() as usize, libc::AT_FDCWD as usize];
    let words =
        [words[0], words[1], words[2], path.as_ptr() as usize, libc::AT_EMPTY_PATH as usize, 0];
    // SAFETY: the paths are zero-terminated.
    let linked = unsafe { call(libc::SYS_linkat, words) };
    match linked {
        Err(Errno(libc::ENOENT | libc::EPERM)) => {}
        linked => return linked.map(|_| ()),
    }
    // Kernels before 6.10 require a privilege for this.
    let mut place = crate::base::options::Text::<32>::empty();
    let _ = core::fmt::Write::write_fmt(&mut place, format_args!("/proc/self/fd/{}\0", file.0));
    let place = CStr::from_bytes_until_nul(place.as_bytes()).unwrap_or(c"");
    let (here, flags) = (libc::AT_FDCWD as usize, libc::AT_SYMLINK_FOLLOW as usize);
    let words = [here, place.as_ptr() as usize, here, path.as_ptr() as usize, flags, 0];
    // SAFETY: as above.
    unsafe { call(libc::SYS_linkat, words) }.map(|_| ())
}

/// Gives a file a second name, which must not exist.
pub fn link(from: &CStr, path: &CStr) -> Result<(), Errno> {
    let here = libc::AT_FDCWD as usize;
    let words = [here, from.as_ptr() as usize, here, path.as_ptr() as usize, 0, 0];
    // SAFETY: the paths are zero-terminated.
    unsafe { call(libc::SYS_linkat, words) }.map(|_| ())
}

/// Renames a file; the new name must not exist.
pub fn rename_new(from: &CStr, path: &CStr) -> Result<(), Errno> {
    let (here, flags) = (libc::AT_FDCWD as usize, libc::RENAME_NOREPLACE as usize);
    let words = [here, from.as_ptr() as usize, here, path.as_ptr() as usize, flags, 0];
    // SAFETY: the paths are zero-terminated.
    unsafe { call(libc::SYS_renameat2, words) }.map(|_| ())
}

pub fn write(file: File, bytes: &[u8]) {
    let words = [file.0 as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0];
    // SAFETY: the buffer has the stated length.
    let _ = unsafe { call(libc::SYS_write, words) };
}

/// Writes all bytes at an offset.
pub fn write_at(file: File, bytes: &[u8], offset: u64) -> Result<(), Errno> {
    let mut done = 0;
    while done < bytes.len() {
        let rest = &bytes[done..];
        let at = offset as usize + done;
        let words = [file.0 as usize, rest.as_ptr() as usize, rest.len(), at, 0, 0];
        // SAFETY: the buffer has the stated length.
        match unsafe { call(libc::SYS_pwrite64, words) } {
            Ok(0) => return Err(Errno(libc::ENOSPC)),
            Ok(more) => done += more,
            Err(Errno(libc::EINTR)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Sets the size of a new file, and reserves disk space for all of it.
pub fn allocate(file: File, size: usize) -> Result<(), Errno> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel fills the structure.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_FSIZE, &raw mut limit) } == 0;
    // A size beyond the limit would cause a signal that ends the program.
    if known && (size as u64) > limit.rlim_cur {
        return Err(Errno(libc::EFBIG));
    }
    // SAFETY: takes only numbers.
    unsafe { call(libc::SYS_fallocate, [file.0 as usize, 0, 0, size, 0, 0]) }.map(|_| ())
}

/// Waits until the written bytes of a file are on its disk, or until it is known that there is no
/// space.
pub fn sync(file: File) -> Result<(), Errno> {
    // SAFETY: takes only a number.
    unsafe { call(libc::SYS_fdatasync, [file.0 as usize, 0, 0, 0, 0, 0]) }.map(|_| ())
}

/// Waits until the stores into a mapped file are on its disk. Returns at once for memory that is
/// not a file's.
pub fn flush(address: usize, bytes: usize) {
    // SAFETY: changes no memory.
    let _ = unsafe { call(libc::SYS_msync, [address, bytes, libc::MS_SYNC as usize, 0, 0, 0]) };
}

/// Maps private zeroed memory.
pub fn map_anonymous(bytes: usize) -> Result<usize, Errno> {
    map_at(0, bytes, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS, -1)
}

/// Maps readable and writable memory with `flags` of `mmap(2)`; `MAP_FIXED` only over memory of the
/// tool.
pub fn map_at(address: usize, bytes: usize, flags: i32, descriptor: i32) -> Result<usize, Errno> {
    let rights = libc::PROT_READ | libc::PROT_WRITE;
    let words = [address, bytes, rights as usize, flags as usize, descriptor as isize as usize, 0];
    // SAFETY: a new mapping, or one over memory of the tool.
    unsafe { call(libc::SYS_mmap, words) }
}

/// Declares that a mapping is accessed at random, so that neighbouring pages are not read ahead.
pub fn advise_random(address: usize, bytes: usize) {
    // SAFETY: changes no memory.
    let _ =
        unsafe { call(libc::SYS_madvise, [address, bytes, libc::MADV_RANDOM as usize, 0, 0, 0]) };
}

/// Returns the pages of a mapping to the kernel; the mapping stays, and is zero then.
///
/// # Safety
/// The contents are no longer used.
pub unsafe fn release(start: usize, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    let _ =
        unsafe { call(libc::SYS_madvise, [start, bytes, libc::MADV_DONTNEED as usize, 0, 0, 0]) };
}

/// Unmaps memory from [`map_anonymous`].
///
/// # Safety
/// The memory is no longer used.
pub unsafe fn unmap(start: usize, bytes: usize) {
    // SAFETY: guaranteed by the caller.
    let _ = unsafe { call(libc::SYS_munmap, [start, bytes, 0, 0, 0, 0]) };
}

/// Returns the number of the calling thread.
pub fn thread() -> i32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_gettid, [0; 6]) }.map_or(0, |number| number as i32)
}

/// Returns true if the process has a thread with this number.
pub fn is_thread(number: i32) -> bool {
    // SAFETY: signal 0 only checks for existence.
    let told = unsafe { call(libc::SYS_tgkill, [process() as usize, number as usize, 0, 0, 0, 0]) };
    told.is_ok()
}

/// Returns the number of the process as the kernel sees it now, not as a parent before a fork did.
pub fn process() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getpid, [0; 6]) }.unwrap_or(0) as u32
}

/// Returns the number of the parent process.
pub fn parent() -> u32 {
    // SAFETY: no arguments.
    unsafe { call(libc::SYS_getppid, [0; 6]) }.unwrap_or(0) as u32
}

/// Returns the highest resident bytes so far, as the kernel counts them.
pub fn most_resident() -> u64 {
    // SAFETY: zeros are valid numbers, and the kernel fills the structure.
    unsafe {
        let mut usage = core::mem::zeroed::<libc::rusage>();
        libc::getrusage(libc::RUSAGE_SELF, &raw mut usage);
        (usage.ru_maxrss as u64) << 10
    }
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the kernel fills the structure.
    unsafe { libc::clock_gettime(which, &raw mut time) };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Returns the monotonic time in nanoseconds.
pub fn monotonic() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Returns the wall-clock time in nanoseconds since 1970.
pub fn realtime() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Returns the processor time of the calling thread in nanoseconds.
pub fn thread_time() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Waits while `word` is `expected`, at most for `nanoseconds`. May return early.
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

/// Returns the size of a page.
pub fn page() -> usize {
    static PAGE: AtomicUsize = AtomicUsize::new(0);
    match PAGE.load(Ordering::Relaxed) {
        0 => {
            // SAFETY: only reads a number.
            let size = unsafe { libc::sysconf(libc::_SC_PAGESIZE) }.max(4096) as usize;
            PAGE.store(size, Ordering::Relaxed);
            size
        }
        size => size,
    }
}

/// Blocks all signals of the calling thread while the value lives.
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
        // SAFETY: both sets have eight bytes, as the kernel's do.
        let _ = unsafe { call(libc::SYS_rt_sigprocmask, words) };
        SignalsBlocked(before)
    }
}

impl Drop for SignalsBlocked {
    fn drop(&mut self) {
        let words = [libc::SIG_SETMASK as usize, (&raw const self.0) as usize, 0, 8, 0, 0];
        // SAFETY: the set has eight bytes, as the kernel's does.
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
            // SAFETY: reads the set of this thread.
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
