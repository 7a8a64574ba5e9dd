#![allow(unsafe_code)]
//! Ends the job when one of its processes has ended without `World::end`, if the program has
//! requested that.

use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::node::env_marker::EnvMarker;
use crate::node::mailbox::NodeMailbox;
use crate::node::process_identity::ProcessIdentity;

/// Time between two checks of the other processes.
const SLICE: Duration = Duration::from_millis(350);

/// Number of searches for processes that are being started, and the time between them.
const LOOKS: u32 = 3;
const BETWEEN: Duration = Duration::from_millis(100);

/// The status with which processes end.
const STATUS: i32 = 3;

/// A thread that ends this process when another awake process of its nodes has ended. Dropping the
/// guard stops it, after a last check: the world may be dropped because of such an end.
#[derive(Debug)]
pub(crate) struct Guard {
    shared: Arc<Shared>,
    root: String,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    watched: Mutex<Watched>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct Watched {
    mailboxes: Vec<Arc<NodeMailbox>>,
    is_over: bool,
}

impl Watched {
    fn find_loss(&self) -> Option<(usize, bool)> {
        self.mailboxes.iter().find_map(|mailbox| mailbox.find_loss())
    }
}

impl Shared {
    fn watched(&self) -> MutexGuard<'_, Watched> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rank that has ended, and whether this process is the first to report it; `None`
    /// when the guard is dropped.
    fn wait(&self) -> Option<(usize, bool)> {
        let mut watched = self.watched();
        loop {
            if watched.is_over {
                return None;
            }
            if let Some(found) = watched.find_loss() {
                return Some(found);
            }
            let woken = self.changed.wait_timeout(watched, SLICE);
            watched = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Guard {
    /// Watches the processes of nodes. Ends not only this process, but also the processes of this
    /// host that were spawned for `root`, the [name](Life::name) of rank 0's process.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn over(
        mailboxes: impl IntoIterator<Item = Arc<NodeMailbox>>,
        root: &str,
    ) -> Result<Self, std::io::Error> {
        let shared = Arc::new(Shared::default());
        let (seen, own) = (Arc::clone(&shared), root.to_owned());
        let thread = std::thread::Builder::new().name("elastic-guard".to_owned());
        let thread = thread.spawn(move || {
            if let Some((rank, is_first)) = seen.wait() {
                end(rank, is_first, &own);
            }
        })?;
        let this = Self { shared, root: root.to_owned(), thread: Some(thread) };
        this.watch(mailboxes);
        Ok(this)
    }

    /// Watches the processes of these nodes from now on.
    pub(crate) fn watch(&self, mailboxes: impl IntoIterator<Item = Arc<NodeMailbox>>) {
        let before = std::mem::replace(
            &mut self.shared.watched().mailboxes,
            mailboxes.into_iter().collect(),
        );
        // Dropped after the lock is released, since more is dropped with the last reference.
        drop(before);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.watched().is_over = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let loss = self.shared.watched().find_loss();
        if let Some((rank, is_first)) = loss {
            end(rank, is_first, &self.root);
        }
    }
}

fn end(rank: usize, is_first: bool, root: &str) -> ! {
    if is_first {
        say(rank);
    }
    for _ in 0..LOOKS {
        // In MPI_Init they wait for rank 0, and have no guard yet.
        for life in EnvMarker::of_all_by(root)
            .iter()
            .filter(|life| ProcessIdentity::own().as_ref() != Some(life))
        {
            life.kill();
        }
        // Sleeps: the launcher may be starting a process, and the first process needs time to
        // report the cause.
        std::thread::sleep(BETWEEN);
    }
    // SAFETY: takes any number, and does not return. No MPI function is called: MPI may be in use,
    // or wait for dead processes.
    unsafe { libc::_exit(STATUS) }
}

/// Reports why the job ends.
pub(crate) fn say(rank: usize) {
    let system = rustix::system::uname();
    let line = format!(
        "elastic: rank {rank} has ended without a word; the job is ended, as its option abort_on_death wants it \
         (process {} on {})\n",
        std::process::id(),
        system.nodename().to_string_lossy()
    );
    // The program has requested it by its options.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
