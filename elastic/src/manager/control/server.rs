//! The job's side of the control socket: one thread, which polls all clients.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::peer;
use super::wire::{Answer, Call, LONGEST_LINE, line};
use crate::manager::{Accepted, Requests};
use crate::model::change::RequestId;

/// Number of clients served at once. A new client takes the place of the one that was quiet for
/// longest.
const MOST_CLIENTS: usize = 128;
/// Bytes that a client may leave unread before it is disconnected.
const MOST_UNREAD: usize = 4 << 20;
/// Pause of accepting when descriptors are exhausted and no client could free one.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes per read.
const CHUNK: usize = 16 * 1024;

/// Serves clients, events and the end of the job.
#[derive(Debug)]
pub(super) struct Server {
    listener: UnixListener,
    /// Readable at the end of the job.
    is_over: UnixStream,
    /// Readable when an event has been written.
    woken: UnixStream,
    requests: Requests,
    /// The client that was quiet for longest is first.
    clients: VecDeque<Client>,
    /// Set if the last accept failed and no client could be dropped: the listener is not polled
    /// until then.
    paused_until: Option<Instant>,
    pause: Duration,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// Incomplete line.
    heard: Vec<u8>,
    unsent: Vec<u8>,
    /// The next event to send, for a client that follows events.
    follows: Option<u64>,
    /// Requests that the client awaits, each with the first event that can end it.
    awaits: Vec<(RequestId, u64)>,
    is_leaving: bool,
}

impl Server {
    pub(super) fn new(
        listener: UnixListener,
        is_over: UnixStream,
        woken: UnixStream,
        requests: Requests,
    ) -> std::io::Result<Self> {
        listener.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let clients = VecDeque::new();
        Ok(Self { listener, is_over, woken, requests, clients, paused_until: None, pause: PAUSE })
    }

    pub(super) fn run(&mut self) {
        loop {
            let Some((is_over, comes, ready)) = self.wait() else { return };
            let mut byte = [0; 256];
            while matches!(self.woken.read(&mut byte), Ok(read) if read > 0) {}
            let (mut quiet, mut heard) = (VecDeque::new(), VecDeque::new());
            for (mut client, is_ready) in std::mem::take(&mut self.clients).into_iter().zip(ready) {
                let has_spoken = is_ready && client.listen(&self.requests);
                client.catch_up(&self.requests);
                if client.send() {
                    if has_spoken { heard.push_back(client) } else { quiet.push_back(client) }
                }
            }
            quiet.append(&mut heard);
            self.clients = quiet;
            if is_over {
                // Clients that wait for an end that has occurred have just been sent it, if they
                // read.
                return;
            }
            if comes {
                self.welcome();
            }
        }
    }

    /// Waits until something happens. Returns three values: the job ends; a connection may be
    /// accepted; for each client, whether it is ready.
    fn wait(&self) -> Option<(bool, bool, Vec<bool>)> {
        // The listener is readable throughout a pause, and would make this loop spin.
        let awaited = if self.paused_until.is_some() { PollFlags::empty() } else { PollFlags::IN };
        let mut all = vec![
            PollFd::new(&self.is_over, PollFlags::IN),
            PollFd::new(&self.listener, awaited),
            PollFd::new(&self.woken, PollFlags::IN),
        ];
        for client in &self.clients {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, !client.is_leaving);
            flags.set(PollFlags::OUT, !client.unsent.is_empty());
            all.push(PollFd::new(&client.stream, flags));
        }
        loop {
            let left = self.paused_until.map(|end| end.saturating_duration_since(Instant::now()));
            match poll(&mut all, left.and_then(|left| Timespec::try_from(left).ok()).as_ref()) {
                Ok(_) => break,
                Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
        }
        let happened: Vec<bool> = all.iter().map(|one| !one.revents().is_empty()).collect();
        let is_resumed = self.paused_until.is_some_and(|end| end <= Instant::now());
        Some((happened[0], happened[1] || is_resumed, happened[3..].to_vec()))
    }

