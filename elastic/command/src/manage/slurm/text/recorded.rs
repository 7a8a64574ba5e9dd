//! Answers that real Slurm of several versions gave: the text and Slurm's JSON are read alike.

use std::collections::BTreeSet;

use serde_json::Value;

use super::*;

const VERSIONS: [(&str, &str); 3] = [
    ("22.05.8", include_str!("../../../../tests/data/slurm/22.05.8.json")),
    ("24.11.5", include_str!("../../../../tests/data/slurm/24.11.5.json")),
    ("26.05.5", include_str!("../../../../tests/data/slurm/26.05.5.json")),
];

/// The moments of a version's record, each with its name.
fn moments(text: &str) -> Vec<(String, Value)> {
    let record: Value = serde_json::from_str(text).unwrap();
    let moments = record["moments"].as_object().unwrap();
    moments.iter().map(|(name, moment)| (name.clone(), moment.clone())).collect()
}

fn read(moment: &Value) -> Vec<SlurmJob> {
    let (jobs, wrong) = jobs(moment["squeue"].as_str().unwrap(), &Mark::new(0xab));
    assert_eq!(wrong, Vec::<String>::new());
    jobs
}

/// A number: plain in older versions, with a flag in later ones; zero stands for none.
fn number(value: &Value) -> Option<u64> {
    let is_set = value.get("set").is_none_or(|set| set == true);
    let value = value.get("number").unwrap_or(value);
    value.as_u64().filter(|&number| is_set && number > 0)
}

/// A state with its flags: one text in older versions, a list in later ones.
fn states(value: &Value) -> BTreeSet<String> {
    let words = match value {
        Value::Array(words) => words.clone(),
        word => vec![word.clone()],
    };
    words.iter().map(|word| word.as_str().unwrap().to_uppercase()).collect()
}

/// Returns the expected state of a job from its Slurm states.
fn expected(states: &BTreeSet<String>, reason: &str) -> JobState {
    let is = |word: &str| states.contains(word);
    if is("COMPLETING") {
        JobState::Ends
    } else if is("RUNNING") || is("SUSPENDED") {
        JobState::Runs
    } else if is("PENDING") {
        match reason {
            "Resources" | "Priority" | "None" => JobState::Waits,
            _ => JobState::Held,
        }
    } else {
        JobState::Ended
    }
}

#[test]
fn recorded_jobs_are_those_of_slurms_json() {
    for (version, text) in VERSIONS {
        for (name, moment) in moments(text) {
            let jobs = read(&moment);
            let facts = moment["jobs"].as_array().unwrap();
            assert!(facts.len() > 10, "{version} {name}");
            let numbers: BTreeSet<u64> = jobs.iter().map(|job| u64::from(job.number)).collect();
            let known: BTreeSet<u64> =
                facts.iter().filter_map(|it| number(&it["job_id"])).collect();
            assert_eq!(numbers, known, "{version} {name}");
            for fact in facts {
                let id = number(&fact["job_id"]).unwrap();
                // A waiting array is one entry there, and one job for each of its tasks here.
                for job in jobs.iter().filter(|job| u64::from(job.number) == id) {
                    let of = format!("{version} {name} {job:?} {fact}");
                    let reason = fact["state_reason"].as_str().unwrap();
                    // The text has a description in place of the reason, if Slurm gives one.
                    let state = match job.state {
                        JobState::WaitsOrHeld => JobState::Waits,
                        state => state,
                    };
                    assert_eq!(state, expected(&states(&fact["job_state"]), reason), "{of}");
                    let nodes = fact["nodes"].as_str().unwrap_or_default();
                    let nodes =
                        if nodes.is_empty() { Vec::new() } else { expand_hosts(nodes).unwrap() };
                    assert_eq!(job.nodes, nodes, "{of}");
                    assert_eq!(Some(u64::from(job.count)), number(&fact["node_count"]), "{of}");
                    assert_eq!(u64::from(job.user), number(&fact["user_id"]).unwrap_or(0), "{of}");
                    let seconds = |time: Option<Time>| time.map(|time| time.0 / 1000);
                    assert_eq!(seconds(job.start), number(&fact["start_time"]), "{of}");
                    let limit = job.limit.map(|limit| limit.0 / 60_000);
                    assert_eq!(limit, number(&fact["time_limit"]), "{of}");
                    assert_eq!(job.is_named, fact["comment"] == ELASTIC_COMMENT, "{of}");
                    if job.state == JobState::Runs {
                        assert_eq!(seconds(job.end), number(&fact["end_time"]), "{of}");
                        assert_eq!(job.batch.as_deref(), fact["batch_host"].as_str(), "{of}");
                    }
                }
            }
        }
    }
}

#[test]
fn recorded_nodes_are_those_of_slurms_json() {
    for (version, text) in VERSIONS {
        for (name, moment) in moments(text) {
            let (nodes, wrong) = nodes(moment["sinfo"].as_str().unwrap());
            assert_eq!(wrong, Vec::<String>::new());
            let facts = moment["nodes"].as_object().unwrap();
            assert_eq!(nodes.len(), facts.len(), "{version} {name}");
            for node in nodes {
                let states = states(&facts[&node.name]);
                let is = |word: &str| states.contains(word);
                let expected = if is("DOWN") || is("NOT_RESPONDING") {
                    Use::Out
                } else if is("DRAIN") {
                    if is("IDLE") { Use::Out } else { Use::Drains }
                } else if is("IDLE") && !is("COMPLETING") {
                    Use::Idle
                } else {
                    Use::Busy
                };
                assert_eq!(node.used, expected, "{version} {name} {node:?} {states:?}");
            }
        }
    }
}

#[test]
fn recorded_situations_are_all_there() {
    for (version, text) in VERSIONS {
        let answers: String = moments(text)
            .iter()
            .map(|(_, moment)| moment["squeue"].as_str().unwrap().to_owned())
            .collect();
        for state in [
            "CANCELLED",
            "COMPLETED",
            "FAILED",
            "NODE_FAIL",
            "PENDING",
            "PREEMPTED",
            "RUNNING",
            "SUSPENDED",
            "TIMEOUT",
        ] {
            assert!(answers.contains(&format!("|{state}|")), "{version}: {state}");
        }
        for part in ["|4_", "|5+1|", "|BeginTime|requeued|", "\n77|77|0|PENDING|"] {
            assert!(
                answers.contains(part) || answers.contains(&part.replace('5', "7")),
                "{version}: {part}"
            );
        }
        assert_eq!(answers.contains("|EXPEDITING|"), version == "26.05.5");
    }
}
