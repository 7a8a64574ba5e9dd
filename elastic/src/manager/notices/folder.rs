//! The resource manager that takes its requests from a folder of files.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};

use super::files::{Claimed, Files, Outcome};
use crate::manager::control::wire::{Answer, Call};
use crate::manager::{Accepted, Requests, ResourceManager};
use crate::model::change::{Cause, CauseKind, Event, Happening, Request, RequestId, Step};

/// Time between two checks. The kernel reports files put there on this host, but not on other
/// hosts.
const LOOK: Duration = Duration::from_secs(1);
/// Largest number of notices that are claimed and not acknowledged.
const MOST_OPEN: usize = 128;

/// Takes requests from a folder of files: for a resource manager that can write files, and for scripts.
///
/// A file `NAME.notice` contains a call of the [control socket](crate::manager::control::wire) that
/// requests a resize, such as `{"call":"leave","from":["n2"],"grace_ms":30000}`. Its writer gives
/// the file another name first, such as `.NAME`, and renames it when it is complete. The job
/// renames it to `NAME.claimed`, so that it is taken once. It ends as one of these files, with the
/// job's answer in it:
/// files, with the job's answer in it:
///
/// | file | answer |
/// |---|---|
/// | `NAME.done` | the event that ended the request: the resize is done, leavers have left |
/// | `NAME.failed` | the event that ended the request, which was aborted; or the job had ended |
/// | `NAME.refused` | why the job refuses it, or why it cannot be read |
///
/// The oldest file is taken first. A name can be used again once its acknowledgement exists.
///
/// ```no_run
/// use elastic::WorldOptions;
/// use elastic::manager::NoticeFolder;
/// let options = WorldOptions::new().manager(NoticeFolder::at("/scratch/job-17/notices"));
/// ```
#[derive(Debug)]
pub struct NoticeFolder {
    folder: PathBuf,
    running: Option<Running>,
}

/// Connection to the thread while the job runs.
#[derive(Debug)]
struct Running {
    ends: Sender<Event>,
    /// A byte wakes the thread; closing it ends the thread.
    wakes: UnixStream,
    thread: JoinHandle<()>,
}

impl NoticeFolder {
    /// Takes notices from this folder, which is made if it is missing. It must belong to this user,
    /// be closed to others, and serve one job only.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into(), running: None }
    }

    fn begin(&mut self, requests: Requests) -> std::io::Result<()> {
        let files = Files::open(&self.folder)?;
        // Before the first check, so that no file is missed in between.
        let changes = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        inotify::add_watch(&changes, &self.folder, WatchFlags::MOVED_TO | WatchFlags::CLOSE_WRITE)?;
        let (wakes, woken) = UnixStream::pair()?;
        wakes.set_nonblocking(true)?;
        woken.set_nonblocking(true)?;
        let (ends, ended) = channel();
        let open = BTreeMap::new();
        let mut taker = Taker { files, changes, woken, requests, ended, open, trouble: None };
        let thread = std::thread::Builder::new().name("elastic-notices".to_owned());
        let thread = thread.spawn(move || taker.run())?;
        self.running = Some(Running { ends, wakes, thread });
        Ok(())
    }
}

impl ResourceManager for NoticeFolder {
    fn name(&self) -> &'static str {
        "notices"
    }

    fn begins(&mut self, requests: Requests) -> Result<(), String> {
        self.begin(requests).map_err(|error| error.to_string())
    }

    fn on_event(&mut self, event: &Event) {
        let Some(running) = self.running.as_mut().filter(|_| event.is_end()) else { return };
        // A missing thread needs no message; a full socket has woken it already.
        let _ = running.ends.send(event.clone());
        let _ = running.wakes.write(&[1]);
    }

    fn ends(&mut self) {
        if let Some(Running { ends, wakes, thread }) = self.running.take() {
            drop((ends, wakes));
            let _ = thread.join();
        }
    }
}

impl Drop for NoticeFolder {
    fn drop(&mut self) {
        self.ends();
    }
}

/// The thread that takes notices.
#[derive(Debug)]
struct Taker {
    files: Files,
    /// Readable when something has changed in the folder.
    changes: OwnedFd,
    woken: UnixStream,
    requests: Requests,
    ended: Receiver<Event>,
    /// The names of notices with open requests.
    open: BTreeMap<RequestId, String>,
    /// Last error of the folder.
    trouble: Option<String>,
}

impl Taker {
    fn run(&mut self) {
        loop {
            let taken = self.take_notices();
            self.complain(taken);
            let is_over = self.wait();
            // All events were sent before the end of the job was signalled.
            let told = self.acknowledge();
            self.complain(told);
            if is_over {
                return;
            }
        }
    }

