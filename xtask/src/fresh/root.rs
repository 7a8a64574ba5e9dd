//! A folder that serves as the root of a machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::run;

/// The checkout's place in it.
const CHECKOUT: &str = "srv/quo";
/// Place of this machine's Rust toolchain in it.
const RUST: &str = "opt/rust";

/// Variables that name a proxy to programs. Everything else in the environment stays outside.
const NETWORK_VARIABLES: &[&str] =
    &["http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "TERM"];

/// Runs in mount and process namespaces of its own, so that no mount and no process outlives it.
/// The new root becomes a mount point and the real root of the namespace: a plain change of root
/// would leave one in which a program cannot make its mounts private. The shell stays as the first
/// process: that one collects orphans, which `cargo` would not.
const ENTER: &str = r#"
set -e
root=$1 toolchain=$2
shift 2
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

/// The root folder of a machine.
pub struct Root {
    path: PathBuf,
}

impl Root {
    /// A copy of a base system, in place of the rest of an earlier one.
    pub fn copy(base: &Path, path: &Path) -> Result<Root> {
        remove(path)?;
        let mut copy = Command::new("cp");
        copy.args(["--archive", "--reflink=auto"]).arg(base).arg(path);
        run::captured(&mut copy)?;
        for folder in [CHECKOUT, RUST] {
            fs::create_dir_all(path.join(folder))?;
        }
        for file in ["etc/resolv.conf", "etc/hosts"] {
            let outside = Path::new("/").join(file);
            if outside.exists() {
                fs::copy(&outside, path.join(file)).with_context(|| format!("copying {file}"))?;
            }
        }
        Ok(Root { path: path.to_path_buf() })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The text of its package database.
    pub fn packages(&self) -> Result<String> {
        let file = self.path.join("var/lib/dpkg/status");
        fs::read_to_string(&file).with_context(|| format!("reading {}", file.display()))
    }

    /// Certificates that the administrator of this machine added, for networks that need them.
    pub fn trust_what_this_machine_trusts(&self) -> Result<()> {
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

    /// Clones the commit of a checkout.
    pub fn clone_checkout(&self, checkout: &Path) -> Result<()> {
        let mut git = Command::new("git");
        git.args(["clone", "--quiet", "--no-hardlinks"]).arg(checkout);
        run::captured(git.arg(self.path.join(CHECKOUT)))?;
        Ok(())
    }

    /// A command that runs in its checkout as root, with the Rust toolchain of this machine.
    pub fn command(&self, words: &[&str]) -> Result<Command> {
        let toolchain = run::captured(Command::new("rustc").args(["--print", "sysroot"]))?;
        let toolchain = toolchain.trim();
        if !Path::new(toolchain).join("bin/cargo").exists() {
            bail!("{toolchain} holds no cargo");
        }
        let mut command = Command::new("unshare");
        command
            .args(["--mount", "--propagation", "private", "--pid", "--fork", "--kill-child"])
            .args(["sh", "-c", ENTER, "sh"])
            .arg(&self.path)
            .arg(toolchain)
            .args(words);
        command.env_clear();
        command.env("PATH", format!("/{RUST}/bin:/usr/sbin:/usr/bin:/sbin:/bin"));
        command.env("HOME", "/root").env("LANG", "C.UTF-8");
        for name in NETWORK_VARIABLES {
            if let Some(value) = std::env::var_os(name) {
                command.env(name, value);
            }
        }
        Ok(command)
    }
}

/// Removes a root folder, of which nothing may be mounted any more.
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

/// A mount point within a folder, from the text of the mount table.
fn mount_within<'a>(mounts: &'a str, folder: &Path) -> Option<&'a str> {
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    points.into_iter().find(|point| Path::new(point).starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_mounts_within_the_folder_count() {
        let mounts = "proc /proc proc rw 0 0\nnone /a/tree/dev tmpfs rw 0 0\n";
        assert_eq!(mount_within(mounts, Path::new("/a/tree")), Some("/a/tree/dev"));
        assert_eq!(mount_within(mounts, Path::new("/a/tre")), None);
        assert_eq!(mount_within(mounts, Path::new("/b")), None);
    }
}
