//! Processes started at run time, and ports at which groups meet.
#![allow(unsafe_code)]

use std::ffi::{CString, c_int};
use std::ptr;

use quo::group::GroupError;

use super::{Communicator, Intercommunicator, int, text};
use crate::raw::succeed;
use crate::{Comm, is_running, is_usable, raw};

/// Program to start, see [`spawn`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpawnRequest {
    /// Path or name of the program.
    pub command: String,
    /// Arguments of the program.
    pub arguments: Vec<String>,
    /// Number of processes.
    pub processes: usize,
    /// Keys and values for the launcher, such as `host`.
    pub info: Vec<(String, String)>,
}

/// MPI's thread level, which limits the threads that may call it.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ThreadLevel {
    /// The process has one thread.
    Single,
    /// Only the thread that initialised MPI.
    Funneled,
    /// One thread at a time.
    Serialized,
    /// Any thread.
    Multiple,
}

/// Returns the level with which MPI was initialised. Local.
///
/// # Errors
/// [`GroupError`] if MPI is not running.
pub fn thread_level() -> Result<ThreadLevel, GroupError> {
    is_usable()?;
    let mut level: c_int = 0;
    // SAFETY: MPI is running; writes one int.
    succeed("MPI_Query_thread", unsafe { raw::quo_mpi_thread_level(&raw mut level) })?;
    Ok(match level {
        3 => ThreadLevel::Multiple,
        2 => ThreadLevel::Serialized,
        1 => ThreadLevel::Funneled,
        _ => ThreadLevel::Single,
    })
}

/// Returns the total number of processes that the launcher has room for, if it reports it. Local.
///
/// # Errors
/// [`GroupError`] if MPI is not running.
pub fn universe() -> Result<Option<usize>, GroupError> {
    is_usable()?;
    let mut size: c_int = -1;
    // SAFETY: MPI is running; writes one int.
    succeed("MPI_Comm_get_attr", unsafe { raw::quo_mpi_universe(&raw mut size) })?;
    Ok(usize::try_from(size).ok())
}

impl Communicator {
    /// Waits for the other side of a port that rank 0 has opened. Collective; `port` is used only
    /// on rank 0.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn accept(&self, port: &str) -> Result<Intercommunicator, GroupError> {
        const CALL: &str = "MPI_Comm_accept";
        is_running()?;
        let port = text(CALL, port)?;
        let mut inter = 0;
        // SAFETY: live; the text outlives the call; collective by contract.
        let code = unsafe { raw::quo_mpi_accept(port.as_ptr(), self.comm.0, &raw mut inter) };
        succeed(CALL, code)?;
        Ok(Intercommunicator::adopt(Comm(inter)))
    }

    /// Connects to the side that accepts at a port. Collective; `port` is used only on rank 0.
    ///
    /// # Errors
    /// [`GroupError::Mpi`].
    pub fn connect(&self, port: &str) -> Result<Intercommunicator, GroupError> {
        const CALL: &str = "MPI_Comm_connect";
        is_running()?;
        let port = text(CALL, port)?;
        let mut inter = 0;
        // SAFETY: live; the text outlives the call; collective by contract.
        let code = unsafe { raw::quo_mpi_connect(port.as_ptr(), self.comm.0, &raw mut inter) };
        succeed(CALL, code)?;
        Ok(Intercommunicator::adopt(Comm(inter)))
    }
}

/// Starts processes. Called by one process, whose other MPI calls may block meanwhile, with MPICH
/// for most of the time.
///
/// # Errors
/// [`GroupError::Mpi`] with the launcher's reason. Some launchers end the job instead, for
/// example for a host that cannot be reached: check before.
pub fn spawn(request: &SpawnRequest) -> Result<Intercommunicator, GroupError> {
    const CALL: &str = "MPI_Comm_spawn";
    let own = Communicator::alone()?;
    let command = text(CALL, &request.command)?;
    let arguments =
        request.arguments.iter().map(|word| text(CALL, word)).collect::<Result<Vec<_>, _>>()?;
    let (mut keys, mut values) = (Vec::new(), Vec::new());
    for (key, value) in &request.info {
        keys.push(text(CALL, key)?);
        values.push(text(CALL, value)?);
    }
    let mut arguments: Vec<_> = arguments.iter().map(|word| word.as_ptr().cast_mut()).collect();
    arguments.push(ptr::null_mut());
    let keys: Vec<_> = keys.iter().map(|key| key.as_ptr()).collect();
    let values: Vec<_> = values.iter().map(|value| value.as_ptr()).collect();
    let (processes, pairs) = (int(CALL, request.processes)?, int(CALL, keys.len())?);
    let mut inter = 0;
    // SAFETY: all texts outlive the call, and the lists end as C expects; MPI does not write to the
    // arguments.
    let code = unsafe {
        raw::quo_mpi_spawn(
            own.comm.0,
            command.as_ptr(),
            arguments.as_mut_ptr(),
            processes,
            keys.as_ptr(),
            values.as_ptr(),
            pairs,
            &raw mut inter,
        )
    };
    let spawned = succeed(CALL, code).map(|()| Intercommunicator::adopt(Comm(inter)));
    own.free()?;
    spawned
}

/// Port to which another group can connect, closed when dropped.
#[derive(Debug)]
pub struct Port {
    name: CString,
}

impl Port {
    /// Opens a port. Local.
    ///
    /// # Errors
    /// [`GroupError::Mpi`] if the transport of the MPI has no ports.
    pub fn open() -> Result<Self, GroupError> {
        is_usable()?;
        let mut name = vec![0_u8; usize::try_from(raw::quo_mpi_port_length()).unwrap_or(0).max(1)];
        // SAFETY: the buffer has the length that MPI requires.
        succeed("MPI_Open_port", unsafe { raw::quo_mpi_open_port(name.as_mut_ptr().cast()) })?;
        name.truncate(name.iter().position(|&byte| byte == 0).unwrap_or(0));
        Ok(Self { name: CString::new(name).unwrap_or_default() })
    }

    /// Returns the name of the port, for the other group.
    #[must_use]
    pub fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        if is_running().is_ok() {
            // SAFETY: a port that was opened.
            unsafe { raw::quo_mpi_close_port(self.name.as_ptr()) };
        }
    }
}
