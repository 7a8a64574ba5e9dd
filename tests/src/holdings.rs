//! Resources of a process of the example `sizes` by its own count, at two times.

use anyhow::{Context, Result, bail, ensure};

use crate::launch::Outcome;

/// Free numbers may be taken in another order: fewer than one communicator for each of ten changes.
const NUMBERS: u64 = 8;

/// Resources counted in `/proc/self`, except the communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Open files.
    pub files: u64,
    /// Mappings, including those of shared memory.
    pub mappings: u64,
    /// Threads.
    pub threads: u64,
    /// Resident memory in KiB.
    pub resident: u64,
    /// Fortran handle of the world's communicator.
    pub communicator: u64,
}

impl Holdings {
    /// Reads the resources of rank 0 after some changes, and at the end.
    ///
    /// # Errors
    /// The output does not have them.
    pub fn of(outcome: &Outcome) -> Result<(Holdings, Holdings)> {
        let line = outcome.stdout.lines().find_map(|line| line.strip_prefix("rank 0 held "));
        let line = line.with_context(|| format!("no word of it: {}", outcome.report()))?;
        let numbers: Vec<u64> = line
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|word| word.parse().ok())
            .collect();
        let &[files, mappings, threads, resident, communicator, ref rest @ ..] = &numbers[..]
        else {
            bail!("{line}");
        };
        let then = Holdings { files, mappings, threads, resident, communicator };
        let &[files, mappings, threads, resident, communicator] = rest else { bail!("{line}") };
        Ok((then, Holdings { files, mappings, threads, resident, communicator }))
    }

    /// Checks that `now` is no more, except for this many files, mappings and KiB.
    ///
    /// # Errors
    /// It is more; the error has both.
    pub fn expect_no_more(&self, now: &Holdings, slack: (u64, u64, u64)) -> Result<()> {
        let (files, mappings, resident) = slack;
        ensure!(
            now.files <= self.files + files
                && now.mappings <= self.mappings + mappings
                && now.threads <= self.threads
                && now.resident <= self.resident + resident
                && now.communicator <= self.communicator + NUMBERS,
            "{self:?} has become {now:?}"
        );
        Ok(())
    }
}

/// Checks that the example's lines on its changes alternate between a growth from one rank to two
/// and a shrink back, this many times.
///
/// # Errors
///
/// The first wrong line, or the wrong number of lines.
pub fn expect_cycles<T: AsRef<str>>(changes: &[T], cycles: usize) -> Result<()> {
    ensure!(changes.len() == 2 * cycles, "{} changes in {cycles} cycles", changes.len());
    for (number, change) in changes.iter().enumerate() {
        let right = match number % 2 {
            0 => format!("epoch {} size 2: 1 stay, 0 leave, 1 join", number + 1),
            _ => format!("epoch {} size 1: 1 stay, 1 leave, 0 join", number + 1),
        };
        ensure!(change.as_ref() == right, "{}, not {right}", change.as_ref());
    }
    Ok(())
}
