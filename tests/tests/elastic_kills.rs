//! Processes of an elastic C program are killed at random moments (between steps, in resizes, while
//! parked, while others start and while they end), and every job ends soon, by the option
//! `abort_on_death` where others wait in a collective call of MPI. So do solvers under random
//! resizes, in which a rank is killed: they end with its name, or continue where it was parked.
#![allow(clippy::print_stdout)] // The times are a result.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_tests::suite::{self, Skipped};
use quo_tests::{BindTo, Checkout, Family, Launcher, Nodes, Outcome, Running};
use rustix::process::{Pid, Signal, kill_process};

/// Rounds of the gate; `QUO_TESTS_KILL_ROUNDS` overrides the number, and `QUO_TESTS_LONG` selects
/// the rounds of the full suite.
const ROUNDS: u64 = 20;
const ROUNDS_OF_FULL: u64 = 1_000;
const ROUNDS_FROM_MAIN: u64 = 12;
const KILLS_OF_SOLVERS: u64 = 200;

/// Seconds within which create fails where a rank has ended.
const LONGEST_CREATE: f64 = 2.0;

/// Seconds within which every job ends.
const LONGEST_END: f64 = 10.0;

/// Limit for a job that hangs. A loaded machine slows many processes; the output has the measured
/// times.
const LIMIT: Duration = Duration::from_secs(60);

/// Limit for a solver, which may survive several kills.
const LIMIT_OF_SOLVER: Duration = Duration::from_secs(300);

/// Returns the number in a variable.
fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Returns the next number of a sequence, below `limit` (splitmix64).
fn draw(state: &mut u64, limit: u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % limit
}

/// Returns the number of rounds of a test: the requested one, or the full suite's, or the gate's.
fn rounds(of_gate: u64) -> u64 {
    let otherwise = if suite::is_long() { ROUNDS_OF_FULL } else { of_gate };
    number("QUO_TESTS_KILL_ROUNDS").unwrap_or(otherwise)
}

/// Skips a test where the launcher does not keep running in order without a killed process.
fn needs_survival() -> Result<()> {
    if Launcher::find()?.family() == Family::OpenMpi4 {
        return Ok(());
    }
    let reason = "other launchers do not go on in order without a process that was killed";
    Err(Skipped(reason.to_owned()).into())
}

/// Compiles the program.
fn program() -> Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let source = "tests/programs/elastic_kills.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &[])?;
    Ok((folder, program))
}

/// A job of the program `elastic_kills`.
struct Killed {
    folder: tempfile::TempDir,
    job: Running,
    /// Text printed by each process that has to end.
    concerned: &'static str,
}

/// Options of a job's launch.
#[derive(Clone, Copy, Debug)]
struct Launch {
    processes: usize,
    ranks: usize,
    most: usize,
    seed: u64,
    survives: bool,
    /// `abort_on_death` ends the job at the death of a rank.
    guards: bool,
}

impl Killed {
    /// Starts a job that has made its world.
    fn start(program: &Path, launch: Launch) -> Result<Killed> {
        let this = Self::begin(program, launch)?;
        // A process killed earlier leaves the others in MPI_Init, if the launcher keeps running.
        this.job.wait_for(" is there", launch.processes)?;
        Ok(this)
    }

    /// Starts a job.
    fn begin(program: &Path, launch: Launch) -> Result<Killed> {
        let folder = tempfile::tempdir()?;
        let launcher = Launcher::find()?;
        let mut command = launcher.command(launch.processes, BindTo::None);
        let guard = if launch.survives { launcher.survive(&mut command) } else { &[] };
        command.args(guard).arg(program).arg(launch.ranks.to_string());
        command.arg(launch.most.to_string()).arg((launch.seed % 65_536).to_string());
        command.arg(folder.path().join("stop")).arg(u8::from(launch.guards).to_string());
        command.env_remove("QUO_TOPOLOGY");
        command.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        command.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe");
        // A job killed while it creates a segment leaves the segment for a minute: keep it out of
        // the other suites' folder.
        command.env("QUO_TMPDIR", folder.path()).stdin(Stdio::null());
        let job = Running::start(&mut command, &format!("{launch:?}"), LIMIT)?;
        Ok(Killed { folder, job, concerned: " begins" })
    }

