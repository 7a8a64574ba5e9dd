//! A set of hosts: create, cut off, restore, kill, take down.

use std::ffi::OsStr;
use std::fs;
use std::io::Write;
use std::net::Ipv4Addr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::Pid;

use crate::birth::{Plan, Role, holders, release};
use crate::host::Host;
use crate::job::HostJob;
use crate::layout::{self, FRONT, Layout};
use crate::process;
use crate::requirements::why_not;

/// Program that `mpirun` calls in place of `ssh`, by its path at the front.
pub(crate) const REMOTE_SHELL: &str = "/run/remote-shell";
/// Folder in which the remote shell finds the holders: one file per address and name.
const ROUTES: &str = "/run/quo-hosts";
/// Time within which the processes around a holder must end after it.
const DEATH: Duration = Duration::from_secs(20);

/// Several hosts on this machine, and the front, at which launchers run. All of it ends when this
/// value is dropped or this process ends in any way, unless the set is kept.
#[derive(Debug)]
pub struct Hosts {
    set: String,
    front: Host,
    hosts: Vec<Host>,
    /// Input pipes of the holders: an open pipe keeps its holder alive.
    lifelines: Vec<Child>,
    keep: bool,
}

impl Hosts {
    /// Creates `hosts` hosts with default names. An existing set of this name is taken down first.
    ///
    /// # Errors
    ///
    /// This user or this machine cannot have hosts; [`why_not`] checks beforehand.
    pub fn up(set: &str, hosts: usize) -> Result<Hosts> {
        Hosts::with(&Layout::new(set, hosts))
    }

    /// Creates hosts as laid out. An existing set of this name is taken down first.
    ///
    /// # Errors
    ///
    /// This user or this machine cannot have hosts; [`why_not`] checks beforehand.
    pub fn with(layout: &Layout) -> Result<Hosts> {
        layout.check()?;
        if let Some(reason) = why_not() {
            bail!("{reason}");
        }
        let _turn = Turn::take(layout.set())?;
        end(layout.set())?;
        let mut hosts = Hosts::born(layout)?;
        hosts.connect().with_context(|| format!("connecting the hosts of {}", layout.set()))?;
        hosts.furnish().with_context(|| format!("furnishing the front of {}", layout.set()))?;
        hosts.release(layout.stays())?;
        Ok(hosts)
    }

    /// Opens a set that is kept, or that another process holds.
    ///
    /// # Errors
    ///
    /// No set has this name.
    pub fn open(set: &str) -> Result<Hosts> {
        let mut found = holders(Some(set)).into_iter();
        let Some((_, Role::Front, front)) = found.next() else {
            bail!("there are no hosts of the set '{set}'");
        };
        let mut hosts = Vec::new();
        for (_, role, host) in found {
            if let Role::Host(index) = role {
                // The hosts in between were killed, and keep their index.
                while hosts.len() < index {
                    hosts.push(dead(&host, hosts.len()));
                }
                hosts.push(host);
            }
        }
        Ok(Hosts { set: set.to_owned(), front, hosts, lifelines: Vec::new(), keep: true })
    }

    /// Returns the names of all existing sets.
    #[must_use]
    pub fn sets() -> Vec<String> {
        let mut names: Vec<String> = holders(None).into_iter().map(|(set, ..)| set).collect();
        names.dedup();
        names
    }

    /// Takes a set down, whichever process created it. Returns true if the set existed.
    ///
    /// # Errors
    ///
    /// A part of the set cannot be removed.
    pub fn remove(set: &str) -> Result<bool> {
        layout::check_set(set)?;
        let _turn = Turn::take(set)?;
        end(set)
    }

    /// Takes the set down.
    ///
    /// # Errors
    ///
    /// A part of the set cannot be removed.
    pub fn down(mut self) -> Result<()> {
        self.keep = true;
        self.end()
    }

    /// Returns the name of the set.
    #[must_use]
    pub fn set(&self) -> &str {
        &self.set
    }

    /// Returns the number of hosts, including killed ones.
    #[must_use]
    pub fn len(&self) -> usize {
        self.hosts.len()
    }

