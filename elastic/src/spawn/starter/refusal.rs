//! Ends a launcher that has refused a spawn: Open MPI 4's launcher sends its daemons no message
//! after that, and so never ends the job.

use std::process::{Command, Stdio};
use std::time::Duration;

use quo_mpi::{Family, Identity};

use crate::node::process_identity::{self, ProcessIdentity};

/// Time for the launcher to end by itself, as it does when a rank has failed.
const PAUSE: Duration = Duration::from_secs(1);

/// As [`PAUSE`], if there are ranks on other nodes: this node does not see their ends. They have
/// reached `MPI_Finalize` before any rank leaves it.
const PAUSE_OVER_NODES: Duration = Duration::from_secs(10);

/// Names of the processes that start ranks: `mpirun` by its names, and its daemon on other nodes.
const LAUNCHERS: [&str; 4] = ["mpirun", "mpiexec", "orterun", "orted"];

/// Consequence, appended to the cause.
pub(super) const AFTER: &str =
    "; this mpirun starts nothing after that, and ends with status 1: run the job anew to grow";

/// Returns true if this launcher, after a spawn that it refused, starts nothing more and does not
/// end.
pub(super) fn loses_launcher(mpi: &Identity) -> bool {
    (mpi.family(), mpi.major()) == (Family::OpenMpi, Some(4))
}

/// Waits for the end of its input, then for the end of every `PROCESS:BEGAN` after the first two
/// words, then for the launcher (the first word) for at most the number of seconds in the second
/// word, and terminates it.
const SCRIPT: &str = r#"read -r _; launcher=$1 pause=$2; shift 2
lives() { stat=$(cat "/proc/${1%:*}/stat" 2>/dev/null) || return 1; at=0
for word in ${stat##*) }; do at=$((at + 1))
case $at$word in 1Z|1X) return 1 ;; esac
if [ $at -eq 20 ]; then [ "$word" = "${1#*:}" ]; return; fi; done; return 1; }
for life; do while lives "$launcher" && lives "$life"; do sleep 0.05; done; done
while lives "$launcher" && [ "$pause" -gt 0 ]; do sleep 1; pause=$((pause - 1)); done
! lives "$launcher" || kill -TERM "${launcher%:*}""#;

/// Has the launcher of this process terminated once this process and all others that it runs on
/// this node have ended. Does nothing if no launcher is found above this process.
pub(crate) fn end_launcher(is_one_node: bool) {
    let Some(launcher) = ancestors().find(|&process| is_launcher(process)) else { return };
    let Some(launcher) = ProcessIdentity::of(launcher) else { return };
    let ranks =
        process_identity::children(launcher.process()).into_iter().filter(|&child| is_rank(child));
    let ranks: Vec<ProcessIdentity> = ranks.filter_map(ProcessIdentity::of).collect();
    end_after(&launcher, &ranks, if is_one_node { PAUSE } else { PAUSE_OVER_NODES });
}

fn end_after(launcher: &ProcessIdentity, ranks: &[ProcessIdentity], pause: Duration) {
    let mut command = Command::new("sh");
    command.args(["-c", SCRIPT, "sh", &launcher.word(), &pause.as_secs().to_string()]);
    command.args(ranks.iter().map(ProcessIdentity::word));
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Ok(mut child) = command.spawn() {
        // The kernel closes it at the end of this process.
        std::mem::forget(child.stdin.take());
    }
}

/// The numbers of the processes above this one, nearest first.
pub(super) fn ancestors() -> impl Iterator<Item = i32> {
    let own = std::process::id().cast_signed();
    std::iter::successors(process_identity::parent(own), |&process| {
        process_identity::parent(process)
    })
}

/// Returns true if the process has the name of a program that starts ranks.
pub(super) fn is_launcher(process: i32) -> bool {
    let name = std::fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    LAUNCHERS.iter().any(|launcher| name.starts_with(launcher))
}

/// Returns true if the process has the environment of a rank; the launcher's remote shells do not.
fn is_rank(process: i32) -> bool {
    let environment = std::fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    environment.split(|&byte| byte == 0).any(|entry| entry.starts_with(b"PMIX_RANK="))
}

#[cfg(test)]
mod tests {
    use std::process::Child;

    use super::*;

    fn sleeper() -> (Child, ProcessIdentity) {
        let child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let life = ProcessIdentity::of(child.id().cast_signed()).unwrap();
        (child, life)
    }

    fn script(launcher: &str, ranks: &[&str]) -> Child {
        let mut command = Command::new("sh");
        command.args(["-c", SCRIPT, "sh", launcher, "0"]).args(ranks).stdin(Stdio::piped());
        command.spawn().unwrap()
    }

    #[test]
    fn launcher_is_terminated_once_its_ranks_have_ended() {
        let (mut launcher, launchers) = sleeper();
        let (mut rank, ranks) = sleeper();
        let mut script = script(&launchers.word(), &[&ranks.word()]);
        drop(script.stdin.take());
        // The script continues at the rank's end, even before the rank has been reaped.
        drop(rank.stdin.take());
        assert!(script.wait().unwrap().success());
        assert!(!launcher.wait().unwrap().success());
        rank.wait().unwrap();
    }

    #[test]
    fn ended_or_replaced_launcher_is_left_alone() {
        let (mut other, others) = sleeper();
        let (mut rank, ranks) = sleeper();
        for launcher in ["999999999:5".to_owned(), format!("{}:1", others.process())] {
            let mut script = script(&launcher, &[&ranks.word()]);
            drop(script.stdin.take());
            // It does not wait for the rank of a launcher that has ended.
            assert!(script.wait().unwrap().success());
        }
        for child in [&mut other, &mut rank] {
            drop(child.stdin.take());
            assert!(child.wait().unwrap().success());
        }
    }

    #[test]
    fn children_and_ancestors_of_a_process_are_found() {
        let (mut child, _) = sleeper();
        let own = std::process::id().cast_signed();
        assert!(process_identity::children(own).contains(&child.id().cast_signed()));
        assert_eq!(process_identity::parent(child.id().cast_signed()), Some(own));
        assert_eq!(ancestors().next(), process_identity::parent(own));
        drop(child.stdin.take());
        child.wait().unwrap();
    }
}
