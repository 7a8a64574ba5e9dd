//! `memprof live --pid`: memory of a process that was not started under `memprof run`, determined
//! from its mappings.
//!
//! The callers of `malloc` were not recorded, so the heap is one line. All other memory is
//! identified by its mapping: objects, stacks, shared segments, data files.

mod attribute;
mod objects;
mod smaps;

use crate::model::Group;
use crate::report::grid::{Align, Grid, Weight};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count};
use attribute::{FILES, HEAP, Held};
use objects::Objects;
use serde::Serialize;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A process that cannot be looked at.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// No process has this number.
    #[error("cannot look at process {pid}: there is none of this number")]
    Absent {
        /// The number.
        pid: u32,
    },
    /// It has ended.
    #[error(
        "cannot look at process {pid} ({name}): it has ended, and its parent has not asked for its status"
    )]
    Ended {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It is the kernel's.
    #[error(
        "cannot look at process {pid} ({name}): it is a thread of the kernel and has no memory of its own"
    )]
    Kernel {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// It belongs to another user, or has more rights than its user.
    #[error(
        "cannot look at process {pid} ({name}): it belongs to user {user}; only that user and root may read its mappings, and \
         only root those of a program with rights that its user has not"
    )]
    Denied {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// Number of its user.
        user: u32,
    },
    /// The kernel does not report the mappings.
    #[error("cannot look at process {pid}: {cause}")]
    Unread {
        /// Its number.
        pid: u32,
        /// What the system said.
        cause: std::io::Error,
    },
}

/// A process of this machine, looked at again and again.
#[derive(Debug)]
pub struct Process {
    pid: u32,
    folder: PathBuf,
    started: Option<u64>,
    name: String,
    objects: Objects,
}

/// Version of the JSON form; fields are only added within one.
const VERSION: u32 = 1;

/// What a process holds now.
#[derive(Debug, Serialize)]
pub struct Seen {
    memprof_process: u32,
    /// Its number.
    pub pid: u32,
    /// Path of its program, or its name where the kernel does not report the path.
    pub program: String,
    /// How many threads it has.
    pub threads: usize,
    /// Bytes in memory, page tables included.
    pub resident: u64,
    /// The most the kernel ever counted.
    pub kernel_peak: u64,
    /// Those with most first.
    pub components: Vec<Held>,
    /// Folder with its trace, where it runs under `memprof run`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub recorded_in: Option<String>,
}

impl Process {
    /// Finds a process, and checks whether it may be observed.
    ///
    /// # Errors
    /// If no process has this number, or the kernel denies access to it.
    pub fn open(pid: u32) -> Result<Process, Refusal> {
        let folder = PathBuf::from(format!("/proc/{pid}"));
        let name =
            std::fs::read_to_string(folder.join("comm")).map_err(|cause| match cause.kind() {
                ErrorKind::NotFound => Refusal::Absent { pid },
                _ => Refusal::Unread { pid, cause },
            })?;
        let name = clean(name.trim_end());
        let program = std::fs::read_link(folder.join("exe"));
        let program = program.map_or_else(|_| name.clone(), |path| path.display().to_string());
        let objects = Objects::of(&folder, &program);
        let started = stat(&folder).map(|(_, started)| started);
        let process = Process { pid, folder, started, name: program, objects };
        let mapped = process.text("smaps")?;
        match stat(&process.folder) {
            Some(('Z' | 'X', _)) => Err(Refusal::Ended { pid, name }),
            _ if mapped.is_empty() => Err(Refusal::Kernel { pid, name }),
            _ => Ok(process),
        }
    }

    /// Reads the state of the process; `None` once it has ended.
    ///
    /// # Errors
    /// If the kernel denies access to the process.
    pub fn observe(&mut self) -> Result<Option<Seen>, Refusal> {
        let same = stat(&self.folder).map(|(_, started)| started) == self.started;
        let text = match self.text("smaps") {
            Ok(text) if same && !text.is_empty() => text,
            Ok(_) | Err(Refusal::Absent { .. }) => return Ok(None),
            Err(_) if !same => return Ok(None),
            Err(refusal) => return Err(refusal),
        };
        let mappings = smaps::parse(&text);
        let objects = self.objects.loaded(&mappings);
        let threads = self.threads();
        let stacks: Vec<u64> =
            threads.iter().skip(1).filter_map(|thread| stack_pointer(thread)).collect();
        let others = threads.len().saturating_sub(1);
        let mut components = attribute::components(&mappings, &objects, &stacks, others);
        let status = self.text("status").unwrap_or_default();
        let tables = amount(&status, "VmPTE:");
        match components.iter_mut().find(|held| held.name == "kernel") {
            Some(kernel) => kernel.resident += tables,
            None => {
                let kernel = Held { name: "kernel".into(), resident: tables, ..Held::default() };
                components.push(kernel);
            }
        }
        let trace = mappings.iter().find(|mapping| mapping.path.ends_with(".memprof"));
        let recorded_in = trace.and_then(|mapping| {
            Some(Path::new(&mapping.path).parent()?.to_string_lossy().into_owned())
        });
        Ok(Some(Seen {
            memprof_process: VERSION,
            pid: self.pid,
            program: self.name.clone(),
            threads: others + 1,
            resident: components.iter().fold(0, |sum, held| sum.saturating_add(held.resident)),
            kernel_peak: amount(&status, "VmHWM:"),
            components,
            recorded_in,
        }))
    }

