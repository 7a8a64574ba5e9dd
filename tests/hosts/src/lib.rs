//! Several hosts on one machine, for tests: each has its own network namespace, host name,
//! `/dev/shm`, `/run` and PIDs.
//!
//! All hosts are connected to a front, from which a launcher reaches them by a remote shell of this
//! crate; the front is not a host. Everything lies in namespaces held by processes: there is no
//! file, no interface and no address on the machine itself, so that sets of hosts never disturb
//! each other, and the end of the holders removes everything. A set lives as long as the process
//! that created it, unless it is to be kept.
//!
//! ```no_run
//! use quo_hosts::Hosts;
//!
//! # fn main() -> anyhow::Result<()> {
//! let hosts = Hosts::up("example", 2)?;
//! let output = hosts.command(1, "hostname").output()?;
//! assert_eq!(output.stdout, b"host1\n");
//! // Two ranks on each.
//! hosts.job(&[(0, 2), (1, 2)], "/usr/bin/hostname").run()?.expect_success()?;
//! hosts.cut(1)?;
//! hosts.restore(1)?;
//! hosts.kill(0)?;
//! assert!(hosts.leftovers().is_empty());
//! hosts.down()
//! # }
//! ```
//!
//! A test program that needs hosts is run by [`suite::run`], which counts its tests as skipped
//! where hosts cannot exist.

mod birth;
mod host;
mod hosts;
mod job;
mod layout;
mod process;
mod requirements;
pub mod slurm;
pub mod suite;

pub use host::Host;
pub use hosts::Hosts;
pub use job::HostJob;
pub use layout::{Layout, SUBNET};
pub use requirements::why_not;
