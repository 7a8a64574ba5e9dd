//! Records of a context about its phases, and the messages by which ranks report the result of a
//! step.

use std::sync::{Arc, MutexGuard, PoisonError};

use super::Context;
use super::exchange::{Header, Message, Operation, encode_trouble};
use crate::affinity::Backend;
use crate::error::{Error, ErrorKind};
use crate::group::WaitLimits;
use crate::metrics::trace::Trace;
use crate::metrics::{Clock, PhaseMetrics};
use crate::threading::ThreadControls;

/// Maximum number of phases of one rank that are kept for a trace; later ones are left out.
const MOST_TRACED: usize = 100_000;

impl Context {
    /// Runs one step of the node's ranks: all take part, and all get the first error that any of
    /// them had.
    pub(crate) fn exchange_verdict(
        &self,
        call: &'static str,
        operation: Operation,
        trouble: Option<(ErrorKind, String)>,
    ) -> Result<(), Error> {
        self.check(call)?;
        let header = Header::new(operation);
        let mut bytes = Message::from_slice(&header.encode());
        if let Some((kind, text)) = trouble {
            encode_trouble(&mut bytes, kind, &text);
        }
        let state = self.state();
        let all = state.node.exchange(&bytes).map_err(state.name_ranks(call))?;
        state.check_messages(call, header, &all)
    }

    /// Returns the default time that this context waits for other ranks.
    pub(crate) fn create_timeout(&self) -> std::time::Duration {
        self.shared.settings.create_timeout
    }

    /// Returns the clock of times in metrics.
    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// Returns the controls of this process's threading libraries.
    pub(crate) fn thread_controls(&self) -> &ThreadControls {
        &self.shared.controls
    }

    /// Keeps the notes on the threads of a phase until the next phase.
    pub(crate) fn note_threads(&self, phase: &str, notes: &[String]) {
        let mut kept = self.thread_notes();
        kept.clear();
        kept.extend(notes.iter().map(|note| format!("in the last phase, `{phase}`, {note}")));
    }

    /// Returns the notes on the threads of the last phase of this rank.
    pub(crate) fn thread_notes(&self) -> MutexGuard<'_, Vec<String>> {
        self.shared.thread_notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Like [`backend`](Self::backend), returning an owned reference.
    pub(crate) fn shared_backend(&self) -> Arc<dyn Backend> {
        Arc::clone(&self.shared.backend)
    }

    /// Returns the back end for the masks of this process's threads.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }

    /// Keeps a phase for the trace, if one will be written.
    pub(crate) fn record(&self, metrics: &PhaseMetrics) {
        if self.shared.settings.trace.is_some() {
            let mut trace =
                self.shared.trace.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // The limit keeps a day of phases, not a year of them.
            if trace.len() < MOST_TRACED {
                trace.push(metrics.clone());
            }
        }
    }

    /// Gathers the phases of all ranks and writes them on rank 0.
    pub(super) fn write_trace(&self) -> Result<(), Error> {
        const CALL: &str = "trace";
        let Some(path) = &self.shared.settings.trace else { return Ok(()) };
        let state = self.state();
        if state.retired {
            return Ok(());
        }
        state.group.check()?;
        let mine =
            self.shared.trace.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone();
        let file_error =
            |source| Error::File { call: CALL, path: path.display().to_string(), source };
        let bytes = serde_json::to_vec(&mine).map_err(|error| file_error(error.into()))?;
        let limits = WaitLimits::for_at_most(self.shared.settings.create_timeout);
        let Some(all) = state.group.gather(&bytes, &limits)? else { return Ok(()) };
        let mut phases: Vec<PhaseMetrics> = Vec::new();
        for bytes in all {
            phases.extend(
                serde_json::from_slice::<Vec<PhaseMetrics>>(&bytes)
                    .map_err(|error| file_error(error.into()))?,
            );
        }
        let mut file = quo_files::Output::create(path).map_err(file_error)?;
        Trace::of(&phases)
            .write(&mut file)
            .map_err(|error| file_error(std::io::Error::other(error)))?;
        file.finish().map(drop).map_err(file_error)
    }
}
