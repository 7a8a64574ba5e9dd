//! `quo-elastic manage --slurm` where Slurm's commands answer otherwise than expected.
#![allow(clippy::unwrap_used)]

use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

/// A Slurm program that prints `text` and exits with `status`.
fn stand_in(folder: &Path, name: &str, text: &str, status: i32) {
    let path = folder.join(name);
    std::fs::write(&path, format!("#!/bin/sh\necho '{text}'\nexit {status}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn manager_goes_on_where_reservations_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let job = "21|21|0|EXPEDITING|1||n/a|N/A|N/A|5:00|Resources|exped|(null)";
    stand_in(folder.path(), "squeue", job, 0);
    stand_in(folder.path(), "sinfo", "n1|n1|idle|15160|1", 0);
    stand_in(folder.path(), "scontrol", "no", 1);
    let paths = format!("{}:{}", folder.path().display(), std::env::var("PATH").unwrap());
    let mut manager = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
    manager.args(["manage", "--slurm", "--dry-run", "--once"]).env("PATH", paths);
    let output = manager.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{said}");
    assert!(said.lines().count() == 1 && said.contains("reservations are not known"), "{said}");
}
