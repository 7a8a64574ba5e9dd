//! One host: a process that holds its namespaces, and actions inside them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Component, Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::process::{self, Process};

/// A host, or the front, at which launchers run. It ends when its holder does.
#[derive(Clone, Debug)]
pub struct Host {
    pub(crate) name: String,
    pub(crate) address: String,
    pub(crate) holder: Process,
}

impl Host {
    /// Returns the host's own name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the address at which the other hosts reach it.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns true if the host has not been killed.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        self.holder.is_alive()
    }

    /// Returns a command that runs on the host, as this machine's user. The process that runs it is
    /// outside: when that process ends, the program gets SIGTERM. The program starts in `/`, with
    /// `TMPDIR` set to a folder that only this host sees.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = self.enter();
        command.arg("--pid").args(["setpriv", "--pdeathsig", "TERM", "--"]).arg(program);
        command.env("TMPDIR", "/run/tmp");
        command
    }

    /// Enters all namespaces except the PID namespace, for tools that take outer PIDs.
    fn enter(&self) -> Command {
        let mut command = Command::new("nsenter");
        command.arg("--target").arg(self.holder.number().to_string());
        command.args(["--net", "--uts", "--mount", "--ipc"]);
        command
    }

    /// Returns the path, from outside, of a file or folder of the host.
    ///
    /// # Panics
    ///
    /// The path is not absolute.
    #[must_use]
    pub fn path(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        assert!(path.is_absolute(), "{} is not absolute", path.display());
        let inner = path.components().filter(|part| *part != Component::RootDir);
        inner.fold(self.holder.folder().join("root"), |all, part| all.join(part))
    }

    /// Covers an existing folder with an empty one that only this host sees. `options` are those of
    /// tmpfs, such as `mode=0755,size=1m`.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or the options are wrong.
    pub fn private_folder(&self, folder: &str, options: &str) -> Result<()> {
        self.check(self.mount().args(["-t", "tmpfs", "-o", options, "tmpfs", folder]))
    }

    /// Makes an existing folder, such as `/etc` or `/var`, private to this host: its contents stay,
    /// and files written there are seen and kept by this host only. Folders mounted below it
    /// disappear.
    ///
    /// # Errors
    ///
    /// The folder does not exist, or the kernel cannot overlay it.
    pub fn private_copy(&self, folder: &str) -> Result<()> {
        let store = format!("/run/copies/{}", folder.trim_matches('/').replace('/', "-"));
        for part in ["upper", "work"] {
            fs::create_dir_all(self.path(&store).join(part))
                .with_context(|| format!("a private copy of {folder}"))?;
        }
        let layers = format!("lowerdir={folder},upperdir={store}/upper,workdir={store}/work");
        self.check(self.mount().args(["-t", "overlay", "-o", &layers, "overlay", folder]))
    }

    /// Covers an existing file, such as `/etc/hosts`, with another text on this host only.
    ///
    /// # Errors
    ///
    /// The file does not exist.
    pub fn replace_file(&self, file: &str, text: &str) -> Result<()> {
        let store = format!("/run/files/{}", file.trim_matches('/').replace('/', "-"));
        let outside = self.path(&store);
        fs::create_dir_all(outside.parent().context("a file without a folder")?)?;
        // A file that is mounted already is replaced in place.
        fs::write(&outside, text).with_context(|| format!("another {file}"))?;
        self.check(self.mount().args(["--bind", &store, file]))
    }

    fn mount(&self) -> Command {
        let mut command = self.enter();
        command.arg("mount");
        command
    }

    fn check(&self, command: &mut Command) -> Result<()> {
        checked(command).with_context(|| format!("on {}", self.name))
    }

    /// Kills all processes of the host at once, and waits for the process that waits for its
    /// holder.
    pub(crate) fn kill(&self) -> Result<()> {
        let waiting = process::parent(self.holder.number()).filter(|_| self.is_alive());
        self.holder.kill().with_context(|| format!("killing {}", self.name))?;
        waiting.map_or(Ok(()), process::expect_end)
    }

    /// Returns processes and files that do not belong to the host itself. `own` are processes that
    /// do.
    pub(crate) fn leftovers(&self, own: &[i32]) -> Vec<String> {
        let space = process::namespace(self.holder.number());
        if space.is_none() {
            return Vec::new();
        }
        let is_stray = |pid: &i32| {
            !own.contains(pid)
                && *pid != self.holder.number()
                && process::namespace(*pid) == space
                && !process::is_ending(*pid)
        };
        let strays = process::all().into_iter().filter(is_stray);
        let mut found: Vec<String> = strays
            .map(|pid| format!("{}: process {pid}: {}", self.name, process::command_line(pid)))
            .collect();
        for folder in ["/dev/shm", "/run/tmp"] {
            let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
            let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
            // The description of the machine stays for later processes.
            let left = names.filter(|name| !name.starts_with("quo-machine-"));
            found.extend(left.map(|name| format!("{}: {folder}/{name}", self.name)));
        }
        found
    }
}

/// Runs a tool that prints nothing on success.
pub(crate) fn checked(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("{command:?}: {}: {}", output.status, complaint.trim());
    }
    Ok(())
}
