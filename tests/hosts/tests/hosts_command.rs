//! `cargo xtask hosts` by hand, as a developer uses it.

use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use quo_hosts::Hosts;
use quo_hosts::suite;
use quo_tests::Checkout;

/// A set created by the command, taken down however the test ends.
struct ByHand {
    set: String,
}

impl ByHand {
    fn new(name: &str) -> ByHand {
        ByHand { set: suite::set(name) }
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        let mut command = Command::new(Checkout::find()?.program("xtask")?);
        command.args(["hosts", "--set", &self.set]).args(arguments);
        command.output().with_context(|| format!("starting {command:?}"))
    }

    fn ok(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(output.status.success(), "{arguments:?}: {output:?}");
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Returns the error output of a call that fails.
    fn refused(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        ensure!(!output.status.success(), "{arguments:?}: {output:?}");
        Ok(String::from_utf8(output.stderr)?)
    }
}

impl Drop for ByHand {
    fn drop(&mut self) {
        let _already_gone = Hosts::remove(&self.set);
    }
}

fn hosts_made_by_hand_are_used_and_removed() -> Result<()> {
    let hosts = ByHand::new("hand");
    let listed = hosts.ok(&["up", "3"])?;
    ensure!(listed.lines().count() == 3 && listed.contains("host2"), "{listed}");
    ensure!(hosts.ok(&["run", "--host", "1", "--", "hostname"])? == "host1\n");
    ensure!(hosts.run(&["run", "--", "sh", "-c", "exit 3"])?.status.code() == Some(3));

    let words = ["run", "--ranks", "3", "--hosts", "0,2", "--env", "WORD=x", "--"];
    let job = [&words[..], &["sh", "-c", "echo $(hostname) $WORD"]].concat();
    let said = hosts.ok(&job)?;
    let mut said: Vec<&str> = said.lines().collect();
    said.sort_unstable();
    ensure!(said == ["host0 x", "host0 x", "host2 x"], "{said:?}");
    let failing = hosts.run(&["run", "--ranks", "2", "--", "sh", "-c", "exit 5"])?;
    ensure!(failing.status.code() == Some(5), "{failing:?}");

    let job = ["run", "--ranks", "1", "--hosts", "2", "--limit", "20", "--", "hostname"];
    hosts.ok(&["cut", "2"])?;
    hosts.refused(&job)?;
    ensure!(hosts.ok(&["list"])?.matches("cut off").count() == 1);
    hosts.ok(&["restore", "2"])?;
    ensure!(!hosts.ok(&["list"])?.contains("cut off"));
    ensure!(hosts.ok(&job)? == "host2\n");
    hosts.ok(&["kill", "1"])?;
    let listed = hosts.ok(&["list"])?;
    ensure!(listed.matches("killed").count() == 1 && listed.lines().count() == 3, "{listed}");

    hosts.ok(&["up", "1", "--same-name", "node"])?;
    ensure!(hosts.ok(&["run", "--", "hostname"])? == "node\n");
    ensure!(hosts.ok(&["list"])?.lines().count() == 1);
    hosts.ok(&["down"])?;
    ensure!(hosts.ok(&["down"])?.contains("there were no hosts"));
    ensure!(hosts.refused(&["list"])?.contains("there are no hosts"));
    Ok(())
}

fn what_cannot_be_done_is_said() -> Result<()> {
    let hosts = ByHand::new("refused");
    ensure!(hosts.refused(&["cut", "0"])?.contains("there are no hosts"));
    ensure!(hosts.refused(&["up", "0"])?.contains("between 1 and 64"));
    hosts.ok(&["up", "1"])?;
    for arguments in [&["kill", "1"][..], &["run", "--host", "1", "--", "true"]] {
        let complaint = hosts.refused(arguments)?;
        ensure!(complaint.contains("there is no host 1"), "{complaint}");
    }
    let complaint = hosts.refused(&["run", "--ranks", "1", "--", "/no/such/program"])?;
    ensure!(complaint.contains("/no/such/program"), "{complaint}");
    hosts.ok(&["down"]).map(drop)
}

fn somebody_else_than_root_is_told_so() -> Result<()> {
    // The other user must be able to start it.
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("xtask");
    Checkout::find()?.copy_program("xtask", &program)?;
    let everybody = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(folder.path(), everybody)?;
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "65534", "--regid", "65534", "--clear-groups", "--"]);
    let output = command.arg(&program).args(["hosts", "up", "1"]).output()?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(!output.status.success() && complaint.contains("need root"), "{output:?}");
    Ok(())
}

quo_tests::suite! {
    by |tests| quo_hosts::suite::run(tests, None);
    hosts_made_by_hand_are_used_and_removed
    what_cannot_be_done_is_said
    somebody_else_than_root_is_told_so
}
