//! The coupled example on ranks that come and go: the same bits as on ranks that stay, phases of threads before, between
//! and after the resizes, and bindings that are right each time.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, ensure};
use quo_tests::example::{TINY, expect_same_fields, small_deck};
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Job, Nodes, Outcome, until};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(120);

/// Up to eight ranks and back to two; the numbers are steps of the flow.
const PLAN: &str = "at 10: size 2\nat 20: size 4\nat 30: size 8\nat 40: size 2\n";
const SIZES: [u64; 5] = [1, 2, 4, 8, 2];

struct Coupled {
    checkout: Checkout,
    program: PathBuf,
    folder: tempfile::TempDir,
}

impl Coupled {
    /// The program, and the fields of a run whose ranks stay.
    fn new() -> Result<Coupled> {
        let checkout = Checkout::find()?;
        let program = checkout.program("coupled")?;
        let coupled = Coupled { checkout, program, folder: tempfile::tempdir()? };
        small_deck(&TINY, &coupled.path("deck.toml"))?;
        fs::write(coupled.path("plan"), PLAN)?;
        let job = Job::new(1, &coupled.program).arg("run").arg("--mode").arg("under");
        coupled.with_files(job, "rigid").run()?.expect_success()?;
        Ok(coupled)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Deck, result and fields.
    fn with_files(&self, job: Job, name: &str) -> Job {
        let job = job.arg("--deck").arg(self.path("deck.toml"));
        let job = job.arg("--output").arg(self.path(&format!("{name}.json")));
        let job = job.arg("--fields").arg(self.path(&format!("{name}.bin")));
        // More ranks than cores, and threads beside them: nobody is to spin for long.
        let job = job.env("OMP_WAIT_POLICY", "passive").env("OMPI_MCA_mpi_yield_when_idle", "1");
        let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        let job = job.env("MPIR_CVAR_CH4_PROGRESS_THROTTLE_NO_PROGRESS_COUNT", "16");
        job.env("PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe").limit(LIMIT)
    }

    /// A job that follows the plan, from one rank on.
    fn elastic(&self, job: Job) -> Job {
        let job = job.arg("elastic").arg("--initial-ranks").arg("1").arg("--hold");
        let job = job.arg("--plan").arg(self.path("plan")).arg("--log").arg(self.path("events"));
        self.with_files(job, "elastic")
    }

    fn result(&self) -> Result<Value> {
        let text = fs::read_to_string(self.path("elastic.json")).context("reading the result")?;
        Ok(serde_json::from_str(&text)?)
    }

    /// The physics are those of the ranks that stay.
    fn expect_the_same(&self) -> Result<()> {
        expect_same_fields(&self.path("rigid.bin"), &self.path("elastic.bin"))
    }

    /// Checks that each request of the plan has one end, which is this one, and that its result is
    /// in the log.
    fn expect_ends(&self, ends: &[&str]) -> Result<()> {
        let text = fs::read_to_string(self.path("events")).context("reading the events")?;
        let events: Vec<Value> =
            text.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("an event")?;
        for (number, end) in (1..).zip(ends) {
            let of_it = events.iter().filter(|event| event["request"] == number);
            let found: Vec<&Value> = of_it
                .map(|event| &event["event"])
                .filter(|what| ["finalized", "refused", "aborted"].iter().any(|end| *what == end))
                .collect();
            ensure!(found == [end], "request {number} ends with {found:?}, not {end}\n{text}");
        }
        let asked = events.iter().filter(|event| event["event"] == "requested").count();
        ensure!(asked == ends.len(), "{asked} requests\n{text}");
        Ok(())
    }
}

/// At the start and after each resize `explain` saw all ranks where they were launched while L0 ran, and while L1 ran
/// its workers on all CPUs of their nodes, and everybody else where it was.
fn expect_bindings(result: &Value, sizes: &[u64]) -> Result<()> {
    let bindings = result["elastic"]["bindings"].as_array().context("no bindings")?;
    ensure!(bindings.len() == sizes.len(), "{bindings:#?}");
    for (epoch, (size, seen)) in sizes.iter().zip(bindings).enumerate() {
        let what = || format!("epoch {epoch}: {seen:#}");
        ensure!(seen["epoch"] == epoch as u64, "{}", what());
        let list = |key: &str| seen[key].as_array().with_context(what);
        let (flow, diffusion) = (list("flow")?, list("diffusion")?);
        let mut ranks = Vec::new();
        for node in flow {
            ensure!(node["pushed"].as_array().is_some_and(Vec::is_empty), "{}", what());
            for rank in node["ranks"].as_array().with_context(what)? {
                ensure!(rank["reason"]["launched"].is_string(), "{}", what());
                ranks.extend(rank["rank"].as_u64());
            }
        }
        ranks.sort_unstable();
        ensure!(ranks.iter().copied().eq(0..*size), "{}", what());
        ensure!(diffusion.len() == flow.len(), "{}", what());
        for (before, node) in flow.iter().zip(diffusion) {
            ensure!(
                node["node"] == before["node"] && node["allowed"] == before["allowed"],
                "{}",
                what()
            );
            let pushed = node["pushed"].as_array().with_context(what)?;
            ensure!(pushed.len() == 1 && pushed[0][1] == node["allowed"], "{}", what());
            let pairs = node["ranks"].as_array().into_iter().flatten();
            let pairs = pairs.zip(before["ranks"].as_array().into_iter().flatten());
            let moved = pairs.clone().filter(|(now, before)| now["cpus"] != before["cpus"]);
            let wide = pairs.filter(|(now, _)| now["cpus"] == node["allowed"]).count();
            ensure!(moved.count() <= 1 && wide >= 1, "{}", what());
        }
    }
    Ok(())
}

/// The number of ranks after each resize that was committed.
fn sizes(result: &Value) -> Vec<u64> {
    let mut size = result["elastic"]["start"].as_u64().unwrap_or(0);
    let mut sizes = vec![size];
    for resize in result["elastic"]["resizes"].as_array().into_iter().flatten() {
        if resize.get("given_up").is_none() {
            size =
                size + resize["join"].as_u64().unwrap_or(0) - resize["leave"].as_u64().unwrap_or(0);
            sizes.push(size);
        }
    }
    sizes
}

fn expect_all(coupled: &Coupled, outcome: &Outcome) -> Result<Value> {
    outcome.expect_success()?;
    coupled.expect_the_same()?;
    coupled.expect_ends(&["finalized"; 4])?;
    let result = coupled.result()?;
    ensure!(sizes(&result) == SIZES, "{}", outcome.report());
    expect_bindings(&result, &SIZES)?;
    // Eight processes were ranks, and each has said what it did, also those who had left.
    let records = result["rank_records"].as_array().context("no records")?;
    let mut processes: Vec<_> =
        records.iter().filter_map(|record| record["pid"].as_u64()).collect();
    processes.sort_unstable();
    processes.dedup();
    ensure!(records.len() == 8 && processes.len() == 8, "{}", outcome.report());
    let works = |record: &&Value| record["intervals"].as_array().is_some_and(|all| all.len() > 1);
    ensure!(records.iter().filter(works).count() == 8, "{}", outcome.report());
    Ok(result)
}

fn parked_ranks_come_and_go_and_the_bits_stay() -> Result<()> {
    let coupled = Coupled::new()?;
    let job = coupled.elastic(Job::new(8, &coupled.program).bind_to(BindTo::Core));
    expect_all(&coupled, &job.run()?).map(drop)
}

fn the_same_with_a_library_that_keeps_its_context() -> Result<()> {
    let coupled = Coupled::new()?;
    let job = coupled.elastic(Job::new(8, &coupled.program).bind_to(BindTo::Core));
    let job = job.arg("--variant").arg("callee");
    expect_all(&coupled, &job.run()?).map(drop)
}

fn started_and_ended_ranks_leave_the_bits_unchanged() -> Result<()> {
    let coupled = Coupled::new()?;
    let job = coupled.elastic(Job::new(1, &coupled.program));
    let outcome = job.arg("--max-ranks").arg("8").arg("--oversubscribe").run()?;
    if let Ok(result) = coupled.result()
        && let Some(back_end) = result["elastic"]["back_end"].as_str()
        && let Some((_, reason)) = back_end.split_once("parked ranks only: ")
    {
        return Err(Skipped(reason.to_owned()).into());
    }
    expect_all(&coupled, &outcome).map(drop)
}

/// Runs the commands of a script: one after the other, each line of output one object.
fn tell(sockets: &Path, words: &[&str], status: i32) -> Result<Vec<Value>> {
    let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
    command.arg("--json").args(words).env("QUO_ELASTIC_DIR", sockets);
    let output = command.output().context("starting quo-elastic")?;
    let said = String::from_utf8(output.stdout)?;
    let complaint = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.code() == Some(status),
        "{words:?}: {}\n{said}{complaint}",
        output.status
    );
    said.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
}

