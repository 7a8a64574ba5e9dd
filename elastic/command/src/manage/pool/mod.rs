//! `quo-elastic manage --pool`: works through a queue of elastic and rigid jobs on the slots of a
//! set of hosts.
//!
//! The manager keeps no state beyond that in its folder and the jobs: see [`folder`].

mod folder;
mod launch;
mod plan;
mod queue;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};
use elastic::manager::WorldStatus;
use elastic::manager::control::FOLDER_VARIABLE;
use elastic::manager::slurm::query;
use elastic_lab::record::Run;
use elastic_policy::action::{Action, Choice};
use elastic_policy::job::Class;
use elastic_policy::live::{Decided, Snapshot, Stage, decide};
use elastic_policy::policy::Policy;
use elastic_policy::time::{Span, Time};

use super::contact::{Contact, here, there};
use super::orders::{EVENTS, Orders, is_busy, open};
use super::recording::Recording;
use super::{Manage, decision_line, now};
use crate::output::{complain, say, say_json};
use folder::{Fate, Folder, Start};
use launch::{Launcher, Names, launch};
use plan::{Flight, Memory, Pictured, View, adopted, picture, requests, sightings, slot_names};
use queue::{Hosts, Queue, QueuedJob};

const EVERY: Duration = Duration::from_secs(1);
/// The time after which an elastic job that does not answer is reported.
const SILENCE: Span = Span(60_000);
/// The file with the memory of a system.
const MEMORY_FILE: &str = "/proc/meminfo";
/// The time between two memory queries to the other hosts.
const MEMORY_EVERY: Span = Span(30_000);
/// Time limit of such a query.
const MEMORY_LIMIT: Duration = Duration::from_secs(10);

/// Works through the given queue.
pub fn run(arguments: &Manage, hosts: &str, json: bool) -> Result<u8> {
    let hosts = Hosts::read(hosts).context("--pool")?;
    let path = arguments.queue.as_ref().context("--queue: which jobs are to be run?")?;
    let (queue, changed) = read(path, hosts.slots())?;
    let mut policy = arguments.common.policy()?;
    let own = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let dir = arguments.dir.clone().unwrap_or_else(|| {
        let mut name = path.clone().into_os_string();
        name.push(".run");
        PathBuf::from(name)
    });
    if arguments.common.dry_run {
        return dry_run(&queue, &hosts, &own, policy.as_mut());
    }
    let launcher = match queue.launcher.is_empty() {
        true => Launcher::Of(launch::family()?),
        false => Launcher::Words(queue.launcher.clone()),
    };
    let folder = Folder::open(&dir, arguments.resume)?;
    let origin = folder.origin();
    let mut pool = Pool {
        queue,
        path: path.clone(),
        changed,
        hosts,
        own,
        launcher,
        folder,
        origin,
        json,
        memory: arguments.common.memory.then(|| (Memory::default(), None)),
        recording: arguments.common.recording()?,
        orders: Orders::default(),
        flights: BTreeMap::new(),
        contacts: BTreeMap::new(),
        children: Vec::new(),
        told: BTreeSet::new(),
        used: Used { began: now(), last: now(), busy: 0.0 },
    };
    while pool.round(policy.as_mut())? {
        // Sleeps: no event reports the end of a job that another manager started.
        std::thread::sleep(arguments.common.interval.unwrap_or(EVERY));
    }
    pool.report()
}

/// Makes an unguessable name for a job's folder of launcher files, so that no other user can take
/// it first.
fn session() -> Result<String> {
    let mut random = [0; 8];
    rustix::rand::getrandom(&mut random[..], rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("quo-{:016x}", u64::from_ne_bytes(random)))
}

/// Reads a queue file, with the time of its last change.
fn read(path: &Path, slots: u32) -> Result<(Queue, Option<SystemTime>)> {
    let doing = || format!("reading {}", path.display());
    // Before the text, so that a later change is noticed.
    let changed = fs::metadata(path).and_then(|found| found.modified()).ok();
    let text = fs::read_to_string(path).with_context(doing)?;
    Ok((queue::read(&text, slots).with_context(doing)?, changed))
}

