use elastic::manager::control::wire::Answer;
use elastic_policy::job::MpiRatio;
use elastic_policy::live::{decide, policy};
use elastic_policy::time::Span;

use super::super::queue::{Queue, read};
use super::*;

const QUEUE: &str = r#"
    [[job]]
    name = "a"
    command = ["a"]
    max = 6
    [[job]]
    name = "r"
    command = ["r"]
    ranks = 2
"#;

/// A job with ranks on hosts, each with eight processes.
fn status(job: &str, hosts: &[(&str, &[u64])]) -> WorldStatus {
    let size: usize = hosts.iter().map(|(_, ranks)| ranks.len()).sum();
    let hosts: Vec<_> = hosts
        .iter()
        .map(|(host, ranks)| serde_json::json!({"host": host, "slots": 8, "ranks": ranks}))
        .collect();
    let text = serde_json::json!({"status": {"job": job, "epoch": 1, "size": size, "capacity": 16, "waiting": 0,
        "next_event": 5, "up_us": 1, "hosts": hosts, "report": {"iteration": 3, "iteration_seconds": 1.0,
        "mean_seconds": 1.0, "reports": 2, "size": size, "mpi_ratio": 0.02, "remaining_seconds": 8.0}}});
    let Answer::Status(status) = serde_json::from_value(text).unwrap() else { panic!() };
    *status
}

fn started(slots: &[u32]) -> Fate {
    Fate::Running(Start { slots: slots.to_vec(), at: Time::seconds(10) })
}

struct Pool {
    queue: Queue,
    hosts: Hosts,
    fates: Vec<Fate>,
    statuses: BTreeMap<String, WorldStatus>,
    flights: BTreeMap<String, Flight>,
    memory: Option<Memory>,
}

impl Pool {
    fn new(fates: Vec<Fate>, a: Option<WorldStatus>) -> Pool {
        let hosts = Hosts::read("n1:3,localhost:3").unwrap();
        let queue = read(QUEUE, hosts.slots()).unwrap();
        let statuses = a.map(|status| ("a".to_owned(), status)).into_iter().collect();
        Pool { queue, hosts, fates, statuses, flights: BTreeMap::new(), memory: None }
    }

    fn picture(&self) -> Pictured {
        let Pool { queue, hosts, fates, statuses, flights, memory } = self;
        let (jobs, memory) = (&queue.jobs, memory.as_ref());
        let view = View { jobs, fates, statuses, flights, hosts, own: "me", memory };
        picture(&view, &Orders::default(), (Time::seconds(4), Time::seconds(20)))
    }

    fn snapshot(&self) -> (Snapshot, Vec<usize>) {
        let Pictured { snapshot, jobs, .. } = self.picture();
        (snapshot, jobs)
    }

    fn calls(&mut self) -> Vec<String> {
        let (snapshot, indices) = self.snapshot();
        let mut policy = policy("two-parts-egs", Span::seconds(3), Span::ZERO).unwrap();
        let mut all = Vec::new();
        for decided in decide(&snapshot, policy.as_mut()).unwrap() {
            let job = &self.queue.jobs[indices[decided.job]];
            let Some(status) = self.statuses.get(&job.name) else {
                all.push(format!("{}: {}", job.name, decided.reason));
                continue;
            };
            let (flight, calls) = requests(&decided, job, status, &self.hosts, "me").unwrap();
            self.flights.insert(job.name.clone(), flight);
            all.extend(calls.iter().map(|call| serde_json::to_string(call).unwrap()));
        }
        all
    }
}

