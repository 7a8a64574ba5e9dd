//! Measurements in many short turns without and with the profiler.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike;
use quo_tests::{BindTo, Job};
use serde_json::{Value, json};

use super::turns::{Plan, Turns};
use super::{Programs, merge, sides};
use crate::project;

const SECOND: Duration = Duration::from_secs(1);

const OF_MESSAGES: Plan = Plan {
    least: 10,
    most: 20,
    time: Duration::from_secs(20),
    of: "/messages_per_second/1",
    width: 0.015,
    trims: false,
};

const OF_STARTS: Plan = Plan {
    least: 20,
    most: 40,
    time: Duration::from_secs(25),
    of: "/start_seconds",
    width: 0.002,
    trims: true,
};

const OF_COUPLED: Plan = Plan {
    least: 20,
    most: 80,
    time: Duration::from_secs(50),
    of: "/coupled_seconds",
    width: 0.004,
    trims: true,
};

/// Turns of the long run, judged by processor time, which depends less on other load of the
/// machine.
const OF_LONG: Plan = Plan {
    least: 8,
    most: 16,
    time: Duration::from_secs(60),
    of: "/long_processor_seconds",
    width: 0.003,
    trims: true,
};

/// Turns of the long run if nothing else is measured.
const OF_LONG_ALONE: Plan = Plan {
    least: 10,
    most: 1000,
    time: Duration::from_secs(240),
    of: "/long_seconds",
    width: 0.005,
    trims: true,
};

const OF_MAPPINGS: Plan = Plan {
    least: 15,
    most: 15,
    time: SECOND,
    of: "/mmap_munmap_median_ns",
    width: 0.0,
    trims: false,
};

/// Steps of the longer run, two seconds or more; the test deck has two hundred steps.
const STEPS: &str = "steps = 3000";

/// Runs all measurements.
pub fn all(programs: &Programs) -> Result<Vec<Turns>> {
    Ok(vec![
        sides::messages(programs)?,
        messages(programs)?,
        starts(programs)?,
        coupled(programs, &OF_COUPLED, Deck::Small)?,
        coupled(programs, &OF_LONG, Deck::Long)?,
        mappings(programs)?,
    ])
}

/// Measures rates of one-byte messages in jobs without and with the profiler: coarse, but including
/// all that the profiler does.
pub fn messages(programs: &Programs) -> Result<Turns> {
    told(
        "jobs that send messages",
        Turns::take(&OF_MESSAGES, |profiled| {
            let job = Job::new(2, &programs.messages).bind_to(BindTo::Core);
            let job = job.arg("1:300");
            let folder = tempfile::tempdir()?;
            crate::bench::program_output(&programs.job(job, profiled.then_some(folder.path())))
        }),
    )
}

/// Measures jobs that start and end.
fn starts(programs: &Programs) -> Result<Turns> {
    told(
        "starts",
        Turns::take(&OF_STARTS, |profiled| {
            let folder = tempfile::tempdir()?;
            let traces = profiled.then_some(folder.path());
            let job = Job::new(2, &programs.messages).bind_to(BindTo::Core).arg("none");
            let start = Instant::now();
            programs.job(job, traces).run()?.expect_success()?;
            Ok(json!({"start_seconds": start.elapsed().as_secs_f64()}))
        }),
    )
}

/// Measures the coupled example on a deck, in as many turns as necessary or as fit into the time.
pub fn long(programs: &Programs, time: Duration, deck: Deck) -> Result<Turns> {
    let of = if matches!(deck, Deck::Large) { "/large_seconds" } else { OF_LONG_ALONE.of };
    coupled(programs, &Plan { time, of, ..OF_LONG_ALONE }, deck)
}

/// Deck of the coupled example.
#[derive(Copy, Clone)]
pub enum Deck {
    /// The small deck, as the tests run it.
    Small,
    /// The long deck, with [`STEPS`] steps.
    Long,
    /// The large deck, as the demo runs it.
    Large,
}

fn coupled(programs: &Programs, plan: &Plan, deck: Deck) -> Result<Turns> {
    let folder = tempfile::tempdir()?;
    let decks = project::root().join("examples/coupled/decks");
    let path = match deck {
        Deck::Small => decks.join("small.toml"),
        Deck::Large => decks.join("large.toml"),
        Deck::Long => {
            let text = std::fs::read_to_string(decks.join("small.toml"))?;
            let path = folder.path().join("long.toml");
            std::fs::write(&path, text.replace("steps = 200", STEPS)).context("writing a deck")?;
            path
        }
    };
    let (seconds, processors, duty) = match deck {
        Deck::Small => ("coupled_seconds", "coupled_processor_seconds", "coupled_duty"),
        Deck::Long => ("long_seconds", "long_processor_seconds", "long_duty"),
        Deck::Large => ("large_seconds", "large_processor_seconds", "large_duty"),
    };
    told(
        "the coupled example",
        Turns::take(plan, |profiled| {
            let traces = tempfile::tempdir()?;
            let job = Job::new(2, &programs.coupled).bind_to(BindTo::Core).arg("run");
            let job = job.arg("--deck").arg(&path).arg("--mode").arg("quo");
            let job = job.arg("--output").arg(folder.path().join("result.json"));
            let job = programs.job(job, profiled.then_some(traces.path()));
            let (start, before) = (Instant::now(), processor_time()?);
            job.run()?.expect_success()?;
            let (elapsed, spent) = (start.elapsed(), processor_time()? - before);
            let mut measured =
                json!({seconds: elapsed.as_secs_f64(), processors: spent.as_secs_f64()});
            if profiled {
                merge(&mut measured, json!({duty: super::duty(traces.path())?}));
            }
            Ok(measured)
        }),
    )
}

/// Returns the processor time of all ended processes that this one started, and of their
/// descendants, which other programs on the machine affect less than elapsed time.
fn processor_time() -> Result<Duration> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).context("asking for processor time")?;
    let parts = [usage.user_time(), usage.system_time()];
    let microseconds = parts.iter().map(|part| part.num_microseconds().unsigned_abs()).sum();
    Ok(Duration::from_micros(microseconds))
}

/// Measures pairs of mmap and munmap with much resident memory.
fn mappings(programs: &Programs) -> Result<Turns> {
    told(
        "mmap and munmap",
        Turns::take(&OF_MAPPINGS, |profiled| {
            let folder = tempfile::tempdir()?;
            let traces = profiled.then_some(folder.path());
            programs.alone(&programs.costs, &["mappings"], traces)
        }),
    )
}

fn told(what: &str, turns: Result<Turns>) -> Result<Turns> {
    if let Ok(turns) = &turns {
        println!("memory profiler, {what}: {} turns", turns.count());
    }
    turns
}

/// Returns the time that one pair in a thousand exceeds, over all turns: each turn has reported its
/// slowest pairs.
pub fn late_mapping(turns: &Turns, with: bool) -> Option<f64> {
    let (mut slowest, mut pairs) = (Vec::new(), 0);
    for value in turns.values(with) {
        pairs += value.get("mappings")?.as_u64()? as usize;
        let of_turn = value.get("slowest_mappings_ns")?.as_array()?;
        slowest.extend(of_turn.iter().filter_map(Value::as_f64));
    }
    slowest.sort_by(|left, right| right.total_cmp(left));
    slowest.get(pairs / 1000).copied()
}