    /// Returns the processes that have made or joined the world and have not ended. With Open MPI 4
    /// a process killed in MPI_Init may block all calls of rank 0, which looks up a name that the
    /// process never published.
    fn living(&self) -> Vec<Pid> {
        with_word(&self.job.said(), " is there: ").into_iter().filter(is_there).collect()
    }

    /// Tells the job to stop, and returns the time until its processes had ended. The launcher is
    /// ended too: Open MPI 4's sometimes hangs after all its processes have ended.
    fn stop(self) -> Result<Duration> {
        let begun = Instant::now();
        fs::write(self.folder.path().join("stop"), "")?;
        // When a process is killed in MPI_Finalize, Open MPI 4 leaves the others in it: their world
        // has ended.
        let concerned = self.concerned;
        let live = |job: &Running| {
            let said = job.said();
            let ended = with_word(&said, " ended its world");
            let others = with_word(&said, concerned).into_iter().filter(|one| !ended.contains(one));
            others.into_iter().any(|process| is_there(&process))
        };
        while live(&self.job) && begun.elapsed() < LIMIT {
            // Sleeps: there is no event for the end of a process that is not a child of the test.
            std::thread::sleep(Duration::from_millis(5));
        }
        let (hangs, took) = (live(&self.job), begun.elapsed());
        // By now a hanging process has reached its own time limit, too: the report has its stacks.
        let outcome = if hangs { self.job.finish()? } else { self.job.end()? };
        ensure!(!hangs, "it hangs: {}", outcome.report());
        // The launcher itself may crash (Open MPI 4 does, in PMIx_server_finalize).
        let crashed = |process: &Pid| {
            let line = format!(":{:05}] Signal: ", process.as_raw_nonzero());
            outcome.stderr.contains(&line)
        };
        let is_crash = outcome.stderr.contains("panicked")
            || with_word(&outcome.stdout, " begins").iter().any(crashed);
        ensure!(!is_crash, "{}", outcome.report());
        Ok(took)
    }
}