#[test]
fn ranks_are_put_onto_slots_of_their_hosts_in_order() {
    let status = status("a", &[("n1.site", &[1, 2]), ("me", &[0, 3]), ("other", &[4])]);
    let pool = Pool::new(vec![started(&[0]), started(&[3, 4])], Some(status));
    let (snapshot, indices) = pool.snapshot();
    let Stage::Running { since, nodes, end, .. } = &snapshot.jobs[0].stage else { panic!() };
    // The rigid job has two slots of this machine; the fifth rank is on a host outside the pool.
    assert_eq!(nodes.iter().collect::<Vec<_>>(), [5, 0, 1, 6, 7]);
    assert_eq!((*since, *end, snapshot.nodes), (Time::seconds(6), Some(Time::seconds(24)), 8));
    assert_eq!(snapshot.jobs[0].mpi_ratio, Some(MpiRatio { total: 0.02, recent: 0.02 }));
    assert_eq!((indices, snapshot.jobs[1].class), (vec![0, 1], Class::Rigid));
}

#[test]
fn ratio_is_of_the_common_loop_if_loops_are_sought() {
    let ratio_of = |loops: serde_json::Value| {
        let mut status = status("a", &[("n1.site", &[1, 2]), ("me", &[0, 3])]);
        status.loops = serde_json::from_value(loops).unwrap();
        Pool::new(vec![started(&[0])], Some(status)).snapshot().0.jobs[0].mpi_ratio
    };
    let common = serde_json::json!({"iterations": 9, "seconds": 3.0, "mpi_seconds": 1.0, "mpi_ratio": 0.5,
        "recent_mpi_ratio": 0.25});
    let both = Some(MpiRatio { total: 0.5, recent: 0.25 });
    assert_eq!(ratio_of(serde_json::json!({"ranks": 4, "common": common})), both);
    // The reports have one, of a rank that may differ from the others.
    assert_eq!(ratio_of(serde_json::json!({"ranks": 4})), None);
}

