//! The agents of all nodes, as the coordinator uses them: a direct call on its own node, a line of
//! text over a link to each other node.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::error::Error;
use crate::model::order::Order;
use crate::model::round;
use crate::node::mailbox::NodeMailbox;
use crate::observe::common_loops::RankLoops;

/// Call of the coordinator to an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Call {
    /// Raise the signal; the answer is the floor of the running ranks, given by their node ranks.
    Raise(Vec<usize>),
    /// Announce the agreed round.
    Tell(u64),
    /// Ask which of these running ranks, given by their node ranks, have not reached a round.
    Late(u64, Vec<usize>),
    /// Lower the signal: nothing is pending any more.
    Lower,
    /// Put an order into the mailbox.
    Post(Order),
    /// Ring for sleepers, given by their node ranks.
    Ring(Vec<usize>),
    /// Ask for the processes of the node that have ended without [`World::end`](crate::World::end).
    Dead,
    /// Ask for the ranks of the node that have ended without [`World::end`](crate::World::end)
    /// while awake.
    Missed,
    /// End the processes of the node because of the death of this rank, if they have guards.
    Lost(usize),
    /// Ask for the load of the node.
    Load,
    /// Ask for the loops that these running ranks, given by their node ranks, have reported in an
    /// epoch.
    Loops(u64, Vec<usize>),
    /// End the connection.
    Bye,
    /// Stop waiting for these processes, given by their node ranks, which have ended.
    RemoveDeadSleepers(Vec<usize>),
    /// Wait until sleepers are ready to join.
    Ready {
        /// The resize.
        resize: u64,
        /// Their node ranks.
        members: Vec<usize>,
        /// Time to wait.
        milliseconds: u64,
    },
}

/// Answer of an agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Answer {
    /// The call is carried out.
    Done,
    /// The floor of the node.
    Floor(u64),
    /// Node ranks of the ranks that have not arrived.
    Late(Vec<usize>),
    /// Node ranks of the ended processes; for [`Call::Missed`] their ranks.
    Dead(Vec<usize>),
    /// Busy processors per processor, in thousandths; `None` if unknown.
    Load(Option<u64>),
    /// Loops of ranks.
    Loops(RankLoops),
    /// The call failed, with the cause.
    Failed(String),
}

/// Carries out the coordinator's calls on this node.
pub(crate) fn serve(mailbox: &NodeMailbox, call: &Call) -> Answer {
    match call {
        Call::Raise(running) => {
            // All entering ranks would wait for a dead process.
            if let Some(&dead) = mailbox.missed().first() {
                return Answer::Failed(format!(
                    "rank {} ended without ending the world",
                    mailbox.name_of(dead)
                ));
            }
            return Answer::Floor(mailbox.raise(running));
        }
        Call::Dead => return Answer::Dead(mailbox.dead()),
        Call::Missed => {
            let missed = mailbox.missed().into_iter();
            return Answer::Dead(missed.map(|member| mailbox.name_of(member)).collect());
        }
        Call::Load => return Answer::Load(load_of_this_node()),
        Call::Loops(epoch, running) => {
            let mut loops = RankLoops::default();
            let told = running.iter().filter_map(|&member| mailbox.loops(member, *epoch));
            told.for_each(|rank| loops.add_rank(&rank));
            return Answer::Loops(loops);
        }
        Call::Lost(rank) => mailbox.note_loss(*rank, true),
        Call::Bye => {}
        Call::RemoveDeadSleepers(members) => mailbox.remove_dead_sleepers(members),
        Call::Late(round, running) => return Answer::Late(mailbox.late(*round, running)),
        Call::Tell(round) => mailbox.tell_round(*round),
        Call::Lower => mailbox.lower(),
        Call::Ring(members) => members.iter().for_each(|&member| mailbox.ring(member)),
        Call::Ready { resize, members, milliseconds } => {
            let deadline = Instant::now() + Duration::from_millis(*milliseconds);
            let failed = members
                .iter()
                .find_map(|&member| mailbox.wait_until_ready(member, *resize, deadline).err());
            if let Some(error) = failed {
                return Answer::Failed(error.to_string());
            }
        }
        Call::Post(order) => {
            let text = serde_json::to_vec(order).map_err(|error| error.to_string());
            let posted =
                text.and_then(|text| mailbox.post(&text).map_err(|error| error.to_string()));
            if let Err(reason) = posted {
                return Answer::Failed(reason);
            }
        }
    }
    Answer::Done
}

