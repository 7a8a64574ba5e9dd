use proptest::prelude::*;

use super::*;

fn marked(answer: &str) -> (Vec<SlurmJob>, Vec<String>) {
    jobs(answer, &Mark::new(7))
}

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
    let (jobs, wrong) = marked(JOBS);
    assert_eq!(wrong, Vec::<String>::new());
    let states: Vec<JobState> = jobs.iter().map(|job| job.state).collect();
    use JobState::{Held, Runs, Waits, WaitsOrHeld};
    assert_eq!(states, [Waits, Waits, Held, Held, WaitsOrHeld, Runs, Runs, Runs]);
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
        [Use::Busy, Use::Busy, Use::Idle, Use::Idle, Use::Out, Use::Out, Use::Drains, Use::Drains]
    );
    assert_eq!((nodes[2].name.as_str(), nodes[2].host.as_str()), ("quo-node3", "host3"));
    assert_eq!((nodes[0].free, nodes[0].memory), (None, None));
    assert_eq!((nodes[1].free, nodes[1].memory), (Some(12 << 20), Some(64_000 << 20)));
}

#[test]
fn wrong_lines_are_named_and_others_are_read() {
    for (line, cause) in [
        ("slurm_load_jobs error", "squeue, line 2: not the fields that were asked for: \"slurm_"),
        ("x|x|0|RUNNING|1|n1|n1|1|2|1:00|None|a|", "\"x\" is no number of a job"),
        ("1|1|0|RUNNING|1-2|n1|n1|1|2|1:00|None|a|", "\"1-2\" is no number of nodes"),
        ("1|1|0|RUNNING|1|n[1|n1|1|2|1:00|None|a|", "brackets that do not match"),
        ("1|1|0|RUNNING|1|n1|n1|soon|2|1:00|None|a|", "\"soon\" is no time in seconds"),
        ("1|1|0|RUNNING|1|n1|n1|1|2|1:xx|None|a|", "\"1:xx\" is no time limit"),
    ] {
        let first = JOBS.lines().next().unwrap();
        let (jobs, wrong) = marked(&format!("{first}\n{line}\n{first}\n"));
        assert!(jobs.len() == 2 && wrong.len() == 1 && wrong[0].contains(cause), "{wrong:?}");
    }
    let (nodes, wrong) = nodes("n1|idle\nn[1-2]|a|idle|1|1\nn1|a|idle|1|1\n");
    assert_eq!((nodes.len(), wrong.len()), (1, 2), "{wrong:?}");
}

#[test]
fn job_in_an_unknown_state_is_kept_and_named() {
    let answer = "1|1|0|DANCING|1|n1|n1|1|2|1:00|None|a|\n2|2|0|DANCING|1||n/a|1|2|1:00|None|a|\n";
    let (jobs, wrong) = marked(answer);
    assert_eq!((jobs[0].state, jobs[1].state), (JobState::Runs, JobState::Held));
    let said = "squeue: \"DANCING\" is no known state; job 1 is taken for one that runs, since it has nodes";
    assert!(wrong.len() == 2 && wrong[0] == said, "{wrong:?}");
}

/// As Slurm 26.05.5 wrote it.
#[test]
fn expedited_job_waits_for_nodes() {
    let (jobs, wrong) = marked("21|21|0|EXPEDITING|1||n/a|N/A|N/A|5:00|Resources|exped|(null)\n");
    assert_eq!((jobs[0].state, wrong.len()), (JobState::Waits, 0));
}

#[test]
fn line_breaks_in_a_name_make_no_job() {
    let mark = Mark::new(0x51);
    assert_eq!(mark.format(), format!("--format=0000000000000051|{JOB_FIELDS}"));
    let forged = "77|77|0|PENDING|4||n/a|1|1|20:00|Resources|forged|quo-elastic";
    let answer = format!(
        "0000000000000051|12|12|0|PENDING|1||n/a|N/A|N/A|5:00|JobHeldUser|x\n{forged}|first\nquo-elastic\n\
         0000000000000051|9|9|0|RUNNING|1|n1|n1|1|2|5:00|None|y|quo-elastic\n"
    );
    let (found, wrong) = jobs(&answer, &mark);
    let found: Vec<_> = found.iter().map(|job| (job.number, job.is_named)).collect();
    assert_eq!((found, wrong), (vec![(12, false), (9, true)], Vec::new()));
    let (found, wrong) = jobs(&format!("slurm_load_jobs error\n{answer}"), &mark);
    assert!(found.len() == 2 && wrong[0].starts_with("squeue, line 1: "), "{wrong:?}");
    // Without marks, for example from a stand-in: read line by line.
    assert_eq!(jobs(&format!("{forged}\n"), &mark).0[0].number, 77);
}

proptest! {
    #[test]
    fn any_answer_is_read_or_named(answer in "([0-9|]{1,9}\\|RUNNING\\|)?[a-z0-9|:\\[\\]\n ]{0,80}|\\PC{0,80}") {
        let lines = answer.lines().filter(|line| !line.trim().is_empty()).count();
        let (jobs, wrong) = marked(&answer);
        prop_assert!(jobs.len() <= lines && jobs.len() + wrong.len() >= lines);
        let _ = nodes(&answer);
    }
}
