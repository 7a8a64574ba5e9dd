//! The coordinator: the thread, in the process that never leaves, through which every resize goes.
//!
//! It sleeps in its channel. What it decides is in [`Order`]; what it does goes through [`Agents`]. It makes no call
//! of MPI.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::agents::Agents;
use crate::error::Error;
use crate::order::{Order, Resize};

/// How long joiners may take to wake up.
const JOIN_LIMIT: Duration = Duration::from_secs(30);

/// What the coordinator is told.
enum Message {
    /// Somebody wants another number of ranks. The answer: the resize's number, or why not.
    Request { size: usize, answer: Sender<Result<u64, String>> },
    /// The running ranks have entered: joiners may come.
    Entered,
    /// All have agreed on how the resize ended; the signal has to be lowered before anybody goes on.
    Ended { committed: bool, answer: Sender<Result<(), Error>> },
    /// The job is over.
    Over,
}

/// The handle in the process that coordinates.
#[derive(Debug)]
pub(crate) struct Coordinator {
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

/// What the thread knows.
struct State {
    agents: Agents,
    /// How many live processes there are.
    all: usize,
    running: Vec<usize>,
    number: u64,
    busy: Option<Resize>,
}

impl Coordinator {
    pub(crate) fn start(agents: Agents, all: usize, running: Vec<usize>) -> std::io::Result<Self> {
        let (sender, receiver) = channel();
        let state = State { agents, all, running, number: 0, busy: None };
        let thread = std::thread::Builder::new()
            .name("elastic".to_owned())
            .spawn(move || state.run(&receiver))?;
        Ok(Self { sender, thread: Some(thread) })
    }

    /// Asks for another number of ranks: the number of the resize, or why there will be none.
    pub(crate) fn request(&self, size: usize) -> Result<u64, String> {
        self.ask(|answer| Message::Request { size, answer })
            .unwrap_or_else(|| Err("the coordinator has ended".to_owned()))
    }

    /// The running ranks have entered.
    pub(crate) fn entered(&self) {
        // Without it the job is ending anyway.
        let _ = self.sender.send(Message::Entered);
    }

    /// Tells how the resize ended, and waits until the signal is lowered.
    pub(crate) fn ended(&self, committed: bool) -> Result<(), Error> {
        self.ask(|answer| Message::Ended { committed, answer }).unwrap_or(Ok(()))
    }

    fn ask<T>(&self, message: impl FnOnce(Sender<T>) -> Message) -> Option<T> {
        let (answer, answered) = channel();
        self.sender.send(message(answer)).ok()?;
        answered.recv().ok()
    }
}

impl Drop for Coordinator {
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Over);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl State {
    fn run(mut self, messages: &Receiver<Message>) {
        while let Ok(message) = messages.recv() {
            match message {
                Message::Request { size, answer } => {
                    let _ = answer.send(self.accept(size));
                }
                Message::Entered => {
                    if let Some(resize) = &self.busy {
                        let _ = self.agents.ring(resize.joiners().collect::<Vec<_>>());
                    }
                }
                Message::Ended { committed, answer } => {
                    if let (Some(resize), true) = (self.busy.take(), committed) {
                        self.running = resize.new;
                    }
                    let _ = answer.send(self.agents.lower());
                }
                Message::Over => break,
            }
        }
        let sleepers: Vec<_> = (0..self.all).filter(|rank| !self.running.contains(rank)).collect();
        let _ = self.agents.post(&Order::End);
        let _ = self.agents.ring(sleepers);
    }

    /// From the request to the agreed round. Nothing has happened if it fails.
    fn accept(&mut self, size: usize) -> Result<u64, String> {
        if self.busy.is_some() {
            return Err("another resize is under way".to_owned());
        }
        let number = self.number + 1;
        let resize = Resize::to_size(number, &self.running, self.all, size).ok_or_else(|| {
            let (now, all) = (self.running.len(), self.all);
            format!("{size} ranks were asked for; there are {now}, and there can be 1 to {all}")
        })?;
        self.number = number;
        let joiners: Vec<usize> = resize.joiners().collect();
        let prepared = self
            .agents
            .post(&Order::Resize(resize.clone()))
            .and_then(|()| self.agents.ring(joiners.iter().copied()))
            .and_then(|()| {
                self.agents.wait_until_ready(number, joiners.iter().copied(), JOIN_LIMIT)
            })
            .and_then(|()| self.agents.agree(&self.running));
        match prepared {
            Ok(_round) => {
                self.busy = Some(resize);
                Ok(number)
            }
            Err(error) => {
                // Whoever is held goes on, and whoever woke up sleeps again.
                let _ = self.agents.lower();
                let nothing =
                    Resize { number, old: self.running.clone(), new: self.running.clone() };
                let _ = self.agents.post(&Order::Resize(nothing));
                let _ = self.agents.ring(joiners);
                Err(error.to_string())
            }
        }
    }
}
