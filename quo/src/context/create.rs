//! The collective creation of a context, and its release.

use std::sync::{Arc, Once};
use std::time::{Duration, Instant};

use super::adapt::AdaptOptions;
use super::handshake::{Established, Participant, handshake, limit, next_number};
use super::live_contexts;
use super::record::Role;
use super::state::Shared;
use super::{Context, CreateOptions};
use crate::cpuset::CpuSet;
use crate::environment;
use crate::error::Error;
use crate::group::{Group, WaitLimits};
use crate::notice;

impl Context {
    /// Creates a context over all ranks of `group`, with default options. Collective over the
    /// group.
    ///
    /// # Errors
    /// As [`create_with`](Self::create_with).
    #[doc(alias = "QUO_create")]
    pub fn create(group: impl Group) -> Result<Self, Error> {
        Self::create_with(group, CreateOptions::new())
    }

    /// Creates a context over all ranks of `group`. Collective over the group; the options must be
    /// the same on every rank.
    ///
    /// Every rank returns a context or every rank returns the same error. Only a rank that is
    /// killed in the middle of the last exchange can leave some ranks with a context and some with
    /// an error; the former learn of it in the next call that needs the latter. No segment is
    /// left in any case; the directory of segments keeps a small description of the machine, from
    /// which later creations are faster. If other ranks of the group [`adapt`](Self::adapt) their
    /// context, this rank joins that context.
    ///
    /// # Errors
    /// [`Error::Disagreement`] for options or environments that differ, [`Error::Agreed`] with the
    /// first rank's cause for any failure on some rank (no space for the segment, an unusable
    /// `QUO_TOPOLOGY`, ...), [`Error::Group`] if MPI is not running or ranks do not take part.
    #[doc(alias = "QUO_create_with_flags")]
    pub fn create_with(group: impl Group, options: CreateOptions) -> Result<Self, Error> {
        Self::come(Arc::new(group), Role::Creates, &options, None)
    }

    /// Like [`create_with`](Self::create_with), within the caller's limits: the check of `limits`
    /// can also end the creation, and the earlier of both deadlines applies. Collective over the
    /// group.
    ///
    /// # Errors
    /// As [`create_with`](Self::create_with), and [`Error::Group`] with the error of the check.
    pub fn create_within(
        group: impl Group,
        options: CreateOptions,
        limits: &WaitLimits<'_>,
    ) -> Result<Self, Error> {
        Self::come(Arc::new(group), Role::Creates, &options, Some(limits))
    }

    /// Joins a context that other ranks of the group already have and [`adapt`](Self::adapt).
    /// Collective over the group. The context keeps the other ranks' options: only the directory of
    /// the segments and the time limit are taken from `options`.
    ///
    /// # Errors
    /// As [`create_with`](Self::create_with); [`Error::InvalidArgument`] on every rank if none
    /// adapts.
    pub fn join(group: impl Group, options: CreateOptions) -> Result<Self, Error> {
        Self::come(Arc::new(group), Role::Joins, &options, None)
    }

    fn come(
        group: Arc<dyn Group>,
        role: Role,
        options: &CreateOptions,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<Self, Error> {
        let settings = options.resolve();
        let until = limits.and_then(|limits| limits.deadline);
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let limit = limit(&settings).min(left.unwrap_or(Duration::MAX));
        let established = handshake(
            group,
            Participant {
                role,
                settings,
                limit,
                watch: limits.map_or(&|| Ok(()), |limits| limits.check_peers),
                prepare: &mut || Ok(()),
                backend: None,
                claimed: CpuSet::new(),
                scope: None,
            },
        )?;
        let Established { state, settings, identity, backend } = established;
        let shared = Shared::new(next_number(), identity, settings, backend, state);
        let shared = Arc::new(shared);
        live_contexts::register(&shared);
        let context = Self { shared };
        say_alarm(&context);
        Ok(context)
    }

    /// Releases the context: pops all pushes, writes the trace if one was requested, and leaves the
    /// node. Collective over the context if a trace was requested, otherwise local; call it before
    /// MPI is finalised.
    ///
    /// Dropping a context releases it as well, but writes no trace and cannot report errors. A rank
    /// that has [retired](Self::retire) takes no part in the trace.
    ///
    /// # Errors
    /// The first failure; the context is released anyway.
    #[doc(alias = "QUO_free")]
    pub fn free(self) -> Result<(), Error> {
        self.shared.check("free")?;
        let traced = self.write_trace();
        let popped = self.unwind().and_then(|()| self.leave_scope());
        drop(self);
        traced.and(popped)
    }
}

/// Reports problems with the start of the ranks, once per process.
fn say_alarm(context: &Context) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        if let Some(text) = context.group().alarm() {
            notice::say(&format!("warning: {text}"));
        }
    });
}

impl Drop for Context {
    fn drop(&mut self) {
        if !self.shared.is_forked() {
            let _ = self.unwind().and_then(|()| self.leave_scope());
            self.shared.end_loan();
        }
    }
}

/// Takes part in an adaptation for a context that has been released, so that it fails on every rank
/// and no rank waits.
pub(super) fn refuse(
    group: Arc<dyn Group>,
    identity: u64,
    options: &AdaptOptions,
) -> Result<(), Error> {
    let reason = "the context has been released on this rank".to_owned();
    let participant = Participant {
        role: Role::Adapts(identity),
        settings: Err(Error::NotSupported { call: "adapt", reason }),
        limit: options.timeout().unwrap_or(environment::DEFAULT_CREATE_TIMEOUT),
        watch: &|| Ok(()),
        prepare: &mut || Ok(()),
        backend: None,
        claimed: CpuSet::new(),
        scope: None,
    };
    handshake(group, participant).map(|_| ())
}
