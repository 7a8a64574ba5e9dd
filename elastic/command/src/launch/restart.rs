//! `quo-elastic launch --restarts`: starts a job that has failed again, on the hosts that are left.
//! Its program continues from its last checkpoint.

use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use quo_terminal::child;

use super::{Launch, Mpi, Plan, Ranks, command};
use crate::output::complain;

/// Time within which a host that is there starts a program.
const ANSWER: Duration = Duration::from_secs(20);
/// Time between two looks at the programs on all hosts.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs the job, and again as often as its options allow, until it succeeds or a signal requests the
/// end. Returns the status of the last run.
///
/// # Errors
/// If the launcher cannot be run.
pub(super) fn run(
    launch: &Launch,
    mpi: &Mpi,
    plan: &dyn Fn(&Launch) -> Result<Plan>,
) -> Result<u8> {
    child::handle();
    let is_allocation = launch.hosts.is_empty();
    let mut launch = launch.clone();
    let mut restart = 0;
    loop {
        let begun = Instant::now();
        let status = once(&plan(&launch)?)?;
        if status.success() || child::asked_to_end() || restart == launch.restarts {
            return Ok(child::end_like(status));
        }
        restart += 1;
        let ended = format!("launch: the job ended with {status} after {:.0?}", begun.elapsed());
        let lost = drop_lost(&mut launch, mpi)?;
        let lost = match lost.as_slice() {
            [] => String::new(),
            [host] => format!("; host {host} does not answer"),
            hosts => format!("; hosts {} do not answer", hosts.join(", ")),
        };
        if let Some(slots) = too_few(&mut launch, is_allocation) {
            let Ranks { min, .. } = launch.ranks;
            complain(&format!("{ended}{lost}; {min} ranks are needed, {slots} slots are left"));
            return Ok(child::end_like(status));
        }
        if child::asked_to_end() {
            return Ok(child::end_like(status));
        }
        complain(&format!("{ended}{lost}; restart {restart} of {}", launch.restarts));
    }
}

/// Runs the launcher until it ends, and passes signals to it.
fn once(plan: &Plan) -> Result<ExitStatus> {
    let shown = plan.words[0].to_string_lossy();
    let mut running =
        command(plan).spawn().with_context(|| format!("launch: cannot run {shown}"))?;
    child::pass_to(running.id());
    child::wait(&mut running).with_context(|| format!("launch: cannot wait for {shown}"))
}

/// Removes the hosts on which the launcher cannot start a program any more, and returns their names.
fn drop_lost(launch: &mut Launch, mpi: &Mpi) -> Result<Vec<String>> {
    let shown = launch.mpirun.to_string_lossy().into_owned();
    let begun = Instant::now();
    let mut asked = Vec::new();
    for (name, _) in &launch.hosts {
        let option = if matches!(mpi, Mpi::Open { .. }) { "--host" } else { "-hosts" };
        let mut command = Command::new(&launch.mpirun);
        command.args(["-n", "1", option, &format!("{name}:1"), "true"]);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().with_context(|| format!("launch: cannot run {shown}"))?;
        asked.push((name.clone(), child));
    }
    let mut lost = Vec::new();
    for (name, mut child) in asked {
        if !answers(&mut child, begun)? {
            lost.push(name);
        }
    }
    launch.hosts.retain(|(name, _)| !lost.contains(name));
    Ok(lost)
}

/// Returns true if a program on a host ends well in time.
fn answers(child: &mut Child, begun: Instant) -> Result<bool> {
    loop {
        if let Some(status) = child.try_wait().context("launch: waiting for a host")? {
            return Ok(status.success());
        }
        if begun.elapsed() > ANSWER || child::asked_to_end() {
            child
                .kill()
                .and_then(|()| child.wait())
                .context("launch: ending the wait for a host")?;
            return Ok(false);
        }
        // Sleeps: the standard library has no wait for a child with a limit.
        std::thread::sleep(PAUSE);
    }
}

/// Lowers the largest size to the slots that are left; returns their number if it is too small. Only
/// the launcher knows the slots of an allocation.
fn too_few(launch: &mut Launch, is_allocation: bool) -> Option<u32> {
    if is_allocation {
        return None;
    }
    let slots: u32 = launch.hosts.iter().map(|(_, slots)| slots).sum();
    launch.ranks.max = launch.ranks.max.min(slots.max(launch.ranks.min));
    (slots < launch.ranks.min).then_some(slots)
}