/// Returns true if a process has not ended.
fn is_there(process: &Pid) -> bool {
    let text = fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    text.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// Returns the processes that have printed a word.
fn with_word(said: &str, word: &str) -> Vec<Pid> {
    let lines = said.lines().filter(|line| line.contains(word));
    let numbers = lines.filter_map(|line| line.split("process ").nth(1)?.split(' ').next());
    numbers.filter_map(|number| Pid::from_raw(number.parse().ok()?)).collect()
}

fn spawned_rank_killed_before_a_collective_ends_the_job_named() -> Result<()> {
    let launch = Launch { processes: 1, ranks: 1, most: 2, seed: 0, survives: false, guards: true };
    let (_folder, program) = program()?;
    let job = Killed::start(&program, launch)?;
    if let Err(error) = job.job.wait_for(" joins", 1) {
        let starts_nothing = Launcher::find()?.family() == Family::Mpich;
        let reason = "this MPI may start no processes".to_owned();
        return Err(if starts_nothing { Skipped(reason).into() } else { error });
    }
    let said = job.job.said();
    let joined =
        said.lines().find_map(|line| line.strip_suffix(" joins")?.strip_prefix("process "));
    let victim = joined.and_then(|number| Pid::from_raw(number.parse().ok()?)).context(said)?;
    kill_process(victim, Signal::KILL)?;
    // The other rank waits in a collective call before it looks for the file.
    let outcome = job.job.finish()?;
    ensure!(!outcome.out_of_time && !outcome.status.success(), "{}", outcome.report());
    // A launcher may end the job before another rank detects the death.
    let is_named = outcome.stderr.contains("rank 1 has ended without a word")
        || outcome.stderr.contains("exited on signal 9");
    let is_alone = Launcher::find()?.family() == Family::OpenMpi4;
    ensure!(is_named || !is_alone, "{}", outcome.report());
    Ok(())
}

fn rank_killed_on_another_node_ends_the_job_named() -> Result<()> {
    if Launcher::find()?.family() != Family::OpenMpi4 {
        let reason = "the launcher ends the job itself, or not in order";
        return Err(Skipped(reason.to_owned()).into());
    }
    let (_folder, program) = program()?;
    for rank in [2, 0] {
        let nodes = Nodes::new(3, 1, &program)?;
        let launch =
            Launch { processes: 3, ranks: 3, most: 3, seed: 0, survives: true, guards: true };
        let job = Killed::start(&nodes.program(), launch)?;
        let said = job.job.said();
        let there = format!(" is there: {rank}");
        let victim =
            said.lines().find_map(|line| line.strip_suffix(&*there)?.strip_prefix("process "));
        let victim = victim.and_then(|number| Pid::from_raw(number.parse().ok()?)).context(said)?;
        kill_process(victim, Signal::KILL)?;
        let outcome = job.job.finish()?;
        ensure!(!outcome.out_of_time, "{}", outcome.report());
        let named = format!("rank {rank} has ended without a word");
        ensure!(outcome.stderr.contains(&named), "{}", outcome.report());
    }
    Ok(())
}

fn random_kills_end_every_job_soon() -> Result<()> {
    needs_survival()?;
    let rounds = rounds(ROUNDS);
    let seed = number("QUO_TESTS_SEED").unwrap_or(1);
    let (_folder, program) = program()?;
    let mut ends = Vec::new();
    for round in 0..rounds {
        let end =
            one(&program, seed, round).with_context(|| format!("seed {seed}, round {round}"))?;
        ends.push(end.as_secs_f64());
    }
    ends.sort_by(f64::total_cmp);
    let (middle, worst) = (ends[ends.len() / 2], ends[ends.len() - 1]);
    let line =
        format!("{rounds} rounds, seed {seed}: ends after {middle:.2} s, at most {worst:.2} s");
    println!("{line}");
    ensure!(worst < LONGEST_END, "{line}");
    Ok(())
}

/// Runs four processes of a program that kills one of them after some microseconds.
fn with_a_death(folder: &Path, program: &Path, microseconds: u64) -> Result<Outcome> {
    let launcher = Launcher::find()?;
    let mut command = launcher.command(4, BindTo::None);
    let guard = launcher.survive(&mut command);
    command.args(guard).arg(program).arg(microseconds.to_string());
    command.env_remove("QUO_TOPOLOGY").env("QUO_TMPDIR", folder).stdin(Stdio::null());
    Running::start(&mut command, &format!("a death after {microseconds} µs"), LIMIT)?.finish()
}

/// Kills a joiner at some moment of its `begin` or `commit`: the ranks end the world with an error
/// that names it.
fn joiner_killed_in_its_begin_is_named_to_all() -> Result<()> {
    needs_survival()?;
    let folder = tempfile::tempdir()?;
    let source = "tests/programs/elastic_begin_death.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &["-pthread"])?;
    let rounds = if suite::is_long() { 200 } else { 10 };
    for round in 0..rounds {
        let microseconds = 200 + round * 397 % 1_900;
        let outcome = with_a_death(folder.path(), &program, microseconds)?;
        let ends: Vec<&str> =
            outcome.stdout.lines().filter(|line| line.contains(" ends after ")).collect();
        ensure!(ends.len() == 3, "{}", outcome.report());
        for end in ends {
            let text = end.split(" ends after ").nth(1).unwrap_or_default();
            let (seconds, error) = text.split_once(" s: ").context(end.to_owned())?;
            let is_named = error.contains("rank 3 ended");
            ensure!(seconds.parse::<f64>()? < 5.0 && is_named, "{}", outcome.report());
        }
    }
    Ok(())
}

/// Kills a rank before or during the creation of the world: the others get an error that names it.
fn rank_killed_before_or_in_create_is_named_to_all() -> Result<()> {
    needs_survival()?;
    let folder = tempfile::tempdir()?;
    let source = "tests/programs/elastic_create_death.c";
    let program = Checkout::find()?.compile_c(source, folder.path(), &["-pthread"])?;
    let rounds = if suite::is_long() { 200 } else { 8 };
    let mut named = 0;
    for round in 0..rounds {
        // The first rounds kill before create, which then takes some milliseconds.
        let microseconds = if round < 2 { 0 } else { round * 1_009 % 12_000 };
        let outcome = with_a_death(folder.path(), &program, microseconds)?;
        let ends = outcome.stdout.lines().filter(|line| !line.starts_with("rank 2 "));
        let ends: Vec<&str> = ends.filter(|line| line.contains(" creates for ")).collect();
        ensure!(ends.len() == 3, "{}", outcome.report());
        for end in ends {
            let text = end.split(" creates for ").nth(1).unwrap_or_default();
            let (seconds, error) = text.split_once(" s: ").context(end.to_owned())?;
            // A rank killed later has taken part. A slow rank may see the others end first, and
            // names them as well.
            let has_death = error.starts_with("13 ") && error.contains('2');
            let is_right = has_death || (microseconds > 0 && error == "0 ");
            ensure!(seconds.parse::<f64>()? < LONGEST_CREATE && is_right, "{}", outcome.report());
            named += usize::from(has_death);
        }
    }
    ensure!(named >= 6, "no rank was killed in time: {named} errors");
    Ok(())
}

/// Kills processes at any moment from the start of `main`: the others end soon, except where a
/// process was killed inside `MPI_Init`, in which MPI leaves the others.
fn random_kills_from_main_on_end_every_job_soon() -> Result<()> {
    needs_survival()?;
    let rounds = rounds(ROUNDS_FROM_MAIN);
    let seed = number("QUO_TESTS_SEED").unwrap_or(1);
    let (_folder, program) = program()?;
    let (mut worst, mut inside) = ((Duration::ZERO, 0), 0);
    for round in 0..rounds {
        let mut state = seed.wrapping_mul(2_000_003).wrapping_add(round);
        let processes = 2 + draw(&mut state, 3) as usize;
        let launch = Launch {
            processes,
            ranks: 1 + draw(&mut state, processes as u64) as usize,
            most: 4,
            seed: 1 + draw(&mut state, 65_535),
            survives: draw(&mut state, 2) == 0,
            guards: round.is_multiple_of(2),
        };
        let job = Killed::begin(&program, launch)?;
        // MPI_Init takes most of the time before create: most rounds begin after it.
        let (word, most) = if round % 4 == 3 { (" begins", 600_000) } else { (" has MPI", 80_000) };
        job.job.wait_for(word, 1)?;
        // Sleeps: the moment of the kill is random.
        std::thread::sleep(Duration::from_micros(draw(&mut state, most)));
        let begun = with_word(&job.job.said(), " begins");
        let mut living: Vec<Pid> = begun.into_iter().filter(is_there).collect();
        if living.is_empty() {
            continue;
        }
        let victim = living.swap_remove(draw(&mut state, living.len() as u64) as usize);
        // The process may be about to report it.
        let had_mpi = with_word(&job.job.said(), " has MPI").contains(&victim);
        // A process that ends at this moment no longer exists.
        let _ = kill_process(victim, Signal::KILL);
        if !had_mpi {
            inside += 1;
            job.job.end()?;
            continue;
        }
        // Processes that the victim or its death has left in MPI_Init stay there.
        let job = Killed { concerned: " has MPI", ..job };
        let end = job.stop().with_context(|| format!("seed {seed}, round {round}"))?;
        worst = worst.max((end, round));
    }
    let line = format!(
        "{rounds} rounds from main on, seed {seed}: {inside} killed in MPI_Init, the others end after at most {:.2} s, in round {}",
        worst.0.as_secs_f64(),
        worst.1,
    );
    println!("{line}");
    ensure!(worst.0.as_secs_f64() < LONGEST_END && inside < rounds, "{line}");
    Ok(())
}

/// Runs one round, and returns the time the job took to end.
fn one(program: &Path, seed: u64, round: u64) -> Result<Duration> {
    let mut state = seed.wrapping_mul(1_000_003).wrapping_add(round);
    let processes = 1 + draw(&mut state, 4) as usize;
    let launch = Launch {
        processes,
        ranks: 1 + draw(&mut state, processes as u64) as usize,
        most: 4,
        seed: 1 + draw(&mut state, 65_535),
        survives: draw(&mut state, 2) == 0,
        guards: round.is_multiple_of(2),
    };
    let job = Killed::start(program, launch)?;
    let pause = |state: &mut u64, most| Duration::from_millis(draw(state, most));
    // Sleeps: the moment of the kill is random.
    std::thread::sleep(pause(&mut state, 1_500));
    let (kills, stops_before) = (1 + draw(&mut state, 2), draw(&mut state, 4) == 0);
    let stop = job.folder.path().join("stop");
    if stops_before {
        fs::write(&stop, "")?;
        // Sleeps: as above.
        std::thread::sleep(pause(&mut state, 60));
    }
    let mut living = job.living();
    for _ in 0..kills.min(living.len() as u64) {
        let victim = living.swap_remove(draw(&mut state, living.len() as u64) as usize);
        // A process that ends at this moment no longer exists.
        let _ = kill_process(victim, Signal::KILL);
    }
    // Sleeps: as above.
    std::thread::sleep(pause(&mut state, 300));
    job.stop()
}

/// Solvers with their arguments but the number of steps and the file.
const SOLVERS: [(&str, &[&str]); 3] =
    [("heat", &["101", "83"]), ("particles", &["2000"]), ("fire", &["31", "23"])];

/// Compiles a solver with a world that ends the job at the death of a rank.
fn solver(name: &str, folder: &Path) -> Result<PathBuf> {
    let checkout = Checkout::find()?;
    let guard = checkout.root().join("tests/programs/elastic_guarded.h");
    let guard = guard.to_str().context("a path in UTF-8")?;
    let own = folder.join(name);
    fs::create_dir(&own)?;
    if name == "heat" {
        let source = "examples/heat/elastic.cpp";
        return checkout.compile_cxx(source, &own, "g++", &["-O2", "-include", guard]);
    }
    let source = format!("examples/{name}/elastic.c");
    checkout.compile_c(&source, &own, &["-O2", "-fopenmp", "-include", guard, "-lm"])
}

/// Returns the processes that run a program, with their ranks in `MPI_COMM_WORLD`.
fn processes_of(program: &Path) -> Vec<(Pid, usize)> {
    let rank = |process: Pid| {
        let variables = fs::read(format!("/proc/{process}/environ")).ok()?;
        let mut variables = variables.split(|byte| *byte == 0);
        let rank = variables.find_map(|one| {
            ["OMPI_COMM_WORLD_RANK=", "PMI_RANK="]
                .iter()
                .find_map(|it| one.strip_prefix(it.as_bytes()))
        });
        Some((process, std::str::from_utf8(rank?).ok()?.parse().ok()?))
    };
    let folders = fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = folders.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let all = numbers.filter_map(Pid::from_raw);
    let ours = all.filter(|process| {
        let file = fs::read_link(format!("/proc/{process}/exe"));
        file.is_ok_and(|file| file == program) && is_there(process)
    });
    ours.filter_map(rank).collect()
}

/// Returns the ranks of which errors of the library say that they have ended.
fn named(text: &str) -> Vec<usize> {
    let of = |after: &str| -> Vec<usize> {
        let list = after.strip_prefix('s').unwrap_or(after);
        let is_of_list = |letter: char| letter.is_ascii_digit() || ", ".contains(letter);
        let rest = list.trim_start_matches(is_of_list);
        let numbers = list[..list.len() - rest.len()].split(", ");
        let ended = ["ended", "has ended", "have ended"].iter().any(|word| rest.starts_with(word));
        numbers.filter_map(|number| number.trim().parse().ok()).filter(|_| ended).collect()
    };
    text.split("rank").skip(1).flat_map(of).collect()
}

/// Returns true if an error of the library names one of the killed ranks. A killed process that was
/// parked leaves the world, and ranks after it become one less.
fn names_a_victim(text: &str, victims: &[(Pid, usize)]) -> bool {
    let named = named(text);
    victims.iter().enumerate().any(|(at, (_, rank))| {
        let earlier = victims[..at].iter().filter(|(_, other)| other < rank).count();
        (rank - earlier..=*rank).any(|rank| named.contains(&rank))
    })
}

/// Kills random processes of a solver until it ends. Returns the number of kills, and the time after
/// the last one until it had ended.
fn kill_a_solver(
    program: &Path,
    arguments: &[&str],
    state: &mut u64,
    survives: bool,
) -> Result<(u64, Duration)> {
    let folder = tempfile::tempdir()?;
    let launcher = Launcher::find()?;
    let mut command = launcher.command(4, BindTo::None);
    let guard = if survives { launcher.survive(&mut command) } else { &[] };
    // It does not reach its last step.
    // With some launchers output is a pipe, which the C library does not flush at each line.
    command
        .args(guard)
        .args(["stdbuf", "-oL"])
        .arg(program)
        .args(arguments)
        .arg("2000000")
        .arg(folder.path().join("file"));
    let sizes =
        (1..4_000).map(|at| format!("at iteration {}: size {}\n", 25 * at, 1 + draw(state, 4)));
    command.env("QUO_ELASTIC_PLAN", sizes.collect::<String>()).env("QUO_ELASTIC_RANKS", "1..4");
    command.env("OMPI_MCA_mpi_yield_when_idle", "1").env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
    command.env_remove("QUO_TOPOLOGY").env("QUO_TMPDIR", folder.path()).stdin(Stdio::null());
    let job = Running::start(&mut command, &format!("{}", program.display()), LIMIT_OF_SOLVER)?;
    job.wait_for("step ", 1)?;
    let (mut victims, mut took) = (Vec::new(), Duration::ZERO);
    let mut was_last = false;
    loop {
        // Sleeps: the moment of the kill is random.
        std::thread::sleep(Duration::from_micros(draw(state, 700_000)));
        let mut living = processes_of(program);
        if living.is_empty() {
            break;
        }
        let (victim, rank) = living.swap_remove(draw(state, living.len() as u64) as usize);
        was_last = living.is_empty();
        let steps = |job: &Running| job.said().matches("step ").count();
        let (before, begun) = (steps(&job), Instant::now());
        // A process that ends at this moment no longer exists.
        let _ = kill_process(victim, Signal::KILL);
        victims.push((victim, rank));
        // The line of the step at the death may be on its way.
        let goes_on = |job: &Running| steps(job) > before + 1;
        while !processes_of(program).is_empty() && !goes_on(&job) && begun.elapsed() < 2 * LIMIT {
            // Sleeps: there is no event for the end of a process that is not a child of the test.
            std::thread::sleep(Duration::from_millis(5));
        }
        took = begun.elapsed();
        if !goes_on(&job) {
            break;
        }
    }
    let hangs = !processes_of(program).is_empty();
    // By now a hanging process has reached its own time limit, too: the report has its stacks. A launcher
    // that ends the job says why; one that keeps it running may stay, see `stop`.
    let outcome = if hangs || !survives { job.finish()? } else { job.end()? };
    ensure!(!hangs, "it hangs after the death of {victims:?}: {}", outcome.report());
    ensure!(!outcome.stderr.contains("panicked"), "{}", outcome.report());
    let kills = victims.len() as u64;
    // Hydra names the process of rank 0 on standard output, whichever was killed.
    let is_mpich = Launcher::find()?.family() == Family::Mpich;
    let is_named_by_launcher = (is_mpich && outcome.stdout.contains("BAD TERMINATION OF ONE OF"))
        || victims
            .iter()
            .any(|(_, rank)| outcome.stderr.contains(&format!("process rank {rank} with PID ")));
    let is_named = is_named_by_launcher || names_a_victim(&outcome.stderr, &victims);
    // A launcher that keeps jobs running does not say that the last process was killed.
    ensure!(
        is_named || kills == 0 || was_last,
        "of {victims:?} none is named: {}",
        outcome.report()
    );
    Ok((kills, took))
}

fn solvers_under_resizes_end_or_go_on_after_kills() -> Result<()> {
    if !suite::is_long() {
        return Err(Skipped("kills of solvers are tests of the full suite".to_owned()).into());
    }
    let wanted = number("QUO_TESTS_KILL_ROUNDS").unwrap_or(KILLS_OF_SOLVERS);
    let seed = number("QUO_TESTS_SEED").unwrap_or(1);
    let can_survive = Launcher::find()?.family() == Family::OpenMpi4;
    let folder = tempfile::tempdir()?;
    let mut programs = Vec::new();
    for (name, arguments) in SOLVERS {
        programs.push((solver(name, folder.path())?, arguments));
    }
    let (mut kills, mut worst, mut round) = (0, Duration::ZERO, 0);
    while kills < wanted {
        let mut state = seed.wrapping_mul(3_000_017).wrapping_add(round);
        let (program, arguments) = &programs[round as usize % programs.len()];
        let survives = can_survive && draw(&mut state, 4) > 0;
        let (more, time) = kill_a_solver(program, arguments, &mut state, survives)
            .with_context(|| format!("seed {seed}, round {round}, survives: {survives}"))?;
        (kills, worst, round) = (kills + more, worst.max(time), round + 1);
    }
    let line = format!(
        "{kills} kills in {round} jobs of solvers, seed {seed}: ends after at most {:.2} s",
        worst.as_secs_f64()
    );
    println!("{line}");
    ensure!(worst.as_secs_f64() < LONGEST_END, "{line}");
    Ok(())
}

quo_tests::suite! {
    within Duration::from_secs(3_600);
    spawned_rank_killed_before_a_collective_ends_the_job_named
    rank_killed_on_another_node_ends_the_job_named
    random_kills_end_every_job_soon
    joiner_killed_in_its_begin_is_named_to_all
    rank_killed_before_or_in_create_is_named_to_all
    random_kills_from_main_on_end_every_job_soon
    solvers_under_resizes_end_or_go_on_after_kills
}
