use elastic::manager::control::wire::Answer;
use elastic_policy::live::{decide, policy};

use super::super::drain;
use super::super::text::{Mark, jobs, nodes};
use super::*;

const NODES: &str =
    "q0|h0|allocated|9|1\nq1|h1|allocated|N/A|9\nq2|h2|idle|9|1\nq3|h3|planned|9|1\n";

/// A world with ranks on hosts, in job 7.
fn status(hosts: &[(&str, &[u64])]) -> WorldStatus {
    let size: usize = hosts.iter().map(|(_, ranks)| ranks.len()).sum();
    let hosts: Vec<_> = hosts
        .iter()
        .map(|(host, ranks)| serde_json::json!({"host": host, "slots": 4, "ranks": ranks}))
        .collect();
    let text = serde_json::json!({"status": {"job": "a", "epoch": 1, "size": size, "capacity": 8, "waiting": 0,
        "next_event": 5, "up_us": 1, "hosts": hosts, "slurm_job": 7}});
    let Answer::Status(status) = serde_json::from_value(text).unwrap() else { panic!() };
    *status
}

fn job(number: u32, state: &str, count: u32, nodes: &str, more: &str) -> String {
    format!("{number}|{number}|0|{state}|{count}|{nodes}|n/a|N/A|N/A|10:00|{more}|(null)\n")
}

struct Cluster {
    jobs: String,
    nodes: &'static str,
    status: WorldStatus,
    flights: BTreeMap<u32, Flight>,
    footprints: Option<Footprints>,
}

impl Cluster {
    fn new(jobs: String, hosts: &[(&str, &[u64])]) -> Cluster {
        let (status, flights) = (status(hosts), BTreeMap::new());
        Cluster { jobs, nodes: NODES, status, flights, footprints: None }
    }

    fn picture(&self) -> Pictured {
        let ((jobs, wrong), (nodes, _)) = (jobs(&self.jobs, &Mark::new(1)), nodes(self.nodes));
        assert_eq!(wrong, Vec::<String>::new());
        let statuses = BTreeMap::from([(7, self.status.clone())]);
        let view = View {
            jobs: &jobs,
            nodes: &nodes,
            statuses: &statuses,
            flights: &self.flights,
            footprints: self.footprints.as_ref(),
        };
        picture(&view, &Orders::default(), Time::seconds(1000))
    }

    /// The calls, each with its flight.
    fn calls(&self) -> Vec<(String, Flight)> {
        let pictured = self.picture();
        let mut policy = policy("two-parts-egs", Span::seconds(30), Span::seconds(900)).unwrap();
        let mut calls = Vec::new();
        let mut all = drain::decide(&pictured, Span::seconds(30)).0;
        if all.is_empty() {
            all = decide(&pictured.snapshot, policy.as_mut()).unwrap();
        }
        for decided in all {
            if pictured.jobs[decided.job] == Some(7) {
                let (flight, call) = request(&decided, &pictured, &self.status, 1).unwrap();
                calls.push((serde_json::to_string(&call).unwrap(), flight));
            }
        }
        calls
    }
}

#[test]
fn idle_and_planned_nodes_are_grown_into_when_nobody_waits() {
    let held = job(8, "PENDING", 1, "", "Dependency|x");
    let cluster = Cluster::new(
        job(7, "RUNNING", 1, "q0", "None|a") + &job(9, "RUNNING", 1, "q1", "None|b") + &held,
        &[("h0", &[0, 1])],
    );
    let calls = cluster.calls();
    let call = r#"{"call":"grow","ranks":2,"nodes":1,"wait":false,"why":"grows from 1 to 3 nodes"#;
    assert!(calls.len() == 1 && calls[0].0.starts_with(call), "{calls:?}");
    assert_eq!(calls[0].1, Flight::Grow(2));
}

