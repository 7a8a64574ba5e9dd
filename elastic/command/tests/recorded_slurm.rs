//! Logs that real Slurm of several versions wrote: what `simulate` reads of them is what Slurm's JSON says.
#![allow(clippy::unwrap_used)] // A test that cannot go on has failed.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use serde_json::Value;

const VERSIONS: [&str; 3] = [
    include_str!("data/slurm/22.05.8.json"),
    include_str!("data/slurm/24.11.5.json"),
    include_str!("data/slurm/26.05.5.json"),
];
/// The value that later versions write for an unknown time.
const UNKNOWN: u64 = 4_294_967_294;

#[test]
fn recorded_log_has_the_jobs_and_hours_of_slurms_json() {
    let folder = tempfile::tempdir().unwrap();
    for text in VERSIONS {
        let record: Value = serde_json::from_str(text).unwrap();
        let version = record["version"].as_str().unwrap();
        fs::write(folder.path().join("log"), record["sacct"].as_str().unwrap()).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
        command.current_dir(folder.path()).args(["simulate", "log", "--nodes", "4", "--json"]);
        command.args(["--cores-per-node", "4", "--memory-per-node", "4000M"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{version}: {said}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();

        let facts = record["sacct_jobs"].as_array().unwrap();
        let time = |value: &Value| value.as_u64().filter(|&time| time > 0 && time < UNKNOWN);
        let ran: Vec<&Value> = facts.iter().filter(|job| time(&job["start"]).is_some()).collect();
        let latest = facts.iter().filter_map(|job| time(&job["end"])).max().unwrap();
        let hours = ran.iter().map(|job| {
            let end = time(&job["end"]).unwrap_or(latest);
            let seconds = end - time(&job["start"]).unwrap();
            job["cpus"].as_f64().unwrap() * seconds as f64 / 3600.0
        });
        let hours: f64 = hours.sum();
        let read = report["hours"]["log"].as_f64().unwrap();
        assert!((read - hours).abs() < 1e-6, "{version}: {read}, not {hours}");

        let skipped = |name: &str| report["skipped"][name].as_u64().unwrap() as usize;
        assert_eq!(skipped("never_ran"), facts.len() - ran.len(), "{version}");
        let running = ran.iter().filter(|job| time(&job["end"]).is_none()).count();
        assert_eq!((skipped("not_ended"), running), (1, 1), "{version}: the suspended job");
        let ids: BTreeSet<u64> = ran.iter().map(|job| job["job_id"].as_u64().unwrap()).collect();
        // Two of them are the parts of a heterogeneous job.
        assert_eq!(skipped("heterogeneous"), 1, "{version}");
        assert_eq!(report["policies"][0][0]["jobs"].as_u64().unwrap() as usize, ids.len() - 1);
        assert_eq!(skipped("requeued"), ran.len() - ids.len(), "{version}");
        assert_eq!(skipped("wrong"), 0, "{version}");
        assert!(
            !said.contains("at the same time") && !said.contains("no memory"),
            "{version}: {said}"
        );
    }
}