/// Prints the first decisions about a queue that has not begun.
fn dry_run(queue: &Queue, hosts: &Hosts, own: &str, policy: &mut dyn Policy) -> Result<u8> {
    let fates = vec![Fate::Waiting; queue.jobs.len()];
    let (statuses, flights) = (BTreeMap::new(), BTreeMap::new());
    let jobs = &queue.jobs;
    let (statuses, flights) = (&statuses, &flights);
    let view = View { jobs, fates: &fates, statuses, flights, hosts, own, memory: None };
    let Pictured { snapshot, jobs: indices, .. } =
        picture(&view, &Orders::default(), (now(), now()));
    for decided in decide(&snapshot, policy)? {
        say(&format!("{}: {}\n", jobs[indices[decided.job]].name, slots(&decided.reason)))?;
    }
    Ok(0)
}

/// The use of the slots since this manager began.
#[derive(Clone, Copy, Debug)]
struct Used {
    began: Time,
    last: Time,
    /// Busy time in milliseconds of one slot.
    busy: f64,
}

#[derive(Debug)]
struct Pool {
    queue: Queue,
    /// The queue file, and the time of its last change.
    path: PathBuf,
    changed: Option<SystemTime>,
    hosts: Hosts,
    /// The name of this machine.
    own: String,
    launcher: Launcher,
    folder: Folder,
    /// The instant at which the queue began.
    origin: Time,
    json: bool,
    /// The memory of jobs and hosts, if shrinks must fit, and the time of the last query to other
    /// hosts.
    memory: Option<(Memory, Option<Time>)>,
    recording: Option<Recording>,
    orders: Orders,
    flights: BTreeMap<String, Flight>,
    contacts: BTreeMap<String, Contact>,
    children: Vec<Child>,
    /// Messages that were printed already.
    told: BTreeSet<String>,
    used: Used,
}

impl Pool {
    /// Checks all jobs, and decides. Returns false once all have ended.
    fn round(&mut self, policy: &mut dyn Policy) -> Result<bool> {
        self.reread();
        // An error means that there is no child to wait for.
        self.children.retain_mut(|child| matches!(child.try_wait(), Ok(None)));
        let names: Vec<String> = self.queue.jobs.iter().map(|job| job.name.clone()).collect();
        let fates: Vec<Fate> =
            names.iter().map(|name| self.folder.fate(name)).collect::<Result<_>>()?;
        for (name, fate) in names.iter().zip(&fates) {
            self.ended(name, fate)?;
        }
        let now = now();
        self.record_ends(&names, &fates)?;
        if fates.iter().all(|fate| matches!(fate, Fate::Ended(..))) {
            return Ok(false);
        }
        let statuses = self.statuses(&fates, now);
        for (name, status) in &statuses {
            self.adopt(name, status);
            self.check_orders(name, status, now);
        }
        self.look_at_memory(&fates, &statuses, now);
        let view = View {
            jobs: &self.queue.jobs,
            fates: &fates,
            statuses: &statuses,
            flights: &self.flights,
            hosts: &self.hosts,
            own: &self.own,
            memory: self.memory.as_ref().map(|(memory, _)| memory),
        };
        let recorded = self.recording.as_mut().map(|recording| {
            recording.observe(now, &slot_names(&self.hosts), sightings(&view, now))
        });
        let Pictured { snapshot, jobs: indices, too_large } =
            picture(&view, &self.orders, (self.origin, now));
        if let Some(Err(error)) = recorded {
            self.complain_once(&format!("{error:#}"));
        }
        for (index, cause) in too_large {
            let (name, size) =
                (&names[index], statuses.get(&names[index]).map_or(0, |job| job.size));
            if self.told.insert(format!("memory of {name} on {size} to {}", cause.nodes)) {
                complain(&format!("{name}: {}", slots(&cause.to_string())));
            }
        }
        self.used.count(&snapshot, self.hosts.slots(), now);
        match decide(&snapshot, policy) {
            Ok(decisions) => {
                for decided in decisions {
                    let status = statuses.get(&names[indices[decided.job]]);
                    self.act(indices[decided.job], &decided, status, now)?;
                }
            }
            Err(error) => self.complain_once(&error.to_string()),
        }
        Ok(true)
    }