#[test]
fn growth_under_way_holds_its_idle_node() {
    let holder = job(10, "PENDING", 1, "", "Priority|quo-elastic-7-1");
    let mut cluster =
        Cluster::new(job(7, "RUNNING", 1, "q0", "None|a") + &holder, &[("h0", &[0, 1])]);
    cluster.flights.insert(7, Flight::Grow(2));
    let pictured = cluster.picture();
    let Stage::Running { nodes, .. } = &pictured.snapshot.jobs[0].stage else { panic!() };
    assert_eq!((nodes.count(), pictured.snapshot.jobs.len()), (2, 2), "{pictured:?}");
    assert_eq!(pictured.snapshot.jobs[0].class, Class::Rigid);
    // A node that is allocated to an unknown job is not idle.
    assert_eq!(pictured.jobs, [Some(7), None]);
    assert_eq!(cluster.calls(), []);
}

#[test]
fn held_node_is_left_with_grace_for_a_waiting_job() {
    let holder = job(10, "RUNNING", 1, "q1", "None|quo-elastic-7-1");
    let waiting = job(11, "PENDING", 3, "", "Resources|wide");
    let mut cluster = Cluster::new(
        job(7, "RUNNING", 1, "q0", "None|a") + &holder + &waiting,
        &[("h1.site", &[2, 3]), ("h0", &[0, 1])],
    );
    let calls = cluster.calls();
    let call = r#"{"call":"leave","from":["h1.site"],"grace_ms":30000,"wait":false,"#;
    assert!(calls.len() == 1 && calls[0].0.starts_with(call), "{calls:?}");
    assert!(calls[0].0.contains("job 11 lacks 1"), "{calls:?}");
    let flight = Flight::Shrink(vec!["q1".to_owned()]);
    assert_eq!(calls[0].1, flight);
    // It is not asked again, even if its ranks have left and Slurm has not got the node back.
    cluster.flights.insert(7, flight);
    assert_eq!(cluster.calls(), []);
    cluster.status = status(&[("h0", &[0, 1])]);
    let pictured = cluster.picture();
    let Stage::Running { nodes, leaving, .. } = &pictured.snapshot.jobs[0].stage else { panic!() };
    assert_eq!((nodes.count(), leaving.count()), (2, 1));
    assert_eq!(cluster.calls(), []);
}

#[test]
fn job_behind_a_planned_one_waits_where_nodes_are_up() {
    let reason = "Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions";
    let waits = |count| {
        let jobs = job(7, "RUNNING", 2, "q[0-1]", "None|a")
            + &job(9, "PENDING", count, "", &format!("{reason}|b"));
        let pictured = Cluster::new(jobs, &[("h0", &[0]), ("h1", &[1])]).picture();
        pictured.jobs.contains(&Some(9))
    };
    assert!(waits(4) && !waits(5));
}

#[test]
fn draining_node_is_left_at_once() {
    let holder = job(10, "RUNNING", 1, "q1", "None|quo-elastic-7-1");
    let mut cluster = Cluster::new(
        job(7, "RUNNING", 1, "q0", "None|a") + &holder,
        &[("h0", &[0, 1]), ("h1", &[2, 3])],
    );
    cluster.nodes = "q0|h0|allocated|9|1\nq1|h1|draining|N/A|9\nq2|h2|idle|9|1\n";
    let calls = cluster.calls();
    let call = r#"{"call":"leave","from":["h1"],"grace_ms":30000,"wait":false,"why":"leaves q1, which drains"}"#;
    assert_eq!(calls, [(call.to_owned(), Flight::Shrink(vec!["q1".to_owned()]))]);
    // It is asked once.
    cluster.flights.insert(7, Flight::Shrink(vec!["q1".to_owned()]));
    assert_eq!(drain::decide(&cluster.picture(), Span::ZERO), (Vec::new(), Vec::new()));
    cluster.flights.clear();
    // If it has to stay, that is reported.
    cluster.status.limits = Some(
        serde_json::from_value(serde_json::json!({"min": 3, "max": 8, "allowed": "any"})).unwrap(),
    );
    let (none, kept) = drain::decide(&cluster.picture(), Span::ZERO);
    assert!(none.is_empty() && kept.len() == 1, "{kept:?}");
    assert!(kept[0].contains("node q1 drains, but the job cannot have 1 nodes"), "{kept:?}");
    cluster.nodes = "q0|h0|draining|9|1\nq1|h1|allocated|N/A|9\nq2|h2|idle|9|1\n";
    let (none, kept) = drain::decide(&cluster.picture(), Span::ZERO);
    assert!(
        none.is_empty() && kept[0].ends_with("node q0 drains, but its rank 0 is there: it stays")
    );
}

