//! Memory per component and time in MPI at run time, and named regions, for programs that run under `memprof run`.
//!
//! Without the profiler every call returns [`Error::NotActive`] and costs one load and one branch,
//! so a program can keep its calls in production.
//!
//! ```
//! let region = memprof_api::region("assemble matrix");
//! // ... what is to be seen as a phase of its own in the report ...
//! drop(region);
//! match memprof_api::components() {
//!     Ok(components) => {
//!         for component in components {
//!             println!("{}: {} bytes", component.name, component.owned);
//!         }
//!     }
//!     Err(memprof_api::Error::NotActive) => println!("not under memprof"),
//!     Err(error) => println!("{error}"),
//! }
//! ```
//!
//! # Threads
//!
//! Every function may be called by any thread at any time after the start of `main`, but not in a
//! signal handler. Regions belong to the process: they nest in the order in which threads begin and
//! end them, so begin and end them where one thread is in charge, for example between parallel
//! parts. A [`Region`] stays in its thread. In a child after `fork` nothing is recorded without
//! `memprof run --all`.
//!
//! # What numbers mean
//!
//! `owned` counts the bytes that the component has allocated or mapped, exactly and at once;
//! threads add theirs in steps of at most 256 KiB. `resident` is the part of the component's memory
//! that was resident at the last sample, at `sample_time`; [`flush`] takes a sample now.
#![deny(missing_docs)]

mod c;
mod hooks;

use std::ffi::CStr;
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

/// Why there is no answer.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The process does not run under the profiler, or under one of another version.
    NotActive,
    /// The profiler is active but has no data, as before its first sample.
    NotKnown,
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Error::NotActive => "the process does not run under memprof",
            Error::NotKnown => "memprof has nothing to tell yet",
        })
    }
}

impl std::error::Error for Error {}

/// Memory of one component, in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// As in reports: `app.exe`, `mpi.dep:libopen-pal.so.40`.
    pub name: String,
    /// Bytes allocated or mapped now.
    pub owned: u64,
    /// The most that it ever was.
    pub owned_peak: u64,
    /// Bytes in memory at the last sample.
    pub resident: u64,
    /// The most at any sample.
    pub resident_peak: u64,
    /// When the last sample was taken, since the start of recording.
    pub sample_time: Duration,
}

/// Memory of the process, in bytes.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Bytes in memory at the last sample.
    pub resident: u64,
    /// The most at any sample.
    pub resident_peak: u64,
    /// Bytes of `resident` that no component owns.
    pub unattributed: u64,
    /// Bytes allocated or mapped now.
    pub owned: u64,
    /// When the last sample was taken, since the start of recording.
    pub sample_time: Duration,
}

/// Returns true if the process runs under the profiler.
#[must_use]
pub fn is_active() -> bool {
    hooks::find().is_some()
}

/// Returns every component of the process, with its memory.
///
/// # Errors
///
/// [`Error::NotActive`].
pub fn components() -> Result<Vec<Component>, Error> {
    let hooks = hooks::find().ok_or(Error::NotActive)?;
    Ok((0..hooks.component_count()).filter_map(|index| hooks.component(index)).map(told).collect())
}

/// Returns the component with this name.
///
/// # Errors
///
/// [`Error::NotActive`]; [`Error::NotKnown`] if there is no component with this name.
pub fn component(name: &str) -> Result<Component, Error> {
    components()?.into_iter().find(|it| it.name == name).ok_or(Error::NotKnown)
}

fn told(raw: hooks::Component) -> Component {
    let name = CStr::from_bytes_until_nul(&raw.name).map_or(&raw.name[..], CStr::to_bytes);
    Component {
        name: String::from_utf8_lossy(name).into_owned(),
        owned: raw.owned,
        owned_peak: raw.owned_peak,
        resident: raw.resident,
        resident_peak: raw.resident_peak,
        sample_time: Duration::from_nanos(raw.sample_time_ns),
    }
}