    fn welcome(&mut self) {
        self.paused_until = None;
        let mut has_accepted = false;
        // A bounded number, so that clients are served in between.
        for _ in 0..MOST_CLIENTS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Without descriptors the kernel does not report an empty queue: the next poll
                // does.
                Err(_) if has_accepted => return,
                Err(_) if self.clients.pop_front().is_some() => continue,
                Err(_) => {
                    self.paused_until = Some(Instant::now() + self.pause);
                    return;
                }
            };
            has_accepted = true;
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            let own = rustix::process::geteuid().as_raw();
            let user = peer::user(&stream);
            if !matches!(user, Ok(user) if user == own || user == 0) {
                let reason = "this job belongs to another user".to_owned();
                let _ = (&stream).write_all(&line(&Answer::Wrong { reason }));
                continue;
            }
            if self.clients.len() == MOST_CLIENTS {
                let idle = self.clients.iter().position(Client::is_idle).unwrap_or(0);
                self.clients.remove(idle);
            }
            self.clients.push_back(Client::new(stream));
        }
    }
}

impl Client {
    fn new(stream: UnixStream) -> Self {
        Self {
            stream,
            heard: Vec::new(),
            unsent: Vec::new(),
            follows: None,
            awaits: Vec::new(),
            is_leaving: false,
        }
    }

    /// Returns true if the client waits for nothing.
    fn is_idle(&self) -> bool {
        self.follows.is_none() && self.awaits.is_empty()
    }

    fn answer(&mut self, answer: &Answer) {
        self.unsent.extend(line(answer));
    }

    /// Reads available bytes and answers complete lines. Returns true if a line was complete.
    fn listen(&mut self, requests: &Requests) -> bool {
        let mut chunk = [0; CHUNK];
        let mut has_spoken = false;
        // One chunk, so that other clients get their turn.
        match self.stream.read(&mut chunk) {
            Ok(0) => self.is_leaving = true,
            Ok(read) => self.heard.extend_from_slice(&chunk[..read]),
            Err(error)
                if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => {
                self.is_leaving = true;
                (self.follows, self.awaits) = (None, Vec::new());
            }
        }
        while let Some(end) = self.heard.iter().position(|&byte| byte == b'\n') {
            let rest = self.heard.split_off(end + 1);
            let text = std::mem::replace(&mut self.heard, rest);
            if text.len() > LONGEST_LINE {
                break;
            }
            has_spoken = true;
            if !text.trim_ascii().is_empty() {
                self.obey(&text, requests);
            }
        }
        if self.heard.len() > LONGEST_LINE {
            self.heard.clear();
            self.is_leaving = true;
            self.answer(&Answer::Wrong {
                reason: format!("a line has at most {LONGEST_LINE} bytes"),
            });
        }
        has_spoken
    }

    fn obey(&mut self, text: &[u8], requests: &Requests) {
        let call = match Call::from_line(text) {
            Ok(call) => call,
            Err(reason) => return self.answer(&Answer::Wrong { reason }),
        };
        match call.request() {
            Err(reason) => return self.answer(&Answer::Wrong { reason }),
            Ok(Some((request, wait))) => {
                let next = requests.status().next_event;
                return match requests.ask(request) {
                    Ok(Accepted { request, after }) => {
                        self.answer(&Answer::Accepted { request, after });
                        if wait {
                            self.awaits.push((request, next));
                        }
                    }
                    Err((request, cause)) => self.answer(&Answer::Refused { request, cause }),
                };
            }
            Ok(None) => {}
        }
        match call {
            Call::Cancel { request } => match requests.cancel(request) {
                Ok(()) => self.answer(&Answer::Cancelled { request }),
                Err(reason) => self.answer(&Answer::Wrong { reason }),
            },
            Call::Events { since, follow: true } => self.follows = Some(since),
            Call::Events { since, follow: false } => {
                for event in requests.events(since) {
                    self.answer(&Answer::Event(Box::new(event)));
                }
                self.answer(&Answer::End {});
            }
            _ => self.answer(&Answer::Status(Box::new(requests.status()))),
        }
    }

