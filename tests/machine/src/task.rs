//! The command to run in the machine.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::process::{getegid, geteuid};

/// A command with its arguments, working folder and environment.
#[derive(Clone, Debug)]
pub struct Task {
    arguments: Vec<OsString>,
    folder: PathBuf,
    environment: Vec<(OsString, OsString)>,
}

impl Task {
    /// Creates a command with this process's working folder and environment.
    ///
    /// # Errors
    ///
    /// There is no command, or the working folder is gone.
    pub fn here(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Task> {
        let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
        ensure!(!arguments.is_empty(), "there is no command to run");
        Ok(Task {
            arguments,
            folder: std::env::current_dir().context("finding the working folder")?,
            environment: std::env::vars_os().collect(),
        })
    }

    /// Sets a variable of the command's environment.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Task {
        let name = name.into();
        self.environment.retain(|(known, _)| *known != name);
        self.environment.push((name, value.into()));
        self
    }

    /// Puts this folder first in the command's `PATH`.
    #[must_use]
    pub fn with_programs_in(self, folder: &Path) -> Task {
        let path = self.environment.iter().find(|(name, _)| name == "PATH");
        let mut value = folder.as_os_str().to_owned();
        if let Some((_, rest)) = path {
            value.push(":");
            value.push(rest);
        }
        self.env("PATH", value)
    }

    /// Sets the working folder, instead of this process's.
    #[must_use]
    pub fn folder(mut self, folder: impl Into<PathBuf>) -> Task {
        self.folder = folder.into();
        self
    }

    /// Returns the task in the form that the machine's first process reads: the length, then
    /// strings that each end with a zero byte.
    pub(crate) fn message(&self, results: Option<&Path>) -> Vec<u8> {
        let mut strings: Vec<u8> = Vec::new();
        let mut add = |text: &OsStr| {
            strings.extend(text.as_bytes());
            strings.push(0);
        };
        add(OsStr::new(&geteuid().as_raw().to_string()));
        add(OsStr::new(&getegid().as_raw().to_string()));
        add(self.folder.as_os_str());
        add(results.map_or(OsStr::new(""), Path::as_os_str));
        add(OsStr::new(&self.arguments.len().to_string()));
        for argument in &self.arguments {
            add(argument);
        }
        for (name, value) in &self.environment {
            let mut entry = name.clone();
            entry.push("=");
            entry.push(value);
            add(&entry);
        }
        let mut message = (strings.len() as u32).to_le_bytes().to_vec();
        message.extend(strings);
        message
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn strings(task: &Task) -> Vec<String> {
        let message = task.message(Some(Path::new("/results")));
        let length = u32::from_le_bytes(message[..4].try_into().unwrap()) as usize;
        assert_eq!(length, message.len() - 4);
        let text = String::from_utf8_lossy(&message[4..]).into_owned();
        text.split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn arguments_and_environment_go_over_as_they_are() {
        let task = Task::here(["echo", "a b", ""]).unwrap().folder("/tmp").env("NAME", "va=lue\n");
        let strings = strings(&task);
        assert_eq!(strings[2..8], ["/tmp", "/results", "3", "echo", "a b", ""]);
        assert_eq!(strings.last().map(String::as_str), Some("NAME=va=lue\n"));
    }

    #[test]
    fn a_folder_of_programs_comes_first() {
        let task = Task::here(["a"]).unwrap().env("PATH", "/bin").with_programs_in(Path::new("/x"));
        assert!(strings(&task).contains(&"PATH=/x:/bin".to_owned()));
        assert!(Task::here(Vec::<OsString>::new()).is_err());
    }
}
