//! Handling of a spawn from which MPI does not return.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quo_mpi::{Family, Identity};

use crate::node::env_marker::EnvMarker;
use crate::node::process_identity::ProcessIdentity;

/// Time limit for the end of killed processes.
const END_LIMIT: Duration = Duration::from_secs(2);

/// What can be done about a hung spawn, by the MPI and its launcher's options on a killed process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HungSpawn {
    /// Nothing: no other MPI call gets through, or that is not known.
    #[default]
    Leave,
    /// Further processes can be spawned, but the launcher ends the job when a process is killed.
    Beside,
    /// The hung processes can be killed as well.
    End,
}

/// Fate of the processes of an abandoned spawn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// True if all have ended: their slots are free again.
    pub all: bool,
    /// Text that follows the reason for the failure.
    pub told: String,
    /// Processes that remain until this process ends.
    pub left: Vec<ProcessIdentity>,
}

impl HungSpawn {
    pub(crate) fn of(mpi: &Identity) -> Self {
        // Ranks inherit the options of mpirun in their environment.
        let recovers = std::env::var("OMPI_MCA_orte_enable_recovery").unwrap_or_default();
        match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(5..)) => Self::End,
            (Family::OpenMpi, Some(4)) if matches!(&*recovers, "1" | "true") => Self::End,
            (Family::OpenMpi, Some(4)) => Self::Beside,
            _ => Self::Leave,
        }
    }

    /// Kills the processes with this marker, if that is allowed.
    pub(crate) fn deal_with(self, marker: &EnvMarker) -> Ended {
        if self == Self::Leave {
            return Ended::default();
        }
        let (found, named) = match found(marker) {
            Ok(found) => found,
            Err(nothing) => return nothing,
        };
        if self == Self::Beside {
            let told = format!(
                "; of it there is process {named} until the job ends, since the launcher was not told to go on \
                 without"
            );
            return Ended { all: false, told, left: found };
        }
        if kill(marker, found) {
            Ended { all: true, told: format!("; process {named} was killed"), left: Vec::new() }
        } else {
            Ended { told: format!("; process {named} does not end"), ..Ended::default() }
        }
    }

    /// Finds the processes with this marker and keeps them alive. A launcher that no longer looks
    /// at their connection would ignore the next one with the same descriptor number, too: the
    /// processes keep it in use.
    pub(crate) fn spare(self, marker: &EnvMarker) -> Ended {
        if self == Self::Leave {
            return Ended::default();
        }
        match found(marker) {
            Ok((left, named)) => {
                let told = format!("; of it there is process {named} until the job ends");
                Ended { all: false, told, left }
            }
            Err(nothing) => nothing,
        }
    }

    /// Kills the [spared](Self::spare) processes, if that is allowed.
    pub(crate) fn end(self, left: &mut Vec<ProcessIdentity>) {
        if self == Self::End {
            for life in left.drain(..) {
                life.kill();
            }
        }
    }
}

/// Returns the processes with this marker, and text with their numbers.
fn found(marker: &EnvMarker) -> Result<(Vec<ProcessIdentity>, String), Ended> {
    let found = marker.processes();
    if found.is_empty() {
        let told =
            "; no process of it is on this host, and other hosts are not searched".to_owned();
        return Err(Ended { told, ..Ended::default() });
    }
    let numbers: Vec<String> = found.iter().map(|life| life.process().to_string()).collect();
    let named = numbers.join(", ");
    Ok((found, named))
}

/// Returns true if all processes end, including those they start meanwhile.
fn kill(marker: &EnvMarker, mut living: Vec<ProcessIdentity>) -> bool {
    let limit = Instant::now() + END_LIMIT;
    while !living.is_empty() && Instant::now() < limit {
        for life in &living {
            life.kill();
        }
        // Sleeps: the end of another process's child cannot be waited for.
        std::thread::sleep(Duration::from_millis(5));
        living = marker.processes();
    }
    living.is_empty()
}

/// Kills every `PROCESS:BEGAN` at the end of its input, if the number still belongs to that
/// process.
const SCRIPT: &str = r#"read -r _; for life; do process=${life%:*}; at=0
stat=$(cat "/proc/$process/stat" 2>/dev/null) || continue
for word in ${stat##*) }; do at=$((at + 1))
[ $at -ne 20 ] || [ "$word" != "${life#*:}" ] || kill -KILL "$process"; done; done"#;

/// Has these processes killed after this one ends: the launcher would wait for them and never end.
pub(crate) fn outlive(lives: &[ProcessIdentity]) {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]);
    command.args(lives.iter().map(ProcessIdentity::word));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // The kernel closes the pipe at the end of this process.
        std::mem::forget(child.stdin.take());
    }
}

/// Kills the processes with this line in their environment, unless a line arrives on its input.
const BOUND: &str = r#"read -r _ && exit
for look in 1 2 3; do for file in $(grep -lzxF -e "$1" /proc/[0-9]*/environ); do
process=${file#/proc/}; kill -KILL "${process%/environ}"; done; sleep 0.1; done"#;

/// A spawn whose processes are killed if this process ends before [`release`](Self::release): they
/// wait for it in `MPI_Init`, and would not end by themselves.
#[derive(Debug)]
pub(super) struct Bound(Child);

impl Bound {
    /// Binds the processes with this marker to this process; `None` if the guarding process cannot
    /// be started.
    pub(super) fn to(marker: &EnvMarker) -> Option<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", BOUND, "sh", &marker.line()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok().map(Self)
    }

    /// Stops guarding the processes.
    pub(super) fn release(mut self) {
        if let Some(mut input) = self.0.stdin.take() {
            let _ = input.write_all(b"\n");
        }
        let _ = self.0.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn start_is_killed_only_when_its_unreleased_starter_ends() {
        for (number, releases) in [(81, true), (82, false)] {
            let marker = EnvMarker::new(number, 0);
            let (name, value) =
                marker.line().split_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
            let mut command = Command::new("cat");
            command.env(name, value).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut started = command.spawn().unwrap();
            // The echo shows that it has been executed.
            started.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            std::io::Read::read_exact(started.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            let mut bound = Bound::to(&marker).unwrap();
            if releases {
                bound.release();
            } else {
                // The kernel does the same at the end of this process.
                drop(bound.0.stdin.take());
                bound.0.wait().unwrap();
            }
            drop(started.stdin.take());
            assert_eq!(started.wait().unwrap().success(), releases);
        }
    }

    #[test]
    fn the_script_ends_exactly_those_that_it_was_given() {
        let child = || Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let (mut meant, mut spared) = (child(), child());
        let life =
            |child: &std::process::Child| ProcessIdentity::of(child.id().cast_signed()).unwrap();
        let meant_as = life(&meant).word();
        // The same process number with another start time.
        let spared_as = format!("{}:1", spared.id());
        let script = Command::new("sh")
            .args(["-c", SCRIPT, "sh", &meant_as, &spared_as, "999999999:5"])
            .stdin(Stdio::null())
            .status();
        script.unwrap();
        assert!(!meant.wait().unwrap().success());
        drop(spared.stdin.take());
        assert!(spared.wait().unwrap().success());
    }
}
