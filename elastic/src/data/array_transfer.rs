//! The move of one array: step by step, and within a step part by part, so that memory for a few
//! parts is enough and a program that computes during the move is not held up for long.

use std::collections::VecDeque;

use quo::group::{GroupError, WaitLimits};
use quo_mpi::{MpiGroup, Transfer};

use super::block::{Block, RemoteView, TokenLocation};
use super::message::Descriptors;
use crate::layout::{Message, Part, Schedule, Source, Step};

/// Bytes that are copied, or packed and sent, at a time.
const PORTION: usize = 1 << 20;
/// Parts of a message that are in flight at once: one is packed or unpacked while another one is
/// sent.
const DEPTH: usize = 3;

/// The other processes' memory.
#[derive(Debug)]
pub(super) struct Neighbours<'a> {
    pub group: &'a MpiGroup,
    /// `None` if either process cannot map the other's memory.
    pub places: &'a [Option<TokenLocation>],
    /// This array's descriptors, by process.
    pub parts: &'a [Descriptors],
    pub tag: u16,
}

/// Bytes moved, by transport.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    pub steps: usize,
    pub sent: usize,
    /// Received through mapped memory.
    pub shared: usize,
    pub kept: usize,
}

/// A message to send: in parts, or as an empty message that the receiver may copy.
#[derive(Debug)]
struct Outgoing {
    to: usize,
    source: Source,
    parts: VecDeque<Message>,
    flying: VecDeque<Transfer>,
}

/// A message to receive.
#[derive(Debug)]
enum Incoming {
    /// Received in parts.
    Packed { from: usize, parts: VecDeque<Message>, flying: VecDeque<(Transfer, Message)> },
    /// Waits for the sender's message that its data may be copied.
    Awaited { word: Transfer, message: Message },
    /// The sender's data may be copied.
    Seen { view: RemoteView, parts: VecDeque<Message> },
}

/// The messages of one array on this process.
#[derive(Debug)]
pub(super) struct ArrayTransfer {
    kept: VecDeque<Message>,
    steps: VecDeque<Step>,
    outgoing: Option<Outgoing>,
    incoming: Option<Incoming>,
    pub counts: Counts,
}

fn parts(message: &Message) -> VecDeque<Message> {
    message.split(PORTION).collect()
}

/// Returns the descriptor of the sender's memory that the receiver maps; both ends of a message call
/// this.
fn shared_descriptor(source: Source, sender: &Descriptors) -> Option<i32> {
    match source {
        Source::Old => sender.old,
        Source::New => sender.new,
    }
}

impl ArrayTransfer {
    pub fn of(schedule: &Schedule, me: usize) -> Self {
        let part: Part = schedule.of(me);
        Self {
            kept: part.kept().iter().flat_map(parts).collect(),
            counts: Counts { steps: schedule.steps(), ..Counts::default() },
            steps: part.steps().to_vec().into(),
            outgoing: None,
            incoming: None,
        }
    }

    /// Makes some progress. Returns true if there was anything to do. An error of this process
    /// alone goes to `failure`: the other processes still get the messages that they wait for.
    pub fn progress(
        &mut self,
        old: &[u8],
        new: &mut Block,
        with: &Neighbours<'_>,
        failure: &mut Option<String>,
    ) -> Result<bool, GroupError> {
        if self.outgoing.is_none()
            && self.incoming.is_none()
            && let Some(step) = self.steps.pop_front()
        {
            self.begin(&step, with)?;
        }
        let mut moved = self.send(old, new.bytes(), with, failure)?;
        moved |= self.receive(new, with, failure)?;
        if !moved && let Some(message) = self.kept.pop_front() {
            self.counts.kept += message.bytes();
            new.make_ready(message.target_span());
            note(message.copy(old, new.bytes_mut()), failure);
            moved = true;
        }
        Ok(moved)
    }

    pub fn is_done(&self) -> bool {
        self.kept.is_empty()
            && self.steps.is_empty()
            && self.outgoing.is_none()
            && self.incoming.is_none()
    }