    /// Waits for a notice, the end of a request, or the end of the job. Returns true at the end of
    /// the job.
    fn wait(&mut self) -> bool {
        let mut all =
            [PollFd::new(&self.changes, PollFlags::IN), PollFd::new(&self.woken, PollFlags::IN)];
        // After an error the folder is checked again.
        let _ = poll(&mut all, Timespec::try_from(LOOK).ok().as_ref());
        let mut bytes = [0; 4096];
        while matches!(rustix::io::read(&self.changes, &mut bytes), Ok(read) if read > 0) {}
        loop {
            match self.woken.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(_) => return false,
            }
        }
    }

    /// Takes the present notices.
    fn take_notices(&mut self) -> std::io::Result<()> {
        while self.open.len() < MOST_OPEN {
            let open = &self.open;
            let is_in_use = |name: &str| open.values().any(|other| other == name);
            let Some(claimed) = self.files.claim(is_in_use)? else { break };
            let Claimed { name, text } = claimed;
            match text.and_then(|text| request(&text)) {
                Err(reason) => {
                    self.files.acknowledge(&name, Outcome::Refused, &Answer::Wrong { reason })?;
                }
                Ok(request) => match self.requests.ask(request) {
                    Ok(Accepted { request, .. }) => drop(self.open.insert(request, name)),
                    Err((request, cause)) => {
                        let answer = Answer::Refused { request, cause };
                        self.files.acknowledge(&name, Outcome::Refused, &answer)?;
                    }
                },
            }
        }
        Ok(())
    }

    /// Acknowledges the notices of requests that have ended.
    fn acknowledge(&mut self) -> std::io::Result<()> {
        let mut all = Ok(());
        for event in self.ended.try_iter() {
            let Some(name) = event.request.and_then(|id| self.open.remove(&id)) else { continue };
            let is_done = event.what == Happening::Step(Step::Finalized);
            let outcome = if is_done { Outcome::Done } else { Outcome::Failed };
            let said = self.files.acknowledge(&name, outcome, &Answer::Event(Box::new(event)));
            all = all.and(said);
        }
        all
    }

    /// Records an error of the folder in the log, once.
    fn complain(&mut self, outcome: std::io::Result<()>) {
        let Err(error) = outcome else { return };
        let text = format!("notices: {error}");
        if self.trouble.as_ref() != Some(&text) {
            self.requests.note(Cause::new(CauseKind::Manager, text.clone()));
            self.trouble = Some(text);
        }
    }
}

/// Reads the request in a notice.
fn request(text: &[u8]) -> Result<Request, String> {
    let call = Call::from_line(text)?;
    let (request, _) =
        call.request()?.ok_or("a notice asks for grow, shrink, size, leave or move")?;
    Ok(Request { origin: "notices".to_owned(), ..request })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::time::Instant;

    use super::super::files::tests::Scratch;
    use super::*;

    /// Waits until a file exists, and returns its content.
    fn await_file(scratch: &Scratch, name: &str) -> String {
        let bound = Instant::now() + Duration::from_secs(60);
        loop {
            match fs::read_to_string(scratch.0.join(name)) {
                Ok(text) => return text,
                Err(_) => assert!(Instant::now() < bound, "no {name}: {:?}", scratch.names()),
            }
            std::thread::yield_now();
        }
    }

    #[test]
    fn notice_that_makes_no_sense_is_refused_with_the_reason() {
        let scratch = Scratch::new("nonsense");
        let mut folder = NoticeFolder::at(&scratch.0);
        folder.begins(Requests::alone(2)).unwrap();
        for (number, (text, reason)) in [
            ("", "EOF while parsing"),
            ("{\"call\":\"status\"}", "a notice asks for grow, shrink, size, leave or move"),
            ("{\"call\":\"grow\",\"ranks\":0}", "0 ranks are none"),
            ("{\"call\":\"shrink\",\"ranks\":1} {}", "trailing characters"),
            ("{\"call\":\"grow\",\"ranks\":7}", "7 ranks more were asked for"),
        ]
        .into_iter()
        .enumerate()
        {
            scratch.put(&number.to_string(), text.as_bytes());
            let said = await_file(&scratch, &format!("{number}.refused"));
            assert!(said.contains(reason), "{text}: {said}");
        }
        folder.ends();
        assert_eq!(scratch.names().len(), 5, "{:?}", scratch.names());
    }

    #[test]
    fn notice_is_acknowledged_when_its_request_has_ended() {
        let scratch = Scratch::new("ended");
        let requests = Requests::alone(2);
        let mut folder = NoticeFolder::at(&scratch.0);
        folder.begins(requests.clone()).unwrap();
        scratch.put("more", b"{\"call\":\"grow\",\"ranks\":1,\"grace_ms\":500}\n");
        let bound = Instant::now() + Duration::from_secs(60);
        let asked = loop {
            let events = requests.events(0);
            if let Some(event) = events.into_iter().find(|event| event.asked.is_some()) {
                break event;
            }
            assert!(Instant::now() < bound, "nobody asks");
            std::thread::yield_now();
        };
        let (id, asked) = (asked.request.unwrap(), asked.asked.unwrap());
        assert_eq!(
            (asked.origin.as_str(), asked.grace),
            ("notices", Some(Duration::from_millis(500)))
        );
        requests.cancel(id).unwrap();
        for event in requests.events(0) {
            folder.on_event(&event);
        }
        // The end of the job waits for the outstanding acknowledgements.
        folder.ends();
        assert_eq!(scratch.names(), ["more.failed"]);
        let said: Answer = serde_json::from_str(&await_file(&scratch, "more.failed")).unwrap();
        let Answer::Event(event) = said else { panic!("{said:?}") };
        assert_eq!((event.request, event.is_end()), (Some(id), true));
    }
}