fn load_of_this_node() -> Option<u64> {
    let read = |path| std::fs::read_to_string(path).ok();
    load(&read("/proc/loadavg")?, &read("/proc/stat")?)
}

/// Returns the mean number of running or runnable processes of the last minute per processor, in
/// thousandths.
fn load(averages: &str, processors: &str) -> Option<u64> {
    let average: f64 = averages.split_whitespace().next()?.parse().ok()?;
    let is_processor = |line: &&str| {
        line.strip_prefix("cpu")
            .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let count = processors.lines().filter(is_processor).count();
    let load = average / count as f64 * 1000.0;
    // Far below the limit of the type.
    (load.is_finite() && (0.0..1e12).contains(&load)).then_some(load as u64)
}

/// The link to an agent on another node. All its ends share one descriptor.
#[derive(Debug)]
pub(crate) struct Link {
    reader: BufReader<Stream>,
    writer: Arc<TcpStream>,
}

/// A shared socket as a reader.
#[derive(Debug)]
struct Stream(Arc<TcpStream>);

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        (&*self.0).read(bytes)
    }
}

/// Limit of a line between agents, in bytes.
const LONGEST_LINE: u64 = 4 * crate::node::mailbox::MAIL_BYTES as u64;

impl Link {
    pub(crate) fn new(stream: TcpStream) -> std::io::Result<Self> {
        stream.set_nodelay(true)?;
        Ok(Self::of(Arc::new(stream)))
    }

    fn of(stream: Arc<TcpStream>) -> Self {
        Self { reader: BufReader::new(Stream(Arc::clone(&stream))), writer: stream }
    }

    /// Returns another end of the same link, for sending while this one waits for messages.
    pub(crate) fn second(&self) -> Self {
        Self::of(Arc::clone(&self.writer))
    }

    /// Closes the link so that the other side notices at once.
    pub(crate) fn close(&self) {
        let _ = self.writer.shutdown(std::net::Shutdown::Both);
    }

    pub(crate) fn send(&mut self, what: &impl Serialize) -> std::io::Result<()> {
        let mut line = serde_json::to_vec(what)?;
        line.push(b'\n');
        (&*self.writer).write_all(&line)
    }

    /// Receives a value; `None` when the other side has closed the link properly.
    pub(crate) fn receive<T: for<'a> Deserialize<'a>>(&mut self) -> std::io::Result<Option<T>> {
        let mut line = Vec::new();
        let mut limited = (&mut self.reader).take(LONGEST_LINE);
        match limited.read_until(b'\n', &mut line)? {
            0 => Ok(None),
            _ if !line.ends_with(b"\n") => Err(std::io::ErrorKind::InvalidData.into()),
            _ => Ok(Some(serde_json::from_slice(&line)?)),
        }
    }
}

/// All agents: that of this node, which is the first, and the others in the order of the nodes.
#[derive(Debug)]
pub(crate) struct Agents {
    here: Arc<NodeMailbox>,
    others: Vec<Link>,
    /// Node index and node rank of every live process.
    places: Vec<(usize, usize)>,
}

impl Drop for Agents {
    fn drop(&mut self) {
        for link in &mut self.others {
            let _ = link.send(&Call::Bye);
        }
    }
}

impl Agents {
    pub(crate) fn new(
        here: Arc<NodeMailbox>,
        others: Vec<Link>,
        places: Vec<(usize, usize)>,
    ) -> Self {
        Self { here, others, places }
    }

    /// Returns the rank of a process of this node that has ended without
    /// [`World::end`](crate::World::end) while it was awake.
    pub(crate) fn missed_here(&self) -> Option<usize> {
        self.here.missed().first().map(|&member| self.here.name_of(member))
    }