/// The conversation of [`told`], while the job runs.
fn conversation(sockets: &Path) -> Result<()> {
    until(LIMIT, "the job does not answer", || Ok(tell(sockets, &["status", "heat"], 0).is_ok()))?;
    // It is refused, and counts as one of the requests for which the run waits.
    let said = tell(sockets, &["shrink", "heat", "1"], 3)?;
    ensure!(said.len() == 1 && said[0]["refused"]["request"] == 1, "{said:?}");
    let asked = [("size", "2", 2), ("grow", "2", 4), ("shrink", "3", 1), ("grow", "1", 2)];
    for (epoch, (call, number, size)) in (1u64..).zip(asked) {
        let said = tell(sockets, &[call, "heat", number, "--wait"], 0)?;
        let request = epoch + 1;
        ensure!(said.len() == 2 && said[0]["accepted"]["request"] == request, "{said:?}");
        let event = &said[1]["event"];
        ensure!(event["event"] == "finalized" && event["request"] == request, "{event}");
        ensure!(event["size"] == size && event["epoch"] == epoch, "{event}");
        if call == "grow" && number == "2" {
            let said = tell(sockets, &["status", "heat"], 0)?;
            let status = &said[0]["status"];
            let ranks = status["hosts"].as_array().into_iter().flatten();
            let ranks = ranks.map(|host| host["ranks"].as_array().map_or(0, Vec::len));
            ensure!(status["size"] == 4 && ranks.sum::<usize>() == 4, "{status}");
        }
    }
    Ok(())
}

