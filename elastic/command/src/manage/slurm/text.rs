//! The jobs and nodes of Slurm, as `squeue` and `sinfo` write them. Pure.

use elastic::manager::slurm::expand_hosts;
use scheduler::time::{Span, Time};

/// The fields that `squeue` is asked for; a name and a comment may have any letters, and come last.
pub const JOB_FORMAT: &str = "--format=%A|%i|%U|%T|%D|%N|%B|%S|%e|%l|%r|%j|%k";

/// The fields that `sinfo` is asked for.
pub const NODE_FORMAT: &str = "--format=%N|%n|%T|%e|%m";

/// The comment by which a user names a job whose control socket is on another node.
const ELASTIC_COMMENT: &str = "quo-elastic";

/// Jobs that hold nodes for a world are named so, with the number of its job and of the request.
const HOLDER: &str = "quo-elastic-";

/// The part of a job's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waits for nodes.
    Waits,
    /// Waits for nodes that Slurm says are down, drained or planned for another job.
    WaitsOrHeld,
    /// Waits for something else, such as another job or a time.
    Held,
    /// Has nodes.
    Runs,
    /// Gives its nodes back; only those that Slurm has not back yet are named.
    Ends,
    /// Has ended.
    Ended,
}

/// A job of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmJob {
    /// The number; elements of an array that wait have the same.
    pub number: u32,
    /// The name for people, such as `5_2`.
    pub id: String,
    /// The user's number.
    pub user: u32,
    /// The part of its life.
    pub phase: Phase,
    /// How many nodes it has, or needs.
    pub count: u32,
    /// The names of its nodes.
    pub nodes: Vec<String>,
    /// The node of its script.
    pub batch: Option<String>,
    /// The start, or when Slurm plans it; since 1970.
    pub start: Option<Time>,
    /// The end of its time limit; since 1970.
    pub end: Option<Time>,
    /// The time limit.
    pub limit: Option<Span>,
    /// The number of the job for whose world it holds nodes.
    pub holds_for: Option<u32>,
    /// True if the user has named it an elastic job.
    pub is_named: bool,
}

/// The use of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Can be had at once.
    Idle,
    /// Jobs are there, or have just been.
    Busy,
    /// Jobs are there and may stay; nothing new can begin.
    Drains,
    /// Cannot be had.
    Out,
}

/// A node of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmNode {
    /// Slurm's name.
    pub name: String,
    /// Its system's name.
    pub host: String,
    /// Its use.
    pub used: Use,
    /// Why jobs are to leave it, where it does not just drain.
    pub cause: Option<String>,
    /// The bytes that its system has free, as Slurm saw them last; page cache does not count as free.
    pub free: Option<u64>,
    /// The bytes that Slurm has for jobs, where the administrator has said so.
    pub memory: Option<u64>,
}

/// Reads the answer of `squeue`. Lines that cannot be read are given with their causes, and so are states that are not
/// known: what the job does is told by its nodes.
pub fn jobs(answer: &str) -> (Vec<SlurmJob>, Vec<String>) {
    let (read, mut wrong) = read(answer, "squeue", job);
    let (jobs, odd): (Vec<SlurmJob>, Vec<Option<String>>) = read.into_iter().unzip();
    wrong.extend(odd.into_iter().flatten());
    (jobs, wrong)
}

/// Reads the answer of `sinfo`, which names a node once for each of its partitions.
pub fn nodes(answer: &str) -> (Vec<SlurmNode>, Vec<String>) {
    let (mut nodes, wrong) = read(answer, "sinfo", node);
    let mut names = std::collections::BTreeSet::new();
    nodes.retain(|node| names.insert(node.name.clone()));
    (nodes, wrong)
}

fn read<T>(answer: &str, who: &str, one: fn(&str) -> Result<T, String>) -> (Vec<T>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for (index, line) in answer.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
        match one(line) {
            Ok(value) => found.push(value),
            Err(cause) => {
                let line: String = line.chars().take(200).collect();
                wrong.push(format!("{who}, line {}: {cause}: {line:?}", index + 1));
            }
        }
    }
    (found, wrong)
}

