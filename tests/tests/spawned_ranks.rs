//! Worlds that start processes when they grow beyond the launched ranks, and whose leavers exit.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::{self, Skipped};
use quo_tests::{
    BindTo, Checkout, Family, Holdings, Job, Launcher, Outcome, Running, expect_cycles,
};

const LIMIT: Duration = Duration::from_secs(300);

fn sizes(ranks: usize, variables: &[(&str, &str)], words: &[&str]) -> Result<Outcome> {
    sizes_by(&Checkout::find()?.program("examples/sizes")?, ranks, variables, words)
}

/// Runs the same, started by another program.
fn sizes_by(
    program: &Path,
    ranks: usize,
    variables: &[(&str, &str)],
    words: &[&str],
) -> Result<Outcome> {
    let job = words.iter().fold(Job::new(ranks, program), |job, word| job.arg(word));
    // A growing world has more ranks than processors, but the launcher sees only the first ranks.
    let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let job = variables.iter().fold(job, |job, (name, value)| job.env(name, value));
    let outcome = job.limit(LIMIT).run()?;
    let said = outcome.stdout.lines().find(|line| line.starts_with("with "));
    if let Some((_, reason)) = said.and_then(|line| line.split_once("parked ranks only: ")) {
        return Err(Skipped(reason.to_owned()).into());
    }
    outcome.expect_success()?;
    Ok(outcome)
}

/// Returns the line on each change, without the time.
fn changes(outcome: &Outcome) -> Vec<&str> {
    let said = outcome.stdout.lines().filter(|line| line.starts_with("epoch "));
    said.map(|line| line.rsplit_once(", ").map_or(line, |(change, _)| change)).collect()
}

fn world_grows_beyond_launched_ranks_and_its_leavers_end() -> Result<()> {
    let outcome = sizes(1, &[("ELASTIC_MOST", "8")], &["1", "2", "4", "8", "2"])?;
    let right = [
        "epoch 1 size 2: 1 stay, 0 leave, 1 join",
        "epoch 2 size 4: 2 stay, 0 leave, 2 join",
        "epoch 3 size 8: 4 stay, 0 leave, 4 join",
        "epoch 4 size 2: 2 stay, 6 leave, 0 join",
    ];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    ensure!(outcome.stdout.contains("6 processes have ended"), "{}", outcome.report());
    Ok(())
}

fn rank_0_starts_processes_itself_where_it_is_told_to() -> Result<()> {
    let variables = [("ELASTIC_MOST", "3"), ("ELASTIC_UNIT", "1"), ("ELASTIC_STARTER", "0")];
    let outcome = sizes(1, &variables, &["1", "3", "2", "1"])?;
    ensure!(changes(&outcome).len() == 3, "{}", outcome.report());
    ensure!(outcome.stdout.contains("2 processes have ended"), "{}", outcome.report());
    Ok(())
}

/// The launcher starts a script that sets variables and then executes the program, or waits for it.
fn started_ranks_have_the_environment_of_a_wrapper() -> Result<()> {
    if !matches!(Launcher::find()?.family(), Family::OpenMpi4 | Family::OpenMpi5) {
        return Err(Skipped("only with Open MPI".to_owned()).into());
    }
    let folder = tempfile::tempdir()?;
    let script = folder.path().join("wrapper");
    let program = Checkout::find()?.program("examples/sizes")?;
    for run in ["exec", ""] {
        let set =
            "export QUO_TEST_WRAPPED='two words\nand \"a line\"' ELASTIC_SAY=QUO_TEST_WRAPPED";
        let text =
            format!("#!/bin/sh\n{set} ELASTIC_MOST=2\n{run} '{}' \"$@\"\n", program.display());
        fs::write(&script, text)?;
        fs::set_permissions(&script, fs::Permissions::from_mode(0o700))?;
        let outcome = sizes_by(&script, 1, &[], &["1", "2", "1"])?;
        ensure!(changes(&outcome).len() == 2, "{}", outcome.report());
        let said = r#"QUO_TEST_WRAPPED is "two words\nand \"a line\"""#;
        ensure!(outcome.stdout.contains(said), "{run}: {}", outcome.report());
    }
    Ok(())
}

