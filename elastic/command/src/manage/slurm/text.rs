//! The jobs and nodes of Slurm, as `squeue` and `sinfo` write them. Pure.

#[cfg(test)]
mod recorded;
#[cfg(test)]
mod tests;

pub use elastic::manager::slurm::JobState;
use elastic::manager::slurm::expand_hosts;
use elastic_policy::time::{Span, Time};

/// The queried fields of `squeue`; a name and a comment may contain any characters, and are last.
const JOB_FIELDS: &str = "%A|%i|%U|%T|%D|%N|%B|%S|%e|%l|%r|%j|%k";

/// The word that begins the line of each job in an answer. A name or a comment may contain line
/// breaks followed by an imitation of another job's line, but not this word, which was unknown when
/// the job was submitted.
#[derive(Clone, Debug)]
pub struct Mark(String);

impl Mark {
    /// Makes a word from an unpredictable number.
    pub fn new(number: u64) -> Mark {
        Mark(format!("{number:016x}|"))
    }

    /// Returns the option of `squeue` for the mark and the fields of a job after it.
    pub fn format(&self) -> String {
        format!("--format={}{JOB_FIELDS}", self.0)
    }

    /// Returns each job's part of an answer with the number of its line; each line of an answer
    /// without any mark.
    fn parts<'a>(&self, answer: &'a str) -> Vec<(usize, &'a str)> {
        let is_marked = answer.lines().any(|line| line.starts_with(&self.0));
        let begins = |line: &str| !is_marked || line.starts_with(&self.0);
        let mut parts: Vec<(usize, usize)> = Vec::new();
        let mut at = 0;
        for (number, line) in answer.split_inclusive('\n').enumerate() {
            // Text before the first job belongs to none.
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

/// The queried fields of `sinfo`.
pub const NODE_FORMAT: &str = "--format=%N|%n|%T|%e|%m";

/// The comment by which a user marks a job with its control socket on another node.
const ELASTIC_COMMENT: &str = "quo-elastic";

/// Prefix of the names of jobs that hold nodes for a world, followed by the numbers of its job and
/// of the request.
const HOLDER: &str = "quo-elastic-";

/// A job of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmJob {
    /// The number; waiting elements of an array have the same one.
    pub number: u32,
    /// The name shown to people, such as `5_2`.
    pub id: String,
    /// The user's number.
    pub user: u32,
    /// State of the job.
    pub state: JobState,
    /// The number of nodes that it has, or needs.
    pub count: u32,
    /// The names of its nodes.
    pub nodes: Vec<String>,
    /// The node of its script.
    pub batch: Option<String>,
    /// The start, or the start that Slurm plans; since 1970.
    pub start: Option<Time>,
    /// The end of its time limit; since 1970.
    pub end: Option<Time>,
    /// The time limit.
    pub limit: Option<Span>,
    /// The number of the job that runs the world for which it holds nodes.
    pub holds_for: Option<u32>,
    /// True if the user has marked it as an elastic job.
    pub is_named: bool,
}

/// Availability of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Available at once.
    Idle,
    /// Jobs are there, or have just been.
    Busy,
    /// Jobs are there and may stay; no new one can start.
    Drains,
    /// Not available.
    Out,
}

/// A node of Slurm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlurmNode {
    /// Slurm's name.
    pub name: String,
    /// Its host name.
    pub host: String,
    /// Its availability.
    pub used: Use,
    /// Why jobs have to leave it, if it does not just drain.
    pub cause: Option<String>,
    /// The bytes that its system has free, as Slurm saw them last; page cache does not count as
    /// free.
    pub free: Option<u64>,
    /// The bytes that Slurm has for jobs, if the administrator has set them.
    pub memory: Option<u64>,
}

/// Reads the answer of `squeue` to a mark. Unreadable lines are returned with their causes, and so
/// are unknown states: a job's nodes then show its state.
pub fn jobs(answer: &str, mark: &Mark) -> (Vec<SlurmJob>, Vec<String>) {
    let (read, mut wrong) = read(mark.parts(answer), "squeue", job);
    let (jobs, odd): (Vec<SlurmJob>, Vec<Option<String>>) = read.into_iter().unzip();
    wrong.extend(odd.into_iter().flatten());
    (jobs, wrong)
}

/// Reads the answer of `sinfo`, which lists a node once for each of its partitions.
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

/// Reads a job from its part of an answer, with a message if the part is unusual.
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
    let (state, odd) = match JobState::of(state, reason) {
        Some(state) => (state, None),
        None => {
            let (taken, does) = match nodes.is_empty() {
                true => (JobState::Held, "waits, since it has no nodes"),
                false => (JobState::Runs, "runs, since it has nodes"),
            };
            let odd = format!(
                "squeue: {state:?} is no known state; job {id} is taken for one that {does}"
            );
            (taken, Some(odd))
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
        state,
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
    // In MiB; "N/A" if the node does not answer.
    let bytes = |text: &str| text.parse::<u64>().ok().and_then(|count| count.checked_mul(1 << 20));
    let is_name = |name: &str| expand_hosts(name).is_ok_and(|names| names == [name]);
    if !is_name(name) || !is_name(host) {
        return Err("no name of a node".to_owned());
    }
    // A dash after the state means planned for a waiting job; until then the node is available.
    let used = match state.strip_suffix('-').unwrap_or(state) {
        "idle" | "planned" => Use::Idle,
        "allocated" | "mixed" | "completing" | "allocated+" => Use::Busy,
        state if state.trim_end_matches(['*', '$', '@', '^', '!', '-']) == "draining" => {
            Use::Drains
        }
        _ => Use::Out,
    };
    // 1 MiB is Slurm's default if the administrator has set nothing.
    let memory = bytes(memory).filter(|bytes| *bytes > 1 << 20);
    let (name, host) = (name.to_owned(), host.to_owned());
    Ok(SlurmNode { name, host, used, cause: None, free: bytes(free), memory })
}