    /// Adds new jobs of the queue file. Known jobs stay unchanged.
    fn reread(&mut self) {
        let changed = fs::metadata(&self.path).and_then(|found| found.modified()).ok();
        if changed == self.changed {
            return;
        }
        self.changed = changed;
        match read(&self.path, self.hosts.slots()) {
            Ok((queue, changed)) => {
                self.changed = changed;
                for job in queue.jobs {
                    if !self.queue.jobs.iter().any(|known| known.name == job.name) {
                        self.queue.jobs.push(job);
                    }
                }
            }
            Err(error) => complain(&format!("{error:#}: the jobs stay as they were")),
        }
    }

    /// Reports the end of a job, once.
    fn ended(&mut self, name: &str, fate: &Fate) -> Result<()> {
        let Fate::Ended(start, status, at) = fate else { return Ok(()) };
        if !self.told.insert(format!("end of {name}")) {
            return Ok(());
        }
        self.orders.forget(name);
        self.flights.remove(name);
        let words = end_words(*status);
        let log = self.folder.job_file(name, "log");
        let log = if *status == Some(0) { String::new() } else { format!(": {}", log.display()) };
        self.say(*at, name, &format!("{words} after {}{log}", at.since(start.at)))
    }

    /// Records the ends of jobs, including the runs of jobs that ran between two rounds.
    fn record_ends(&mut self, names: &[String], fates: &[Fate]) -> Result<()> {
        let Some(recording) = &mut self.recording else { return Ok(()) };
        let slots = slot_names(&self.hosts);
        let run = |(name, fate): (&String, &Fate)| {
            let Fate::Ended(start, _, ended) = fate else { return None };
            let held = start.slots.iter().filter_map(|slot| slots.get(*slot as usize).cloned());
            let (job, nodes) = (name.clone(), held.collect());
            Some(Run { job, begun: start.at, ended: *ended, nodes })
        };
        recording.end(names.iter().zip(fates).filter_map(run).collect())
    }

    /// Queries the running elastic jobs. Jobs that do not answer are left out.
    fn statuses(&mut self, fates: &[Fate], now: Time) -> BTreeMap<String, WorldStatus> {
        let mut found = match here() {
            Ok(found) => found,
            Err(error) => {
                self.complain_once(&format!("{error:#}"));
                Vec::new()
            }
        };
        let mut statuses = BTreeMap::new();
        let running = |(job, fate): (&QueuedJob, &Fate)| match fate {
            Fate::Running(start) if job.class != Class::Rigid => {
                Some((job.name.clone(), start.clone()))
            }
            _ => None,
        };
        let running: Vec<(String, Start)> =
            self.queue.jobs.iter().zip(fates).filter_map(running).collect();
        for (name, start) in running {
            let is_it = |(status, _): &(WorldStatus, Contact)| status.job == name;
            let at = found.iter().position(is_it);
            let answer = match at {
                Some(at) => Some(found.swap_remove(at)),
                None => self.elsewhere(&start).and_then(|jobs| jobs.into_iter().find(is_it)),
            };
            match answer {
                Some((status, contact)) => {
                    self.contacts.insert(name.clone(), contact);
                    statuses.insert(name, status);
                }
                None if now.since(start.at) > SILENCE => self.complain_once(&format!(
                    "{name}: no control socket of this name answers: the job keeps its size \
                     (its world has to be named {name:?} and to have a control socket)"
                )),
                None => {}
            }
        }
        statuses
    }

    /// Records the memory reported by jobs, and queries that of the hosts: of this one in each
    /// round.
    fn look_at_memory(
        &mut self,
        fates: &[Fate],
        statuses: &BTreeMap<String, WorldStatus>,
        now: Time,
    ) {
        let Some((mut memory, asked)) = self.memory.take() else { return };
        let is_running = |name: &str| {
            let mut jobs = self.queue.jobs.iter().zip(fates);
            jobs.any(|(job, fate)| job.name == name && matches!(fate, Fate::Running(_)))
        };
        memory.footprints.retain(is_running);
        for (name, status) in statuses {
            memory.footprints.observe(name, status);
            if status.report.is_some() && memory.footprints.of(name).is_none() {
                self.complain_once(&format!("{name}: {}", super::memory::SILENT));
            }
        }
        let is_due = asked.is_none_or(|asked| now.since(asked) >= MEMORY_EVERY);
        for (place, (host, _)) in self.hosts.hosts.iter().enumerate() {
            let text = match self.is_elsewhere(host) {
                false => fs::read_to_string(MEMORY_FILE).ok(),
                true if is_due => {
                    let mut words = launch_there(self.host_option(), host);
                    words.extend(["cat".to_owned(), MEMORY_FILE.to_owned()]);
                    query(&words[0], &words[1..], MEMORY_LIMIT).ok()
                }
                true => continue,
            };
            memory.available.remove(&place);
            if let Some(bytes) = text.as_deref().and_then(super::memory::available) {
                memory.available.insert(place, bytes);
            }
        }
        self.memory = Some((memory, if is_due { Some(now) } else { asked }));
    }

