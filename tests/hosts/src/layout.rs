//! Layout of a set of hosts. Plain data.

use std::fmt::Write;
use std::net::Ipv4Addr;

use anyhow::{Result, bail};

/// Network of every set. Sets are isolated from each other, so all use the same one.
pub const SUBNET: &str = "10.77.0.0/24";
pub(crate) const PREFIX: u8 = 24;
const MOST_HOSTS: usize = 64;

/// A set of hosts to be created.
///
/// ```
/// use quo_hosts::Layout;
/// let layout = Layout::new("doc", 2).same_name("node").own_name_at([127, 0, 1, 1]);
/// assert_eq!(layout.name(1), "node");
/// ```
#[derive(Clone, Debug)]
pub struct Layout {
    set: String,
    names: Vec<String>,
    own_name_at: Option<Ipv4Addr>,
    memory: String,
    stays: bool,
}

impl Layout {
    /// Returns `hosts` hosts with the names `host0`, `host1`, ... The set's name distinguishes it
    /// from other sets on this machine.
    #[must_use]
    pub fn new(set: &str, hosts: usize) -> Layout {
        Layout {
            set: set.to_owned(),
            names: (0..hosts).map(|index| format!("host{index}")).collect(),
            own_name_at: None,
            memory: "50%".to_owned(),
            stays: false,
        }
    }

    /// Gives all hosts the same name.
    #[must_use]
    pub fn same_name(mut self, name: &str) -> Layout {
        self.names.iter_mut().for_each(|own| name.clone_into(own));
        self
    }

    /// Resolves each host's own name to this address on that host, as Debian does with 127.0.1.1.
    #[must_use]
    pub fn own_name_at(mut self, address: impl Into<Ipv4Addr>) -> Layout {
        self.own_name_at = Some(address.into());
        self
    }

    /// Sets the size of every host's `/dev/shm`, as tmpfs takes it; the default is half of the
    /// machine's memory.
    #[must_use]
    pub fn memory(mut self, size: &str) -> Layout {
        size.clone_into(&mut self.memory);
        self
    }

    /// Lets the set outlive the process that creates it, until it is taken down.
    #[must_use]
    pub fn stay(mut self) -> Layout {
        self.stays = true;
        self
    }

    /// Returns the name of the set.
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set
    }

    /// Returns the number of hosts.
    #[must_use]
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Returns true if there are no hosts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// Returns the name of host `index`.
    #[must_use]
    pub fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    pub(crate) fn memory_size(&self) -> &str {
        &self.memory
    }

    pub(crate) fn stays(&self) -> bool {
        self.stays
    }

    /// Refuses impossible layouts before anything is created.
    pub(crate) fn check(&self) -> Result<()> {
        check_set(&self.set)?;
        if self.is_empty() || self.len() > MOST_HOSTS {
            bail!("{} hosts: between 1 and {MOST_HOSTS} can be made", self.len());
        }
        for name in &self.names {
            if name.len() > 64 || !is_plain(name) {
                bail!("'{name}' cannot be a host's name");
            }
        }
        Ok(())
    }

    /// Returns the file `/etc/hosts` of one host, or of the front.
    pub(crate) fn hosts_file(&self, own: Option<usize>) -> String {
        let mut text = "127.0.0.1 localhost\n".to_owned();
        let own_name = own.map(|index| self.name(index));
        if let (Some(address), Some(name)) = (self.own_name_at, own_name) {
            let _infallible = writeln!(text, "{address} {name}");
        }
        let _infallible = writeln!(text, "{} {FRONT}", front_address());
        for (index, name) in self.names.iter().enumerate() {
            // The first of several entries for a name counts.
            let _infallible = writeln!(text, "{} {name}", address(index));
        }
        text
    }
}

/// Name of the front, at which launchers run and to which all hosts are connected.
pub(crate) const FRONT: &str = "front";

pub(crate) fn address(index: usize) -> Ipv4Addr {
    let last = u8::try_from(index + 1).unwrap_or(u8::MAX);
    Ipv4Addr::new(10, 77, 0, last)
}

pub(crate) fn front_address() -> Ipv4Addr {
    Ipv4Addr::new(10, 77, 0, 254)
}

/// Returns the name of the front's end of the link to host `index`.
pub(crate) fn port(index: usize) -> String {
    format!("port{index}")
}

/// Checks a set's name, which becomes part of variables and messages.
pub(crate) fn check_set(set: &str) -> Result<()> {
    if set.is_empty() || !is_plain(set) {
        bail!("'{set}' cannot be a set's name: letters, digits and dashes");
    }
    Ok(())
}

fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_resolves_every_name() {
        let text = Layout::new("unit", 2).hosts_file(Some(1));
        for line in ["127.0.0.1 localhost", "10.77.0.1 host0", "10.77.0.2 host1"] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }

    #[test]
    fn own_loopback_name_comes_first_on_its_host_only() {
        let layout = Layout::new("unit", 2).own_name_at([127, 0, 1, 1]);
        let of = |index| {
            let text = layout.hosts_file(Some(index));
            text.lines().find(|line| line.ends_with(" host1")).map(str::to_owned)
        };
        assert_eq!(of(1).as_deref(), Some("127.0.1.1 host1"));
        assert_eq!(of(0).as_deref(), Some("10.77.0.2 host1"));
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        assert!(Layout::new("unit-1", 64).check().is_ok());
        for layout in [
            Layout::new("", 1),
            Layout::new("a b", 1),
            Layout::new("../a", 1),
            Layout::new("unit", 0),
            Layout::new("unit", 65),
            Layout::new("unit", 1).same_name("a\nb"),
        ] {
            assert!(layout.check().is_err(), "{layout:?}");
        }
    }
}
