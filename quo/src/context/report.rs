//! Records of a context about its phases, and the messages by which ranks report how a step went.

use std::fs::File;
use std::io::BufWriter;

use super::Context;
use super::collective::{Operation, encode_trouble};
use super::handshake::{EXCHANGE_BYTES, EXCHANGE_HEADER};
use crate::affinity::Backend;
use crate::error::{Error, ErrorKind};
use crate::group::WaitLimits;
use crate::metrics::trace::Trace;
use crate::metrics::{Clock, PhaseMetrics};
use crate::threading::ThreadControls;

/// The most phases of one rank that are kept for a trace; later ones are left out.
const MOST_TRACED: usize = 100_000;

impl Context {
    /// One step of the node's ranks: all come, and all learn the first trouble any of them had.
    pub(crate) fn exchange_verdict(
        &self,
        call: &'static str,
        operation: Operation,
        trouble: Option<(ErrorKind, String)>,
    ) -> Result<(), Error> {
        self.check(call)?;
        let mut message = [0_u8; EXCHANGE_HEADER];
        message[0] = operation as u8;
        let mut bytes = smallvec::SmallVec::<[u8; EXCHANGE_BYTES]>::from_slice(&message);
        if let Some((kind, text)) = trouble {
            encode_trouble(&mut bytes, kind, &text);
        }
        let state = self.state();
        let all = state.node.exchange(&bytes).map_err(state.name_ranks(call))?;
        state.check_messages(call, &message, &all)
    }

    /// The clock of times in metrics.
    pub(crate) fn clock(&self) -> Clock {
        self.shared.clock
    }

    /// The threading libraries of this process.
    pub(crate) fn thread_controls(&self) -> &ThreadControls {
        &self.shared.controls
    }

    /// The masks of the threads of this process.
    pub(crate) fn backend(&self) -> &dyn Backend {
        &*self.shared.backend
    }

    /// Keeps a phase for the trace, when there will be one.
    pub(crate) fn record(&self, metrics: &PhaseMetrics) {
        if self.shared.settings.trace.is_some() {
            let mut trace =
                self.shared.trace.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            // A day of phases is kept, not a year of them.
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
        let file = File::create(path).map_err(file_error)?;
        Trace::of(&phases)
            .write(BufWriter::new(file))
            .map_err(|error| file_error(std::io::Error::other(error)))
    }
}
