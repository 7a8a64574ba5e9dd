//! A marker that identifies the processes of one start before any of them has sent a message.

use quo_mpi::{Family, Identity};

use crate::node::process_identity::{ProcessIdentity, processes};

/// Variable in the environment of spawned processes and their children.
const VARIABLE: &str = "QUO_ELASTIC_START";

/// A marker unique among the starts of all processes of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EnvMarker(String);

impl EnvMarker {
    /// Makes the marker of a unit in this process's start with this number.
    pub(crate) fn new(start: u64, unit: usize) -> Self {
        let own =
            ProcessIdentity::own().map_or_else(|| std::process::id().to_string(), |own| own.name());
        Self(format!("{own}.{start}.{unit}"))
    }

    /// Returns the entry for an environment.
    pub(crate) fn line(&self) -> String {
        format!("{VARIABLE}={}", self.0)
    }

    /// Has the launcher set the marker in the processes that it starts, if it accepts variables.
    pub(crate) fn put(&self, mpi: &Identity, info: &mut Vec<(String, String)>) {
        let key = match (mpi.family(), mpi.major()) {
            (Family::OpenMpi, Some(4)) => "env",
            (Family::OpenMpi, Some(5..)) => "PMIX_ENVAR",
            _ => return,
        };
        let line = self.line();
        match info.iter_mut().find(|(known, _)| known == key) {
            // One line each; the program may have set some.
            Some((_, lines)) => *lines = format!("{lines}\n{line}"),
            None => info.push((key.to_owned(), line)),
        }
    }

    /// Returns the live processes of this host with the marker, if this user may see them.
    pub(crate) fn processes(&self) -> Vec<ProcessIdentity> {
        let line = self.line();
        with_variable(|entry| entry == line.as_bytes())
    }

    /// Returns the live processes of this host that were spawned for a process, given by its
    /// [name](Life::name).
    pub(crate) fn of_all_by(process: &str) -> Vec<ProcessIdentity> {
        let begin = format!("{VARIABLE}={process}.");
        with_variable(|entry| entry.starts_with(begin.as_bytes()))
    }
}

/// Returns the live processes of this host with a matching variable.
fn with_variable(is_it: impl Fn(&[u8]) -> bool) -> Vec<ProcessIdentity> {
    let is_marked = |process: &i32| {
        let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
        environment.split(|&byte| byte == 0).any(&is_it)
    };
    processes().filter(is_marked).filter_map(ProcessIdentity::of).collect()
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn only_marked_processes_are_found_and_ended() {
        let child = |marker: &EnvMarker| {
            let mut command = Command::new("cat");
            command.env(VARIABLE, &marker.0).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // The echo shows that it has been executed.
            std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
            std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
            child
        };
        let (marker, other) = (EnvMarker::new(7, 0), EnvMarker::new(7, 1));
        let (mut marked, mut spared) = (child(&marker), child(&other));
        let found = marker.processes();
        assert_eq!(found, [ProcessIdentity::of(marked.id().cast_signed()).unwrap()]);
        let all = EnvMarker::of_all_by(&ProcessIdentity::own().unwrap().name());
        assert!(all.contains(&found[0]) && all.len() >= 2, "{all:?}");
        assert_eq!(EnvMarker::of_all_by("1-1"), []);
        assert!(found[0].kill());
        assert!(!marked.wait().unwrap().success());
        assert!(!found[0].kill(), "it has ended");
        assert!(marker.processes().is_empty());
        // It ends at the end of its input, since it was not killed.
        drop(spared.stdin.take());
        assert!(spared.wait().unwrap().success());
    }

    #[test]
    fn variables_that_the_program_asked_for_stay() {
        let mut info = vec![("env".to_owned(), "A=b".to_owned())];
        let marker = EnvMarker::new(1, 2);
        marker.put(quo_mpi::running(), &mut info);
        let said: Vec<&str> = info.iter().flat_map(|(_, lines)| lines.lines()).collect();
        assert_eq!(said[0], "A=b");
        if quo_mpi::running().family() == Family::OpenMpi {
            assert_eq!(said[1..], [format!("{VARIABLE}={}", marker.0)]);
        }
    }
}
