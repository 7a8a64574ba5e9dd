//! Accepts the connections of invited processes, even while any number of other processes connect.
//!
//! One `poll` waits for the listener, for all connections that have not sent a hello yet, and for
//! the end. A connection that sends no hello in time is closed, as is one whose hello is too long
//! or wrong; if there are too many, the oldest is closed. So no other process can keep an invited
//! one out, and no descriptor outlives its connection.

use std::collections::VecDeque;
use std::io::{Error, ErrorKind, Read, Result};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::link::agents::Link;
use crate::link::endpoint::{Endpoint, Hello};

/// Time from the accept of a connection to the end of its hello.
const GREETING_LIMIT: Duration = Duration::from_secs(5);
/// The most bytes of a hello. A valid one has about 100.
const LONGEST_GREETING: usize = 1024;
/// Largest number of connections that have not sent a hello yet.
const MOST_PENDING: usize = 64;
/// Number of connections accepted before the earlier ones are checked again.
const ACCEPTED_AT_ONCE: usize = 16;
/// Pause before accepting again when descriptors are exhausted and no pending connection can be
/// closed.
const PAUSE: Duration = Duration::from_millis(50);

/// A listener and the connections that have not sent a hello yet.
#[derive(Debug)]
pub(crate) struct Acceptor {
    listener: TcpListener,
    endpoint: Endpoint,
    /// Oldest first.
    pending: VecDeque<Pending>,
    greeting_limit: Duration,
    /// The failure of the last accept, until one succeeds.
    failure: Option<Error>,
}

#[derive(Debug)]
struct Pending {
    stream: TcpStream,
    accepted: Instant,
    hello: Vec<u8>,
}

/// State of a hello after a read.
enum Heard {
    Part,
    Whole(Hello),
    Nonsense,
}

impl Acceptor {
    /// Takes over the listener of the endpoint.
    ///
    /// # Errors
    /// The listener cannot be made nonblocking.
    pub(crate) fn new(listener: TcpListener, endpoint: Endpoint) -> Result<Self> {
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener,
            endpoint,
            pending: VecDeque::new(),
            greeting_limit: GREETING_LIMIT,
            failure: None,
        })
    }

    /// Accepts one link from each of `count` processes, ordered by process number, which begins
    /// with 1.
    ///
    /// # Errors
    /// Not all processes have connected and sent a hello within the limit, or the system cannot
    /// wait for connections.
    pub(crate) fn links(mut self, count: usize, limit: Duration) -> Result<Vec<Link>> {
        let deadline = Instant::now() + limit;
        let mut links: Vec<Option<Link>> = (0..count).map(|_| None).collect();
        while links.iter().any(Option::is_none) {
            let Some((link, from)) = self.next(Some(deadline), None)? else {
                let missing = links.iter().filter(|link| link.is_none()).count();
                let cause = self.failure.map_or(String::new(), |error| format!(": {error}"));
                let text = format!("{missing} of {count} have not connected in {limit:?}{cause}");
                return Err(Error::new(ErrorKind::TimedOut, text));
            };
            let number = usize::try_from(from).unwrap_or(usize::MAX);
            if let Some(place) = links.get_mut(number.wrapping_sub(1)) {
                *place = Some(link);
            }
        }
        Ok(links.into_iter().flatten().collect())
    }

    /// Waits for the next invited process and returns its link and number. Returns `None` at the
    /// deadline, and as soon as `end` is readable.
    ///
    /// # Errors
    /// The system cannot wait for connections.
    pub(crate) fn next(
        &mut self,
        deadline: Option<Instant>,
        end: Option<&UnixStream>,
    ) -> Result<Option<(Link, u64)>> {
        loop {
            if deadline.is_some_and(|deadline| deadline <= Instant::now()) {
                return Ok(None);
            }
            let (is_over, comes) = self.wait(deadline, end)?;
            if is_over {
                return Ok(None);
            }
            if let Some(greeted) = self.read_greetings() {
                return Ok(Some(greeted));
            }
            if comes {
                self.accept();
            }
        }
    }

    /// Waits until something happens or is due. Returns two flags: `end` is readable; a connection
    /// may be accepted.
    fn wait(&self, deadline: Option<Instant>, end: Option<&UnixStream>) -> Result<(bool, bool)> {
        let is_paused = self.failure.is_some() && self.pending.is_empty();
        let now = Instant::now();
        let due = self.pending.front().map(|oldest| oldest.accepted + self.greeting_limit);
        let resumed = is_paused.then(|| now + PAUSE);
        let timeout = [deadline, due, resumed].into_iter().flatten().min().map(|first| {
            let left = first.saturating_duration_since(now);
            Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: i64::from(left.subsec_nanos()),
            }
        });
        let mut all: Vec<PollFd<'_>> = Vec::with_capacity(2 + self.pending.len());
        all.extend(self.pending.iter().map(|one| PollFd::new(&one.stream, PollFlags::IN)));
        all.extend(end.map(|end| PollFd::new(end, PollFlags::IN)));
        if !is_paused {
            all.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        match poll(&mut all, timeout.as_ref()) {
            Ok(_) => {}
            // What is ready is found again by the next poll.
            Err(rustix::io::Errno::INTR) => return Ok((false, false)),
            Err(error) => return Err(error.into()),
        }
        let is_over = end.is_some() && !all[self.pending.len()].revents().is_empty();
        let comes = is_paused || all.last().is_some_and(|listener| !listener.revents().is_empty());
        Ok((is_over, comes))
    }

    /// Reads the bytes that have arrived, closes connections with a wrong or late hello, and
    /// returns the first with a valid one.
    fn read_greetings(&mut self) -> Option<(Link, u64)> {
        let now = Instant::now();
        let mut index = 0;
        while let Some(pending) = self.pending.get_mut(index) {
            let heard = pending.read();
            let is_late = now.saturating_duration_since(pending.accepted) >= self.greeting_limit;
            if matches!(heard, Heard::Part) && !is_late {
                index += 1;
                continue;
            }
            let Some(Pending { stream, .. }) = self.pending.remove(index) else { continue };
            if let Heard::Whole(hello) = heard
                && self.endpoint.matches(&hello)
                && stream.set_nonblocking(false).is_ok()
                && let Ok(link) = Link::new(stream)
            {
                return Some((link, hello.from));
            }
        }
        None
    }

    /// Accepts some of the waiting connections, closing the oldest pending ones if necessary.
    fn accept(&mut self) {
        for accepted_now in 0..ACCEPTED_AT_ONCE {
            match self.listener.accept() {
                Ok((stream, _)) => {
                    self.failure = None;
                    if stream.set_nonblocking(true).is_err() {
                        continue;
                    }
                    if self.pending.len() == MOST_PENDING {
                        self.pending.pop_front();
                    }
                    let accepted = Instant::now();
                    self.pending.push_back(Pending { stream, accepted, hello: Vec::new() });
                }
                Err(error) => match error.kind() {
                    ErrorKind::WouldBlock => {
                        self.failure = None;
                        return;
                    }
                    ErrorKind::Interrupted | ErrorKind::ConnectionAborted => {}
                    // Without descriptors the kernel does not report an empty queue: the next poll
                    // does.
                    _ if accepted_now > 0 => return,
                    _ => {
                        // Descriptors or memory are exhausted: closing the oldest connection frees
                        // some.
                        self.failure = Some(error);
                        self.pending.pop_front();
                        return;
                    }
                },
            }
        }
    }
}

