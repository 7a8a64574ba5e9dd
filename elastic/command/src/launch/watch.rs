//! Watches the hosts of a running job: a launcher may wait without end for a lost host.

use std::io::ErrorKind;
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
/// Silence after which a host is lost, and the looks in which it was found.
const SILENCE: Duration = Duration::from_secs(60);
const LOOKS: u32 = 3;
/// Time that the launcher has to end after SIGTERM.
const GRACE: Duration = Duration::from_secs(10);

/// What is known of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sight {
    /// It accepts or refuses a connection.
    There,
    /// Nothing comes back.
    Silent,
    /// This machine cannot ask: the name is not resolved, say, or no network is up.
    Unknown,
}

fn look(host: &str) -> Sight {
    let Ok(addresses) = (host, REMOTE_SHELL).to_socket_addrs() else { return Sight::Unknown };
    let mut found = Sight::Unknown;
    for address in addresses {
        match TcpStream::connect_timeout(&address, ANSWER).map_err(|error| error.kind()) {
            Ok(_) | Err(ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset) => {
                return Sight::There;
            }
            Err(ErrorKind::TimedOut | ErrorKind::HostUnreachable) => found = Sight::Silent,
            Err(_) => {}
        }
    }
    found
}

/// Looks at all hosts at once.
fn look_at(hosts: &[String]) -> Vec<Sight> {
    std::thread::scope(|scope| {
        let looks: Vec<_> = hosts.iter().map(|host| scope.spawn(|| look(host))).collect();
        looks.into_iter().map(|one| one.join().unwrap_or(Sight::Unknown)).collect()
    })
}

fn of(sight: Sight, hosts: &[String]) -> Vec<String> {
    let found = hosts.iter().zip(look_at(hosts)).filter(|(_, found)| *found == sight);
    found.map(|(host, _)| host.clone()).collect()
}

/// Returns the hosts that answer.
pub(super) fn there(hosts: &[String]) -> Vec<String> {
    of(Sight::There, hosts)
}

/// Returns the hosts that are silent at two looks.
pub(super) fn silent(hosts: &[String]) -> Vec<String> {
    of(Sight::Silent, &of(Sight::Silent, hosts))
}

/// A thread that ends the launcher when a host has been silent for long.
#[derive(Debug)]
pub(super) struct Watch {
    stop: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Watch {
    /// Watches hosts that have answered before.
    ///
    /// # Errors
    /// The kernel has no descriptors of processes, or the thread cannot be started.
    pub(super) fn over(hosts: Vec<String>, launcher: &Child) -> Result<Self> {
        let launcher = pidfd_open(Pid::from_child(launcher), PidfdFlags::empty())
            .context("opening a descriptor of the launcher")?;
        let (stop, stopped) = mpsc::channel();
        let thread = std::thread::Builder::new().name("hosts".to_owned());
        let thread = thread.spawn(move || {
            let ends_within =
                |time: Duration| stopped.recv_timeout(time) != Err(RecvTimeoutError::Timeout);
            watch(&hosts, &launcher, &ends_within)
        });
        Ok(Self { stop, thread: thread.context("starting a thread")? })
    }

    /// Stops watching. Returns true if the launcher was ended.
    pub(super) fn end(self) -> bool {
        drop(self.stop);
        self.thread.join().unwrap_or(false)
    }
}

fn watch(hosts: &[String], launcher: &OwnedFd, ends_within: &dyn Fn(Duration) -> bool) -> bool {
    let mut last = vec![(Instant::now(), 0); hosts.len()];
    while !ends_within(PERIOD) {
        for ((host, sight), (since, looks)) in hosts.iter().zip(look_at(hosts)).zip(&mut last) {
            if sight != Sight::Silent {
                (*since, *looks) = (Instant::now(), 0);
                continue;
            }
            *looks += 1;
            if *looks >= LOOKS && since.elapsed() > SILENCE {
                let silence = since.elapsed().as_secs();
                complain(&format!(
                    "launch: host {host} has not answered for {silence} s, and the job has not ended: it is ended"
                ));
                // An error says that the launcher has ended meanwhile.
                let _ = pidfd_send_signal(launcher, Signal::TERM);
                if !ends_within(GRACE) {
                    let _ = pidfd_send_signal(launcher, Signal::KILL);
                }
                return true;
            }
        }
    }
    false
}
