//! A folder used as the root of a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::systems::System;
use crate::{project, run};

const BOOTSTRAP_LIMIT: Duration = Duration::from_secs(20 * 60);

/// Packages that the README requires, and the certificates with which git and cargo reach the
/// network.
const README_ASKS_FOR: &str = "gcc,libc6-dev,git,python3,ca-certificates";

/// Debian's package mirror, used where this machine's configuration names none.
const DEBIAN: &str = "http://deb.debian.org/debian";

/// Path of the checkout in the root.
pub const CHECKOUT: &str = "srv/quo";
/// Path of this machine's Rust toolchain in the root.
const RUST: &str = "opt/rust";

/// Variables that give programs a proxy. No other variable of the environment is passed on.
const NETWORK_VARIABLES: &[&str] =
    &["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TERM"];

/// Runs in separate mount and process namespaces, so that no mount and no process outlives the
/// command. The new root becomes a mount point and the real root of the namespace: after a plain
/// chroot a program could not make its mounts private. The shell remains the first process, which
/// reaps orphans; `cargo` would not.
const ENTER: &str = r#"
set -e
root=$1 toolchain=$2 network=$3
shift 3
if [ "$network" = apart ]; then
    ip link set lo up
    ip link add eth0 type veth peer name far0
    ip address add 192.0.2.1/24 dev eth0
    ip address add fd00:192::1/64 dev eth0 nodad
    ip link set eth0 up
    ip link set far0 up
fi
mount --bind "$root" "$root"
cd "$root"
mount --rbind /dev dev
mount -t tmpfs -o mode=1777,nosuid,nodev tmpfs dev/shm
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs run
mount --bind "$toolchain" opt/rust
mount -o remount,bind,ro opt/rust
pivot_root . mnt
exec chroot . sh -c 'umount -l /mnt && cd /srv/quo || exit 1; "$@"; exit $?' sh "$@"
"#;

/// Network of a command in a root.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Network {
    /// This machine's network.
    Shared,
    /// An isolated network, with addresses of both families as hosts have.
    Apart,
}

