//! Checks whether this user and this machine can create hosts.

use std::process::Command;
use std::sync::OnceLock;

use crate::host::checked;

const TOOLS: &[(&str, &str)] = &[
    ("ip", "iproute2"),
    ("unshare", "util-linux"),
    ("nsenter", "util-linux"),
    ("setpriv", "util-linux"),
    ("mount", "mount"),
];

/// Returns the reason why hosts cannot be created here; `None` if they can.
#[must_use]
pub fn why_not() -> Option<String> {
    static ANSWER: OnceLock<Option<String>> = OnceLock::new();
    ANSWER.get_or_init(|| try_out().err()).clone()
}

fn try_out() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("hosts on one machine need root: network namespaces and mounts".to_owned());
    }
    for (tool, package) in TOOLS {
        if let Err(error) = Command::new(tool).arg("--help").output() {
            let help = "`cargo xtask setup --tests` installs what is missing";
            return Err(format!("{tool} (package {package}) does not start: {error}; {help}"));
        }
    }
    // A container may deny this even to its root.
    let mut trial = Command::new("unshare");
    trial.args(["--net", "--uts", "--mount", "--ipc", "--pid", "--fork", "--", "sh", "-ec"]);
    trial.arg("mount -t proc proc /proc; ip link add name switch type bridge; ip link add name a type veth");
    checked(&mut trial).map_err(|error| format!("this machine makes no hosts: {error:#}"))
}