/// The job of a line, and what is odd about it.
fn job(line: &str) -> Result<(SlurmJob, Option<String>), String> {
    let fields: Vec<&str> = line.splitn(12, '|').collect();
    let [number, id, user, state, count, nodes, batch, start, end, limit, reason, names] =
        fields[..]
    else {
        return Err("not the fields that were asked for".to_owned());
    };
    let whole =
        |text: &str, what: &str| text.parse::<u32>().map_err(|_| format!("{text:?} is no {what}"));
    let nodes = match nodes {
        "" | "(null)" => Vec::new(),
        list => expand_hosts(list)?,
    };
    let (phase, odd) = match phase(state, reason) {
        Some(phase) => (phase, None),
        None => {
            let (phase, does) = match nodes.is_empty() {
                true => (Phase::Held, "waits, since it has no nodes"),
                false => (Phase::Runs, "runs, since it has nodes"),
            };
            let odd = format!(
                "squeue: {state:?} is no known state; job {id} is taken for one that {does}"
            );
            (phase, Some(odd))
        }
    };
    let (number, count) = (whole(number, "number of a job")?, whole(count, "number of nodes")?);
    let batch =
        Some(batch.to_owned()).filter(|name| !matches!(name.as_str(), "" | "n/a" | "(null)"));
    let holds_for = names.strip_prefix(HOLDER).and_then(|rest| rest.split_once('-'));
    let job = SlurmJob {
        number,
        id: id.to_owned(),
        user: whole(user, "number of a user")?,
        phase,
        count,
        nodes,
        batch,
        start: instant(start)?,
        end: instant(end)?,
        limit: span(limit)?,
        holds_for: holds_for.and_then(|(job, _)| job.parse().ok()),
        is_named: names.rsplit_once('|').is_some_and(|(_, comment)| comment == ELASTIC_COMMENT),
    };
    Ok((job, odd))
}

/// What a job does by its state, and while it waits by the reason.
fn phase(state: &str, reason: &str) -> Option<Phase> {
    Some(match state {
        "PENDING" | "CONFIGURING" | "EXPEDITING" => match reason {
            "Resources" | "Priority" | "None" => Phase::Waits,
            reason if reason.starts_with("Nodes required for job are DOWN") => Phase::WaitsOrHeld,
            _ => Phase::Held,
        },
        "COMPLETING" => Phase::Ends,
        "RUNNING" | "SUSPENDED" | "STOPPED" | "SIGNALING" | "RESIZING" | "STAGE_OUT" => Phase::Runs,
        "REQUEUED" | "REQUEUE_FED" | "REQUEUE_HOLD" | "SPECIAL_EXIT" | "RESV_DEL_HOLD" => {
            Phase::Held
        }
        "BOOT_FAIL" | "CANCELLED" | "COMPLETED" | "DEADLINE" | "FAILED" | "NODE_FAIL"
        | "OUT_OF_MEMORY" | "PREEMPTED" | "REVOKED" | "TIMEOUT" => Phase::Ended,
        _ => return None,
    })
}

/// Reads seconds since 1970.
fn instant(text: &str) -> Result<Option<Time>, String> {
    match text {
        "N/A" | "NONE" | "Unknown" | "None" | "" => Ok(None),
        text => match text.parse() {
            Ok(seconds) => Ok(Some(Time::seconds(seconds))),
            Err(_) => Err(format!("{text:?} is no time in seconds since 1970")),
        },
    }
}

/// Reads a time limit, such as `1-02:03:04` or `5:00`.
fn span(text: &str) -> Result<Option<Span>, String> {
    if matches!(text, "UNLIMITED" | "NOT_SET" | "INVALID" | "N/A" | "") {
        return Ok(None);
    }
    let wrong = || format!("{text:?} is no time limit");
    let (days, rest) = text.split_once('-').unwrap_or(("0", text));
    let mut seconds: u64 = 0;
    for part in rest.split(':') {
        let part: u64 = part.parse().map_err(|_| wrong())?;
        seconds =
            seconds.checked_mul(60).and_then(|all| all.checked_add(part)).ok_or_else(wrong)?;
    }
    let days: u64 = days.parse().map_err(|_| wrong())?;
    let all = days.checked_mul(86_400).and_then(|days| days.checked_add(seconds));
    Ok(Some(Span::seconds(all.ok_or_else(wrong)?)))
}

