//! Notices as files: each is claimed by one rename, so that it is taken once, and acknowledged by
//! another.

use std::fs::{self, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, OFlags};

use crate::manager::control::wire::{Answer, LONGEST_LINE, line};
use crate::manager::control::{FolderLock, Folders};

/// Suffix of a complete notice.
const NOTICE: &str = "notice";
/// Suffix of a notice that the job has claimed.
const CLAIMED: &str = "claimed";

/// Outcome of a notice, and suffix of its acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The resize is done.
    Done,
    /// The resize was aborted.
    Failed,
    /// The notice was refused, or cannot be read.
    Refused,
}

/// A notice that this job has claimed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Claimed {
    /// Name without the suffix.
    pub name: String,
    /// Content of the notice, or the reason why it cannot be read.
    pub text: std::result::Result<Vec<u8>, String>,
}

/// A folder of notices, reserved for one job while this value lives.
#[derive(Debug)]
pub(super) struct Files {
    folder: PathBuf,
    _lock: FolderLock,
}

impl Files {
    /// Takes a folder that is private to this user, which is made if it is missing. Notices that an
    /// earlier job claimed and did not acknowledge are marked as failed.
    ///
    /// # Errors
    /// The folder cannot be made or trusted, or another job uses it.
    pub(super) fn open(folder: &Path) -> Result<Self> {
        for made in Folders::only(folder).for_new() {
            made?;
        }
        let lock = FolderLock::take(folder, FlockOperation::NonBlockingLockExclusive);
        let lock = lock.map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => {
                let text = format!("the folder {}: another job has it", folder.display());
                Error::new(ErrorKind::AddrInUse, text)
            }
            _ => error,
        })?;
        let this = Self { folder: folder.to_owned(), _lock: lock };
        for name in this.named(CLAIMED)? {
            let reason = "the job that claimed the file has ended".to_owned();
            this.acknowledge(&name, Outcome::Failed, &Answer::Wrong { reason })?;
        }
        Ok(this)
    }

    /// Claims the oldest notice with a name that is not in use.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub(super) fn claim(&self, is_in_use: impl Fn(&str) -> bool) -> Result<Option<Claimed>> {
        for name in self.named(NOTICE)? {
            let claimed = self.path(&name, CLAIMED);
            if !is_in_use(&name) && fs::rename(self.path(&name, NOTICE), &claimed).is_ok() {
                let text = read(&claimed).map_err(|error| error.to_string());
                return Ok(Some(Claimed { name, text }));
            }
        }
        Ok(None)
    }

    /// Acknowledges a notice with its outcome.
    ///
    /// # Errors
    /// The acknowledgement cannot be written; the notice stays claimed.
    pub(super) fn acknowledge(&self, name: &str, outcome: Outcome, answer: &Answer) -> Result<()> {
        let end = match outcome {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Refused => "refused",
        };
        // The file appears under its name only when complete.
        quo_files::write(&self.path(name, end), &line(answer))?;
        fs::remove_file(self.path(name, CLAIMED))
    }

    fn path(&self, name: &str, end: &str) -> PathBuf {
        self.folder.join(format!("{name}.{end}"))
    }

    /// Lists the names of files with this suffix, oldest first.
    fn named(&self, end: &str) -> Result<Vec<String>> {
        let mut found: Vec<(SystemTime, String)> = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let name = name.strip_suffix(end).and_then(|name| name.strip_suffix('.'));
            let name = name.filter(|name| !name.is_empty() && !name.starts_with('.'));
            // Links do not count as files. A file removed meanwhile is ignored.
            if let (Some(name), Ok(facts)) = (name, entry.metadata())
                && facts.is_file()
            {
                found.push((facts.modified().unwrap_or(SystemTime::UNIX_EPOCH), name.to_owned()));
            }
        }
        found.sort_unstable();
        Ok(found.into_iter().map(|(_, name)| name).collect())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let mut text = Vec::new();
    file.take(LONGEST_LINE as u64 + 1).read_to_end(&mut text)?;
    if text.len() > LONGEST_LINE {
        return Err(Error::other(format!("a notice has at most {LONGEST_LINE} bytes")));
    }
    Ok(text)
}

