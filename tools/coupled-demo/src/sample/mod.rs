//! Measures, from outside, which thread of a run used how much of which CPU when.

pub mod proc;
pub mod usage;

use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use coupled::clock;

/// Interval at which the counters are read. A reading takes a fraction of a millisecond.
const PERIOD: Duration = Duration::from_millis(25);

/// The counters at one time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Seconds of the monotonic clock.
    pub time: f64,
    pub tasks: Vec<Task>,
    pub cpus: Vec<Cpu>,
}

/// A thread of a rank.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub process: u32,
    pub thread: u32,
    /// CPU time so far, in seconds.
    pub used: f64,
    /// The CPU it last ran on.
    pub cpu: usize,
}

/// A CPU of the machine.
#[derive(Copy, Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    pub cpu: usize,
    /// Time not idle so far, in seconds, whoever used it.
    pub busy: f64,
}

/// File of the samples of a run, beside its result.
pub fn path_for(result: &Path) -> PathBuf {
    result.with_extension("samples.json")
}

/// Writes samples.
///
/// # Errors
/// If the file cannot be written.
pub fn write(samples: &[Sample], path: &Path) -> Result<()> {
    let text = serde_json::to_string(samples).context("forming samples")?;
    std::fs::write(path, text).with_context(|| format!("writing samples to {}", path.display()))
}

/// Reads samples; none if there is no such file.
///
/// # Errors
/// If there is one and it cannot be read.
pub fn read(path: &Path) -> Result<Vec<Sample>> {
    match std::fs::read_to_string(path) {
        Ok(text) => serde_json::from_str(&text)
            .with_context(|| format!("{} does not hold samples", path.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("reading {}", path.display())),
    }
}

/// Samples some processes until told to stop.
pub struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    /// Starts sampling.
    ///
    /// # Errors
    /// If no thread can be started.
    pub fn start(processes: Vec<u32>) -> Result<Sampler> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new()
            .name("sampler".to_owned())
            .spawn(move || sample(&processes, &stopped))
            .context("starting the sampler")?;
        Ok(Sampler { stop, thread })
    }

    /// Stops and hands out the samples.
    pub fn finish(self) -> Vec<Sample> {
        drop(self.stop);
        self.thread.join().unwrap_or_default()
    }
}

fn sample(processes: &[u32], stopped: &Receiver<()>) -> Vec<Sample> {
    let mut samples = Vec::new();
    loop {
        samples.push(Sample {
            time: clock::now(),
            tasks: processes.iter().flat_map(|process| proc::tasks(*process)).collect(),
            cpus: proc::cpus(),
        });
        if stopped.recv_timeout(PERIOD) != Err(RecvTimeoutError::Timeout) {
            return samples;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sampler_sees_this_process_and_stops_when_told() {
        let sampler = Sampler::start(vec![std::process::id()]).unwrap();
        let samples = sampler.finish();
        assert!(samples[0].tasks.iter().any(|task| task.thread == std::process::id()));
        assert!(!samples[0].cpus.is_empty());
    }

    #[test]
    fn samples_read_back_and_a_missing_file_holds_none() {
        let directory = tempfile::tempdir().unwrap();
        let path = path_for(&directory.path().join("quo.json"));
        assert_eq!(read(&path).unwrap(), []);
        let task = Task { process: 7, thread: 8, used: 0.5, cpu: 1 };
        let samples = [Sample { time: 1.0, tasks: vec![task], cpus: proc::cpus() }];
        write(&samples, &path).unwrap();
        assert_eq!(read(&path).unwrap(), samples);
        std::fs::write(&path, "{").unwrap();
        assert!(read(&path).is_err());
    }
}