    fn is_elsewhere(&self, host: &str) -> bool {
        let short = |name: &str| name.split('.').next().unwrap_or_default().to_ascii_lowercase();
        host != "localhost" && short(host) != short(&self.own)
    }

    /// Returns the launcher's option for a host.
    fn host_option(&self) -> &'static str {
        match self.launcher {
            Launcher::Of(launch::Family::Mpich) => "-hosts",
            _ => "--host",
        }
    }

    /// Lists the jobs on the host of rank 0, if that is another machine.
    fn elsewhere(&self, start: &Start) -> Option<Vec<(WorldStatus, Contact)>> {
        let host = &self.hosts.hosts[self.hosts.host_of(*start.slots.first()?)].0;
        if !self.is_elsewhere(host) {
            return None;
        }
        there(&launch_there(self.host_option(), host)).ok()
    }

    /// Adopts the requests that an earlier manager has sent to a job.
    fn adopt(&mut self, name: &str, status: &WorldStatus) {
        let Some(contact) = self.contacts.get(name) else { return };
        if !is_busy(status) || self.orders.has(name) {
            return;
        }
        let Ok(events) = contact.events(status.next_event.saturating_sub(EVENTS)) else { return };
        let open = open(&events);
        if let Some(flight) = adopted(&open, status, &self.hosts, &self.own) {
            self.orders.adopt(name, flight.change, &events, &open);
            self.flights.insert(name.to_owned(), flight);
        }
    }

    /// Checks whether the requests to a job have ended.
    fn check_orders(&mut self, name: &str, status: &WorldStatus, now: Time) {
        let Some(contact) = self.contacts.get(name).filter(|_| self.orders.has(name)) else {
            return;
        };
        match self.orders.check_orders(name, contact, status, now) {
            Ok(causes) => {
                causes.iter().for_each(|cause| complain(&format!("{name}: not done: {cause}")));
                if !self.orders.has(name) {
                    self.flights.remove(name);
                }
            }
            Err(error) => self.complain_once(&format!("{name}: {error:#}")),
        }
    }

    fn act(
        &mut self,
        index: usize,
        decided: &Decided,
        status: Option<&WorldStatus>,
        now: Time,
    ) -> Result<()> {
        let job = &self.queue.jobs[index];
        let (name, reason) = (job.name.clone(), slots(&decided.reason));
        if let Action::Start { nodes: Choice::Nodes(nodes), .. } = &decided.action {
            let start = Start { slots: nodes.iter().collect(), at: now };
            let file = format!("{name}.hosts");
            let path = self.folder.path().join(&file).display().to_string();
            let session = session()?;
            let names = Names { own: &self.own, host_file: &path, session: &session };
            let launch = launch(job, &self.hosts, &start.slots, &self.launcher, names);
            self.folder.write(&file, &launch.host_file)?;
            self.say(now, &name, &reason)?;
            self.note(now, &name, decided)?;
            self.children.push(self.folder.start(&name, &start, &launch.words)?);
            return Ok(());
        }
        let (Some(status), Some(contact)) = (status, self.contacts.get(&name)) else {
            return Ok(());
        };
        let decided = Decided { reason: reason.clone(), ..decided.clone() };
        let Some((flight, calls)) = requests(&decided, job, status, &self.hosts, &self.own) else {
            return Ok(());
        };
        let change = flight.change;
        let sent = self.orders.send(&name, contact, status, (change, calls), now);
        if self.orders.has(&name) {
            self.flights.insert(name.clone(), flight);
        }
        match sent {
            Ok(()) => {
                self.say(now, &name, &reason)?;
                self.note(now, &name, &decided)
            }
            Err(error) => {
                complain(&format!("{name}: {error:#}"));
                Ok(())
            }
        }
    }

    fn say(&self, at: Time, name: &str, words: &str) -> Result<()> {
        if self.json {
            return Ok(());
        }
        say(&format!("{:>9.1} s  {name}: {words}\n", at.since(self.origin).as_seconds()))
    }

    fn note(&self, at: Time, name: &str, decided: &Decided) -> Result<()> {
        let reason = slots(&decided.reason);
        self.folder.note(&decision_line(at.since(self.origin), name, &decided.action, &reason))
    }

    fn complain_once(&mut self, text: &str) {
        if self.told.insert(text.to_owned()) {
            complain(text);
        }
    }

    /// Prints how all jobs have ended, and returns the exit status.
    fn report(&self) -> Result<u8> {
        let mut rows = Vec::new();
        let (mut failed, mut last) = (0, self.origin);
        for job in &self.queue.jobs {
            let Fate::Ended(start, status, at) = self.folder.fate(&job.name)? else {
                bail!(
                    "job {:?} is recorded as running after the end of the queue: was its folder changed?",
                    job.name
                )
            };
            failed += usize::from(status != Some(0));
            last = last.max(at);
            let (waited, ran) = (start.at.since(self.origin), at.since(start.at));
            rows.push((&job.name, waited.as_seconds(), ran.as_seconds(), status));
        }
        let makespan = last.since(self.origin).as_seconds();
        let used = self.used.share(self.hosts.slots());
        if self.json {
            let jobs: Vec<_> = rows
                .iter()
                .map(|(name, waited, ran, status)| {
                    serde_json::json!({"job": name, "waited_s": waited, "ran_s": ran, "status": status})
                })
                .collect();
            let report = serde_json::json!({
                "jobs": jobs, "makespan_s": makespan, "use_of_slots": used, "failed": failed,
            });
            say_json(&report.to_string())?;
        } else {
            let mean = rows.iter().map(|row| row.1).sum::<f64>() / rows.len() as f64;
            let mut text = format!(
                "{} jobs in {makespan:.1} s, {failed} failed; mean wait {mean:.1} s; slots used {:.0} %\n",
                rows.len(),
                used * 100.0
            );
            for (name, waited, ran, status) in rows {
                text.push_str(&format!(
                    "{name}: waited {waited:.1} s, ran {ran:.1} s, {}\n",
                    end_words(status)
                ));
            }
            say(&text)?;
        }
        Ok(u8::from(failed > 0))
    }
}