fn ranks_that_were_started_together_leave_together() -> Result<()> {
    let outcome = sizes(1, &[("ELASTIC_MOST", "4")], &["1", "4", "2", "1"])?;
    let right =
        ["epoch 1 size 4: 1 stay, 0 leave, 3 join", "epoch 2 size 1: 1 stay, 3 leave, 0 join"];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    let said =
        "were started together and leave together; 0 or 3 can leave, with processes_per_spawn 1";
    ensure!(outcome.stdout.contains(said), "{}", outcome.report());
    Ok(())
}

fn parked_ranks_are_called_in_before_any_are_started() -> Result<()> {
    let variables = [("ELASTIC_MOST", "4"), ("ELASTIC_UNIT", "1")];
    let outcome = sizes(2, &variables, &["1", "2", "1", "4", "3", "1", "2"])?;
    let right = [
        "epoch 1 size 2: 1 stay, 0 leave, 1 join",
        "epoch 2 size 1: 1 stay, 1 leave, 0 join",
        "epoch 3 size 4: 1 stay, 0 leave, 3 join",
        "epoch 4 size 3: 3 stay, 1 leave, 0 join",
        "epoch 5 size 1: 1 stay, 2 leave, 0 join",
        "epoch 6 size 2: 1 stay, 0 leave, 1 join",
    ];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    ensure!(outcome.stdout.contains("2 processes have ended"), "{}", outcome.report());
    Ok(())
}

fn aborted_growth_lets_the_started_processes_go() -> Result<()> {
    let outcome = sizes(1, &[("ELASTIC_MOST", "3")], &["1", "3!", "2", "1"])?;
    let right = [
        "epoch 0 size 1: 1 stay, 0 leave, 2 join",
        "epoch 1 size 2: 1 stay, 0 leave, 1 join",
        "epoch 2 size 1: 1 stay, 1 leave, 0 join",
    ];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    ensure!(outcome.stdout.contains("it does not fit"), "{}", outcome.report());
    Ok(())
}

fn world_reports_when_starts_leave_mappings() -> Result<()> {
    let is_open_mpi_4 = Launcher::find()?.family() == Family::OpenMpi4;
    for (stores, wanted) in [("hash", false), ("ds21,ds12,hash", is_open_mpi_4)] {
        let outcome = sizes(1, &[("PMIX_MCA_gds", stores)], &["1"])?;
        let said = outcome.stdout.contains("launch it with PMIX_MCA_gds=hash");
        ensure!(said == wanted, "{stores}: {}", outcome.report());
    }
    Ok(())
}

fn leavers_with_communicators_of_their_own_still_end() -> Result<()> {
    if Launcher::find()?.family() == Family::OpenMpi5 {
        let reason = "Open MPI 5 waits in MPI_Finalize until the others have freed them, too";
        return Err(Skipped(reason.to_owned()).into());
    }
    let variables = [("ELASTIC_MOST", "3"), ("ELASTIC_UNIT", "1"), ("ELASTIC_KEEP", "1")];
    let outcome = sizes(1, &variables, &["1", "3", "2", "1"])?;
    ensure!(changes(&outcome).len() == 3, "{}", outcome.report());
    ensure!(outcome.stdout.contains("2 processes have ended"), "{}", outcome.report());
    Ok(())
}

/// Two hundred cycles with `cargo xtask test --full`.
fn cycles_of_starting_and_ending_leave_nothing_behind() -> Result<()> {
    let is_long = suite::is_long();
    let cycles = if is_long { 200 } else { 20 };
    let family = Launcher::find()?.family();
    let is_mpich = family == Family::Mpich;
    // For each spawn and each connection at a port Open MPI keeps 66 KiB (4) or 74 KiB (5), also in
    // a plain C program. MPICH's UCX keeps what it has mapped of each started process until
    // `MPI_Finalize`: three mappings. A plain C program that only spawns and disconnects has them,
    // too.
    let kept = match family {
        Family::Mpich if is_long => (3, 200),
        Family::OpenMpi4 | Family::OpenMpi5 => (0, 150),
        Family::Mpich | Family::Intel => (0, 100),
    };
    holds_no_more(cycles, &[], kept)?;
    if is_long && is_mpich {
        // With other transports UCX detects that the process is gone.
        holds_no_more(cycles, &[("UCX_TLS", "^cma")], (0, 100))?;
    }
    Ok(())
}

