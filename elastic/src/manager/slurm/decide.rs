//! Decisions about nodes, jobs and their ends. Pure: times are seconds since 1970, or since the
//! start of the job.

use std::time::Duration;

use super::text::JobFacts;

/// A node of one of the jobs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    /// Slurm's name for it.
    pub name: String,
    /// Its host name.
    pub host: String,
    /// True if processes of the world were on it.
    pub was_used: bool,
    /// Time since which it has had no process of the world.
    pub empty_since: Option<Duration>,
}

impl Node {
    pub(super) fn new((name, host): (String, String)) -> Self {
        Self { name, host, was_used: false, empty_since: None }
    }

    /// Records whether processes of the world are on the node.
    pub(super) fn record_use(&mut self, live: &[String], now: Duration) {
        if live.iter().any(|host| self.is(host)) {
            (self.was_used, self.empty_since) = (true, None);
        } else if self.was_used {
            self.empty_since.get_or_insert(now);
        }
    }

    /// Returns true if a host of the world is this node.
    pub(super) fn is(&self, host: &str) -> bool {
        is_same(host, &self.host) || is_same(host, &self.name)
    }

    /// Returns the time at which the linger time of the leavers has passed.
    pub(super) fn due(&self, linger: Duration) -> Option<Duration> {
        self.empty_since.map(|since| since.saturating_add(linger))
    }
}

/// Returns true if two names are of one host: the part after the first dot is only its domain.
fn is_same(one: &str, other: &str) -> bool {
    let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
    short(one) == short(other)
}

/// Decision about the release of a job's nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Release {
    /// Nothing yet.
    Nothing,
    /// The job keeps these nodes, and continues.
    Keep(Vec<String>),
    /// The job is not needed any more.
    All,
}

/// Decides which nodes are released. The job's anchor node is released only with all others.
pub(super) fn release(
    nodes: &[Node],
    anchor: Option<&str>,
    now: Duration,
    linger: Duration,
) -> Release {
    let is_due = |node: &&Node| node.due(linger).is_some_and(|due| due <= now);
    let due = nodes.iter().filter(is_due).count();
    if due == nodes.len() {
        return Release::All;
    }
    let stays = |node: &&Node| !is_due(node) || anchor.is_some_and(|name| name == node.name);
    let kept: Vec<String> = nodes.iter().filter(stays).map(|node| node.name.clone()).collect();
    if kept.len() == nodes.len() { Release::Nothing } else { Release::Keep(kept) }
}

/// Returns for how many minutes nodes can be requested so that they are not held beyond the job's
/// end.
///
/// # Errors
/// Less than `least` remains before the end of the job.
pub(super) fn minutes(end: Option<u64>, now: u64, least: Duration) -> Result<Option<u64>, String> {
    let Some(end) = end else { return Ok(None) };
    let left = end.saturating_sub(now);
    // Slurm counts whole minutes, and takes 0 for no limit.
    if left < 60 || left < least.as_secs() {
        return Err(format!(
            "the job ends in {left} s, and a growth needs at least {} s",
            least.as_secs().max(60)
        ));
    }
    Ok(Some(left / 60))
}

/// Returns the words for `sbatch` that hold nodes for a job.
pub(super) fn submission(
    main: u32,
    name: &str,
    facts: &JobFacts,
    nodes: u32,
    minutes: Option<u64>,
    more: &[String],
) -> Vec<String> {
    let mut words = vec![
        "--parsable".to_owned(),
        format!("--job-name={name}"),
        format!("--comment=nodes for job {main}"),
        format!("--nodes={nodes}"),
        "--exclusive".to_owned(),
        "--no-requeue".to_owned(),
        "--output=/dev/null".to_owned(),
        "--input=/dev/null".to_owned(),
        "--chdir=/".to_owned(),
    ];
    let options = [
        ("partition", &facts.partition),
        ("account", &facts.account),
        ("qos", &facts.quality),
        ("time", &minutes.map(|minutes| minutes.to_string())),
    ];
    for (option, value) in options {
        if let Some(value) = value {
            words.push(format!("--{option}={value}"));
        }
    }
    words.extend_from_slice(more);
    words
}

/// Prefix of the names of jobs that hold nodes for another one.
pub(super) fn name_of(main: u32) -> String {
    format!("quo-elastic-{main}")
}

/// Returns true if a job that waits for this reason would wait forever.
pub(super) fn is_hopeless(reason: &str) -> bool {
    const WORDS: [&str; 11] = [
        "PartitionNodeLimit",
        "PartitionTimeLimit",
        "PartitionDown",
        "PartitionInactive",
        "BadConstraints",
        "InvalidAccount",
        "InvalidQOS",
        "QOSNotAllowed",
        "AccountNotAllowed",
        "JobHeldUser",
        "JobHeldAdmin",
    ];
    WORDS.contains(&reason)
}