    /// Returns a kernel file about the process.
    fn text(&self, name: &str) -> Result<String, Refusal> {
        let pid = self.pid;
        match std::fs::read(self.folder.join(name)) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(cause) if cause.raw_os_error() == Some(libc::ESRCH) => Ok(String::new()),
            Err(cause) => Err(match cause.kind() {
                ErrorKind::NotFound => Refusal::Absent { pid },
                ErrorKind::PermissionDenied => {
                    let user = self.folder.metadata().map_or(0, |data| data.uid());
                    let name = self.name.rsplit('/').next().unwrap_or_default().to_owned();
                    Refusal::Denied { pid, name: clean(&name), user }
                }
                _ => Refusal::Unread { pid, cause },
            }),
        }
    }

    /// Returns the folders of the threads, the main one first.
    fn threads(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.folder.join("task")).into_iter().flatten().flatten();
        let mut threads: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        let is_main = |path: &PathBuf| path.ends_with(self.pid.to_string());
        threads.sort_by_key(|path| !is_main(path));
        threads
    }
}

/// Returns state and start time of a process, which follow its name in parentheses.
fn stat(folder: &Path) -> Option<(char, u64)> {
    let line = std::fs::read_to_string(folder.join("stat")).ok()?;
    let (_, fields) = line.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    Some((fields.next()?.chars().next()?, fields.nth(18)?.parse().ok()?))
}

/// Returns the stack pointer of a thread, if it waits in the kernel and the value is accessible.
fn stack_pointer(thread: &Path) -> Option<u64> {
    let line = std::fs::read_to_string(thread.join("syscall")).ok()?;
    let words: Vec<&str> = line.split_ascii_whitespace().collect();
    let word = words.len().checked_sub(2).and_then(|at| words.get(at))?;
    u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()
}

/// Parses an amount such as `VmPTE: 52 kB`.
fn amount(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|text| text.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

/// Returns one screen.
pub fn display(seen: &Seen, look: Look) -> String {
    use Align::{Left, Right};
    let program = seen.program.rsplit('/').next().unwrap_or_default();
    let mut out = format!(
        "{}  process {}, {}\n\n",
        look.bold(&clean(program)),
        seen.pid,
        count(seen.threads, "thread")
    );
    let mut grid = Grid::new(&[Left, Right, Right, Right, Right]);
    grid.row(Weight::Head, ["", "resident", "shared", "swapped", "mapped"].map(String::from));
    let row = |name: String, of: &[&Held]| {
        let sum = |part: fn(&Held) -> u64| {
            bytes(of.iter().fold(0, |sum, held| sum.saturating_add(part(held))))
        };
        [
            name,
            sum(|held| held.resident),
            sum(|held| held.shared),
            sum(|held| held.swapped),
            sum(|held| held.mapped),
        ]
    };
    let is_own = |held: &Held| held.name == HEAP || held.name == FILES;
    for group in Group::ALL {
        let members: Vec<&Held> = (seen.components.iter())
            .filter(|held| !is_own(held) && Group::of(&held.name) == group)
            .collect();
        match members.as_slice() {
            [] => {}
            [one] if one.name == group.label() => {
                grid.row(Weight::Sum, row(one.name.clone(), &members));
            }
            _ => {
                grid.row(Weight::Sum, row(group.label().to_owned(), &members));
                for held in &members {
                    grid.row(Weight::Plain, row(format!("  {}", clean(&held.name)), &[held]));
                }
            }
        }
    }
    for held in seen.components.iter().filter(|held| is_own(held)) {
        grid.row(Weight::Sum, row(held.name.clone(), &[held]));
    }
    let all: Vec<&Held> = seen.components.iter().collect();
    grid.row(Weight::Sum, row("all".to_owned(), &all));
    out += &grid.text(look);
    let note = match &seen.recorded_in {
        Some(folder) => {
            format!("it is recorded: memprof live {} tells whose its heap is", clean(folder))
        }
        None => {
            "heap: malloc and mappings without a file; memprof run tells whose they are".to_owned()
        }
    };
    let peak = format!("the kernel's own peak: {}\n{note}", bytes(seen.kernel_peak));
    out + &format!("{}\n", look.dim(&peak))
}

/// Returns one look as JSON, for other programs.
///
/// # Errors
/// If the values have no form in JSON.
pub fn json(seen: &Seen) -> anyhow::Result<String> {
    Ok(serde_json::to_string(seen)? + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_process_adds_up_to_what_the_kernel_counts() {
        let mut process = Process::open(std::process::id()).expect("it may be looked at");
        let seen = process.observe().expect("a look").expect("it runs");
        let of = |name: &str| {
            let found = seen.components.iter().find(|held| held.name == name);
            found.map_or(0, |held| held.resident)
        };
        assert!(of(HEAP) > 0 && of("stack:main") > 0 && of("kernel") > 0, "{seen:?}");
        let own = std::env::current_exe().expect("this test");
        let own = own.file_name().expect("a name").to_string_lossy().into_owned();
        assert!(of(&format!("app.exe:{own}")) > 0, "{seen:?}");
        let status = std::fs::read_to_string("/proc/self/status").expect("status");
        let kernel = amount(&status, "VmRSS:") + amount(&status, "VmPTE:");
        // Other tests of this process run concurrently.
        assert!(seen.resident.abs_diff(kernel) < kernel / 4, "{} of {kernel}", seen.resident);
    }

    #[test]
    fn absent_process_is_refused_by_its_number() {
        let refused = Process::open(u32::MAX).expect_err("there is none");
        assert!(refused.to_string().contains("there is none of this number"), "{refused}");
    }

    #[test]
    fn kernel_threads_have_no_memory_to_look_at() {
        // Where the tests run in a namespace of processes, the second is another.
        let is_kernel = std::fs::read_to_string("/proc/2/comm").is_ok_and(|it| it == "kthreadd\n");
        if let (true, Err(refusal)) = (is_kernel, Process::open(2)) {
            let text = refusal.to_string();
            assert!(text.contains("kthreadd"), "{text}");
        }
    }
}
