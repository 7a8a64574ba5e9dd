//! The oldest Rust that the workspace promises to build with.

use std::fs;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::{project, run};

const INSTALL_LIMIT: Duration = Duration::from_secs(5 * 60);

/// Returns a check of the workspace with that Rust, in a separate build folder; `None` where it
/// cannot be installed.
pub fn check() -> Result<Option<Command>> {
    let version = promised()?;
    let mut install = Command::new("rustup");
    install.args(["toolchain", "install", "--profile", "minimal", &version]);
    let log = project::target()?.join("xtask").join("rustup.log");
    if !run::logged(&mut install, &log, INSTALL_LIMIT).is_ok_and(|done| done.ending.is_success()) {
        return Ok(None);
    }
    let mut check = Command::new("rustup");
    check.current_dir(project::root()).args(["run", &version, "cargo", "check"]);
    check.args(["--workspace", "--all-features"]);
    check.env("CARGO_TARGET_DIR", project::target()?.join("oldest-rust"));
    // These variables name the compiler of the calling cargo.
    check.env_remove("RUSTC").env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    Ok(Some(check))
}

/// Returns the `rust-version` of the workspace.
fn promised() -> Result<String> {
    let manifest = project::root().join("Cargo.toml");
    let text =
        fs::read_to_string(&manifest).with_context(|| format!("reading {}", manifest.display()))?;
    let manifest: toml::Table = text.parse().context("Cargo.toml is no TOML")?;
    let version = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = version.and_then(|package| package.get("rust-version")?.as_str());
    Ok(version.context("Cargo.toml promises no rust-version")?.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promised_version_is_a_release() {
        let version = promised().unwrap();
        assert!(version.starts_with("1.") && version.len() > 3, "{version}");
    }
}