impl Pending {
    /// Reads the part of the hello that has arrived, and no byte beyond it.
    fn read(&mut self) -> Heard {
        let mut bytes = [0; LONGEST_GREETING];
        let room = LONGEST_GREETING - self.hello.len();
        let seen = match self.stream.peek(&mut bytes[..room]) {
            Ok(0) => return Heard::Nonsense,
            Ok(seen) => seen,
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::Interrupted => return Heard::Part,
                _ => return Heard::Nonsense,
            },
        };
        let end = bytes[..seen].iter().position(|&byte| byte == b'\n');
        let taken = end.map_or(seen, |end| end + 1);
        if self.stream.read_exact(&mut bytes[..taken]).is_err() {
            return Heard::Nonsense;
        }
        self.hello.extend_from_slice(&bytes[..taken]);
        match end {
            Some(_) => serde_json::from_slice(&self.hello).map_or(Heard::Nonsense, Heard::Whole),
            None if self.hello.len() == LONGEST_GREETING => Heard::Nonsense,
            None => Heard::Part,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Write;
    use std::net::{Ipv4Addr, SocketAddr};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Limit of each wait that should not be reached.
    const BOUND: Duration = Duration::from_secs(60);

    fn open() -> (Acceptor, Endpoint, SocketAddr) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = Endpoint::new(vec![address.ip()], address.port()).unwrap();
        let mut acceptor = Acceptor::new(listener, endpoint.clone()).unwrap();
        acceptor.greeting_limit = 10 * BOUND;
        (acceptor, endpoint, address)
    }

    /// Asserts that the other side has closed the connection, with all its descriptors.
    pub(crate) fn assert_closed(stream: &mut TcpStream) {
        stream.set_read_timeout(Some(BOUND)).unwrap();
        match stream.read(&mut [0]) {
            Ok(0) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
            other => panic!("the connection is still open: {other:?}"),
        }
    }

    fn next(acceptor: &mut Acceptor) -> Option<(Link, u64)> {
        acceptor.next(Some(Instant::now() + BOUND), None).unwrap()
    }

    #[test]
    fn silent_strangers_make_room_oldest_first() {
        let (mut acceptor, endpoint, address) = open();
        let connect = |_| TcpStream::connect(address).unwrap();
        let mut silent: Vec<TcpStream> = (0..MOST_PENDING + 8).map(connect).collect();
        let mut member = endpoint.connect(7).unwrap();
        let (mut link, from) = next(&mut acceptor).unwrap();
        assert_eq!(from, 7);
        link.send(&"here").unwrap();
        assert_eq!(member.receive::<String>().unwrap().unwrap(), "here");
        silent[..9].iter_mut().for_each(assert_closed);
        assert_eq!(acceptor.pending.len(), MOST_PENDING - 1);
    }