#[cfg(test)]
pub(super) mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    /// A folder for one test, removed at its end.
    pub(in super::super) struct Scratch(pub PathBuf);

    impl Scratch {
        pub(in super::super) fn new(name: &str) -> Self {
            let path = std::env::temp_dir().join(format!("quo-{name}-{}", std::process::id()));
            let _absent = fs::remove_dir_all(&path);
            Self(path)
        }

        /// Puts a notice into the folder as writers should.
        pub(in super::super) fn put(&self, name: &str, text: &[u8]) {
            fs::write(self.0.join(".new"), text).unwrap();
            fs::rename(self.0.join(".new"), self.0.join(format!("{name}.notice"))).unwrap();
        }

        pub(in super::super) fn names(&self) -> Vec<String> {
            let names = fs::read_dir(&self.0).unwrap();
            let mut names: Vec<String> =
                names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
            names.sort_unstable();
            names
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn notice_is_claimed_once_and_acknowledged_by_its_name() {
        let scratch = Scratch::new("claimed");
        let files = Files::open(&scratch.0).unwrap();
        scratch.put("shrink-1", b"{}");
        let claimed = files.claim(|_| false).unwrap().unwrap();
        assert_eq!(claimed, Claimed { name: "shrink-1".to_owned(), text: Ok(b"{}".to_vec()) });
        assert_eq!(files.claim(|_| false).unwrap(), None);
        assert_eq!(scratch.names(), ["shrink-1.claimed"]);
        let answer = Answer::Wrong { reason: "no".to_owned() };
        files.acknowledge("shrink-1", Outcome::Refused, &answer).unwrap();
        assert_eq!(scratch.names(), ["shrink-1.refused"]);
        let said = fs::read_to_string(scratch.0.join("shrink-1.refused")).unwrap();
        assert_eq!(said, "{\"wrong\":{\"reason\":\"no\"}}\n");
    }

    #[test]
    fn notice_of_a_name_in_use_waits() {
        let scratch = Scratch::new("in-use");
        let files = Files::open(&scratch.0).unwrap();
        scratch.put("a", b"1");
        assert_eq!(files.claim(|name| name == "a").unwrap(), None);
        assert_eq!(scratch.names(), ["a.notice"]);
        assert_eq!(files.claim(|_| false).unwrap().unwrap().text, Ok(b"1".to_vec()));
    }

    #[test]
    fn only_whole_files_are_notices() {
        let scratch = Scratch::new("whole");
        let files = Files::open(&scratch.0).unwrap();
        for name in ["half", ".hidden.notice", ".notice", "anotice", "a.notice.tmp"] {
            fs::write(scratch.0.join(name), "{}").unwrap();
        }
        fs::create_dir(scratch.0.join("folder.notice")).unwrap();
        symlink("half", scratch.0.join("link.notice")).unwrap();
        assert_eq!(files.claim(|_| false).unwrap(), None);
    }

    #[test]
    fn notice_that_is_too_long_is_claimed_with_the_reason() {
        let scratch = Scratch::new("long");
        let files = Files::open(&scratch.0).unwrap();
        scratch.put("long", &vec![b' '; LONGEST_LINE + 1]);
        let claimed = files.claim(|_| false).unwrap().unwrap();
        assert_eq!(claimed.text, Err("a notice has at most 65536 bytes".to_owned()));
    }

    #[test]
    fn dead_jobs_claim_fails_and_living_one_keeps_its_folder() {
        let scratch = Scratch::new("dead");
        let files = Files::open(&scratch.0).unwrap();
        scratch.put("lost", b"{}");
        files.claim(|_| false).unwrap();
        let error = Files::open(&scratch.0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AddrInUse, "{error}");
        drop(files);
        scratch.put("new", b"{}");
        let files = Files::open(&scratch.0).unwrap();
        assert_eq!(scratch.names(), ["lost.failed", "new.notice"]);
        drop(files);
        fs::set_permissions(&scratch.0, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(Files::open(&scratch.0).unwrap_err().to_string().contains("open to others"));
    }
}
