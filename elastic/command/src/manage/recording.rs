//! The record of a manager's jobs and nodes, written with `--record`.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use elastic_lab::record::{Recorder, Run, Sighting};
use elastic_policy::time::Time;

/// A record, to which lines are appended.
#[derive(Debug)]
pub struct Recording {
    path: PathBuf,
    file: File,
    policy: String,
    recorder: Recorder,
}

impl Recording {
    /// Opens a new record, or continues that of an earlier manager.
    ///
    /// # Errors
    /// The file cannot be opened, or is no record.
    pub fn open(path: &Path, policy: &str) -> Result<Recording> {
        let doing = || format!("--record {}", path.display());
        // First, since it refuses files of other users.
        let mut file = quo_files::append(path).with_context(doing)?;
        let text = fs::read_to_string(path).with_context(doing)?;
        let recorder = Recorder::resume(&text).with_context(doing)?;
        // A manager that was killed may have left an incomplete line, which does not count.
        let whole = text.rfind('\n').map_or(0, |end| end + 1);
        if whole < text.len() {
            file.set_len(whole as u64).and_then(|()| file.flush()).with_context(doing)?;
        }
        Ok(Recording { path: path.to_owned(), file, policy: policy.to_owned(), recorder })
    }

    /// Appends the changes since the last observation.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn observe(&mut self, at: Time, nodes: &[String], jobs: Vec<Sighting>) -> Result<()> {
        let lines = self.recorder.observe(at, &self.policy, nodes, jobs);
        self.append(&lines)
    }

    /// Appends the ends of jobs that are not in the record yet.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn end(&mut self, runs: Vec<Run>) -> Result<()> {
        let lines = self.recorder.end(runs);
        self.append(&lines)
    }

    fn append(&mut self, lines: &[String]) -> Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        let text = lines.join("\n") + "\n";
        let written = self.file.write_all(text.as_bytes());
        written.with_context(|| format!("--record {}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    use elastic_lab::record::{Stage, read};
    use elastic_policy::job::Class;
    use elastic_policy::time::Span;

    use super::*;

    #[test]
    fn half_line_of_a_killed_manager_is_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("record");
        let job = |nodes: &[&str]| Sighting {
            job: "7".into(),
            name: "a".into(),
            class: Class::Malleable,
            asked: 1,
            walltime: Span::seconds(60),
            stage: Stage::Runs(Time::seconds(10)),
            nodes: nodes.iter().map(|&node| node.to_owned()).collect(),
        };
        let nodes = ["n1".to_owned(), "n2".to_owned()];
        let mut first = Recording::open(&path, "easy").unwrap();
        first.observe(Time::seconds(10), &nodes, vec![job(&["n1"])]).unwrap();
        first.file.write_all(b"{\"at\":11000,\"jo").unwrap();
        drop(first);
        let mut second = Recording::open(&path, "easy").unwrap();
        second.observe(Time::seconds(20), &nodes, vec![job(&["n1"])]).unwrap();
        second.observe(Time::seconds(30), &nodes, vec![job(&["n1", "n2"])]).unwrap();
        second.observe(Time::seconds(40), &nodes, vec![]).unwrap();
        let text = fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4, "{text}");
        let (_, outcome) = read(&text).unwrap();
        assert_eq!((outcome.records[0].largest, outcome.records[0].node_time), (2, 40_000));
        fs::write(&path, "no record\n").unwrap();
        let error = format!("{:#}", Recording::open(&path, "easy").unwrap_err());
        assert!(error.contains("--record ") && error.contains("line 1: "), "{error}");
    }
}
