//! Creates the processes that hold namespaces, and finds them again.
//!
//! No list of sets exists that could be out of date: a holder carries its set, its role and its
//! host's name in its environment, where the kernel keeps them as long as the holder lives.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail};

use crate::host::Host;
use crate::process::{self, Process};

const SET: &str = "QUO_HOSTS_SET";
const ROLE: &str = "QUO_HOSTS_ROLE";
const NAME: &str = "QUO_HOSTS_NAME";
const ADDRESS: &str = "QUO_HOSTS_ADDRESS";

/// Role of a holder in its set.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Front,
    Host(usize),
}

impl Role {
    fn text(self) -> String {
        match self {
            Role::Front => "front".to_owned(),
            Role::Host(index) => index.to_string(),
        }
    }

    fn parse(text: &str) -> Option<Role> {
        if text == "front" { Some(Role::Front) } else { text.parse().ok().map(Role::Host) }
    }
}

/// Instructions of a holder.
pub(crate) struct Plan<'a> {
    pub(crate) set: &'a str,
    pub(crate) role: Role,
    pub(crate) name: &'a str,
    pub(crate) address: String,
    pub(crate) hosts_file: String,
    pub(crate) memory: &'a str,
}

impl Plan<'_> {
    /// Starts the holder inside another one, with which it will end, or outside all. It also ends
    /// when its standard input does, which the child's handle holds open.
    pub(crate) fn carry_out(&self, inside: Option<&Host>) -> Result<(Host, Child)> {
        let mut command = match inside {
            None => Command::new("unshare"),
            Some(host) => {
                // Only the PID namespace: the holder must see the outer /proc to report its PID.
                let mut command = Command::new("nsenter");
                let target = host.holder.number().to_string();
                command.args(["--target", &target, "--pid", "unshare"]);
                command
            }
        };
        command.args(["--net", "--uts", "--mount", "--ipc", "--pid", "--fork", "--"]);
        command.args(["sh", "-c", include_str!("holder.sh"), "quo-host"]);
        command.args([self.name, &self.hosts_file, self.memory]);
        command.env(SET, self.set).env(ROLE, self.role.text());
        command.env(NAME, self.name).env(ADDRESS, &self.address);
        // Signals from a terminal are not meant for the hosts.
        command.current_dir("/").process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().context("starting a host's holder")?;
        match self.born(&mut child) {
            Ok(host) => Ok((host, child)),
            Err(error) => {
                let _already_gone = child.kill();
                let _status = child.wait();
                Err(error.context(format!("making {} of the set {}", self.name, self.set)))
            }
        }
    }

    fn born(&self, child: &mut Child) -> Result<Host> {
        let (Some(stdout), Some(mut stderr)) = (child.stdout.take(), child.stderr.take()) else {
            bail!("a holder without output");
        };
        let mut line = String::new();
        BufReader::new(stdout).read_line(&mut line).context("listening to the holder")?;
        let Ok(pid) = line.trim().parse() else {
            let mut complaint = String::new();
            stderr.read_to_string(&mut complaint).context("listening to the holder")?;
            bail!("the holder ended: {}", complaint.trim());
        };
        let holder = Process::find(pid)?;
        Ok(Host { name: self.name.to_owned(), address: self.address.clone(), holder })
    }
}

/// Tells a holder that it is complete, and whether it ends with this process. Afterwards other
/// processes can find it.
pub(crate) fn release(holder: &mut Child, host: &Host, stay: bool) -> Result<()> {
    let input = holder.stdin.as_mut().context("a holder that is told nothing")?;
    let (word, program) = if stay { ("stay\n", "sleep") } else { ("hold\n", "cat") };
    input.write_all(word.as_bytes()).context("talking to a holder")?;
    process::expect_program(host.holder.number(), program, SET)
}

/// Returns the living holders of a set, or of all sets, in order.
pub(crate) fn holders(set: Option<&str>) -> Vec<(String, Role, Host)> {
    let mut found: Vec<_> = process::all().into_iter().filter_map(holder).collect();
    found.retain(|(of, ..)| set.is_none_or(|set| set == of));
    found.sort_by(|a, b| (&a.0, a.1).cmp(&(&b.0, b.1)));
    found
}

fn holder(pid: i32) -> Option<(String, Role, Host)> {
    let set = process::variable(pid, SET)?;
    // The process that waits for the holder has the same variables, but is not first in its
    // namespace.
    if process::numbers(pid).last() != Some(&1) || !process::is_ours(pid) {
        return None;
    }
    let holder = Process::find(pid).ok()?;
    let role = Role::parse(&process::variable(pid, ROLE)?)?;
    let name = process::variable(pid, NAME)?;
    let address = process::variable(pid, ADDRESS)?;
    // The holder has not been replaced in the meantime.
    holder.is_alive().then_some((set, role, Host { name, address, holder }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_role_is_read_as_it_was_written() {
        for role in [Role::Front, Role::Host(0), Role::Host(17)] {
            assert_eq!(Role::parse(&role.text()), Some(role));
        }
        assert_eq!(Role::parse("fron"), None);
    }
}
