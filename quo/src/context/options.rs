//! Options of a context, and their defaults from the environment.

use std::path::PathBuf;
use std::time::Duration;

use crate::environment;
use crate::error::Error;
use crate::plan::Policy;

/// How ranks wait in [`Context::barrier`](super::Context::barrier); `QUO_WAIT` selects another kind
/// for comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Wait {
    /// Spins briefly, then sleeps on a futex shared by the node. Supports timeouts and detects dead
    /// ranks.
    Futex,
    /// A process-shared pthread barrier in the node's segment: also sleeps, but has no timeout,
    /// does not detect dead ranks, and its membership is fixed. For comparison.
    Pthread,
    /// The communication library's barrier, which usually spins and so keeps the core from the
    /// workers. No timeout, no detection of dead ranks. For comparison.
    Mpi,
}

impl Wait {
    const NAMES: [(&'static str, Self); 3] =
        [("futex", Self::Futex), ("pthread", Self::Pthread), ("mpi", Self::Mpi)];
}

/// Options of [`Context::create_with`](super::Context::create_with). All ranks must pass the same.
///
/// ```
/// use quo::context::CreateOptions;
/// let options = CreateOptions::new().with_no_smt(true).with_lending(true);
/// ```
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct CreateOptions {
    pub(super) no_smt: bool,
    pub(super) lending: bool,
    pub(super) ignores_quota: bool,
    pub(super) policy: Option<Policy>,
    pub(super) directory: Option<PathBuf>,
    pub(super) create_timeout: Option<Duration>,
    pub(super) trace: Option<PathBuf>,
    pub(super) refusal: Option<String>,
}

impl CreateOptions {
    /// Returns the defaults: all PUs, and the environment's values for everything else.
    pub fn new() -> Self {
        Self::default()
    }

    /// Hides SMT: only one PU per core is counted and bound to.
    #[doc(alias = "QUO_CREATE_NO_MT")]
    pub fn with_no_smt(mut self, no_smt: bool) -> Self {
        self.no_smt = no_smt;
        self
    }

    /// Lends this rank's CPUs while it waits in [`barrier`](super::Context::barrier) or at the end
    /// of a phase, so that other ranks of the node can [borrow](super::Context::borrow) them. Ranks
    /// may differ in this option. Has no effect with `QUO_WAIT=mpi`, which keeps the CPU busy.
    #[doc(alias = "QUO_CREATE_LEND")]
    pub fn with_lending(mut self, lending: bool) -> Self {
        self.lending = lending;
        self
    }

    /// Plans phases without regard to the CPU quotas of control groups, which otherwise cap the
    /// threads of workers; so does `QUO_CPU_QUOTA=ignore`. Ranks may differ in this option.
    #[doc(alias = "QUO_CREATE_IGNORE_QUOTA")]
    pub fn with_quota_ignored(mut self, ignored: bool) -> Self {
        self.ignores_quota = ignored;
        self
    }

    /// Sets the policy of [`auto_distrib`](super::Context::auto_distrib). Defaults to
    /// `QUO_DISTRIBUTE`, then to the default policy.
    pub fn with_policy(mut self, policy: Policy) -> Self {
        self.policy = Some(policy);
        self
    }

    /// Sets the directory of the shared segments. Defaults to `QUO_TMPDIR`, then to `/dev/shm`.
    pub fn with_directory(mut self, directory: impl Into<PathBuf>) -> Self {
        self.directory = Some(directory.into());
        self
    }

    /// Sets how long the creation waits for missing ranks. Defaults to `QUO_CREATE_TIMEOUT`, then
    /// to ten minutes.
    pub fn with_create_timeout(mut self, limit: Duration) -> Self {
        self.create_timeout = Some(limit);
        self
    }

    /// Sets the file to which rank 0 writes the trace of all phases when the context is freed.
    /// Defaults to `QUO_TRACE`, then to none.
    pub fn with_trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(path.into());
        self
    }

    /// Makes the creation fail on every rank, for this reason. For bindings to other languages that
    /// find an argument wrong on one rank while the other ranks already wait.
    pub fn with_refusal(mut self, reason: impl Into<String>) -> Self {
        self.refusal = Some(reason.into());
        self
    }

    pub(super) fn resolve(&self) -> Result<Settings, Error> {
        if let Some(reason) = &self.refusal {
            return Err(Error::InvalidArgument { call: "create", reason: reason.clone() });
        }
        environment::reaction().map_err(|text| refused(&environment::ERRORS, &text))?;
        Ok(Settings {
            no_smt: self.no_smt,
            lending: self.lending,
            quota: {
                let names = [("follow", true), ("ignore", false)];
                named(&environment::CPU_QUOTA, &names)?.unwrap_or(true) && !self.ignores_quota
            },
            wait: named(&environment::WAIT, &Wait::NAMES)?.unwrap_or(Wait::Futex),
            policy: match self.policy {
                Some(policy) => policy,
                None => {
                    let names = [("spread", Policy::Spread), ("libquo", Policy::LibquoCompat)];
                    named(&environment::DISTRIBUTE, &names)?.unwrap_or_default()
                }
            },
            directory: self
                .directory
                .clone()
                .or_else(|| environment::value(&environment::DIRECTORY).map(PathBuf::from))
                .unwrap_or_else(|| PathBuf::from("/dev/shm")),
            create_timeout: match self.create_timeout {
                Some(limit) => limit,
                None => seconds()?.unwrap_or(environment::DEFAULT_CREATE_TIMEOUT),
            },
            trace: self
                .trace
                .clone()
                .or_else(|| environment::value(&environment::TRACE).map(PathBuf::from)),
        })
    }
}

/// Options with every default filled in.
#[derive(Clone, Debug)]
pub(super) struct Settings {
    pub no_smt: bool,
    pub lending: bool,
    /// True if CPU quotas cap the threads of workers.
    pub quota: bool,
    pub wait: Wait,
    pub policy: Policy,
    pub directory: PathBuf,
    pub create_timeout: Duration,
    pub trace: Option<PathBuf>,
}

fn named<T: Copy>(
    variable: &environment::Variable,
    names: &[(&str, T)],
) -> Result<Option<T>, Error> {
    let Some(text) = environment::value(variable) else { return Ok(None) };
    match names.iter().find(|(name, _)| *name == text) {
        Some((_, value)) => Ok(Some(*value)),
        None => Err(refused(variable, &text)),
    }
}

fn seconds() -> Result<Option<Duration>, Error> {
    environment::seconds(&environment::CREATE_TIMEOUT)
        .map_err(|text| refused(&environment::CREATE_TIMEOUT, &text))
}

fn refused(variable: &environment::Variable, text: &str) -> Error {
    Error::InvalidArgument {
        call: "create",
        reason: format!("{}={text} is not one of: {}", variable.name, variable.values),
    }
}
