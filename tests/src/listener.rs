//! Reads the output of a process while it runs.

use std::io::Read;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Collects a stream on a separate thread, which ends with the stream.
#[derive(Debug)]
pub(crate) struct Listener {
    shared: Arc<(Mutex<Heard>, Condvar)>,
}

#[derive(Debug, Default)]
struct Heard {
    bytes: Vec<u8>,
    ended: bool,
}

impl Heard {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

impl Listener {
    pub(crate) fn new(mut stream: impl Read + Send + 'static) -> Listener {
        let shared = Arc::new((Mutex::new(Heard::default()), Condvar::new()));
        let theirs = Arc::clone(&shared);
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            loop {
                let length = match stream.read(&mut part) {
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                    result => result.unwrap_or(0),
                };
                let mut heard = lock(&theirs.0);
                heard.bytes.extend(&part[..length]);
                heard.ended = length == 0;
                theirs.1.notify_all();
                if heard.ended {
                    return;
                }
            }
        });
        Listener { shared }
    }

    /// Returns true if `text` appears this many times before the limit or the end.
    pub(crate) fn heard(&self, text: &str, times: usize, limit: Duration) -> bool {
        let missing = |heard: &Heard| heard.text().matches(text).count() < times;
        let heard = self.wait(limit, |heard| missing(heard) && !heard.ended);
        !missing(&heard)
    }

    pub(crate) fn ended_within(&self, limit: Duration) -> bool {
        self.wait(limit, |heard| !heard.ended).ended
    }

    pub(crate) fn text(&self) -> String {
        lock(&self.shared.0).text()
    }

    fn wait(&self, limit: Duration, on: impl Fn(&Heard) -> bool) -> MutexGuard<'_, Heard> {
        let (heard, changed) = &*self.shared;
        let waited = changed.wait_timeout_while(lock(heard), limit, |heard| on(heard));
        waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

fn lock(heard: &Mutex<Heard>) -> MutexGuard<'_, Heard> {
    heard.lock().unwrap_or_else(PoisonError::into_inner)
}