/// Cycles after which rank 0 counts its resources.
const STARTED_BEFORE: usize = 10;

/// Checks that rank 0's resources do not grow, besides the mappings and KiB that the MPI is known
/// to keep for each started process.
fn holds_no_more(cycles: usize, variables: &[(&str, &str)], kept: (u64, u64)) -> Result<()> {
    let words: Vec<&str> =
        std::iter::once("1").chain(["2", "1"].into_iter().cycle().take(2 * cycles)).collect();
    let held_at = (2 * STARTED_BEFORE).to_string();
    let always = [("ELASTIC_MOST", "2"), ("ELASTIC_HELD", held_at.as_str())];
    let outcome = sizes(1, &[&always[..], variables].concat(), &words)?;
    expect_cycles(&changes(&outcome), cycles).with_context(|| outcome.report())?;
    let ended = format!("{cycles} processes have ended");
    ensure!(outcome.stdout.contains(&ended), "{}", outcome.report());
    let (held, now) = Holdings::of(&outcome)?;
    // One or two connections to the last leavers may remain.
    let (mappings, memory) = kept;
    let counted = (cycles - STARTED_BEFORE) as u64;
    let slack = (2, 40 + mappings * counted, 2048 + memory * counted);
    held.expect_no_more(&now, slack)
}

/// A hundred cycles with `cargo xtask test --full`. The next growth is requested right after each
/// shrink.
fn cycles_with_every_slot_in_use_wait_for_leavers() -> Result<()> {
    let is_long = suite::is_long();
    let cycles = if is_long { 100 } else { 20 };
    let launcher = Launcher::find()?;
    let mut command = launcher.command(1, BindTo::None);
    if matches!(launcher.family(), Family::OpenMpi4 | Family::OpenMpi5) {
        command.args(["--host", "localhost:2"]);
    }
    command.arg(Checkout::find()?.program("examples/sizes")?).arg("1");
    (0..cycles).for_each(|_| {
        command.args(["2", "1"]);
    });
    command.envs([("ELASTIC_MOST", "2"), ("ELASTIC_EXACT", "1")]);
    command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1").env_remove("QUO_TOPOLOGY");
    let outcome = Running::start(&mut command, "exact slots", LIMIT / 2)?.finish()?;
    if let Some((_, reason)) = outcome.stdout.split_once("parked ranks only: ") {
        return Err(Skipped(reason.lines().next().unwrap_or_default().to_owned()).into());
    }
    ensure!(!outcome.out_of_time, "it hangs: {}", outcome.report());
    outcome.expect_success()?;
    outcome.expect_clean()?;
    expect_cycles(&changes(&outcome), cycles).with_context(|| outcome.report())
}

/// The launcher is not asked for more slots than it has.
fn growth_beyond_slots_is_refused_and_the_job_ends() -> Result<()> {
    let launcher = Launcher::find()?;
    if !matches!(launcher.family(), Family::OpenMpi4 | Family::OpenMpi5) {
        return Err(Skipped("slots of this launcher are not known".to_owned()).into());
    }
    let mut command = launcher.command(2, BindTo::None);
    command.args(["--host", "localhost:2"]);
    command.arg(Checkout::find()?.program("examples/sizes")?).args(["2", "3", "1", "2"]);
    command.envs([("ELASTIC_MOST", "4"), ("ELASTIC_EXACT", "1")]);
    let outcome = Running::start(&mut command, "beyond the slots", LIMIT / 4)?.finish()?;
    outcome.expect_success()?;
    let refused = "there can be 1 to 2: the launcher has 2 slots";
    let is_right = outcome.stdout.contains(refused) && changes(&outcome).len() == 2;
    ensure!(is_right, "{}", outcome.report());
    Ok(())
}

