//! `quo-elastic manage --slurm`: grows the elastic jobs of this user into idle nodes of Slurm, and
//! has them release nodes when jobs wait.
//!
//! Slurm starts jobs as usual. The manager keeps no state beyond that of Slurm and the jobs, except
//! for its open requests: after a restart it waits for their ends.

mod drain;
mod plan;
mod reservation;
mod text;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::time::Duration;

use anyhow::{Result, anyhow};
use elastic::manager::WorldStatus;
use elastic::manager::slurm::query;
use elastic_policy::action::Action;
use elastic_policy::live::{Decided, decide};
use elastic_policy::policy::Policy;
use elastic_policy::time::{Span, Time};

use super::contact::{Contact, here, there};
use super::memory::Footprints;
use super::orders::{Change, EVENTS, Orders, is_busy, open};
use super::recording::Recording;
use super::{Manage, decision_line, now, span};
use crate::output::{complain, say, say_json};
use plan::{Flight, Pictured, View, adopted, picture, request, runs, sightings};
use text::{JobState, Mark, NODE_FORMAT, SlurmJob, SlurmNode};

const EVERY: Duration = Duration::from_secs(10);
/// Time limit of a Slurm command.
const COMMAND_LIMIT: Duration = Duration::from_secs(20);
/// The time that Slurm may take to get back a node that a job has left.
const RETURN: Span = Span(60_000);

/// Manages the jobs of this user until it is terminated.
pub fn run(arguments: &Manage, json: bool) -> Result<u8> {
    let mut policy = arguments.common.policy()?;
    let partition = arguments.partition.as_ref().map(|name| format!("--partition={name}"));
    let mut manager = Manager {
        partition,
        dry_run: arguments.common.dry_run,
        json,
        grace: span(arguments.common.grace),
        look_ahead: span(arguments.common.look_ahead),
        user: rustix::process::getuid().as_raw(),
        began: now(),
        orders: Orders::default(),
        footprints: arguments.common.memory.then(Footprints::default),
        recording: arguments.common.recording()?,
        flights: BTreeMap::new(),
        left: BTreeMap::new(),
        most_new: BTreeMap::new(),
        told: BTreeSet::new(),
        trouble: None,
    };
    loop {
        let looked = manager.round(policy.as_mut());
        if arguments.once {
            return looked.map(|()| 0);
        }
        manager.note_trouble(looked.err());
        // Sleeps: Slurm reports no change of a job or a node.
        std::thread::sleep(arguments.common.interval.unwrap_or(EVERY));
    }
}

#[derive(Debug)]
struct Manager {
    partition: Option<String>,
    dry_run: bool,
    json: bool,
    /// The time in which a job has to leave nodes.
    grace: Span,
    /// The time ahead of a reservation from which it is respected.
    look_ahead: Span,
    /// The number of this user.
    user: u32,
    began: Time,
    orders: Orders,
    /// The memory of jobs, if shrinks must fit.
    footprints: Option<Footprints>,
    recording: Option<Recording>,
    flights: BTreeMap<u32, Flight>,
    /// Times at which jobs left nodes that Slurm has not got back yet.
    left: BTreeMap<u32, Time>,
    /// The largest number of new nodes that a job takes at once, if it has refused more.
    most_new: BTreeMap<u32, u32>,
    /// Lines that were printed already.
    told: BTreeSet<String>,
    /// Why the last round failed.
    trouble: Option<String>,
}

type Elastic = BTreeMap<u32, (WorldStatus, Contact)>;

impl Manager {
    fn round(&mut self, policy: &mut dyn Policy) -> Result<()> {
        let mut statuses = Elastic::new();
        // Before the query to Slurm, so that Slurm knows all nodes added before an answer.
        self.take(&mut statuses, here()?);
        let (mut jobs, nodes) = self.query_slurm()?;
        let ended: Vec<SlurmJob> =
            jobs.extract_if(.., |job| job.state == JobState::Ended).collect();
        // Jobs on other nodes may take seconds to answer.
        let seen = now();
        self.ask_there(&mut statuses, &jobs);
        let user = self.user;
        let is_ours = |number: &u32| {
            let is_it = |job: &&SlurmJob| job.number == *number && job.state == JobState::Runs;
            jobs.iter().find(is_it).is_some_and(|job| job.user == user)
        };
        statuses.retain(|number, _| is_ours(number));
        let gone: Vec<u32> =
            self.flights.keys().filter(|number| !statuses.contains_key(number)).copied().collect();
        for number in gone.into_iter().filter(|number| !is_ours(number)) {
            self.forget(number);
        }
        let now = now();
        self.adopt(&statuses, &jobs, &nodes);
        self.check_orders(&statuses, &jobs, now);
        let (statuses, contacts): (BTreeMap<u32, WorldStatus>, BTreeMap<u32, Contact>) = statuses
            .into_iter()
            .map(|(number, (status, contact))| ((number, status), (number, contact)))
            .unzip();
        if let Some(footprints) = &mut self.footprints {
            statuses
                .iter()
                .for_each(|(number, status)| footprints.observe(&number.to_string(), status));
        }
        let view = View {
            jobs: &jobs,
            nodes: &nodes,
            statuses: &statuses,
            flights: &self.flights,
            footprints: self.footprints.as_ref(),
        };
        let recorded = self.recording.as_mut().map(|recording| {
            let names: Vec<String> = nodes.iter().map(|node| node.name.clone()).collect();
            recording.end(runs(ended.iter().chain(&jobs), seen))?;
            recording.observe(seen, &names, sightings(&view, seen))
        });
        let pictured = picture(&view, &self.orders, now);
        if let Some(Err(error)) = recorded {
            self.complain_once(format!("{error:#}"));
        }
        self.tell_too_large(&pictured, &statuses);
        let (leaving, kept) = drain::decide(&pictured, self.grace);
        kept.into_iter().for_each(|words| self.complain_once(words));
        let is_leaving = |job: usize| leaving.iter().any(|decided| decided.job == job);
        let others = decide(&pictured.snapshot, policy)?;
        let others = others.iter().filter(|decided| !is_leaving(decided.job));
        for decided in leaving.iter().chain(others) {
            let Some(number) = pictured.jobs[decided.job] else { continue };
            let (Some(status), Some(contact)) = (statuses.get(&number), contacts.get(&number))
            else {
                continue;
            };
            self.act(number, decided, &pictured, (status, contact), now)?;
        }
        Ok(())
    }