fn node(line: &str) -> Result<SlurmNode, String> {
    let fields: Vec<&str> = line.trim().split('|').collect();
    let [name, host, state, free, memory] = fields[..] else {
        return Err("not the fields that were asked for".to_owned());
    };
    // In MiB; "N/A" where the node does not answer.
    let bytes = |text: &str| text.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << 20));
    let is_name = |name: &str| expand_hosts(name).is_ok_and(|names| names == [name]);
    if !is_name(name) || !is_name(host) {
        return Err("no name of a node".to_owned());
    }
    let used = match state {
        // Planned for a job that waits; until then it can be had.
        "idle" | "planned" => Use::Idle,
        "allocated" | "mixed" | "completing" | "allocated+" => Use::Busy,
        state if state.trim_end_matches(['*', '$', '@', '^', '!', '-']) == "draining" => {
            Use::Drains
        }
        _ => Use::Out,
    };
    // 1 MiB is what Slurm takes where nobody has said anything.
    let memory = bytes(memory).filter(|bytes| *bytes > 1 << 20);
    let (name, host) = (name.to_owned(), host.to_owned());
    Ok(SlurmNode { name, host, used, cause: None, free: bytes(free), memory })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As Slurm 22.05.8 wrote it.
    const JOBS: &str = "\
4|4|0|PENDING|4||n/a|1827164024|1827165224|20:00|Resources|wide|(null)
5|5_1|0|PENDING|2||n/a|1795628700|1795628760|1:00|Priority|arr|(null)
7|7|0|PENDING|1||n/a|N/A|N/A|UNLIMITED|Dependency|dep|(null)
9|9|0|PENDING|1||n/a|1795631622|NONE|UNLIMITED|BeginTime|later|(null)
11|11|0|PENDING|4||n/a|N/A|N/A|1-00:00:00|Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions|w|(null)
2|2|1000|RUNNING|2|quo-node[1-2]|quo-node1|1795628024|1795628624|10:00|None|two|quo-elastic
3|3|0|RUNNING|1|quo-node0|quo-node0|1795628024|NONE|UNLIMITED|None|a|b|x|y
12|12|0|RUNNING|1|quo-node3|quo-node3|1795628024|1795628624|10:00|None|quo-elastic-2-7|(null)
";

    #[test]
    fn recorded_jobs_are_read_with_what_they_wait_for() {
        let (jobs, wrong) = jobs(JOBS);
        assert_eq!(wrong, Vec::<String>::new());
        let phases: Vec<Phase> = jobs.iter().map(|job| job.phase).collect();
        use Phase::{Held, Runs, Waits, WaitsOrHeld};
        assert_eq!(phases, [Waits, Waits, Held, Held, WaitsOrHeld, Runs, Runs, Runs]);
        let (wide, two, odd, holder) = (&jobs[0], &jobs[5], &jobs[6], &jobs[7]);
        assert_eq!((wide.count, wide.limit), (4, Some(Span::seconds(1200))));
        assert_eq!((wide.start, wide.batch.as_deref()), (Some(Time::seconds(1_827_164_024)), None));
        assert_eq!((jobs[1].id.as_str(), jobs[4].limit), ("5_1", Some(Span::seconds(86_400))));
        assert_eq!(
            (two.user, &two.nodes[..]),
            (1000, &["quo-node1".to_owned(), "quo-node2".into()][..])
        );
        assert!(two.is_named && !odd.is_named && odd.end.is_none());
        assert_eq!((two.holds_for, holder.holds_for), (None, Some(2)));
    }

    #[test]
    fn recorded_nodes_are_read_with_their_use() {
        let answer = "quo-node0|host0|mixed|N/A|1\nquo-node1|host1|allocated|12|64000\n\
            quo-node3|host3|planned|N/A|1\nquo-node3|host3|planned|N/A|1\nquo-node4|host4|idle|7|1\n\
            quo-node5|host5|drained|N/A|1\nquo-node6|host6|idle*|N/A|1\nquo-node7|host7|draining|N/A|1\n\
            quo-node8|host8|draining@|N/A|1\n";
        let (nodes, wrong) = nodes(answer);
        assert_eq!(wrong, Vec::<String>::new());
        let used: Vec<Use> = nodes.iter().map(|node| node.used).collect();
        assert_eq!(
            used,
            [
                Use::Busy,
                Use::Busy,
                Use::Idle,
                Use::Idle,
                Use::Out,
                Use::Out,
                Use::Drains,
                Use::Drains
            ]
        );
        assert_eq!((nodes[2].name.as_str(), nodes[2].host.as_str()), ("quo-node3", "host3"));
        assert_eq!((nodes[0].free, nodes[0].memory), (None, None));
        assert_eq!((nodes[1].free, nodes[1].memory), (Some(12 << 20), Some(64_000 << 20)));
    }

    #[test]
    fn wrong_lines_are_named_and_others_are_read() {
        for (line, cause) in [
            (
                "slurm_load_jobs error",
                "squeue, line 2: not the fields that were asked for: \"slurm_",
            ),
            ("x|x|0|RUNNING|1|n1|n1|1|2|1:00|None|a|", "\"x\" is no number of a job"),
            ("1|1|0|RUNNING|1-2|n1|n1|1|2|1:00|None|a|", "\"1-2\" is no number of nodes"),
            ("1|1|0|RUNNING|1|n[1|n1|1|2|1:00|None|a|", "brackets that do not match"),
            ("1|1|0|RUNNING|1|n1|n1|soon|2|1:00|None|a|", "\"soon\" is no time in seconds"),
            ("1|1|0|RUNNING|1|n1|n1|1|2|1:xx|None|a|", "\"1:xx\" is no time limit"),
        ] {
            let first = JOBS.lines().next().unwrap();
            let (jobs, wrong) = jobs(&format!("{first}\n{line}\n{first}\n"));
            assert!(jobs.len() == 2 && wrong.len() == 1 && wrong[0].contains(cause), "{wrong:?}");
        }
        let (nodes, wrong) = nodes("n1|idle\nn[1-2]|a|idle|1|1\nn1|a|idle|1|1\n");
        assert_eq!((nodes.len(), wrong.len()), (1, 2), "{wrong:?}");
    }

    #[test]
    fn job_in_an_unknown_state_is_kept_and_named() {
        let answer =
            "1|1|0|DANCING|1|n1|n1|1|2|1:00|None|a|\n2|2|0|DANCING|1||n/a|1|2|1:00|None|a|\n";
        let (jobs, wrong) = jobs(answer);
        assert_eq!((jobs[0].phase, jobs[1].phase), (Phase::Runs, Phase::Held));
        let said = "squeue: \"DANCING\" is no known state; job 1 is taken for one that runs, since it has nodes";
        assert!(wrong.len() == 2 && wrong[0] == said, "{wrong:?}");
    }

    /// As Slurm 26.05.5 wrote it.
    #[test]
    fn expedited_job_waits_for_nodes() {
        let (jobs, wrong) = jobs("21|21|0|EXPEDITING|1||n/a|N/A|N/A|5:00|Resources|exped|(null)\n");
        assert_eq!((jobs[0].phase, wrong.len()), (Phase::Waits, 0));
    }

    proptest! {
        #[test]
        fn any_answer_is_read_or_named(answer in "([0-9|]{1,9}\\|RUNNING\\|)?[a-z0-9|:\\[\\]\n ]{0,80}|\\PC{0,80}") {
            let lines = answer.lines().filter(|line| !line.trim().is_empty()).count();
            let (jobs, wrong) = jobs(&answer);
            prop_assert!(jobs.len() <= lines && jobs.len() + wrong.len() >= lines);
            let _ = nodes(&answer);
        }
    }
}
