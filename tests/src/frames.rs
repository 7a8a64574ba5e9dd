//! Page frames of processes, by the kernel's numbers: a frame shared by several processes has one
//! number.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::FileExt;

use anyhow::{Context, Result};

const PAGE: u64 = 4096;
/// Entries of a table read at once.
const AT_ONCE: u64 = 8192;

/// Frames in use by stopped processes.
#[derive(Debug, Default)]
pub struct Frames {
    numbers: HashSet<u64>,
}

/// Returns the frame of a present page, from its entry in `pagemap`; 0 where the kernel hides it.
fn frame(entry: u64) -> Option<u64> {
    (entry >> 63 == 1).then_some(entry & ((1 << 55) - 1))
}

impl Frames {
    /// Returns `None` where the kernel hides frame numbers.
    ///
    /// # Errors
    ///
    /// The kernel's files cannot be read.
    pub fn new() -> Result<Option<Frames>> {
        let here = PAGE; // A page of this process that is certainly present.
        let address = (&raw const here).addr() as u64;
        let told = read(&File::open("/proc/self/pagemap")?, address / PAGE, 1)?;
        let told = told.first().copied().and_then(frame).is_some_and(|number| number != 0);
        let flags = File::open("/proc/kpageflags").is_ok();
        Ok((told && flags).then(Frames::default))
    }

    /// Adds the frames of a process.
    ///
    /// # Errors
    ///
    /// The process is gone.
    pub fn add(&mut self, process: u32) -> Result<()> {
        let table = File::open(format!("/proc/{process}/pagemap"))?;
        for line in fs::read_to_string(format!("/proc/{process}/maps"))?.lines() {
            let (start, end) = addresses(line).with_context(|| line.to_owned())?;
            // The vsyscall mapping lies in the kernel's half, which the table does not cover.
            if start >> 63 == 1 {
                continue;
            }
            let (mut at, last) = (start / PAGE, end / PAGE);
            while at < last {
                let count = AT_ONCE.min(last - at);
                self.numbers.extend(read(&table, at, count)?.into_iter().filter_map(frame));
                at += count;
            }
        }
        Ok(())
    }

    /// Returns the bytes of the frames that the kernel counts for some process: all except the zero
    /// page and its own.
    ///
    /// # Errors
    ///
    /// The kernel's files cannot be read.
    pub fn bytes(&self) -> Result<u64> {
        const RESERVED: u64 = 1 << 32;
        const NO_PAGE: u64 = 1 << 20;
        const ZEROES: u64 = 1 << 24;
        let flags = File::open("/proc/kpageflags")?;
        let mut pages = 0;
        for &number in &self.numbers {
            let flags = read(&flags, number, 1)?.first().copied().unwrap_or(NO_PAGE);
            pages += u64::from(flags & (RESERVED | NO_PAGE | ZEROES) == 0);
        }
        Ok(pages * PAGE)
    }
}

fn addresses(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split(' ').next()?.split_once('-')?;
    Some((u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?))
}

/// Returns `count` words of a file from word `first` on, or fewer at its end.
fn read(file: &File, first: u64, count: u64) -> Result<Vec<u64>> {
    let mut bytes = vec![0; usize::try_from(count)? * 8];
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read_at(&mut bytes[filled..], first * 8 + filled as u64) {
            Ok(0) => break,
            Ok(more) => filled += more,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    let words = bytes[..filled].chunks_exact(8).map(|word| word.try_into().unwrap_or_default());
    Ok(words.map(u64::from_ne_bytes).collect())
}