    /// Returns the processes that have ended without [`World::end`](crate::World::end).
    pub(crate) fn dead(&mut self) -> Result<Vec<usize>, Error> {
        let answers =
            self.ask("look for processes that have ended", vec![Call::Dead; self.nodes()])?;
        let is_dead = |(process, (node, node_rank)): (usize, &(usize, usize))| {
            let is = matches!(&answers[*node], Answer::Dead(dead) if dead.contains(node_rank));
            is.then_some(process)
        };
        Ok(self.places.iter().enumerate().filter_map(is_dead).collect())
    }

    /// Returns the rank of a process that has ended without [`World::end`](crate::World::end) while
    /// it was awake, or the first process of a node that does not answer.
    pub(crate) fn missed(&mut self) -> Option<usize> {
        let answers =
            match self.ask("look for ranks that have ended", vec![Call::Missed; self.nodes()]) {
                Ok(answers) => answers,
                Err(Error::Agent { node, .. }) => {
                    return self.places.iter().position(|place| *place == (node, 0));
                }
                Err(_) => return None,
            };
        answers.into_iter().find_map(|answer| match answer {
            Answer::Dead(ranks) => ranks.first().copied(),
            _ => None,
        })
    }

    /// Asks one node for its load: busy processors per processor.
    pub(crate) fn load(&mut self, node: usize) -> Option<f64> {
        let answer = match node.checked_sub(1) {
            None => serve(&self.here, &Call::Load),
            Some(other) => {
                let link = self.others.get_mut(other)?;
                // A node that does not answer is reported when a resize needs it.
                link.send(&Call::Load).ok()?;
                link.receive().ok()??
            }
        };
        match answer {
            Answer::Load(Some(thousandths)) => Some(thousandths as f64 / 1000.0),
            _ => None,
        }
    }

    /// Returns the loops that running ranks have reported in an epoch.
    pub(crate) fn loops(&mut self, epoch: u64, running: &[usize]) -> Result<RankLoops, Error> {
        let nodes = self.by_node(running.iter().copied()).into_iter();
        let calls = nodes.map(|members| Call::Loops(epoch, members)).collect();
        let mut loops = RankLoops::default();
        for answer in self.ask("ask for loops", calls)? {
            if let Answer::Loops(of) = answer {
                loops.add(&of);
            }
        }
        Ok(loops)
    }

    /// Ends the processes of all nodes that have guards.
    pub(crate) fn lost(&mut self, rank: usize) {
        for link in &mut self.others {
            // An agent that does not receive it notices the end of this process.
            let _ = link.send(&Call::Lost(rank));
        }
        let _ = serve(&self.here, &Call::Lost(rank));
    }

    /// Returns true if there are other nodes.
    pub(crate) fn is_over_nodes(&self) -> bool {
        !self.others.is_empty()
    }

    /// Stops the waits for processes that have ended.
    pub(crate) fn remove_dead_sleepers(&mut self, processes: &[usize]) -> Result<(), Error> {
        let calls =
            self.by_node(processes.iter().copied()).into_iter().map(Call::RemoveDeadSleepers);
        self.ask("stop waiting for ended processes", calls.collect()).map(drop)
    }

    pub(crate) fn nodes(&self) -> usize {
        1 + self.others.len()
    }

    /// Sends the calls to all agents, then collects the answers: the nodes work at the same time.
    fn ask(&mut self, what: &'static str, calls: Vec<Call>) -> Result<Vec<Answer>, Error> {
        let failed = |node: usize, reason: String| Err(Error::Agent { call: what, node, reason });
        for (link, (node, call)) in self.others.iter_mut().zip((1..).zip(&calls[1..])) {
            if let Err(error) = link.send(call) {
                return failed(node, error.to_string());
            }
        }
        let mut answers = vec![serve(&self.here, &calls[0])];
        for (node, link) in (1..).zip(&mut self.others) {
            match link.receive() {
                Ok(Some(answer)) => answers.push(answer),
                Ok(None) => {
                    return failed(node, "the connection was closed before the answer".to_owned());
                }
                Err(error) => return failed(node, error.to_string()),
            }
        }
        let refused = answers.iter().enumerate().find_map(|(node, answer)| match answer {
            Answer::Failed(reason) => Some((node, reason.clone())),
            _ => None,
        });
        refused.map_or(Ok(answers), |(node, reason)| failed(node, reason))
    }

