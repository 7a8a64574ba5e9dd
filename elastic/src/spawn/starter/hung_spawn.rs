//! Handling of a start from which MPI does not come back.

use std::io::Write as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use quo_mpi::{Family, Identity};

use crate::node::env_marker::EnvMarker;
use crate::node::process_identity::Life;

/// Time that a killed process may take to be gone.
const END_LIMIT: Duration = Duration::from_secs(2);

/// Allowed actions, by the MPI and its launcher's options on a killed process.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum HungSpawn {
    /// Nothing: no other call gets through, or it is not known.
    #[default]
    Leave,
    /// Others can be started meanwhile, but the launcher ends the job with a process that is killed.
    Beside,
    /// Hanging processes can be ended as well.
    End,
}

/// Fate of the processes of a start that was given up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ended {
    /// True if all are gone: their places are free again.
    pub all: bool,
    /// In words, behind why it was given up.
    pub told: String,
    /// Processes that stay until this process ends.
    pub left: Vec<Life>,
}

impl HungSpawn {
    pub(crate) fn of(mpi: &Identity) -> Self {
        // What mpirun was told is in the environment of its ranks.
        let recovers = std::env::var("OMPI_MCA_orte_enable_recovery").unwrap_or_default();
        match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(5..)) => Self::End,
            (Family::OpenMpi, Some(4)) if matches!(&*recovers, "1" | "true") => Self::End,
            (Family::OpenMpi, Some(4)) => Self::Beside,
            _ => Self::Leave,
        }
    }

    /// Ends the processes with this marker, if it may.
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

    /// Finds the processes with this marker, and leaves them where they are. A launcher that does not look at its
    /// connection any more would not look at the next one that gets the same number either: so this one keeps it.
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

    /// Ends the [spared](Self::spare) processes, if it may.
    pub(crate) fn end(self, left: &mut Vec<Life>) {
        if self == Self::End {
            for life in left.drain(..) {
                life.kill();
            }
        }
    }
}

/// Returns the processes with this marker, with their numbers in words.
fn found(marker: &EnvMarker) -> Result<(Vec<Life>, String), Ended> {
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

/// Returns true if all of them end, those that they start meanwhile as well.
fn kill(marker: &EnvMarker, mut living: Vec<Life>) -> bool {
    let limit = Instant::now() + END_LIMIT;
    while !living.is_empty() && Instant::now() < limit {
        for life in &living {
            life.kill();
        }
        // Sleeps: the end of another's child is told to nobody.
        std::thread::sleep(Duration::from_millis(5));
        living = marker.processes();
    }
    living.is_empty()
}

/// Kills every `PROCESS:BEGAN` at the end of its input, if it is still that process.
const SCRIPT: &str = r#"read -r _; for life; do process=${life%:*}; at=0
stat=$(cat "/proc/$process/stat" 2>/dev/null) || continue
for word in ${stat##*) }; do at=$((at + 1))
[ $at -ne 20 ] || [ "$word" != "${life#*:}" ] || kill -KILL "$process"; done; done"#;

/// Has these processes killed when this one has ended: the launcher waits for them and would never end.
pub(crate) fn outlive(lives: &[Life]) {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh"]);
    command.args(lives.iter().map(Life::word));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // The kernel closes it.
        std::mem::forget(child.stdin.take());
    }
}

/// Kills the processes with this line in their environment, unless there is a line in its input.
const BOUND: &str = r#"read -r _ && exit
for look in 1 2 3; do for file in $(grep -lzxF -e "$1" /proc/[0-9]*/environ); do
process=${file#/proc/}; kill -KILL "${process%/environ}"; done; sleep 0.1; done"#;

/// A start whose processes are killed when this process ends before [`release`](Self::release): in `MPI_Init` they wait
/// for it, and do nothing of their own.
#[derive(Debug)]
pub(super) struct Bound(Child);

impl Bound {
    /// Binds the processes with this marker. None where there can be no other process.
    pub(super) fn to(marker: &EnvMarker) -> Option<Self> {
        let mut command = Command::new("sh");
        command.args(["-c", BOUND, "sh", &marker.line()]);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().ok().map(Self)
    }

    /// Leaves the processes to themselves from now on.
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
            // It echoes: it has been executed.
            started.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
            std::io::Read::read_exact(started.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            let mut bound = Bound::to(&marker).unwrap();
            if releases {
                bound.release();
            } else {
                // As the kernel does at the end of this process.
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
        let life = |child: &std::process::Child| Life::of(child.id().cast_signed()).unwrap();
        let meant_as = life(&meant).word();
        // The number of a process that began at another time.
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