fn run_told_from_outside_resizes_and_the_bits_stay() -> Result<()> {
    let coupled = Coupled::new()?;
    let sockets = coupled.path("sockets");
    let job = Job::new(4, &coupled.program).arg("elastic").arg("--initial-ranks").arg("1");
    // Two before the first step of L1, and the others between steps.
    let job = job.arg("--wait-at").arg("0,0,20,30,40").arg("--name").arg("heat");
    let job = job.arg("--sockets").arg(&sockets).arg("--log").arg(coupled.path("events"));
    let job = coupled.with_files(job, "elastic");
    let (outcome, talked) = std::thread::scope(|scope| {
        let run = scope.spawn(|| job.run());
        let talked = conversation(&sockets);
        (run.join(), talked)
    });
    let outcome = outcome.map_err(|_| anyhow!("the run panicked"))?.context("the run")?;
    talked.with_context(|| outcome.report())?;
    outcome.expect_success()?;
    coupled.expect_the_same()?;
    coupled.expect_ends(&["refused", "finalized", "finalized", "finalized", "finalized"])?;
    let result = coupled.result()?;
    ensure!(sizes(&result) == [1, 2, 4, 1, 2], "{}", outcome.report());
    let resizes = result["elastic"]["resizes"].as_array().context("no resizes")?;
    // The run went on past no step before what it waited for there had ended.
    let in_time = |(resize, last): (&Value, u64)| resize["step"].as_u64() <= Some(last);
    ensure!(resizes.iter().zip([0, 20, 30, 40]).all(in_time), "{resizes:#?}");
    Ok(())
}

