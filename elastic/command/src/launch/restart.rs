//! `quo-elastic launch --restarts`: starts a job that has failed again, on the hosts that are left.
//! Its program continues from its last checkpoint.

use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use quo_terminal::child;

use super::watch::{self, Watch};
use super::{Launch, Mpi, Plan, command};
use crate::output::complain;

/// Exit status after a signal that the status of the launcher does not show.
const INTERRUPTED: u8 = 130;
/// Time in which a host that is going down becomes silent.
const SETTLING: Duration = Duration::from_secs(3);

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
    let names: Vec<String> = launch.hosts.iter().map(|(name, _)| name.clone()).collect();
    let mut seen = watch::there(&names);
    let mut restart = 0;
    loop {
        if child::asked_to_end() {
            return Ok(INTERRUPTED);
        }
        let begun = Instant::now();
        let (status, was_ended) = once(&plan(&launch)?, &seen)?;
        if status.success() && child::asked_to_end() && hides_signals(mpi) {
            return Ok(INTERRUPTED);
        }
        let is_success = status.success() && !was_ended;
        let may_have_lost = is_success && hides_losses(mpi) && !is_allocation;
        let is_over = is_success && !may_have_lost;
        if is_over || child::asked_to_end() || (restart == launch.restarts && !may_have_lost) {
            return Ok(child::end_like(status));
        }
        let took = begun.elapsed();
        // Sleeps: the kernel of a host that is going down still answers for a moment.
        std::thread::sleep(SETTLING);
        let lost = drop_lost(&mut launch, &mut seen);
        if child::asked_to_end() || (may_have_lost && lost.is_empty()) {
            return Ok(child::end_like(status));
        }
        let mut told = format!("launch: the job ended with {status} after {took:.0?}");
        told += &match lost.as_slice() {
            [] => String::new(),
            [host] => format!("; host {host} does not answer"),
            hosts => format!("; hosts {} do not answer", hosts.join(", ")),
        };
        let slots = slots_left(&mut launch);
        let is_enough = is_allocation || slots >= launch.ranks.min;
        if !is_enough || restart == launch.restarts {
            if !is_enough {
                let min = launch.ranks.min;
                told += &format!("; {min} ranks are needed, slots that are left: {slots}");
            }
            complain(&told);
            return Ok(if status.success() { 1 } else { child::end_like(status) });
        }
        restart += 1;
        complain(&format!("{told}; restart {restart} of {}", launch.restarts));
    }
}

/// Returns true if the launcher of an MPI ends with success after the loss of a host.
fn hides_losses(mpi: &Mpi) -> bool {
    matches!(mpi, Mpi::Open { version } if version[0] >= 5)
}

/// Returns true if the launcher of an MPI may end with success after a signal, when it has killed the
/// job.
fn hides_signals(mpi: &Mpi) -> bool {
    matches!(mpi, Mpi::Mpich { version } if *version < [4, 1, 0])
}

/// Runs the launcher until it ends, passes signals to it and watches the hosts. Returns true with the
/// status if the launcher was ended for a silent host.
fn once(plan: &Plan, hosts: &[String]) -> Result<(ExitStatus, bool)> {
    let shown = plan.words[0].to_string_lossy();
    let mut running =
        command(plan).spawn().with_context(|| format!("launch: cannot run {shown}"))?;
    child::pass_to(running.id());
    let watch = match Watch::over(hosts.to_vec(), &running) {
        _ if hosts.is_empty() => None,
        Ok(watch) => Some(watch),
        Err(error) => {
            complain(&format!("launch: the hosts are not watched: {error:#}"));
            None
        }
    };
    let status =
        child::wait(&mut running).with_context(|| format!("launch: cannot wait for {shown}"));
    let was_ended = watch.is_some_and(Watch::end);
    Ok((status?, was_ended))
}

/// Removes hosts that have answered before and are silent now, and returns their names.
fn drop_lost(launch: &mut Launch, seen: &mut Vec<String>) -> Vec<String> {
    let lost = watch::silent(seen);
    seen.retain(|name| !lost.contains(name));
    launch.hosts.retain(|(name, _)| !lost.contains(name));
    lost
}

/// Returns the slots that are left, and lowers the largest size to them.
fn slots_left(launch: &mut Launch) -> u32 {
    let slots: u32 = launch.hosts.iter().map(|(_, slots)| slots).sum();
    if !launch.hosts.is_empty() {
        launch.ranks.max = launch.ranks.max.min(slots.max(launch.ranks.min));
    }
    slots
}
