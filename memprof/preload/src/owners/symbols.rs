//! Finds which parts of a program that contains MPI are MPI's, by the names of functions in the
//! program's file, if it has kept them. Code between MPI functions is MPI's as well. The program's
//! own code lies before the archive of the tool, which follows it on the linker's command line.

#![allow(unsafe_code)]

use crate::base::kernel;

/// Owner of the code in a part.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Part {
    Program,
    Mpi,
}

/// Family of a function, determined by its name.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Family {
    Mpi,
    /// The program's entry; its own functions follow.
    Entry,
    Archive,
    /// Certainly not part of MPI.
    Other,
    Unknown,
}

/// Maximum number of bytes between two MPI functions that are taken up by functions of unknown
/// family.
const GAP: u64 = 32 << 10;

/// Prefixes of function names of MPI libraries and of libraries that only come with them.
const MPI: &[&str] = &[
    "MPI", "PMPI", "QMPI", "MPL_", "ADIO", "PMI", "PMIx", "pmix", "ompi_", "opal_", "mca_",
    "orte_", "prte_", "oshmem_", "ucp_", "uct_", "ucs_", "ucm_", "fi_", "ofi_", "yaks", "mpi_",
    "pmpi_", "mpix_", "mpir_", "mpidi_", "mpif", "romio",
];

fn family(name: &[u8]) -> Family {
    let bare = name.iter().position(|&byte| byte != b'_').map_or(name, |at| &name[at..]);
    if name == b"_start" {
        Family::Entry
    } else if name == b"main" || name.starts_with(b"_GLOBAL__") {
        Family::Other
    } else if name.starts_with(b"_ZN14memprof_static") || name.starts_with(b"__wrap_") {
        Family::Archive
    } else if MPI.iter().any(|start| bare.starts_with(start.as_bytes())) {
        Family::Mpi
    } else {
        Family::Unknown
    }
}

#[derive(Copy, Clone)]
struct Function {
    start: u64,
    size: u32,
    family: Family,
}

/// Calls `each` with start, end and owner of the parts, in ascending order of address. The
/// functions are sorted.
fn parts(functions: &[Function], mut each: impl FnMut(u64, u64, Part)) {
    let entry = functions.iter().position(|function| function.family == Family::Entry);
    let own = entry.map_or((0, 0), |entry| {
        let rest = &functions[entry..];
        let length = rest.iter().position(|function| function.family == Family::Archive);
        (entry, entry + length.unwrap_or(0))
    });
    mpi(&functions[..own.0], &mut each);
    if own.0 < own.1 {
        each(functions[own.0].start, functions[own.1].start, Part::Program);
    }
    mpi(&functions[own.1..], &mut each);
}

fn mpi(functions: &[Function], each: &mut impl FnMut(u64, u64, Part)) {
    let mut open: Option<(u64, u64)> = None;
    for function in functions {
        let end = function.start.saturating_add(u64::from(function.size));
        match (function.family, open) {
            (Family::Unknown, _) => {}
            (Family::Mpi, Some((start, before))) if function.start <= before + GAP => {
                open = Some((start, end.max(before)));
            }
            (family, before) => {
                if let Some((start, end)) = before {
                    each(start, end, Part::Mpi);
                }
                open = (family == Family::Mpi).then_some((function.start, end));
            }
        }
    }
    if let Some((start, end)) = open {
        each(start, end, Part::Mpi);
    }
}

/// Temporary memory.
struct Space {
    start: usize,
    bytes: usize,
}

impl Space {
    fn new(bytes: usize) -> Option<Space> {
        let page = kernel::page();
        let bytes = bytes.checked_add(page)? & !(page - 1);
        Some(Space { start: kernel::map_anonymous(bytes).ok()?, bytes })
    }