    /// Queries Slurm for its jobs and nodes.
    fn query_slurm(&mut self) -> Result<(Vec<SlurmJob>, Vec<SlurmNode>)> {
        let ask = |program: &str, words: &[&str]| {
            let words = words.iter().map(|&word| word.to_owned()).chain(self.partition.clone());
            query(program, &words.collect::<Vec<String>>(), COMMAND_LIMIT)
                .map_err(|error| anyhow!(error))
        };
        let mark = Mark::new(RandomState::new().build_hasher().finish());
        let format = mark.format();
        let mut words = vec!["--noheader", "--array", &format];
        if self.recording.is_some() {
            // Includes ended jobs while Slurm keeps them.
            words.push("--states=all");
        }
        let (jobs, mut wrong) = text::jobs(&ask("squeue", &words)?, &mark);
        let (mut nodes, others) =
            text::nodes(&ask("sinfo", &["--noheader", "--Node", NODE_FORMAT])?);
        wrong.extend(others);
        // Reservations of all partitions.
        let words = reservation::WORDS.map(str::to_owned);
        match query("scontrol", &words, COMMAND_LIMIT) {
            Ok(answer) => {
                let (reservations, others) = reservation::reservations(&answer);
                wrong.extend(others);
                reservation::apply(&mut nodes, &reservations, now(), self.look_ahead);
            }
            Err(error) => wrong.push(format!("{error}; reservations are not known")),
        }
        wrong.into_iter().for_each(|line| self.complain_once(line));
        Ok((jobs, nodes))
    }

    fn take(&self, statuses: &mut Elastic, found: Vec<(WorldStatus, Contact)>) {
        for (status, contact) in found {
            if let Some(number) = status.slurm_job {
                statuses.entry(number).or_insert((status, contact));
            }
        }
    }

    /// Queries the jobs on other nodes that their user has marked as elastic.
    fn ask_there(&mut self, statuses: &mut Elastic, jobs: &[SlurmJob]) {
        for job in jobs {
            let is_asked = job.is_named && job.user == self.user && job.state == JobState::Runs;
            let Some(node) = job.batch.as_ref().filter(|_| is_asked) else { continue };
            if statuses.contains_key(&job.number) {
                continue;
            }
            let words = [
                "srun",
                "--overlap",
                "--nodes=1",
                "--ntasks=1",
                "--mpi=none",
                "--cpu-bind=none",
                "--quiet",
            ];
            let mut words = words.map(str::to_owned).to_vec();
            words.extend([format!("--jobid={}", job.number), format!("--nodelist={node}")]);
            match there(&words) {
                Ok(found) => self.take(statuses, found),
                Err(error) => self.complain_once(format!("job {}: {error:#}", job.id)),
            }
        }
    }

    /// Adopts the requests that an earlier manager has sent to jobs.
    fn adopt(&mut self, statuses: &Elastic, jobs: &[SlurmJob], nodes: &[SlurmNode]) {
        for (number, (status, contact)) in statuses {
            let name = number.to_string();
            if !is_busy(status) || self.orders.has(&name) {
                continue;
            }
            let Ok(events) = contact.events(status.next_event.saturating_sub(EVENTS)) else {
                continue;
            };
            let open = open(&events);
            if let Some(flight) = adopted(&open, *number, jobs, nodes) {
                self.orders.adopt(&name, flight.change(), &events, &open);
                self.flights.insert(*number, flight);
            }
        }
    }