/// Returns true if it is time to give notice of an end.
pub(super) fn is_near(end: Option<u64>, now: u64, grace: Duration) -> bool {
    end.is_some_and(|end| end.saturating_sub(now) <= grace.as_secs())
}

/// Returns true if nodes are lost before the job ends, so that their processes have to leave.
pub(super) fn goes_first(nodes: Option<u64>, main: Option<u64>) -> bool {
    match (nodes, main) {
        // Both limits were counted in whole minutes, so they may differ by up to a minute.
        (Some(nodes), Some(main)) => nodes.saturating_add(60) < main,
        (Some(_), None) => true,
        (None, _) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::text::job;
    use super::*;

    const LINGER: Duration = Duration::from_secs(5);

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    fn nodes(names: &[&str]) -> Vec<Node> {
        let node = |name: &&str| Node::new(((*name).to_owned(), format!("host-{name}.here")));
        names.iter().map(node).collect()
    }

    fn record_use(nodes: &mut [Node], live: &[&str], at: u64) {
        let live: Vec<String> = live.iter().map(|name| format!("host-{name}")).collect();
        nodes.iter_mut().for_each(|node| node.record_use(&live, seconds(at)));
    }

    #[test]
    fn nodes_go_back_after_the_leavers_linger_time() {
        let mut nodes = nodes(&["a", "b", "c"]);
        record_use(&mut nodes, &["a", "b"], 10);
        record_use(&mut nodes, &["a"], 20);
        assert_eq!(release(&nodes, Some("a"), seconds(24), LINGER), Release::Nothing);
        // No process was ever on c: it is not the world's to release.
        let kept = Release::Keep(vec!["a".into(), "c".into()]);
        assert_eq!(release(&nodes, Some("a"), seconds(25), LINGER), kept);
        record_use(&mut nodes, &["a", "b"], 25);
        assert_eq!(release(&nodes, Some("a"), seconds(99), LINGER), Release::Nothing);
    }

    #[test]
    fn node_that_carries_a_job_goes_with_all_others_only() {
        let mut nodes = nodes(&["a", "b"]);
        record_use(&mut nodes, &["a", "b"], 1);
        record_use(&mut nodes, &["b"], 2);
        assert_eq!(release(&nodes, Some("a"), seconds(60), LINGER), Release::Nothing);
        assert_eq!(release(&nodes, None, seconds(60), LINGER), Release::Keep(vec!["b".into()]));
        record_use(&mut nodes, &[], 61);
        assert_eq!(release(&nodes, Some("a"), seconds(66), LINGER), Release::All);
    }

    #[test]
    fn nodes_are_not_asked_for_beyond_the_end() {
        assert_eq!(minutes(None, 1000, LINGER), Ok(None));
        assert_eq!(minutes(Some(1119), 1000, LINGER), Ok(Some(1)));
        assert_eq!(minutes(Some(1120), 1000, LINGER), Ok(Some(2)));
        assert!(minutes(Some(1059), 1000, LINGER).is_err());
        assert!(minutes(Some(999), 1000, LINGER).is_err());
        let refused = minutes(Some(1120), 1000, seconds(300));
        assert_eq!(
            refused,
            Err("the job ends in 120 s, and a growth needs at least 300 s".to_owned())
        );
    }

    #[test]
    fn nodes_are_asked_for_as_the_job_was() {
        let facts = job("7|RUNNING|a|a|fast|N/A|UNLIMITED|physics|(null)|None", 7);
        let more = ["--mem=0".to_owned()];
        let name = format!("{}-1", name_of(7));
        let words = submission(7, &name, &facts.unwrap().unwrap(), 2, Some(9), &more);
        for word in [
            "--job-name=quo-elastic-7-1",
            "--comment=nodes for job 7",
            "--nodes=2",
            "--partition=fast",
            "--account=physics",
            "--time=9",
        ] {
            assert!(words.iter().any(|found| found == word), "{word} in {words:?}");
        }
        assert!(!words.iter().any(|word| word.starts_with("--qos")), "{words:?}");
        assert_eq!(words.last().map(String::as_str), Some("--mem=0"));
    }

    #[test]
    fn notice_is_given_of_what_ends_first() {
        assert!(is_near(Some(1100), 1000, seconds(100)) && is_near(Some(900), 1000, seconds(1)));
        assert!(!is_near(Some(1101), 1000, seconds(100)) && !is_near(None, 1000, seconds(100)));
        assert!(goes_first(Some(1000), Some(1061)) && goes_first(Some(1000), None));
        assert!(!goes_first(Some(1000), Some(1060)) && !goes_first(None, Some(1000)));
        assert!(is_hopeless("PartitionNodeLimit") && !is_hopeless("Resources"));
    }
}
