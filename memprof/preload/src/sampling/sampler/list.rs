//! List of mappings in ascending order of address: from the kernel's `PROCMAP_QUERY`, or from the
//! text of `/proc/self/maps` on kernels older than 6.11. Most of the cost of the text is the path
//! in each line, although most files were there at the last sample too: a query asks only for paths
//! that are not known.

#![allow(unsafe_code)]

use super::maps::{self, Line, Lines};
use crate::base::kernel::{self, Errno, File};
use crate::base::memory;
use crate::base::reserved_fds::Kept;

/// A visitor of mappings.
pub trait Visitor {
    /// Returns true if a private mapping of this file needs no path.
    fn knows(&self, device: u64, inode: u64) -> bool;
    /// Handles the next mapping. It lies above all earlier ones, except for mappings that have
    /// grown meanwhile. If the path is known, [`KNOWN`] stands for it.
    fn mapping(&mut self, line: &mut Line<'_>);
}

/// Value in place of a path that is not needed.
pub const KNOWN: &[u8] = b"/";

/// Access to the list of this process.
pub struct List {
    file: Kept,
    /// Buffer for text of the kernel; not on the stack, which may be a program's small one.
    text: &'static mut [u8],
}

/// Bytes of text read at once; no path is longer.
const TEXT: usize = 8192;

/// Argument of `PROCMAP_QUERY`.
#[repr(C)]
#[derive(Default)]
struct Query {
    size: u64,
    flags: u64,
    address: u64,
    start: u64,
    end: u64,
    rights: u64,
    page_size: u64,
    offset: u64,
    inode: u64,
    major: u32,
    minor: u32,
    name_size: u32,
    build_id_size: u32,
    name: u64,
    build_id: u64,
}

const QUERY: usize = 0xC068_6611;
const COVERING_OR_NEXT: u64 = 0x10;
const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const EXECUTABLE: u64 = 4;
const SHARED: u64 = 8;

const _: () = assert!(size_of::<Query>() == 0x68);

impl List {
    /// Opens the list. Returns `None` where the kernel does not provide it.
    pub fn open() -> Option<List> {
        let file = Kept::open(c"/proc/self/maps").ok()?;
        // SAFETY: all zeros is text.
        let Some(text) = (unsafe { memory::slice(TEXT) }) else {
            file.close();
            return None;
        };
        Some(List { file, text })
    }

    pub fn close(self) {
        self.file.close();
    }

    /// Visits all mappings. Returns true if none was missed.
    pub fn each(&mut self, visitor: &mut dyn Visitor) -> bool {
        self.ask(visitor).unwrap_or_else(|| self.read(visitor))
    }

    /// Does what [`List::each`] does, by queries. Returns `None`, with no mapping visited, if the
    /// kernel does not support them.
    fn ask(&mut self, visitor: &mut dyn Visitor) -> Option<bool> {
        let file = self.file.file().ok()?;
        let mut at = 0;
        loop {
            let mut found = match query(file, at, &mut []) {
                Ok(found) => found,
                Err(Errno(libc::ENOENT)) => return Some(true),
                Err(_) => return (at > 0).then_some(false),
            };
            let mut path = KNOWN;
            let is_plain = |found: &Query| found.inode != 0 && found.rights & SHARED == 0;
            if !is_plain(&found) || !visitor.knows(found.device(), found.inode) {
                // The mapping may be another one by now.
                match query(file, at, self.text) {
                    Ok(named) => found = named,
                    Err(Errno(error)) => return Some(error == libc::ENOENT),
                }
                // The last byte of a name is its terminator.
                let length = (found.name_size as usize).saturating_sub(1).min(self.text.len());
                path = &self.text[..length];
            }
            at = found.end;
            visitor.mapping(&mut Line {
                start: found.start as usize,
                end: found.end as usize,
                readable: found.rights & READABLE != 0,
                writable: found.rights & WRITABLE != 0,
                executable: found.rights & EXECUTABLE != 0,
                shared: found.rights & SHARED != 0,
                offset: found.offset,
                device: found.device(),
                inode: found.inode,
                path,
            });
        }
    }

