//! What a job leaves behind: processes that carry its mark, segments that no process holds.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::process::{Pid, Signal, geteuid, kill_process};

use crate::wait::ends_within;

/// Time within which a process must end after its launcher.
const LAST_STEPS: Duration = Duration::from_secs(5);

/// Returns the living processes whose environment has the mark, even after they have changed
/// parents.
pub fn marked_processes(mark: &str) -> Vec<Pid> {
    process_folders()
        .into_iter()
        .filter(|(_, folder)| {
            let environment = fs::read(folder.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|entry| entry == mark.as_bytes())
        })
        .map(|(pid, _)| pid)
        .collect()
}

/// Returns the marked processes that do not end by themselves, with their commands.
pub fn lingering(mark: &str) -> Vec<String> {
    let end = Instant::now() + LAST_STEPS;
    let left = || end.saturating_duration_since(Instant::now());
    let lingers = |pid: &Pid| !ends_within(*pid, left()).unwrap_or(false);
    let names = |pid: Pid| {
        let command = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        format!("process {pid}: {}", String::from_utf8_lossy(&command).replace('\0', " "))
    };
    marked_processes(mark).into_iter().filter(lingers).map(names).collect()
}

/// Ends every marked process and waits for its end.
pub fn end_marked(mark: &str) {
    // A process started during the search has its parent's mark and is found in the next round.
    for _ in 0..10 {
        let living = marked_processes(mark);
        if living.is_empty() {
            return;
        }
        for pid in &living {
            let _already_gone = kill_process(*pid, Signal::KILL);
        }
        for pid in living {
            let _unkillable = ends_within(pid, LAST_STEPS);
        }
    }
}

/// Returns this user's segments that no process has mapped or open. A job that runs elsewhere on
/// the machine holds its segments, and other users' segments cannot be judged.
pub fn orphaned_segments(folder: &Path) -> Vec<PathBuf> {
    let prefix = format!("quo-{}-", geteuid().as_raw());
    orphans(folder, |name, _| name.starts_with(&prefix))
}

/// Names of segments of MPIs, and of this project's programs that are killed at any moment.
const OF_KILLED: &[&str] =
    &["vader_segment.", "sm_segment.", "mpich_shm_", "ucx_shm_posix_", "memprof-test-"];

/// Removes files that killed jobs have left since then: a killed MPI cannot remove its segments.
pub fn sweep(folder: &Path, since: SystemTime) {
    let user = geteuid().as_raw();
    let killed = |name: &str, file: &fs::Metadata| {
        OF_KILLED.iter().any(|prefix| name.starts_with(prefix))
            && file.uid() == user
            && file.modified().is_ok_and(|time| time >= since)
    };
    for segment in orphans(folder, killed) {
        let _gone_already = fs::remove_file(segment);
    }
}

fn orphans(folder: &Path, chosen: impl Fn(&str, &fs::Metadata) -> bool) -> Vec<PathBuf> {
    let candidates: Vec<PathBuf> = fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter(|entry| {
            let name = entry.file_name();
            entry.metadata().is_ok_and(|file| chosen(&name.to_string_lossy(), &file))
        })
        .map(|entry| entry.path())
        .collect();
    if candidates.is_empty() {
        return candidates;
    }
    let held = held_files(folder);
    // A segment that vanished in the meantime was held by its job after all.
    candidates.into_iter().filter(|path| !held.contains(path) && path.exists()).collect()
}

fn held_files(folder: &Path) -> Vec<PathBuf> {
    let mut held = Vec::new();
    for (_, process) in process_folders() {
        let maps = fs::read_to_string(process.join("maps")).unwrap_or_default();
        held.extend(maps.lines().filter_map(|line| line.find('/').map(|at| line[at..].into())));
        let files = fs::read_dir(process.join("fd")).into_iter().flatten().flatten();
        held.extend(files.filter_map(|file| fs::read_link(file.path()).ok()));
    }
    held.retain(|path| path.starts_with(folder));
    held
}

fn process_folders() -> Vec<(Pid, PathBuf)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries
        .filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok().and_then(Pid::from_raw)?;
            Some((pid, entry.path()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_marked_process_is_found_and_ended_wherever_it_went() {
        let mark = format!("QUO_TESTS_MARK=unit-{}", std::process::id());
        let (name, value) = mark.split_once('=').unwrap();
        let mut child = Command::new("setsid")
            .arg("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .env(name, value)
            .spawn()
            .unwrap();
        // It echoes: everything executed before the echo is done.
        std::io::Write::write_all(child.stdin.as_mut().unwrap(), b"\n").unwrap();
        let mut line = [0];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
        assert!(!marked_processes(&mark).is_empty());
        end_marked(&mark);
        assert!(!child.wait().unwrap().success());
        assert!(marked_processes(&mark).is_empty());
    }

    #[test]
    fn only_segments_that_nobody_holds_are_orphans() {
        let folder = tempfile::tempdir().unwrap();
        let named = |name: &str| folder.path().join(format!("quo-{}-{name}", geteuid().as_raw()));
        let orphan = named("orphan");
        fs::write(&orphan, "").unwrap();
        fs::write(folder.path().join("quo-99999-of-another-user"), "").unwrap();
        let _held = fs::File::create(named("held")).unwrap();
        assert_eq!(orphaned_segments(folder.path()), [orphan]);
    }

    #[test]
    fn only_what_killed_jobs_left_since_then_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let since = SystemTime::now() - Duration::from_secs(60);
        let made = |name: &str| {
            let path = folder.path().join(name);
            (fs::File::create(&path).unwrap(), path)
        };
        let (left, gone) = made("vader_segment.node.0.1.0");
        drop(left);
        let (old, older) = made("mpich_shm_1_0");
        old.set_modified(since - Duration::from_secs(1)).unwrap();
        drop(old);
        let (_held, in_use) = made("sm_segment.node.0.1.0");
        let (of_somebody, other) = made("results");
        drop(of_somebody);
        sweep(folder.path(), since);
        assert!(!gone.exists());
        assert!(older.exists() && in_use.exists() && other.exists());
    }
}