    #[test]
    fn late_greetings_are_closed() {
        let (mut acceptor, _, address) = open();
        acceptor.greeting_limit = Duration::from_millis(1);
        let mut silent = TcpStream::connect(address).unwrap();
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(next_until_closed(&mut acceptor)));
            assert_closed(&mut silent);
        });
    }

    /// Accepts until a connection has arrived and been closed.
    fn next_until_closed(acceptor: &mut Acceptor) -> bool {
        let end = Instant::now() + BOUND;
        let mut has_come = false;
        while Instant::now() < end {
            let (_, comes) = acceptor.wait(Some(end), None).unwrap();
            assert!(acceptor.read_greetings().is_none());
            if has_come && acceptor.pending.is_empty() {
                return true;
            }
            if comes {
                acceptor.accept();
            }
            has_come |= !acceptor.pending.is_empty();
        }
        false
    }

    #[test]
    fn overlong_or_wrong_greetings_are_closed_at_once() {
        let (mut acceptor, _, address) = open();
        let (_, other, _) = open();
        let wrong = serde_json::to_vec(&other.hello(1)).unwrap();
        for bytes in
            [vec![b'['; LONGEST_GREETING], b"hello\n".to_vec(), [wrong, vec![b'\n']].concat()]
        {
            let mut stranger = TcpStream::connect(address).unwrap();
            stranger.write_all(&bytes).unwrap();
            assert!(next_until_closed(&mut acceptor));
            assert_closed(&mut stranger);
        }
    }

    #[test]
    fn bytes_after_greeting_stay_in_link() {
        let (mut acceptor, endpoint, address) = open();
        let mut bytes = serde_json::to_vec(&endpoint.hello(2)).unwrap();
        bytes.extend_from_slice(b"\n\"first\"\n");
        let mut member = TcpStream::connect(address).unwrap();
        member.write_all(&bytes).unwrap();
        let (mut link, from) = next(&mut acceptor).unwrap();
        assert_eq!((from, link.receive::<String>().unwrap().unwrap().as_str()), (2, "first"));
    }

    #[test]
    fn slow_strangers_do_not_stretch_limit_of_links() {
        let (acceptor, _, address) = open();
        let (is_over, gave_up) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut slow = TcpStream::connect(address).unwrap();
                // Fewer bytes than a hello may have.
                for _ in 0..LONGEST_GREETING - 1 {
                    if is_over.load(Ordering::Acquire) {
                        return;
                    }
                    let _ = slow.write_all(b"[");
                    // Sleeps: the test sends one byte at a time.
                    std::thread::sleep(Duration::from_millis(30));
                }
                gave_up.store(true, Ordering::Release);
            });
            let error = acceptor.links(1, Duration::from_millis(300)).unwrap_err();
            assert!(!gave_up.load(Ordering::Acquire), "the limit was stretched");
            is_over.store(true, Ordering::Release);
            assert_eq!(error.to_string(), "1 of 1 have not connected in 300ms");
        });
    }

    /// Variable of a process in which a test may lower the limit of descriptors.
    const FEW: &str = "ELASTIC_TEST_FEW_DESCRIPTORS";

    #[test]
    fn exhausted_descriptors_do_not_keep_members_out() {
        if std::env::var_os(FEW).is_some() {
            return accept_with_few_descriptors();
        }
        let name = "link::acceptor::tests::exhausted_descriptors_do_not_keep_members_out";
        let output = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name, "--nocapture"])
            .env(FEW, "1")
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{output:?}");
    }

    fn accept_with_few_descriptors() {
        use std::os::fd::AsRawFd;

        use rustix::process::{Resource, getrlimit, setrlimit};

        let (mut acceptor, endpoint, address) = open();
        let strangers: Vec<TcpStream> =
            (0..40).map(|_| TcpStream::connect(address).unwrap()).collect();
        let mut member = endpoint.connect(1).unwrap();
        // The lowest free descriptor is used first, and is the only one left.
        let file = std::fs::File::open("/dev/null").unwrap();
        let free = file.as_raw_fd();
        drop(file);
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(u64::try_from(free).unwrap() + 1);
        setrlimit(Resource::Nofile, limit).unwrap();
        let (mut link, _) = next(&mut acceptor).unwrap();
        link.send(&"here").unwrap();
        assert_eq!(member.receive::<String>().unwrap().unwrap(), "here");
        drop(strangers);
    }

    #[test]
    fn end_wakes_acceptor_without_connection() {
        let (mut acceptor, _, _) = open();
        let (own, other) = UnixStream::pair().unwrap();
        drop(other);
        assert!(acceptor.next(Some(Instant::now() + 10 * BOUND), Some(&own)).unwrap().is_none());
    }
}
