//! Watches the hosts of a running job: a launcher may wait without end for a lost host.

use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::process::Child;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::output::complain;

/// Port of remote shells. A host without one refuses the connection, and is there.
const REMOTE_SHELL: u16 = 22;
/// Time within which a host answers.
const ANSWER: Duration = Duration::from_secs(3);
/// Time between two looks at the hosts.
const PERIOD: Duration = Duration::from_secs(10);
/// Silence after which a host is lost.
const SILENCE: Duration = Duration::from_secs(60);
/// Time that the launcher has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// Returns true if a host accepts or refuses a connection.
pub(super) fn answers(host: &str) -> bool {
    let Ok(mut addresses) = (host, REMOTE_SHELL).to_socket_addrs() else { return false };
    addresses.any(|address| match TcpStream::connect_timeout(&address, ANSWER) {
        Ok(_) => true,
        Err(error) => error.kind() == std::io::ErrorKind::ConnectionRefused,
    })
}

/// A thread that ends the launcher when a host has been silent for long. Dropping it stops the
/// thread.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Watches hosts that have answered before.
    ///
    /// # Errors
    /// The process has ended already, or the thread cannot be started.
    pub(super) fn over(hosts: Vec<String>, launcher: &Child) -> Result<Self> {
        let launcher = pidfd_open(Pid::from_child(launcher), PidfdFlags::empty())
            .context("launch: watching the launcher")?;
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("hosts".to_owned());
        let thread = thread.spawn(move || {
            let ends_within =
                |time: Duration| stopped.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
            watch(&hosts, &launcher, &ends_within);
        });
        let thread = thread.context("launch: starting a thread")?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn watch(hosts: &[String], launcher: &OwnedFd, ends_within: &dyn Fn(Duration) -> bool) {
    let mut answered = vec![Instant::now(); hosts.len()];
    while !ends_within(PERIOD) {
        for (host, last) in hosts.iter().zip(&mut answered) {
            if answers(host) {
                *last = Instant::now();
            }
            if last.elapsed() > SILENCE {
                complain(&format!(
                    "launch: host {host} has not answered for {} s, and the job has not ended: it is ended",
                    last.elapsed().as_secs()
                ));
                // An error says that the launcher has ended meanwhile.
                let _ = pidfd_send_signal(launcher, Signal::TERM);
                if !ends_within(GRACE) {
                    let _ = pidfd_send_signal(launcher, Signal::KILL);
                }
                return;
            }
        }
    }
}
