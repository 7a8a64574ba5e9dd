//! Output of Slurm's commands, as values. Pure.

use super::host_list::{expand, is_name, shortened};

/// The fields of a job that `squeue` is asked for. Times are seconds since 1970: see
/// [`TIME_FORMAT`](super::command::TIME_FORMAT).
pub(super) const JOB_FORMAT: &str = "%A|%T|%N|%B|%P|%e|%l|%a|%q|%r";

/// State of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobState {
    /// Waits for nodes.
    Waits,
    /// Waits for nodes that Slurm says are down, drained or planned for another job.
    WaitsOrHeld,
    /// Waits for something else, such as another job or a time.
    Held,
    /// Has nodes.
    Runs,
    /// Releases its nodes; only nodes that Slurm has not got back yet are listed.
    Ends,
    /// Has ended.
    Ended,
}

impl JobState {
    /// Returns the state that `squeue` writes as this word, of a waiting job by the reason; `None`
    /// for a word of another Slurm.
    #[must_use]
    pub fn of(word: &str, reason: &str) -> Option<Self> {
        Some(match word {
            "PENDING" | "CONFIGURING" | "EXPEDITING" => match reason {
                "Resources" | "Priority" | "None" => Self::Waits,
                reason if reason.starts_with("Nodes required for job are DOWN") => {
                    Self::WaitsOrHeld
                }
                _ => Self::Held,
            },
            "COMPLETING" => Self::Ends,
            "RUNNING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "RESIZING" | "STAGE_OUT" => {
                Self::Runs
            }
            "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
                Self::Held
            }
            "BOOT_FAIL" | "CANCELLED" | "COMPLETED" | "DEADLINE" | "FAILED" | "NODE_FAIL"
            | "OUT_OF_MEMORY" | "PREEMPTED" | "REVOKED" | "TIMEOUT" => Self::Ended,
            _ => return None,
        })
    }

    /// Returns true if the job waits, for whatever it is.
    pub(super) fn is_waiting(self) -> bool {
        matches!(self, Self::Waits | Self::WaitsOrHeld | Self::Held)
    }
}

/// A job as Slurm knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct JobFacts {
    pub state: JobState,
    /// The names of its nodes; empty while it waits.
    pub nodes: Vec<String>,
    /// The node of the batch script, or of the process that requested the allocation.
    pub batch: Option<String>,
    pub partition: Option<String>,
    /// When its time limit expires, in seconds since 1970; `None` without a limit.
    pub end: Option<u64>,
    pub account: Option<String>,
    pub quality: Option<String>,
    /// Why it waits.
    pub reason: String,
}

/// Reads one job of `squeue`'s answer; `None` if it is not listed.
///
/// # Errors
/// The answer does not match the query.
pub(super) fn job(answer: &str, number: u32) -> Result<Option<JobFacts>, String> {
    for line in answer.lines().filter(|line| !line.trim().is_empty()) {
        let unreadable = |what: &str| format!("squeue: {what}: {:?}", shortened(line));
        let fields: Vec<&str> = line.split('|').map(str::trim).collect();
        let [id, state, nodes, batch, partition, end, limit, account, quality, reason] = fields[..]
        else {
            return Err(unreadable("not the fields that were asked for"));
        };
        let id: u32 = id.parse().map_err(|_| unreadable("no number of a job"))?;
        if id != number {
            continue;
        }
        let end = match (limit, end) {
            ("UNLIMITED" | "NOT_SET", _) => None,
            (_, "N/A" | "NONE" | "Unknown") => None,
            (_, end) => Some(end.parse().map_err(|_| unreadable("no time of its end"))?),
        };
        let nodes = if said(nodes).is_none() { Vec::new() } else { expand(nodes)? };
        // For an unknown state of a later Slurm: a job that has nodes runs.
        let by_nodes = if nodes.is_empty() { JobState::Waits } else { JobState::Runs };
        return Ok(Some(JobFacts {
            state: JobState::of(state, reason).unwrap_or(by_nodes),
            nodes,
            batch: said(batch).filter(|name| is_name(name)),
            partition: said(partition),
            end,
            account: said(account),
            quality: said(quality),
            reason: shortened(reason),
        }));
    }
    Ok(None)
}

fn said(field: &str) -> Option<String> {
    let is_nothing = matches!(field, "" | "(null)" | "n/a" | "N/A" | "None" | "none");
    (!is_nothing).then(|| field.to_owned())
}

/// Returns the number of a submitted job: `sbatch --parsable` may append the name of the cluster.
///
/// # Errors
/// There is no number.
pub(super) fn submitted(answer: &str) -> Result<u32, String> {
    let number = answer.trim().split(';').next().unwrap_or_default();
    let number = number.parse().ok().filter(|&number| number > 0);
    number.ok_or_else(|| format!("sbatch: no number of a job: {:?}", shortened(answer)))
}

/// The fields of steps that `squeue` is asked for.
pub(super) const STEP_FORMAT: &str = "%i|%N";

