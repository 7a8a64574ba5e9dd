//! Rates of messages with the profiler between program and MPI, and bypassing it, in turns of less
//! than a millisecond in the same processes: addresses and other load of the machine are the same
//! for both.

use anyhow::{Context, Result, ensure};
use quo_tests::{BindTo, Job};
use serde_json::{Value, json};

use super::Programs;
use super::turns::Turns;

/// Sizes of messages with milliseconds for each: most for one byte, to which the target applies.
const SIZES: [&str; 5] = ["1:3000", "64:800", "4096:800", "65536:800", "4194304:2500"];

/// Number of jobs; addresses differ between jobs.
const JOBS: usize = 5;

/// Measures the rates; each round of blocks of each job is one turn.
pub fn messages(programs: &Programs) -> Result<Turns> {
    let mut rounds = Vec::new();
    for _ in 0..JOBS {
        let folder = tempfile::tempdir()?;
        let job = Job::new(2, &programs.messages).bind_to(BindTo::Core).arg("sides");
        let job = SIZES.iter().fold(job, |job, size| job.arg(size));
        let measured = crate::bench::program_output(&programs.job(job, Some(folder.path())))?;
        check(&measured)?;
        rounds
            .extend(each_round(&measured).context("the benchmark printed no rates of both sides")?);
    }
    println!("memory profiler, messages: {} rounds of blocks in {JOBS} jobs", rounds.len());
    Ok(Turns::of_pairs(rounds))
}

/// Checks that the calls of one side go to the profiler, and those of the other to the MPI library.
fn check(measured: &Value) -> Result<()> {
    let objects = measured
        .get("objects")
        .and_then(Value::as_array)
        .context("the benchmark printed no names of objects")?;
    let names = objects.iter().map(|name| name.as_str().unwrap_or_default()).collect::<Vec<_>>();
    let (without, with) = names.split_at(names.len() / 2);
    let to_profiler = |name: &&str| name.starts_with("libmemprof_preload");
    ensure!(
        !with.is_empty() && with.iter().all(to_profiler) && !without.iter().any(to_profiler),
        "calls past the profiler go to {without:?}, calls through it to {with:?}"
    );
    Ok(())
}

fn each_round(measured: &Value) -> Option<Vec<[Value; 2]>> {
    let mut rounds = Vec::new();
    for (size, of_size) in measured.get("sides")?.as_object()? {
        for round in of_size.as_array()? {
            let rate = |side: usize| Some(json!({"sides": {size: round.get(side)?}}));
            rounds.push([rate(0)?, rate(1)?]);
        }
    }
    Some(rounds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_round_of_each_size_is_a_turn() {
        let measured = json!({"sides": {"1": [[100, 98], [50, 49]], "64": [[80, 80]]}});
        let turns = Turns::of_pairs(each_round(&measured).unwrap());
        assert_eq!(turns.count(), 3);
        assert_eq!(turns.of(false, "/sides/1"), [100.0, 50.0]);
        assert_eq!(turns.ratio("/sides/1").unwrap().median, 0.98);
        assert_eq!(turns.ratio("/sides/64").unwrap().median, 1.0);
        assert!(each_round(&json!({"messages_per_second": {}})).is_none());
    }

    #[test]
    fn sides_that_call_the_same_are_no_comparison() {
        let of = |with: &str| json!({"objects": ["libmpi.so", "libmpi.so", "libmemprof_preload.so", with]});
        assert!(check(&of("libmemprof_preload.so")).is_ok());
        assert!(check(&of("libmpi.so")).is_err());
        assert!(check(&json!({"objects": []})).is_err());
    }
}