#[test]
fn shrink_whose_data_do_not_fit_is_not_asked_for() {
    let holder = job(10, "RUNNING", 1, "q1", "None|quo-elastic-7-1");
    let waiting = job(11, "PENDING", 3, "", "Resources|wide");
    let jobs = job(7, "RUNNING", 1, "q0", "None|a") + &holder + &waiting;
    let mut cluster = Cluster::new(jobs, &[("h0", &[0, 1]), ("h1", &[2, 3])]);
    let report = |mib: u64| {
        let text = serde_json::json!({"iteration": 1, "iteration_seconds": 1.0, "mean_seconds": 1.0, "reports": 1,
            "size": 4, "bytes_per_rank": mib << 20});
        Some(serde_json::from_value(text).unwrap())
    };
    let mut measured = |mib, nodes| {
        cluster.nodes = nodes;
        cluster.status.report = report(mib);
        let mut footprints = Footprints::default();
        footprints.observe("7", &cluster.status);
        cluster.footprints = Some(footprints);
        (cluster.calls().len(), cluster.picture().too_large)
    };
    // Two ranks with 2 x 2 MiB more each in 9 MiB.
    assert_eq!(measured(2, NODES), (1, vec![]));
    // No other job is there: page cache is no limit.
    let known = "q0|h0|allocated|9|64\nq1|h1|allocated|9|64\nq2|h2|idle|9|64\nq3|h3|planned|9|64\n";
    assert_eq!(measured(3, known), (1, vec![]));
    let (calls, too_large) = measured(3, NODES);
    let (number, name, cause) = &too_large[0];
    assert_eq!((calls, too_large.len(), *number, name.as_str()), (0, 1, 7, "job 7 (a)"));
    let words = "a shrink to 1 nodes does not fit on node h0: 2 ranks with 3.0 MiB of old and 6.0 MiB of new data \
        each need 18.0 MiB there, and have 15.0 MiB (9.0 MiB free)";
    assert_eq!(cause.to_string(), words);
}

#[test]
fn sightings_have_the_nodes_that_others_hold_for_a_job() {
    let holder = job(10, "RUNNING", 1, "q1", "None|quo-elastic-7-1");
    let waiting =
        job(11, "PENDING", 3, "", "Resources|wide") + &job(12, "PENDING", 1, "", "Dependency|x");
    let text = job(7, "RUNNING", 1, "q0", "None|a") + &holder + &waiting;
    let ((jobs, _), (nodes, _)) = (jobs(&text, &Mark::new(1)), nodes(NODES));
    let statuses = BTreeMap::from([(7, status(&[("h0", &[0, 1])]))]);
    let flights = BTreeMap::new();
    let view = View {
        jobs: &jobs,
        nodes: &nodes,
        statuses: &statuses,
        flights: &flights,
        footprints: None,
    };
    let seen = sightings(&view, Time::seconds(9));
    let told: Vec<(&str, Class, usize)> =
        seen.iter().map(|job| (job.name.as_str(), job.class, job.nodes.len())).collect();
    assert_eq!(told, [("a", Class::Malleable, 2), ("job 11", Class::Rigid, 0)]);
    assert_eq!(seen[0].stage, record::Stage::Runs(Time::seconds(9)));
}