#[test]
fn idle_slots_are_grown_into_host_by_host() {
    let ended = Fate::Ended(Start { slots: vec![1], at: Time::ZERO }, Some(0), Time::ZERO);
    let mut pool =
        Pool::new(vec![started(&[0]), ended], Some(status("a", &[("n1", &[0]), ("me", &[])])));
    let why = "grows from 1 to 6 nodes: nobody wants 5 in the next 0 s";
    let call = |ranks: u32, host: &str| {
        format!(r#"{{"call":"grow","ranks":{ranks},"on":["{host}"],"wait":false,"why":"{why}"}}"#)
    };
    assert_eq!(pool.calls(), [call(2, "n1"), call(3, "me")]);
    // While they join, the slots are not idle.
    pool.statuses.get_mut("a").unwrap().waiting = 1;
    let (snapshot, _) = pool.snapshot();
    let Stage::Running { nodes, .. } = &snapshot.jobs[0].stage else { panic!() };
    assert_eq!((nodes.count(), snapshot.jobs[0].class), (6, Class::Rigid));
    assert_eq!(pool.calls(), Vec::<String>::new());
}

#[test]
fn waiting_job_gets_slots_back_once_with_grace() {
    let held = status("a", &[("n1", &[0, 1, 2]), ("me", &[3, 4, 5])]);
    let mut pool = Pool::new(vec![started(&[0]), Fate::Waiting], Some(held));
    let call = r#"{"call":"shrink","ranks":2,"from":["me"],"grace_ms":3000,"wait":false,"#;
    let calls = pool.calls();
    assert!(calls.len() == 1 && calls[0].starts_with(call), "{calls:?}");
    assert!(calls[0].contains("r lacks 2"), "{calls:?}");
    pool.statuses.get_mut("a").unwrap().waiting = 1;
    let (snapshot, _) = pool.snapshot();
    let Stage::Running { leaving, .. } = &snapshot.jobs[0].stage else { panic!() };
    assert_eq!(leaving.iter().collect::<Vec<_>>(), [4, 5]);
    assert_eq!(pool.calls(), Vec::<String>::new());
    // When they have left, the job starts there.
    pool.flights.clear();
    pool.statuses.insert("a".to_owned(), status("a", &[("n1", &[0, 1, 2]), ("me", &[3])]));
    assert_eq!(pool.calls(), ["r: first in the queue, and enough nodes are free"]);
}

#[test]
fn requests_of_a_manager_before_are_known_again() {
    let held = status("a", &[("n1", &[0, 1, 4]), ("me", &[2, 3])]);
    let mut pool = Pool::new(vec![started(&[0]), Fate::Waiting], Some(held.clone()));
    pool.statuses.get_mut("a").unwrap().waiting = 1;
    assert_eq!(pool.snapshot().0.jobs[0].class, Class::Rigid, "nobody knows what it was asked for");
    let known = |asked: &[&str]| {
        let asked = asked.iter().map(|text| serde_json::from_str(text).unwrap());
        let open: Vec<Open> = asked.map(|asked| (elastic::change::RequestId(1), asked)).collect();
        adopted(&open, &held, &pool.hosts, "me")
    };
    let flight = |change, parts: &[(usize, u32)]| {
        Some(Flight { change, parts: parts.iter().copied().collect() })
    };
    let grow = [
        r#"{"wish":{"grow":2},"on":["n1"],"origin":"socket"}"#,
        r#"{"wish":{"grow":1},"on":["me"],"origin":"socket"}"#,
    ];
    let shrink = r#"{"wish":{"shrink":2},"from":["n1","me"],"origin":"socket"}"#;
    assert_eq!(known(&grow), flight(Change::Grow, &[(0, 2), (1, 1)]));
    assert_eq!(known(&[shrink]), flight(Change::Shrink, &[(0, 1), (1, 1)]));
    assert_eq!(known(&[grow[0], shrink]), None);
    assert_eq!(known(&[r#"{"wish":{"size":2},"origin":"socket"}"#]), None);
}

#[test]
fn job_that_does_not_answer_keeps_its_slots() {
    let mut pool = Pool::new(vec![started(&[2, 1]), Fate::Waiting], None);
    let (snapshot, _) = pool.snapshot();
    let Stage::Running { nodes, .. } = &snapshot.jobs[0].stage else { panic!() };
    assert_eq!(nodes.iter().collect::<Vec<_>>(), [2, 1]);
    assert_eq!(pool.calls(), ["r: first in the queue, and enough nodes are free"]);
}

#[test]
fn sizes_of_queue_and_job_are_both_kept() {
    let mut status = status("a", &[("n1", &[0])]);
    status.limits = serde_json::from_str(r#"{"min":2,"max":9,"allowed":"power_of_two"}"#).unwrap();
    let mut limits = Limits::between(1, 6, 1);
    narrow(&mut limits, &status);
    assert_eq!(limits, Limits { min: 2, max: 4, start: 1, allowed: vec![2, 4] });
    status.limits = serde_json::from_str(r#"{"min":1,"max":3,"allowed":"any"}"#).unwrap();
    let mut limits = Limits::between(1, 6, 1);
    narrow(&mut limits, &status);
    assert_eq!((limits.min, limits.max), (1, 3));
}

#[test]
fn shrink_beyond_the_memory_of_a_host_is_refused() {
    let mut a = status("a", &[("n1", &[0, 1]), ("me", &[2, 3])]);
    if let Some(report) = &mut a.report {
        report.bytes_per_rank = Some(3 << 20);
    }
    let mut memory = Memory::default();
    memory.footprints.observe("a", &a);
    let mut pool = Pool::new(vec![started(&[0, 1, 3, 4]), Fate::Waiting], Some(a));
    // Three ranks have 4 MiB of new data each, two have 6.
    memory.available = BTreeMap::from([(0, 11 << 20), (1, 4 << 20)]);
    pool.memory = Some(memory);
    let Pictured { snapshot, too_large, .. } = pool.picture();
    assert_eq!((snapshot.jobs[0].limits.min, snapshot.jobs[0].limits.max), (3, 6));
    assert_eq!(too_large.len(), 1);
    let (index, cause) = &too_large[0];
    assert_eq!((*index, cause.nodes, cause.node.as_str(), cause.needed), (0, 2, "n1", 18 << 20));
    // Unknown memory sets no limit.
    if let Some(memory) = &mut pool.memory {
        memory.available.clear();
    }
    assert_eq!(pool.picture().snapshot.jobs[0].limits.min, 1);
}