impl Used {
    fn count(&mut self, snapshot: &Snapshot, slots: u32, now: Time) {
        let held = |stage: &Stage| match stage {
            Stage::Running { nodes, .. } => nodes.count(),
            Stage::Waiting { .. } => 0,
        };
        let held: u32 = snapshot.jobs.iter().map(|job| held(&job.stage)).sum();
        self.busy += f64::from(held.min(slots)) * now.since(self.last).0 as f64;
        self.last = now;
    }

    fn share(&self, slots: u32) -> f64 {
        let all = self.last.since(self.began).0 as f64 * f64::from(slots);
        if all > 0.0 { self.busy / all } else { 0.0 }
    }
}

/// Returns the words that run a command on a host, by the launcher and with its variables of the
/// environment.
fn launch_there(option: &str, host: &str) -> Vec<String> {
    const PREFIXES: [&str; 5] = ["OMPI_", "PMIX_", "PRTE_", "HYDRA_", "MPIR_"];
    let of_launcher = std::env::vars_os().filter_map(|(name, value)| {
        let (name, value) = (name.into_string().ok()?, value.into_string().ok()?);
        PREFIXES.iter().any(|prefix| name.starts_with(prefix)).then(|| format!("{name}={value}"))
    });
    let mut words = vec!["env".to_owned()];
    words.extend(of_launcher);
    words.extend(["mpirun", option, host, "-np", "1"].map(str::to_owned));
    if let Ok(folder) = std::env::var(FOLDER_VARIABLE) {
        words.extend(["env".to_owned(), format!("{FOLDER_VARIABLE}={folder}")]);
    }
    words
}

fn end_words(status: Option<i32>) -> String {
    match status {
        Some(0) => "has ended".to_owned(),
        Some(status) => format!("has failed with status {status}"),
        None => "was killed with its launcher".to_owned(),
    }
}

/// Replaces a scheduler's word nodes by slots.
fn slots(reason: &str) -> String {
    reason.replace(" nodes", " slots")
}