fn resize_granted_before_the_first_probe_moves_the_initial_state() -> Result<()> {
    let coupled = Coupled::new()?;
    let flags = ["-shared", "-fPIC"];
    let barrier = coupled.checkout.compile_c(
        "tests/programs/late_barrier.c",
        coupled.folder.path(),
        &flags,
    )?;
    fs::write(coupled.path("plan"), "after 0s: size 1\n")?;
    let job = Job::new(2, "env").arg(format!("LD_PRELOAD={}", barrier.display()));
    let job = job.arg(&coupled.program).arg("elastic").arg("--plan").arg(coupled.path("plan"));
    let job = job.arg("--log").arg(coupled.path("events"));
    let job = coupled.with_files(job, "elastic").env("LATE_BARRIER_LOG", coupled.path("events"));
    let outcome = job.run()?;
    outcome.expect_success()?;
    coupled.expect_the_same()?;
    coupled.expect_ends(&["finalized"])?;
    let resizes = &coupled.result()?["elastic"]["resizes"];
    let right = resizes[0]["step"] == 0 && resizes.as_array().map(Vec::len) == Some(1);
    ensure!(right, "{resizes}\n{}", outcome.report());
    Ok(())
}

fn nodes_come_and_go_with_their_workers() -> Result<()> {
    let coupled = Coupled::new()?;
    let nodes = Nodes::new(3, 3, &coupled.program)?;
    // The second and the third node come with their first ranks.
    fs::write(coupled.path("plan"), "at 10: size 4\nat 20: size 8\nat 40: size 2\n")?;
    let outcome = coupled.elastic(Job::new(8, nodes.program())).run()?;
    outcome.expect_success()?;
    coupled.expect_the_same()?;
    coupled.expect_ends(&["finalized"; 3])?;
    let result = coupled.result()?;
    expect_bindings(&result, &[1, 4, 8, 2])?;
    let nodes_of = |epoch: usize| {
        result["elastic"]["bindings"][epoch]["diffusion"].as_array().map_or(0, Vec::len)
    };
    ensure!([0, 1, 2, 3].map(nodes_of) == [1, 2, 3, 1], "{}", outcome.report());
    nodes.expect_clean()
}

fn sizes_with_too_few_rows_are_refused_during_the_run() -> Result<()> {
    let coupled = Coupled::new()?;
    let deck = fs::read_to_string(coupled.path("deck.toml"))?;
    fs::write(coupled.path("deck.toml"), deck.replace("ny = 48", "ny = 3"))?;
    fs::write(coupled.path("plan"), "at 10: size 4\nat 20: size 3\nat 30: size 9\n")?;
    let job = Job::new(1, &coupled.program).arg("run").arg("--mode").arg("under");
    coupled.with_files(job, "rigid").run()?.expect_success()?;
    let outcome = coupled.elastic(Job::new(4, &coupled.program)).run()?;
    outcome.expect_success()?;
    coupled.expect_the_same()?;
    coupled.expect_ends(&["refused", "finalized", "refused"])?;
    ensure!(sizes(&coupled.result()?) == [1, 3], "{}", outcome.report());
    Ok(())
}

fn a_plan_that_is_none_is_told_once() -> Result<()> {
    let coupled = Coupled::new()?;
    fs::write(coupled.path("plan"), "at 10: size many\n")?;
    let outcome = coupled.elastic(Job::new(3, &coupled.program)).run()?;
    ensure!(!outcome.out_of_time && outcome.status.code() == Some(1), "{}", outcome.report());
    let said = outcome.stderr.lines().filter(|line| line.starts_with("coupled: "));
    let said: Vec<&str> = said.collect();
    ensure!(said.len() == 1 && said[0].contains("line 1, column 13"), "{}", outcome.report());
    outcome.expect_clean()?;
    Ok(())
}

quo_tests::suite! {
    parked_ranks_come_and_go_and_the_bits_stay
    the_same_with_a_library_that_keeps_its_context
    started_and_ended_ranks_leave_the_bits_unchanged
    run_told_from_outside_resizes_and_the_bits_stay
    resize_granted_before_the_first_probe_moves_the_initial_state
    nodes_come_and_go_with_their_workers
    sizes_with_too_few_rows_are_refused_during_the_run
    a_plan_that_is_none_is_told_once
}