/// The launcher is not asked for unknown hosts, nor for more slots of a host than it was given.
fn growth_onto_unknown_host_is_refused_and_the_job_ends() -> Result<()> {
    let launcher = Launcher::find()?;
    if launcher.family() != Family::OpenMpi4 {
        let reason = "other launchers go on after a start that they have refused";
        return Err(Skipped(reason.to_owned()).into());
    }
    let mut command = launcher.command(1, BindTo::None);
    command.args(["--host", "localhost:2"]);
    // All of network 127 is this machine.
    let steps =
        ["8", "grow 1 on 127.0.0.2", "grow 2 on localhost", "grow 1 on localhost", "size 1"];
    command.arg(Checkout::find()?.program("examples/over_hosts")?).args(steps);
    let outcome = Running::start(&mut command, "an unknown host", LIMIT / 4)?.finish()?;
    outcome.expect_success()?;
    for words in ["127.0.0.2 is none of mpirun's hosts: localhost", "there are slots for 2"] {
        ensure!(outcome.stdout.contains(words), "{words}: {}", outcome.report());
    }
    ensure!(changes(&outcome).len() == 2, "{}", outcome.report());
    Ok(())
}

/// The launcher cannot place a start on an unknown host, nor on one without a free slot.
fn refused_start_stops_growth_and_the_job_ends() -> Result<()> {
    let launcher = Launcher::find()?;
    if launcher.family() != Family::OpenMpi4 {
        let reason = "other launchers go on after a start that they have refused";
        return Err(Skipped(reason.to_owned()).into());
    }
    let mut command = launcher.command(2, BindTo::None);
    command.args(["--host", "localhost:4"]);
    command.arg(Checkout::find()?.program("examples/sizes")?).args(["2", "3", "3", "1", "2", "3"]);
    command.envs([("ELASTIC_MOST", "4"), ("ELASTIC_HOST", "no-such-host.invalid")]);
    let outcome = Running::start(&mut command, "a refused start", LIMIT / 4)?.finish()?;
    ensure!(!outcome.out_of_time, "it hangs: {}", outcome.report());
    outcome.expect_clean()?;
    // Open MPI 4's own status after a refused start, even if the ranks end in order.
    ensure!(outcome.status.code() == Some(1), "{}", outcome.report());
    let failed = outcome.stdout.matches("failed: ").count();
    let later = "there can be 1 to 2: the launcher has refused an earlier start: ";
    ensure!(failed == 1 && outcome.stdout.matches(later).count() == 2, "{}", outcome.report());
    // Launched ranks are still parked and called in.
    let right =
        ["epoch 1 size 1: 1 stay, 1 leave, 0 join", "epoch 2 size 2: 1 stay, 0 leave, 1 join"];
    ensure!(changes(&outcome) == right, "{}", outcome.report());
    Ok(())
}

/// The launch leaves the choice of address families to MPI.
fn started_process_without_a_way_is_ended_with_advice() -> Result<()> {
    const ADVICE: &str = "OMPI_MCA_btl_tcp_disable_family=6";
    let job = Job::new(1, &Checkout::find()?.program("examples/sizes")?);
    let job = job.arg("1").arg("2").env("ELASTIC_MOST", "2");
    let job = job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
    let outcome = job.env("OMPI_MCA_btl_tcp_disable_family", "0").limit(LIMIT / 4).run()?;
    let said = outcome.stdout.lines().find(|line| line.starts_with("with "));
    if !said.is_some_and(|line| line.contains(ADVICE)) {
        return Err(Skipped("this MPI finds a way between all addresses".to_owned()).into());
    }
    ensure!(!outcome.out_of_time, "it hangs: {}", outcome.report());
    let failed = outcome.stdout.lines().find(|line| line.contains("failed: ")).unwrap_or_default();
    ensure!(failed.contains(ADVICE), "{}", outcome.report());
    outcome.expect_clean().map(drop)
}

quo_tests::suite! {
    world_grows_beyond_launched_ranks_and_its_leavers_end
    rank_0_starts_processes_itself_where_it_is_told_to
    started_ranks_have_the_environment_of_a_wrapper
    ranks_that_were_started_together_leave_together
    parked_ranks_are_called_in_before_any_are_started
    aborted_growth_lets_the_started_processes_go
    world_reports_when_starts_leave_mappings
    leavers_with_communicators_of_their_own_still_end
    cycles_of_starting_and_ending_leave_nothing_behind
    cycles_with_every_slot_in_use_wait_for_leavers
    growth_beyond_slots_is_refused_and_the_job_ends
    growth_onto_unknown_host_is_refused_and_the_job_ends
    refused_start_stops_growth_and_the_job_ends
    started_process_without_a_way_is_ended_with_advice
}