/// Returns the steps of a job that use none of the kept nodes. A step with unreadable nodes is left
/// out.
pub(super) fn steps_elsewhere(answer: &str, number: u32, kept: &[String]) -> Vec<String> {
    let is_of_the_job = |step: &str| {
        let (job, part) = step.split_once('.')?;
        let is_launched = !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        (is_launched && job.parse() == Ok(number)).then_some(())
    };
    let step = |line: &str| {
        let (step, nodes) = line.trim().split_once('|')?;
        is_of_the_job(step)?;
        let nodes = expand(nodes).ok()?;
        (!nodes.iter().any(|node| kept.contains(node))).then(|| step.to_owned())
    };
    answer.lines().filter_map(step).collect()
}

/// Returns nodes by name, with their host names.
///
/// # Errors
/// The answer of `scontrol show node -o` lacks one of the nodes.
pub(super) fn hosts(answer: &str, names: &[String]) -> Result<Vec<(String, String)>, String> {
    let mut found = Vec::new();
    for line in answer.lines() {
        let field = |key: &str| {
            let mut words = line.split_ascii_whitespace();
            words.find_map(|word| word.strip_prefix(key)).filter(|name| is_name(name))
        };
        if let Some(name) = field("NodeName=") {
            let host = field("NodeHostName=").unwrap_or(name);
            found.push((name.to_owned(), host.to_owned()));
        }
    }
    let of = |name: &String| found.iter().find(|(node, _)| node == name).cloned();
    let missing = |name: &String| format!("scontrol: nothing of node {name:?}");
    names.iter().map(|name| of(name).ok_or_else(|| missing(name))).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_running_job_has_nodes_and_an_end() {
        let line = "8|RUNNING|n[0-1]|n0|all|1795367855|5:00|(null)|normal|None\n";
        let facts = job(line, 8).unwrap().unwrap();
        assert_eq!((facts.state, facts.end), (JobState::Runs, Some(1_795_367_855)));
        assert_eq!(
            (facts.nodes, facts.batch.as_deref()),
            (vec!["n0".into(), "n1".into()], Some("n0"))
        );
        assert_eq!((facts.account, facts.quality.as_deref()), (None, Some("normal")));
        assert_eq!(job(line, 9).unwrap(), None);
        assert_eq!(job("\n", 8).unwrap(), None);
    }

    #[test]
    fn a_waiting_job_has_neither_and_a_reason() {
        let line = "2|PENDING||n/a|all|N/A|UNLIMITED|(null)|(null)|Nodes required are DOWN";
        let facts = job(line, 2).unwrap().unwrap();
        assert_eq!((facts.state, facts.end, facts.nodes.len()), (JobState::Held, None, 0));
        assert_eq!(facts.reason, "Nodes required are DOWN");
    }

    #[test]
    fn job_without_a_limit_has_no_end() {
        let line = "2|RUNNING|a|a|all|1895367855|UNLIMITED|(null)|(null)|None";
        assert_eq!(job(line, 2).unwrap().unwrap().end, None);
    }

    #[test]
    fn job_in_an_unknown_state_runs_where_it_has_nodes() {
        let state = |nodes| {
            let line = format!("2|DANCING|{nodes}|n/a|all|N/A|5:00|x|x|None");
            job(&line, 2).unwrap().unwrap().state
        };
        assert_eq!((state("a"), state("")), (JobState::Runs, JobState::Waits));
    }

    #[test]
    fn other_answers_are_errors() {
        for line in [
            "hello",
            "2|RUNNING|a",
            "x|RUNNING|a|a|all|N/A|5:00|x|x|None",
            "2|RUNNING|a|a|all|tomorrow|5:00|x|x|None",
            "2|RUNNING|a[|a|all|N/A|5:00|x|x|None",
            "2|RUNNING|a|a|all|N/A|5:00|x|x|None|more",
        ] {
            assert!(job(line, 2).is_err(), "{line}");
        }
        for answer in ["", "Submitted batch job 8", "-1", "0", "99999999999"] {
            assert!(submitted(answer).is_err(), "{answer}");
        }
        assert_eq!((submitted("8\n"), submitted("9;main\n")), (Ok(8), Ok(9)));
    }

    #[test]
    fn steps_on_other_nodes_are_found_but_not_the_script() {
        let answer = "7.batch|n1\n7.0|n1\n7.1|n2\n7.2|n[2-3]\n7.3|n[1-2]\n17.1|n2\n7.x|n2\nodd\n";
        let kept = ["n1".to_owned()];
        assert_eq!(steps_elsewhere(answer, 7, &kept), ["7.1", "7.2"]);
    }

    #[test]
    fn nodes_go_by_the_names_of_their_systems() {
        let answer = "NodeName=n1 Arch=x NodeAddr=10.0.0.1 NodeHostName=host1 Version=22\n\
                      NodeName=n2 NodeAddr=n2\n";
        let pair = |node: &str, host: &str| (node.to_owned(), host.to_owned());
        let names = ["n2".to_owned(), "n1".to_owned()];
        assert_eq!(hosts(answer, &names).unwrap(), [pair("n2", "n2"), pair("n1", "host1")]);
        assert!(hosts(answer, &["n3".to_owned()]).is_err());
        assert!(hosts("", &names).is_err());
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_refused(answer in "(8\\|RUNNING\\|)?[a-z0-9|\\[\\]\n ]{0,80}|\\PC{0,80}") {
            let _ = job(&answer, 8);
            let _ = submitted(&answer);
            let _ = hosts(&answer, &["n1".to_owned()]);
        }
    }
}
