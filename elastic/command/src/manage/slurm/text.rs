//! The jobs and nodes of Slurm, as `squeue` and `sinfo` write them. Pure.

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;

use elastic::manager::slurm::expand_hosts;
use elastic_policy::time::{Span, Time};

/// The fields that `squeue` is asked for; a name and a comment may have any letters, and come last.
const JOB_FIELDS: &str = "%A|%i|%U|%T|%D|%N|%B|%S|%e|%l|%r|%j|%k";

/// The word that begins the line of each job in an answer. A name or a comment may have line breaks and what looks like
/// the line of another job behind them, but not a word that nobody knew when the job was submitted.
#[derive(Clone, Debug)]
pub struct Mark(String);

impl Mark {
    /// Makes a word from a number that nobody can know.
    pub fn new(number: u64) -> Mark {
        Mark(format!("{number:016x}|"))
    }

    /// Returns the word for `squeue` that asks for the fields of a job behind the mark.
    pub fn format(&self) -> String {
        format!("--format={}{JOB_FIELDS}", self.0)
    }

    /// Returns each job's part of an answer with the number of its line; of an answer without any mark, each line.
    fn parts<'a>(&self, answer: &'a str) -> Vec<(usize, &'a str)> {
        let is_marked = answer.lines().any(|line| line.starts_with(&self.0));
        let begins = |line: &str| !is_marked || line.starts_with(&self.0);
        let mut parts: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        for (number, line) in answer.split_inclusive('\n').enumerate() {
            // What is before the first job is no part of one.
            if begins(line) || parts.is_empty() {
                parts.push((number + 1, at));
            }
            at += line.len();
        }
        let ends = parts.iter().skip(1).map(|part| part.1).chain([answer.len()]);
        let text = |from, to| &answer[from..to];
        let parts = parts.iter().zip(ends).map(|(&(number, from), to)| (number, text(from, to)));
        let without = |part: &'a str| part.strip_prefix(&self.0).unwrap_or(part).trim_end();
        let parts = parts.map(|(number, part)| (number, without(part)));
        parts.filter(|(_, part)| !part.trim().is_empty()).collect()
    }
}

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

/// Reads the answer of `squeue` to a mark. Lines that cannot be read are given with their causes, and so are states that are not
/// known: what the job does is told by its nodes.
pub fn jobs(answer: &str, mark: &Mark) -> (Vec<SlurmJob>, Vec<String>) {
    let (read, mut wrong) = read(mark.parts(answer), "squeue", job);
    let (jobs, odd): (Vec<SlurmJob>, Vec<Option<String>>) = read.into_iter().unzip();
    wrong.extend(odd.into_iter().flatten());
    (jobs, wrong)
}

/// Reads the answer of `sinfo`, which names a node once for each of its partitions.
pub fn nodes(answer: &str) -> (Vec<SlurmNode>, Vec<String>) {
    let lines = answer.lines().zip(1..).map(|(line, number)| (number, line));
    let lines = lines.filter(|(_, line)| !line.trim().is_empty()).collect();
    let (mut nodes, wrong) = read(lines, "sinfo", node);
    let mut names = std::collections::BTreeSet::new();
    nodes.retain(|node| names.insert(node.name.clone()));
    (nodes, wrong)
}

fn read<T>(
    lines: Vec<(usize, &str)>,
    who: &str,
    one: fn(&str) -> Result<T, String>,
) -> (Vec<T>, Vec<String>) {
    let (mut found, mut wrong) = (Vec::new(), Vec::new());
    for (number, line) in lines {
        match one(line) {
            Ok(value) => found.push(value),
            Err(cause) => {
                let line: String = line.chars().take(200).collect();
                wrong.push(format!("{who}, line {number}: {cause}: {line:?}"));
            }
        }
    }
    (found, wrong)
}

/// The job of its part of an answer, and what is odd about it.
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
    // With a dash behind it planned for a job that waits; until then it can be had.
    let used = match state.strip_suffix('-').unwrap_or(state) {
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