    fn check_orders(&mut self, statuses: &Elastic, jobs: &[SlurmJob], now: Time) {
        for (number, (status, contact)) in statuses {
            let name = number.to_string();
            let Some(flight) = self.flights.get(number).cloned() else { continue };
            if self.orders.has(&name) {
                match self.orders.check_orders(&name, contact, status, now) {
                    Ok(causes) if !causes.is_empty() => {
                        for cause in causes {
                            complain(&format!("job {number} ({}): not done: {cause}", status.job));
                        }
                        self.flights.remove(number);
                    }
                    Ok(_) if self.orders.has(&name) => {}
                    Ok(_) => match flight {
                        Flight::Grow(_) => drop(self.flights.remove(number)),
                        Flight::Shrink(_) => drop(self.left.insert(*number, now)),
                    },
                    Err(error) => self.complain_once(format!("job {number}: {error:#}")),
                }
            }
            if let (Flight::Shrink(names), Some(since)) = (flight, self.left.get(number).copied()) {
                self.has_back(*number, &names, since, jobs, now);
            }
        }
    }

    /// Checks whether Slurm has got back the nodes that a job has left.
    fn has_back(
        &mut self,
        number: u32,
        names: &[String],
        since: Time,
        jobs: &[SlurmJob],
        now: Time,
    ) {
        let is_of_it = |job: &&SlurmJob| job.number == number || job.holds_for == Some(number);
        let has = |job: &SlurmJob| job.nodes.iter().any(|node| names.contains(node));
        let is_back = !jobs.iter().filter(is_of_it).any(has);
        if !is_back && now.since(since) <= RETURN {
            return;
        }
        self.flights.remove(&number);
        self.left.remove(&number);
        if !is_back {
            // For example from processes that can only sleep there.
            complain(&format!(
                "job {number}: it has left {}, but Slurm has not got them back",
                names.join(",")
            ));
            self.orders.pause(&number.to_string(), Change::Shrink, now);
        }
    }

    fn forget(&mut self, number: u32) {
        self.orders.forget(&number.to_string());
        if let Some(footprints) = &mut self.footprints {
            footprints.retain(|job| job != number.to_string());
        }
        self.flights.remove(&number);
        self.left.remove(&number);
        self.most_new.remove(&number);
    }

    fn act(
        &mut self,
        number: u32,
        decided: &Decided,
        pictured: &Pictured,
        (status, contact): (&WorldStatus, &Contact),
        now: Time,
    ) -> Result<()> {
        let most_new = self.most_new.get(&number).copied().unwrap_or(u32::MAX);
        let Some((flight, call)) = request(decided, pictured, status, most_new) else {
            return Ok(());
        };
        let name = format!("job {number} ({})", status.job);
        if self.dry_run {
            return self.say(now, &name, decided);
        }
        let change = flight.change();
        let key = number.to_string();
        let sent = self.orders.send(&key, contact, status, (change, vec![call]), now);
        if self.orders.has(&key) {
            self.flights.insert(number, flight);
        }
        match sent {
            Ok(()) => self.say(now, &name, decided),
            Err(error) => {
                let is_many = matches!(&decided.action, Action::Grow { nodes, .. } if nodes.count().min(most_new) > 1);
                if is_many {
                    // Some launchers take one new node at a time.
                    self.most_new.insert(number, 1);
                    self.orders.forget(&key);
                } else {
                    complain(&format!("{name}: {error:#}"));
                }
                Ok(())
            }
        }
    }

    /// Reports once for each job, size and limit that a shrink would not fit, and for each job that
    /// reports no bytes.
    fn tell_too_large(&mut self, pictured: &Pictured, statuses: &BTreeMap<u32, WorldStatus>) {
        for (number, name, cause) in &pictured.too_large {
            let size = statuses.get(number).map_or(0, |status| status.size);
            if self.told.insert(format!("memory of {number} on {size} to {}", cause.nodes)) {
                complain(&format!("{name}: {cause}"));
            }
        }
        let Some(footprints) = &self.footprints else { return };
        let silent = |(number, status): &(&u32, &WorldStatus)| {
            status.report.is_some() && footprints.of(&number.to_string()).is_none()
        };
        for (number, _) in statuses.iter().filter(silent) {
            if self.told.insert(format!("no memory of {number}")) {
                complain(&format!("job {number}: {}", super::memory::SILENT));
            }
        }
    }

    fn say(&mut self, now: Time, name: &str, decided: &Decided) -> Result<()> {
        if self.dry_run && !self.told.insert(format!("{name}: {}", decided.reason)) {
            return Ok(());
        }
        let at = now.since(self.began);
        if self.json {
            return say_json(&decision_line(at, name, &decided.action, &decided.reason));
        }
        say(&format!("{:>9.1} s  {name}: {}\n", at.as_seconds(), decided.reason))
    }

    fn complain_once(&mut self, text: String) {
        if !self.told.contains(&text) {
            complain(&text);
            self.told.insert(text);
        }
    }

    /// Reports once that Slurm does not answer, and once that it answers again.
    fn note_trouble(&mut self, trouble: Option<anyhow::Error>) {
        let trouble = trouble.map(|error| format!("{error:#}"));
        match (&self.trouble, &trouble) {
            (None, Some(error)) => complain(&format!("{error}: tries again")),
            (Some(_), None) => complain("all is well again"),
            _ => {}
        }
        self.trouble = trouble;
    }
}