    /// Sends new events to a client that follows them or waits for the end of a request.
    fn catch_up(&mut self, requests: &Requests) {
        if let Some(next) = self.follows {
            for event in requests.events(next) {
                self.follows = Some(event.sequence + 1);
                self.answer(&Answer::Event(Box::new(event)));
            }
        }
        let Some(&(_, first)) = self.awaits.first() else { return };
        for event in requests.events(first) {
            let ended = |(id, _): &(RequestId, u64)| event.request == Some(*id);
            if event.is_end() && self.awaits.iter().any(ended) {
                self.awaits.retain(|waiting| !ended(waiting));
                self.answer(&Answer::Event(Box::new(event)));
            }
        }
    }

    /// Flushes without blocking. Returns false if the client must be dropped.
    fn send(&mut self) -> bool {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(0) => return false,
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
        // A client that closed its sending side may still read the end of its request; one that is
        // gone fails the next write.
        let is_done = self.is_leaving && self.is_idle() && self.unsent.is_empty();
        !is_done && self.unsent.len() <= MOST_UNREAD
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;
    use std::os::linux::net::SocketAddrExt;
    use std::os::unix::net::SocketAddr;

    use rustix::process::{Resource, getrlimit, setrlimit};

    use super::*;

    /// Variable of a process in which a test may lower the limit of descriptors.
    const FEW: &str = "ELASTIC_TEST_FEW_DESCRIPTORS";

    #[test]
    fn exhausted_descriptors_pause_listener_without_clients() {
        if std::env::var_os(FEW).is_some() {
            return pause_with_few_descriptors();
        }
        let name =
            "manager::control::server::tests::exhausted_descriptors_pause_listener_without_clients";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FEW, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    }

    fn pause_with_few_descriptors() {
        let name = format!("quo-control-few-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(name).unwrap();
        let listener = UnixListener::bind_addr(&address).unwrap();
        let (_over, is_over) = UnixStream::pair().unwrap();
        let (mut wakes, woken) = UnixStream::pair().unwrap();
        let mut server = Server::new(listener, is_over, woken, Requests::alone(1)).unwrap();
        server.pause = Duration::from_secs(600);
        let _client = UnixStream::connect_addr(&address).unwrap();
        let file = std::fs::File::open("/dev/null").unwrap();
        let free = file.as_raw_fd();
        drop(file);
        let before = getrlimit(Resource::Nofile);
        let mut limit = before;
        limit.current = Some(u64::try_from(free).unwrap());
        setrlimit(Resource::Nofile, limit).unwrap();
        assert!(server.wait().unwrap().1);
        server.welcome();
        wakes.write_all(&[1]).unwrap();
        let (_, comes, _) = server.wait().unwrap();
        assert!(!comes, "the listener that cannot accept is polled");
        // With descriptors available, the end of the pause accepts the client.
        setrlimit(Resource::Nofile, before).unwrap();
        assert_eq!(server.woken.read(&mut [0; 8]).unwrap(), 1);
        server.paused_until = Some(Instant::now() + Duration::from_millis(1));
        assert!(server.wait().unwrap().1);
        server.welcome();
        assert_eq!(server.clients.len(), 1);
        // The next one takes its place, and keeps it.
        let _other = UnixStream::connect_addr(&address).unwrap();
        limit.current = Some(u64::try_from(server.clients[0].stream.as_raw_fd()).unwrap() + 1);
        setrlimit(Resource::Nofile, limit).unwrap();
        server.welcome();
        assert_eq!(server.clients.len(), 1);
    }
}