/// Returns the memory of the process in all.
///
/// # Errors
///
/// [`Error::NotActive`]; [`Error::NotKnown`] before the first sample.
pub fn totals() -> Result<Totals, Error> {
    let raw = hooks::find().ok_or(Error::NotActive)?.totals().ok_or(Error::NotKnown)?;
    Ok(Totals {
        resident: raw.resident,
        resident_peak: raw.resident_peak,
        unattributed: raw.unattributed,
        owned: raw.owned,
        sample_time: Duration::from_nanos(raw.sample_time_ns),
    })
}

/// Time of a process since MPI was ready: `elapsed` is the sum of `useful`, `mpi` and `lent`.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Time {
    /// Since MPI was ready.
    pub elapsed: Duration,
    /// Outside of MPI.
    pub useful: Duration,
    /// Inside MPI.
    pub mpi: Duration,
    /// In quo's barrier, while others use the processors.
    pub lent: Duration,
    /// Part of `mpi` in sends, receives and probes.
    pub point_to_point: Duration,
    /// Part of `mpi` in collective operations.
    pub collective: Duration,
    /// Part of `mpi` in operations of windows.
    pub one_sided: Duration,
    /// Part of `mpi` in operations of files.
    pub file: Duration,
    /// Part of `mpi` that was waiting for and testing requests.
    pub wait: Duration,
    /// Part of `mpi` in other functions.
    pub other: Duration,
    /// Number of MPI calls.
    pub calls: u64,
}

/// Returns the time of the thread that began MPI, up to now. Local: it is no MPI call.
///
/// ```
/// if let Ok(time) = memprof_api::time() {
///     let ratio = time.mpi.as_secs_f64() / time.useful.as_secs_f64();
///     println!("MPI to compute: {ratio:.2}");
/// }
/// ```
///
/// # Errors
///
/// [`Error::NotActive`]; [`Error::NotKnown`] where no times are taken, as without `memprof run --mpi-time`, and before MPI is
/// ready.
pub fn time() -> Result<Time, Error> {
    hooks::find().ok_or(Error::NotActive)?;
    let raw = hooks::time().ok_or(Error::NotKnown)?;
    Ok(Time {
        elapsed: Duration::from_nanos(raw.elapsed),
        useful: Duration::from_nanos(raw.useful),
        mpi: Duration::from_nanos(raw.mpi),
        lent: Duration::from_nanos(raw.lent),
        point_to_point: Duration::from_nanos(raw.point_to_point),
        collective: Duration::from_nanos(raw.collective),
        one_sided: Duration::from_nanos(raw.one_sided),
        file: Duration::from_nanos(raw.file),
        wait: Duration::from_nanos(raw.wait),
        other: Duration::from_nanos(raw.other),
        calls: raw.calls,
    })
}

/// Takes a sample now, in the calling thread: afterwards, all numbers are current. This takes as
/// long as a sample does, milliseconds in a process with much memory.
///
/// # Errors
///
/// [`Error::NotActive`]; [`Error::NotKnown`] if nothing is recorded, or recording is paused.
pub fn flush() -> Result<(), Error> {
    let hooks = hooks::find().ok_or(Error::NotActive)?;
    if hooks.flush() { Ok(()) } else { Err(Error::NotKnown) }
}

/// A region of the program, from its creation to its drop: a separate phase in reports, with the
/// peaks inside it. Regions nest; names longer than 47 bytes are cut. Does nothing without the
/// profiler.
#[derive(Debug)]
#[must_use = "the region ends as soon as it is dropped"]
pub struct Region {
    /// 0: not recorded.
    id: u32,
    /// Ends in the thread in which it began.
    stays: PhantomData<*const ()>,
}

/// Begins a region.
pub fn region(name: &str) -> Region {
    let id = hooks::find().map_or(0, |hooks| hooks.region_begin(name.as_bytes()));
    Region { id, stays: PhantomData }
}

impl Region {
    /// Returns true if it appears in the report: not without the profiler, nor where it nests too
    /// deep.
    #[must_use]
    pub fn is_recorded(&self) -> bool {
        self.id != 0
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.id != 0
            && let Some(hooks) = hooks::find()
        {
            hooks.region_end(self.id);
        }
    }
}
