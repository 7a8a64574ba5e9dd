//! Check that a host can be reached, made before a spawn on it: some launchers otherwise end the
//! job.

use std::io::ErrorKind;
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Port of remote shells.
const PORT: u16 = 22;
const LIMIT: Duration = Duration::from_secs(3);

/// How to check that a host can be reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HostProbe {
    /// Time that the check may take; zero: no check.
    pub limit: Duration,
    /// A remote shell with options that must reach the host as well; empty: none is tried.
    pub remote_shell: Vec<String>,
}

impl Default for HostProbe {
    fn default() -> Self {
        Self { limit: LIMIT, remote_shell: Vec::new() }
    }
}

impl HostProbe {
    /// # Errors
    /// Why not, with the name of the host.
    pub(crate) fn check_host(&self, host: &str) -> Result<(), String> {
        if self.limit.is_zero() {
            return Ok(());
        }
        let deadline = Instant::now() + self.limit;
        let addresses = resolve(host, self.limit)?;
        answers(host, &addresses, deadline)?;
        match &self.remote_shell[..] {
            [] => Ok(()),
            [program, options @ ..] => {
                let mut command = Command::new(program);
                command.args(options).args([host, "true"]);
                ask(host, program, command, self.limit)
            }
        }
    }
}

/// Resolves a name within a limit; the C library's own limits are far longer.
fn resolve(host: &str, limit: Duration) -> Result<Vec<SocketAddr>, String> {
    let (answer, answered) = channel();
    let name = host.to_owned();
    let thread = std::thread::Builder::new().name("elastic-resolve".to_owned());
    let asked = thread.spawn(move || {
        // The receiver may have timed out.
        let _ = answer.send((name.as_str(), PORT).to_socket_addrs().map(Iterator::collect));
    });
    asked.map_err(|error| error.to_string())?;
    match answered.recv_timeout(limit) {
        Ok(Ok(addresses)) => Ok(addresses),
        Ok(Err(error)) => Err(format!("{host} has no address: {error}")),
        Err(_) => Err(format!("{host} has no address within {} ms", limit.as_millis())),
    }
}

/// Checks that a host answers, even by refusing the connection.
fn answers(host: &str, addresses: &[SocketAddr], deadline: Instant) -> Result<(), String> {
    let mut reason = "the name has no address".to_owned();
    for address in addresses {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.max(Duration::from_millis(1));
        match TcpStream::connect_timeout(address, left) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::ConnectionRefused => return Ok(()),
            Err(error) => reason = format!("{}: {error}", address.ip()),
        }
    }
    Err(format!("{host} does not answer: {reason}"))
}

fn ask(host: &str, program: &str, mut command: Command, limit: Duration) -> Result<(), String> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{program}: {error}"))?;
    let ended = wait(&child, limit);
    if !ended {
        let _already_gone = child.kill();
    }
    let status = child.wait().map_err(|error| format!("{program}: {error}"))?;
    match (ended, status.success()) {
        (true, true) => Ok(()),
        (true, false) => Err(format!("{program} does not reach {host}: {status}")),
        (false, _) => {
            Err(format!("{program} does not reach {host} within {} ms", limit.as_millis()))
        }
    }
}

/// Returns true if the process ends within the limit.
fn wait(child: &Child, limit: Duration) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use rustix::process::{Pid, PidfdFlags, pidfd_open};
    let Ok(descriptor) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return false;
    };
    let timeout = Timespec {
        tv_sec: i64::try_from(limit.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(limit.subsec_nanos()),
    };
    poll(&mut [PollFd::new(&descriptor, PollFlags::IN)], Some(&timeout))
        .is_ok_and(|ready| ready > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn by(remote_shell: &[&str]) -> HostProbe {
        HostProbe {
            remote_shell: remote_shell.iter().map(|&word| word.to_owned()).collect(),
            ..HostProbe::default()
        }
    }

    #[test]
    fn this_host_is_reachable_and_an_unnamed_one_is_not() {
        assert_eq!(by(&[]).check_host("localhost"), Ok(()));
        let reason = by(&[]).check_host("no-such-host.invalid").unwrap_err();
        assert!(reason.contains("no-such-host.invalid has no address"), "{reason}");
        let nobody_looks = HostProbe { limit: Duration::ZERO, ..HostProbe::default() };
        assert_eq!(nobody_looks.check_host("no-such-host.invalid"), Ok(()));
    }

    #[test]
    fn a_remote_shell_is_asked_and_has_the_last_word() {
        let shell = |script| by(&["sh", "-c", script]);
        assert_eq!(
            shell("test $0 $1 = localhost true || test $0 = localhost").check_host("localhost"),
            Ok(())
        );
        let reason = shell("exit 255").check_host("localhost").unwrap_err();
        assert!(reason.contains("sh does not reach localhost"), "{reason}");
        let silent = HostProbe { limit: Duration::from_millis(200), ..shell("exec sleep 60") };
        let reason = silent.check_host("localhost").unwrap_err();
        assert!(reason.contains("within 200 ms"), "{reason}");
    }
}