    fn read(&mut self, visitor: &mut dyn Visitor) -> bool {
        let (mut offset, mut whole) = (0, true);
        let file = &mut self.file;
        let mut read = |into: &mut [u8]| match file.read_at(into, offset) {
            Ok(count) => {
                offset += count as u64;
                count
            }
            Err(_) => {
                whole = false;
                0
            }
        };
        let mut lines = Lines::new(self.text);
        while let Some(line) = lines.next(&mut read) {
            if let Some(mut line) = maps::parse(line) {
                visitor.mapping(&mut line);
            }
        }
        whole
    }
}

impl Query {
    fn device(&self) -> u64 {
        libc::makedev(self.major, self.minor)
    }
}

/// Returns the mapping with the lowest end above an address, with its path if there is room for
/// one.
fn query(file: File, address: u64, path: &mut [u8]) -> Result<Query, Errno> {
    let mut query = Query {
        size: size_of::<Query>() as u64,
        flags: COVERING_OR_NEXT,
        address,
        name_size: path.len() as u32,
        name: if path.is_empty() { 0 } else { path.as_mut_ptr() as u64 },
        ..Query::default()
    };
    let words = [file.0 as usize, QUERY, (&raw mut query) as usize, 0, 0, 0];
    // SAFETY: the argument has the size that it states, and so has the path buffer.
    unsafe { kernel::call(libc::SYS_ioctl, words) }?;
    Ok(query)
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = (usize, usize, [bool; 4], u64, u64, u64, Vec<u8>);

    struct All {
        told: Vec<Told>,
        known: bool,
    }

    impl Visitor for All {
        fn knows(&self, _: u64, _: u64) -> bool {
            self.known
        }

        fn mapping(&mut self, line: &mut Line<'_>) {
            let Line { start, end, offset, device, inode, path, .. } = *line;
            let rights = [line.readable, line.writable, line.executable, line.shared];
            self.told.push((start, end, rights, offset, device, inode, path.to_vec()));
        }
    }

    fn all(list: &mut List, asks: bool, known: bool) -> Vec<Told> {
        let mut all = All { told: Vec::with_capacity(4096), known };
        assert!(if asks { list.ask(&mut all).unwrap() } else { list.read(&mut all) });
        all.told
    }

    /// Returns true if the kernel supports the query.
    fn asks(list: &mut List) -> bool {
        list.file.file().is_ok_and(|file| query(file, 0, &mut []).is_ok())
    }

    /// Returns the mappings of an object that does not change, among others that change with
    /// threads.
    fn stable(told: &[Told]) -> Vec<&Told> {
        let object = told.iter().find(|told| told.6.ends_with(b"/libc.so.6"));
        let (device, inode) = object.map(|told| (told.4, told.5)).expect("a C library");
        told.iter().filter(|told| (told.4, told.5) == (device, inode)).collect()
    }

    #[test]
    fn questions_and_the_text_tell_the_same() {
        let mut list = List::open().expect("a list");
        if !asks(&mut list) {
            eprintln!("skipped: the kernel has no question for a mapping");
            return;
        }
        let (asked, read) = (all(&mut list, true, false), all(&mut list, false, false));
        assert!(stable(&read).len() > 3);
        assert_eq!(stable(&asked), stable(&read));
        for special in [&b"[stack]"[..], b"[vdso]"] {
            let find =
                |told: &[Told]| told.iter().find(|told| told.6 == special).map(|told| told.1);
            assert_eq!(find(&asked), find(&read));
        }
        assert!(asked.windows(2).all(|pair| pair[0].1 <= pair[1].0));
        list.close();
    }

    #[test]
    fn paths_of_known_files_are_not_asked_for() {
        let mut list = List::open().expect("a list");
        if !asks(&mut list) {
            eprintln!("skipped: the kernel has no question for a mapping");
            return;
        }
        let asked = all(&mut list, true, true);
        let private = |told: &&Told| told.5 != 0 && !told.2[3];
        assert!(asked.iter().filter(private).count() > 3);
        assert!(asked.iter().filter(private).all(|told| told.6 == KNOWN));
        assert!(asked.iter().any(|told| told.6 == b"[stack]"));
        list.close();
    }
}