    fn ask_all(&mut self, what: &'static str, call: &Call) -> Result<(), Error> {
        self.ask(what, vec![call.clone(); self.nodes()]).map(drop)
    }

    /// Groups processes by node, as node ranks.
    fn by_node(&self, processes: impl IntoIterator<Item = usize>) -> Vec<Vec<usize>> {
        let mut nodes = vec![Vec::new(); self.nodes()];
        for process in processes {
            let (node, node_rank) = self.places[process];
            nodes[node].push(node_rank);
        }
        nodes
    }

    /// Puts an order into every mailbox.
    pub(crate) fn post(&mut self, order: &Order) -> Result<(), Error> {
        self.ask_all("post an order", &Call::Post(order.clone()))
    }

    /// Wakes sleepers.
    pub(crate) fn ring(&mut self, processes: impl IntoIterator<Item = usize>) -> Result<(), Error> {
        let calls = self.by_node(processes).into_iter().map(Call::Ring).collect();
        self.ask("wake sleepers", calls).map(drop)
    }

    /// Waits until all these sleepers are ready to join.
    pub(crate) fn wait_until_ready(
        &mut self,
        resize: u64,
        joiners: impl IntoIterator<Item = usize>,
        limit: Duration,
    ) -> Result<(), Error> {
        let milliseconds = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        let calls = self.by_node(joiners).into_iter();
        let calls = calls.map(|members| Call::Ready { resize, members, milliseconds }).collect();
        self.ask("wait for joiners", calls).map(drop)
    }

    /// Raises the signal everywhere, and announces one round to all running ranks.
    pub(crate) fn agree(&mut self, running: &[usize]) -> Result<u64, Error> {
        let calls = self.by_node(running.iter().copied()).into_iter().map(Call::Raise).collect();
        let answers = self.ask("raise the signal", calls)?;
        let floors = answers.into_iter().map(|answer| match answer {
            Answer::Floor(floor) => floor,
            _ => 0,
        });
        let round = round::agree(floors);
        self.ask_all("tell the round", &Call::Tell(round))?;
        Ok(round)
    }

    /// Returns the running ranks that have not reached a round, as positions in the list.
    pub(crate) fn late(&mut self, round: u64, running: &[usize]) -> Result<Vec<usize>, Error> {
        let nodes = self.by_node(running.iter().copied()).into_iter();
        let calls = nodes.map(|members| Call::Late(round, members)).collect();
        let answers = self.ask("look for late ranks", calls)?;
        let is_late = |process: &usize| {
            let (node, node_rank) = self.places[*process];
            matches!(&answers[node], Answer::Late(late) if late.contains(&node_rank))
        };
        let ranks = running.iter().enumerate().filter(|(_, process)| is_late(process));
        Ok(ranks.map(|(rank, _)| rank).collect())
    }

    /// Lowers the signal: nothing is pending any more.
    pub(crate) fn lower(&mut self) -> Result<(), Error> {
        self.ask_all("lower the signal", &Call::Lower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn load_is_the_last_minute_by_processors() {
        let two = "cpu  1 2\ncpu0 1 2\ncpu1 1 2\nintr 3\ncpufreq 1\n";
        assert_eq!(load("1.50 0.80 0.20 1/300 7\n", two), Some(750));
        for (averages, processors) in [("", two), ("x 1 1", two), ("1.5 1 1", ""), ("-1 0 0", two)]
        {
            assert_eq!(load(averages, processors), None, "{averages:?} {processors:?}");
        }
        assert!(load_of_this_node().is_some());
    }
}