    /// Returns true if there are no hosts.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.hosts.is_empty()
    }

    /// Returns one of the hosts.
    ///
    /// # Panics
    ///
    /// There are not that many hosts.
    #[must_use]
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// Returns the front, at which launchers run. It reaches all hosts and is not one of them.
    #[must_use]
    pub fn front(&self) -> &Host {
        &self.front
    }

    /// Returns a command that runs on a host: [`Host::command`].
    ///
    /// # Panics
    ///
    /// There are not that many hosts.
    #[must_use]
    pub fn command(&self, index: usize, program: impl AsRef<OsStr>) -> Command {
        self.hosts[index].command(program)
    }

    /// Returns a job of an MPI program over hosts, given as pairs of index and number of ranks.
    ///
    /// # Panics
    ///
    /// There are not that many hosts.
    #[must_use]
    pub fn job(&self, ranks: &[(usize, usize)], program: impl Into<PathBuf>) -> HostJob<'_> {
        HostJob::new(self, ranks, program.into())
    }

    /// Cuts a host off from all others. Its processes keep running. New remote shells to it fail.
    ///
    /// # Errors
    ///
    /// The host has been killed.
    ///
    /// # Panics
    ///
    /// There are not that many hosts.
    pub fn cut(&self, index: usize) -> Result<()> {
        self.set_link(index, "down")?;
        self.close_route(index)
    }

    /// Reconnects a host that was cut off.
    ///
    /// # Errors
    ///
    /// The host has been killed.
    ///
    /// # Panics
    ///
    /// There are not that many hosts.
    pub fn restore(&self, index: usize) -> Result<()> {
        self.set_link(index, "up")?;
        self.open_route(index)
    }

    /// Returns true if a living host is cut off.
    #[must_use]
    pub fn is_cut_off(&self, index: usize) -> bool {
        self.hosts[index].is_alive() && self.routes(index).iter().any(|route| !route.exists())
    }

    /// Kills all processes of a host at once, and the host with them.
    ///
    /// # Errors
    ///
    /// A process of the host does not die.
    ///
    /// # Panics
    ///
    /// There are not that many hosts.
    pub fn kill(&self, index: usize) -> Result<()> {
        self.close_route(index)?;
        self.hosts[index].kill()
    }

    /// Returns what is left on the living hosts and at the front: processes, and files in
    /// `/dev/shm` and in the folder for temporary files.
    #[must_use]
    pub fn leftovers(&self) -> Vec<String> {
        let holders = self.hosts.iter().filter(|host| host.is_alive());
        // Each holder has a process at the front that waits for it.
        let waiting: Vec<i32> =
            holders.filter_map(|host| process::parent(host.holder.number())).collect();
        let everywhere = std::iter::once(&self.front).chain(&self.hosts);
        everywhere.flat_map(|host| host.leftovers(&waiting)).collect()
    }

    fn born(layout: &Layout) -> Result<Hosts> {
        let plan = |role, name, address: Ipv4Addr, hosts_file| Plan {
            set: layout.set(),
            role,
            name,
            address: address.to_string(),
            hosts_file,
            memory: layout.memory_size(),
        };
        let front = plan(Role::Front, FRONT, layout::front_address(), layout.hosts_file(None));
        let (front, lifeline) = front.carry_out(None)?;
        // From here on any failure ends the front, and all hosts with it.
        let mut hosts = Hosts {
            set: layout.set().to_owned(),
            front,
            hosts: Vec::new(),
            lifelines: vec![lifeline],
            keep: false,
        };
        for index in 0..layout.len() {
            let hosts_file = layout.hosts_file(Some(index));
            let address = layout::address(index);
            let host = plan(Role::Host(index), layout.name(index), address, hosts_file);
            let (host, lifeline) = host.carry_out(Some(&hosts.front))?;
            hosts.hosts.push(host);
            hosts.lifelines.push(lifeline);
        }
        Ok(hosts)
    }

    fn connect(&self) -> Result<()> {
        let mut switch = "link add name switch type bridge\nlink set switch up\n".to_owned();
        let mut add = |line: String| {
            switch.push_str(&line);
            switch.push('\n');
        };
        add(format!("address add {}/{} dev switch", self.front.address, layout::PREFIX));
        for (index, host) in self.hosts.iter().enumerate() {
            let (port, holder) = (layout::port(index), host.holder.number());
            add(format!("link add name {port} type veth peer name eth0 netns {holder}"));
            add(format!("link set {port} master switch up"));
        }
        configure(&self.front, &switch)?;
        self.hosts.iter().try_for_each(|host| {
            let address = format!("address add {}/{} dev eth0\n", host.address, layout::PREFIX);
            configure(host, &format!("{address}link set eth0 up\n"))
        })
    }

    fn furnish(&self) -> Result<()> {
        // Open MPI's daemons look for the script as well, though only the front has routes.
        for host in std::iter::once(&self.front).chain(&self.hosts) {
            let script = host.path(REMOTE_SHELL);
            fs::write(&script, include_str!("remote-shell.sh"))?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
        }
        fs::create_dir(self.front.path(ROUTES))?;
        (0..self.hosts.len()).try_for_each(|index| self.open_route(index))
    }

    /// Tells the holders how long to live. The front is last: until it knows, all hosts end with
    /// it.
    fn release(&mut self, stay: bool) -> Result<()> {
        let (front, hosts) = self.lifelines.split_at_mut(1);
        for (holder, host) in hosts.iter_mut().zip(&self.hosts) {
            release(holder, host, stay)?;
        }
        // The front is last: once it is released, the set can be found and is complete.
        for holder in front {
            release(holder, &self.front, stay)?;
        }
        self.keep = stay;
        Ok(())
    }

    /// Returns the routes by which the front reaches this host and no other.
    fn routes(&self, index: usize) -> Vec<PathBuf> {
        let host = &self.hosts[index];
        let namesakes = self.hosts.iter().filter(|other| other.name == host.name).count();
        let name = (namesakes == 1).then_some(&host.name);
        let names = std::iter::once(&host.address).chain(name);
        names.map(|name| self.front.path(ROUTES).join(name)).collect()
    }

    fn open_route(&self, index: usize) -> Result<()> {
        let numbers = process::numbers(self.hosts[index].holder.number());
        // The numbers end with: here, at the front, on the host itself.
        let at_front = numbers.iter().rev().nth(1).context("the host has been killed")?;
        for route in self.routes(index) {
            fs::write(&route, at_front.to_string())
                .with_context(|| format!("opening the route to {}", self.hosts[index].name))?;
        }
        Ok(())
    }

    fn close_route(&self, index: usize) -> Result<()> {
        for route in self.routes(index) {
            match fs::remove_file(&route) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                    return Err(error).context("closing the route to a host");
                }
                _ => {}
            }
        }
        Ok(())
    }

    fn set_link(&self, index: usize, state: &str) -> Result<()> {
        let host = &self.hosts[index];
        if !host.is_alive() {
            bail!("{} has been killed", host.name);
        }
        configure(&self.front, &format!("link set {} {state}\n", layout::port(index)))
    }

    fn end(&mut self) -> Result<()> {
        let ended = self.front.kill();
        for mut holder in self.lifelines.drain(..) {
            drop(holder.stdin.take());
            let pid = Pid::from_child(&holder);
            if !quo_tests::ends_within(pid, DEATH)? {
                bail!("process {pid} of the set {} does not end", self.set);
            }
            holder.wait().context("waiting for a holder")?;
        }
        ended
    }
}