    fn begin(&mut self, step: &Step, with: &Neighbours<'_>) -> Result<(), GroupError> {
        let me = quo::group::Group::rank(with.group);
        if let Some(message) = step.send() {
            let (to, source) = (message.peer(), message.source());
            let is_seen =
                with.places[to].is_some() && shared_descriptor(source, &with.parts[me]).is_some();
            let mut outgoing =
                Outgoing { to, source, parts: VecDeque::new(), flying: VecDeque::new() };
            if is_seen {
                outgoing.flying.push_back(with.group.begin_send(to, Vec::new(), with.tag)?);
            } else {
                outgoing.parts = parts(message);
            }
            self.counts.sent += message.bytes();
            self.outgoing = Some(outgoing);
        }
        if let Some(message) = step.receive() {
            let from = message.peer();
            let is_seen = with.places[from].is_some()
                && shared_descriptor(message.source(), &with.parts[from]).is_some();
            self.incoming = Some(if is_seen {
                let word = with.group.begin_receive(from, Vec::new(), with.tag)?;
                self.counts.shared += message.bytes();
                Incoming::Awaited { word, message: message.clone() }
            } else {
                let parts = parts(message);
                Incoming::Packed { from, parts, flying: VecDeque::new() }
            });
        }
        Ok(())
    }

    fn send(
        &mut self,
        old: &[u8],
        new: &[u8],
        with: &Neighbours<'_>,
        failure: &mut Option<String>,
    ) -> Result<bool, GroupError> {
        let Some(outgoing) = &mut self.outgoing else { return Ok(false) };
        let mut moved = false;
        if let Some(first) = outgoing.flying.front_mut()
            && first.test()?
        {
            outgoing.flying.pop_front();
            moved = true;
        }
        if outgoing.flying.len() < DEPTH
            && let Some(part) = outgoing.parts.pop_front()
        {
            let from = if outgoing.source == Source::Old { old } else { new };
            let mut packed = vec![0; part.bytes()];
            note(part.pack(from, &mut packed), failure);
            outgoing.flying.push_back(with.group.begin_send(outgoing.to, packed, with.tag)?);
            moved = true;
        }
        if outgoing.flying.is_empty() && outgoing.parts.is_empty() {
            self.outgoing = None;
        }
        Ok(moved)
    }

    fn receive(
        &mut self,
        new: &mut Block,
        with: &Neighbours<'_>,
        failure: &mut Option<String>,
    ) -> Result<bool, GroupError> {
        match &mut self.incoming {
            None => Ok(false),
            Some(Incoming::Packed { from, parts, flying }) => {
                let mut moved = false;
                while flying.len() < DEPTH
                    && let Some(part) = parts.pop_front()
                {
                    let place = vec![0; part.bytes()];
                    flying.push_back((with.group.begin_receive(*from, place, with.tag)?, part));
                    moved = true;
                }
                if let Some((first, _)) = flying.front_mut()
                    && first.test()?
                    && let Some((transfer, part)) = flying.pop_front()
                {
                    let packed =
                        transfer.finish(&WaitLimits { deadline: None, check_peers: &|| Ok(()) })?;
                    new.make_ready(part.target_span());
                    note(part.unpack(&packed, new.bytes_mut()), failure);
                    moved = true;
                }
                if flying.is_empty() && parts.is_empty() {
                    self.incoming = None;
                }
                Ok(moved)
            }
            Some(Incoming::Awaited { word, message }) => {
                if !word.test()? {
                    return Ok(false);
                }
                let from = message.peer();
                let place = with.places[from];
                let descriptor = shared_descriptor(message.source(), &with.parts[from]);
                let view = place.zip(descriptor).map(|(place, descriptor)| {
                    RemoteView::of(&place, descriptor, message.source_bytes())
                });
                self.incoming = match view {
                    Some(Ok(view)) => Some(Incoming::Seen { view, parts: parts(message) }),
                    Some(Err(error)) => {
                        let reason = format!("cannot map the memory of rank {from}: {error}");
                        failure.get_or_insert(reason);
                        None
                    }
                    None => None,
                };
                Ok(true)
            }
            Some(Incoming::Seen { view, parts }) => {
                if let Some(part) = parts.pop_front() {
                    new.make_ready(part.target_span());
                    note(part.copy(view.bytes(), new.bytes_mut()), failure);
                }
                if parts.is_empty() {
                    self.incoming = None;
                }
                Ok(true)
            }
        }
    }
}

fn note(result: Result<(), crate::layout::LayoutError>, failure: &mut Option<String>) {
    if let Err(error) = result {
        failure.get_or_insert(error.to_string());
    }
}