    /// # Safety
    ///
    /// All zeros must be a valid `T`, and no other reference to this space may exist.
    #[allow(clippy::mut_from_ref)]
    unsafe fn slice<T>(&self) -> &mut [T] {
        // SAFETY: fresh memory of the tool, aligned to pages; the caller guarantees the rest.
        unsafe {
            core::slice::from_raw_parts_mut(self.start as *mut T, self.bytes / size_of::<T>())
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        // SAFETY: all borrows of the space have ended.
        unsafe { kernel::unmap(self.start, self.bytes) };
    }
}

/// Larger tables are not read: the start of a program must not take long.
const LIMIT: u64 = 256 << 20;

const SECTION: usize = 64;
const SYMBOL: usize = 24;
const SYMBOLS: u32 = 2;
const FUNCTION: u8 = 2;

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// Calls `each` with the parts of the running program, in addresses of its file. Returns false if
/// the file does not show them.
pub fn read(each: impl FnMut(u64, u64, Part)) -> bool {
    let Ok(file) = kernel::open(c"/proc/self/exe") else { return false };
    let told = read_file(file, each);
    kernel::close(file);
    told.is_some()
}

fn whole(file: kernel::File, offset: u64, bytes: u64) -> Option<Space> {
    if bytes == 0 || bytes > LIMIT {
        return None;
    }
    let space = Space::new(bytes as usize)?;
    // SAFETY: no other reference to the space exists.
    let into = unsafe { &mut space.slice::<u8>()[..bytes as usize] };
    let mut done = 0;
    while done < into.len() {
        match kernel::read_at(file, &mut into[done..], offset + done as u64) {
            Ok(0) | Err(_) => return None,
            Ok(more) => done += more,
        }
    }
    Some(space)
}

fn read_file(file: kernel::File, each: impl FnMut(u64, u64, Part)) -> Option<()> {
    let mut head = [0; 64];
    kernel::read_at(file, &mut head, 0).ok()?;
    if !head.starts_with(b"\x7fELF\x02\x01") || usize::from(half(&head, 58)?) != SECTION {
        return None;
    }
    let count = usize::from(half(&head, 60)?);
    let space = whole(file, long(&head, 40)?, (count * SECTION) as u64)?;
    // SAFETY: the space is not written any more.
    let sections: &[u8] = unsafe { space.slice() };
    let section = |index: usize| sections.get(index * SECTION..(index + 1) * SECTION);
    let table = (0..count).filter_map(section).find(|one| word(one, 4) == Some(SYMBOLS))?;
    let texts = section(word(table, 40)? as usize)?;
    let bytes = long(table, 32)?;
    let symbols = whole(file, long(table, 24)?, bytes)?;
    let names_bytes = long(texts, 32)?;
    let names = whole(file, long(texts, 24)?, names_bytes)?;
    // SAFETY: as above.
    let (symbols, names): (&[u8], &[u8]) =
        unsafe { (&symbols.slice()[..bytes as usize], &names.slice()[..names_bytes as usize]) };
    let space = Space::new(symbols.len() / SYMBOL * size_of::<Function>())?;
    // SAFETY: zeros are a valid function; no other reference to the space exists.
    let functions: &mut [Function] = unsafe { space.slice() };
    let mut used = 0;
    for symbol in symbols.chunks_exact(SYMBOL) {
        let (name, start) = (word(symbol, 0)? as usize, long(symbol, 8)?);
        if symbol[4] & 15 != FUNCTION || half(symbol, 6)? == 0 || start == 0 {
            continue;
        }
        let name = names.get(name..)?;
        let name = &name[..name.iter().position(|&byte| byte == 0)?];
        let size = u32::try_from(long(symbol, 16)?).unwrap_or(0);
        *functions.get_mut(used)? = Function { start, size, family: family(name) };
        used += 1;
    }
    functions[..used].sort_unstable_by_key(|function| function.start);
    parts(&functions[..used], each);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(names: &[(&str, u64, u32)]) -> Vec<(u64, u64, Part)> {
        let functions: Vec<Function> = names
            .iter()
            .map(|&(name, start, size)| Function { start, size, family: family(name.as_bytes()) })
            .collect();
        let mut found = Vec::new();
        parts(&functions, |start, end, part| found.push((start, end, part)));
        found
    }

    #[test]
    fn code_between_mpi_functions_is_mpis() {
        let names = [
            ("cold_path_of_the_program", 10, 5),
            ("MPIR_Init.cold", 100, 50),
            ("helper.cold", 150, 10),
            ("PMPI_Send.cold", 170, 10),
            ("main", 200, 40),
            ("MPIR_late", 250, 10),
            ("_start", 1000, 20),
            ("solve", 1100, 400),
            ("mpi_helper_of_the_program", 1500, 100),
            ("__wrap_malloc", 2000, 10),
            ("rust_std", 2010, 1000),
            ("PMPI_Send", 50_000, 100),
            ("static_helper", 50_100, 9000),
            ("ucs_init", 60_000, 10),
            ("printf", 200_000, 30),
        ];
        assert_eq!(
            found(&names),
            [
                (100, 180, Part::Mpi),
                (250, 260, Part::Mpi),
                (1000, 2000, Part::Program),
                (50_000, 60_010, Part::Mpi),
            ]
        );
    }

    #[test]
    fn far_between_functions_of_mpi_nobody_knows() {
        let names = [("MPI_Send", 1000, 10), ("fft", 1010, 40_000), ("PMPI_Recv", 41_010, 10)];
        assert_eq!(found(&names), [(1000, 1010, Part::Mpi), (41_010, 41_020, Part::Mpi)]);
    }

    #[test]
    fn without_an_archive_nothing_is_known_to_be_the_programs() {
        assert_eq!(found(&[("_start", 10, 5), ("work", 20, 5)]), []);
        assert_eq!(found(&[]), []);
    }

    #[test]
    fn the_program_that_runs_this_is_read() {
        let mut count = 0;
        assert!(read(|start, end, _| {
            assert!(start < end);
            count += 1;
        }));
        assert!(count < 1000);
    }
}