/// The root folder of a machine.
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// Returns the kept root of a system, creating it if necessary.
    pub fn of(system: &System, path: PathBuf) -> Result<Root> {
        if !path.exists() {
            bootstrap(system, &path)?;
        }
        for folder in [CHECKOUT, RUST] {
            fs::create_dir_all(path.join(folder))?;
        }
        for file in ["etc/resolv.conf", "etc/hosts"] {
            let outside = Path::new("/").join(file);
            if outside.exists() {
                fs::copy(&outside, path.join(file)).with_context(|| format!("copying {file}"))?;
            }
        }
        let root = Root { path };
        root.trust_what_this_machine_trusts()?;
        Ok(root)
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the text of the package database.
    pub fn packages(&self) -> Result<String> {
        let file = self.path.join("var/lib/dpkg/status");
        fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    }

    /// Adds the certificates that this machine's administrator installed, for networks that need
    /// them.
    fn trust_what_this_machine_trusts(&self) -> Result<()> {
        const ADDED: &str = "usr/local/share/ca-certificates";
        let added = Path::new("/").join(ADDED);
        if !added.is_dir() {
            return Ok(());
        }
        for entry in fs::read_dir(added)? {
            let file = entry?.path();
            if file.extension().is_some_and(|extension| extension == "crt") {
                let name =
                    file.file_name().with_context(|| format!("{} has no name", file.display()))?;
                fs::copy(&file, self.path.join(ADDED).join(name))?;
            }
        }
        run::captured(Command::new("chroot").arg(&self.path).arg("update-ca-certificates"))?;
        Ok(())
    }

    /// Updates the root's clone of a checkout to the commit there.
    pub fn update_checkout(&self, checkout: &Path) -> Result<()> {
        let clone = self.path.join(CHECKOUT);
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("-C").arg(&clone).args(words);
            git
        };
        if !clone.join(".git").exists() {
            run::captured(&mut git(&["init", "--quiet"]))?;
        }
        run::captured(git(&["fetch", "--quiet"]).arg(checkout).arg("HEAD"))?;
        run::captured(&mut git(&["checkout", "--quiet", "--force", "--detach", "FETCH_HEAD"]))?;
        Ok(())
    }

    /// Returns a command that runs in the root's checkout as root, with this machine's Rust
    /// toolchain.
    pub fn command(&self, words: &[&str], network: Network) -> Result<Command> {
        let toolchain = run::captured(Command::new("rustc").args(["--print", "sysroot"]))?;
        let toolchain = toolchain.trim();
        if !Path::new(toolchain).join("bin/cargo").exists() {
            bail!("{toolchain} holds no cargo");
        }
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"])
            .args((network == Network::Apart).then_some("--net"))
            .args(["sh", "-c", ENTER, "sh"])
            .arg(&self.path)
            .arg(toolchain)
            .arg(if network == Network::Apart { "apart" } else { "shared" })
            .args(words);
        command.env_clear();
        command.env("PATH", format!("/{RUST}/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
        command.env("HOME", "/root").env("LANG", "C.UTF-8");
        // Each commit is built once: incremental builds would only take half of the disk.
        command.env("CARGO_INCREMENTAL", "0");
        for name in NETWORK_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Ok(command)
    }
}

/// Creates a minimal Debian, under another name until it is complete, so that an interrupted one is
/// not mistaken for it.
fn bootstrap(system: &System, path: &Path) -> Result<()> {
    let unfinished = path.with_extension("unfinished");
    remove(&unfinished)?;
    let parent = path.parent().context("a root without a folder around it")?;
    fs::create_dir_all(parent)?;
    println!("fresh: making a minimal {} with {README_ASKS_FOR}", system.title);
    let program =
        project::find_system_program("mmdebstrap").context("mmdebstrap is not installed")?;
    let mut mmdebstrap = Command::new(program);
    mmdebstrap.args(["--mode=root", "--variant=minbase"]);
    // An outdated mirror serves a list that claims to have expired.
    mmdebstrap.arg("--aptopt=Acquire::Check-Valid-Until \"false\"");
    mmdebstrap.arg(format!("--include={README_ASKS_FOR}")).arg(&system.suite);
    mmdebstrap.arg(&unfinished).arg(mirror());
    let log = parent.join("mmdebstrap.log");
    let finished = run::logged(&mut mmdebstrap, &log, BOOTSTRAP_LIMIT)?;
    if !finished.ending.is_success() {
        let end: Vec<&str> = finished.output.lines().rev().take(10).collect();
        let end: Vec<&str> = end.into_iter().rev().collect();
        bail!("mmdebstrap: {}\n{}", finished.ending, end.join("\n"));
    }
    fs::rename(&unfinished, path)?;
    Ok(())
}

/// Returns the mirror from which this machine gets Debian's packages.
fn mirror() -> String {
    let mut apt = Command::new("apt-get");
    apt.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages"]);
    let places = run::captured(&mut apt).unwrap_or_default();
    debian_among(&places).unwrap_or(DEBIAN).to_owned()
}

/// Returns the first of these mirrors that is the distribution's own, not of its security updates
/// or of third parties.
fn debian_among(places: &str) -> Option<&str> {
    places.lines().map(str::trim).find(|place| place.trim_end_matches('/').ends_with("/debian"))
}

/// Removes a root folder, in which nothing may be mounted any more.
pub fn remove(path: &Path) -> Result<()> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("reading the mounts")?;
    let canonical = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
    if let Some(mount) = mount_within(&mounts, &canonical) {
        bail!("{} is mounted within {}, which is therefore kept", mount, path.display());
    }
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("removing {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Returns a mount point within a folder, from the text of the mount table.
fn mount_within<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    points.into_iter().find(|point| Path::new(point).starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_is_the_distributions_own_place() {
        let places = "http://near/debian-security/\nhttps://other/node\nhttp://near/debian/\n";
        assert_eq!(debian_among(places), Some("http://near/debian/"));
        assert_eq!(debian_among("http://near/ubuntu/\n"), None);
    }

    #[test]
    fn only_mounts_within_the_folder_count() {
        let mounts = "proc /proc proc rw 0 0\nnone /a/tree/dev tmpfs rw 0 0\n";
        assert_eq!(mount_within(mounts, Path::new("/a/tree")), Some("/a/tree/dev"));
        assert_eq!(mount_within(mounts, Path::new("/a/tre")), None);
        assert_eq!(mount_within(mounts, Path::new("/b")), None);
    }
}
