//! The side of the job: one thread, which waits for all clients at once and for none in particular.

use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::peer;
use super::wire::{Answer, Call, LONGEST_LINE, line};
use crate::manager::{Accepted, Requests};
use crate::model::change::RequestId;

/// Number of clients heard at once. Whoever comes then takes the place of who has been quiet for longest.
const MOST_CLIENTS: usize = 128;
/// Bytes that a client may leave unread before it is let go.
const MOST_UNREAD: usize = 4 << 20;
/// Pause of accepting when there are no descriptors, and no client whose descriptor could be used.
const PAUSE: Duration = Duration::from_millis(50);
/// Bytes read at once.
const CHUNK: usize = 16 * 1024;

/// Waits for clients, events and the end.
#[derive(Debug)]
pub(super) struct Server {
    listener: UnixListener,
    /// A byte comes at the end of the job.
    is_over: UnixStream,
    /// Bytes come when something has happened.
    woken: UnixStream,
    requests: Requests,
    /// The one that was quiet for longest comes first.
    clients: VecDeque<Client>,
    /// The last accept failed and no client could make room: the listener is left alone until then.
    paused_until: Option<Instant>,
    pause: Duration,
}

#[derive(Debug)]
struct Client {
    stream: UnixStream,
    /// The beginning of a line.
    heard: Vec<u8>,
    unsent: Vec<u8>,
    /// The next event to be told, to one who follows.
    follows: Option<u64>,
    /// Requests whose end is to be told, and the first event that can be that.
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
                // Whoever waits for an end that has come gets it, if it reads.
                return;
            }
            if comes {
                self.welcome();
            }
        }
    }

    /// Waits until something happens. Returns three values: the end has come; a connection may be accepted; the clients
    /// that have something, in their order.
    fn wait(&self) -> Option<(bool, bool, Vec<bool>)> {
        // During a pause the listener, which is always ready then, would make this loop spin.
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
        // So many at a time, that others are heard in between.
        for _ in 0..MOST_CLIENTS {
            let stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                // Without descriptors the kernel does not say that nobody waits: the next poll does.
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

    /// Returns true if it waits for nothing.
    fn is_idle(&self) -> bool {
        self.follows.is_none() && self.awaits.is_empty()
    }

    fn answer(&mut self, answer: &Answer) {
        self.unsent.extend(line(answer));
    }

    /// Reads the bytes there are, and answers whole lines. Whether there was a whole line.
    fn listen(&mut self, requests: &Requests) -> bool {
        let mut chunk = [0; CHUNK];
        let mut has_spoken = false;
        // One chunk at a time: others wait, too.
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

    /// Sends the events since then, if the client follows.
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

    /// Sends as many bytes as the socket takes. Whether it stays.
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
        // Who closed its side may still read how its request ends; who has gone fails the next write.
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
        // Once there are descriptors, the end of the pause brings the client in.
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