impl Drop for Hosts {
    fn drop(&mut self) {
        if !self.keep {
            let _the_kernel_ends_them_with_us = self.end();
        }
    }
}

/// Returns a killed host, known only from a gap in the numbering.
fn dead(like: &Host, index: usize) -> Host {
    let address = layout::address(index).to_string();
    Host { name: format!("host{index}"), address, holder: like.holder.never() }
}

/// Ends what is left of a set, including several sets created at once. Returns true if there was
/// any.
fn end(set: &str) -> Result<bool> {
    let mut any = false;
    // Hosts end with their front; a host without one is left from a front killed just now.
    for _ in 0..10 {
        let found = holders(Some(set));
        if found.is_empty() {
            return Ok(any);
        }
        any = true;
        found.iter().try_for_each(|(_, _, host)| host.kill())?;
    }
    bail!("the set '{set}' comes back whenever it is taken down")
}

/// Applies network settings inside a host; other hosts' interfaces are named by their PIDs here.
fn configure(host: &Host, batch: &str) -> Result<()> {
    let mut command = Command::new("nsenter");
    command.arg("--target").arg(host.holder.number().to_string()).arg("--net");
    command.args(["ip", "-batch", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().context("starting ip")?;
    let mut input = child.stdin.take().context("ip takes no input")?;
    input.write_all(batch.as_bytes()).context("talking to ip")?;
    drop(input);
    let output = child.wait_with_output().context("waiting for ip")?;
    if !output.status.success() {
        let complaint = String::from_utf8_lossy(&output.stderr);
        bail!("ip on {}: {}\n{}", host.name, complaint.trim(), batch.trim_end());
    }
    Ok(())
}

/// Held while a set is created or removed. The kernel releases it when the process ends.
struct Turn(#[expect(dead_code, reason = "held")] UnixListener);

impl Turn {
    fn take(set: &str) -> Result<Turn> {
        let name = format!("quo-hosts-{set}");
        let address = SocketAddr::from_abstract_name(name)?;
        let listener = UnixListener::bind_addr(&address).with_context(|| {
            format!("the set '{set}' is being made or removed by another process")
        })?;
        Ok(Turn(listener))
    }
}
