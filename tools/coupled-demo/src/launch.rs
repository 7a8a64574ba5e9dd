//! A child process that does not outlive this one.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getppid, set_parent_process_death_signal};

/// Has the child asked to end when this process is gone, whatever ended it. The command is to be
/// spawned by a thread that lives as long as the child should.
pub fn end_with_us(command: &mut Command) -> &mut Command {
    let us = rustix::process::getpid();
    let arrange = move || -> io::Result<()> {
        set_parent_process_death_signal(Some(Signal::TERM))?;
        // We may have gone before it was arranged.
        if getppid() == Some(us) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: between fork and exec only system calls are made, nothing is allocated or locked.
    unsafe { command.pre_exec(arrange) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_still_runs_while_we_live() {
        let mut command = Command::new("true");
        assert!(end_with_us(&mut command).status().unwrap().success());
    }
}