#[test]
fn runs_are_of_jobs_that_had_nodes_and_have_ended() {
    let ended = |number: u32, state: &str, nodes: &str, times: &str, name: &str| {
        format!("{number}|{number}|0|{state}|1|{nodes}|n/a|{times}|10:00|None|{name}|(null)\n")
    };
    let text = ended(1, "COMPLETED", "q0", "3|5", "a")
        + &ended(2, "COMPLETING", "q1", "4|60", "b")
        + &ended(3, "CANCELLED", "", "5|5", "waited")
        + &ended(4, "TIMEOUT", "q2", "3|5", "quo-elastic-7-1")
        + &ended(5, "RUNNING", "q3", "3|60", "c");
    let (jobs, wrong) = jobs(&text, &Mark::new(1));
    assert_eq!(wrong, Vec::<String>::new());
    let second = Time::seconds;
    let run = |job: &str, begun, ended, node: &str| Run {
        job: job.to_owned(),
        begun: second(begun),
        ended: second(ended),
        nodes: vec![node.to_owned()],
    };
    assert_eq!(runs(jobs.iter(), second(9)), [run("1", 3, 5, "q0"), run("2", 4, 9, "q1")]);
}

#[test]
fn foreign_and_empty_nodes_are_not_given_back() {
    let waiting = job(11, "PENDING", 3, "", "Resources|wide");
    let cluster =
        Cluster::new(job(7, "RUNNING", 2, "q[0-1]", "None|a") + &waiting, &[("h0", &[0, 1])]);
    let pictured = cluster.picture();
    assert_eq!(pictured.jobs, [Some(7), None, Some(11)]);
    assert_eq!(cluster.calls(), [], "three of four nodes cannot be had");
}

#[test]
fn sizes_in_ranks_become_numbers_of_nodes() {
    let mut status = status(&[("h0", &[0, 1]), ("h1", &[2])]);
    let nodes = nodes(NODES).0;
    let found = limits(&status, &[0, 1], &nodes);
    assert_eq!((found.min, found.max, found.allowed), (1, 4, vec![]));
    status.limits = serde_json::from_str(r#"{"min":3,"max":6,"allowed":"any"}"#).unwrap();
    let found = limits(&status, &[0, 1], &nodes);
    assert_eq!((found.min, found.max), (2, 3));
    status.limits =
        serde_json::from_str(r#"{"min":1,"max":9,"allowed":{"one_of":[2,7]}}"#).unwrap();
    let found = limits(&status, &[0, 1], &nodes);
    assert_eq!((found.min, found.max, found.allowed), (1, 4, vec![1, 4]));
}

#[test]
fn shared_and_drained_nodes_do_not_contradict_each_other() {
    let mut cluster = Cluster::new(
        job(7, "RUNNING", 1, "q0", "None|a") + &job(9, "RUNNING", 2, "q[0-1]", "None|b"),
        &[("h0", &[0, 1])],
    );
    cluster.nodes = "q0|h0|mixed|9|1\nq1|h1|draining|9|1\nq2|h2|drained|9|1\nq3|h3|idle|9|1\n";
    let pictured = cluster.picture();
    assert_eq!((pictured.jobs.as_slice(), pictured.snapshot.nodes), (&[Some(7), Some(9)][..], 3));
    assert_eq!(cluster.calls().len(), 1);
}

#[test]
fn requests_of_a_manager_before_are_known_again() {
    let text =
        job(7, "RUNNING", 1, "q0", "None|a") + &job(10, "RUNNING", 1, "q1", "None|quo-elastic-7-1");
    let (jobs, nodes) = (jobs(&text, &Mark::new(1)).0, nodes(NODES).0);
    let known = |asked: &str| {
        let open = [(elastic::change::RequestId(1), serde_json::from_str(asked).unwrap())];
        adopted(&open, 7, &jobs, &nodes)
    };
    let grow = r#"{"wish":{"grow":2},"nodes":1,"origin":"socket"}"#;
    let leave = r#"{"wish":"leave","from":["h1"],"origin":"socket"}"#;
    assert_eq!(known(grow), Some(Flight::Grow(3)));
    assert_eq!(known(leave), Some(Flight::Shrink(vec!["q1".to_owned()])));
    assert_eq!(known(r#"{"wish":{"size":2},"origin":"socket"}"#), None);
}
