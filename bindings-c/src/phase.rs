//! Phases: select, push, set threads, run, pop, wake.
#![allow(unsafe_code)]

use std::ffi::{CString, c_char, c_int, c_void};
use std::mem::offset_of;
use std::ptr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

use quo::Context;
use quo::phase::{
    Assignment, Cores, Entered, PhaseMetrics, PhasePlan, PhaseSpec, Pinning, Sharing, Threads,
};

use crate::codes::Code;
use crate::collective::refuse_selection;
use crate::create::{context, mpi_not_finalized};
use crate::failures;
use crate::guard::{Failure, Mark, entry};
use crate::handle::{Handled, Held, Kind, Table};
use crate::types::{Growing, In, QUO_phase_t, QUO_t, RawOut, Text, int, object_type};

static PHASES: Table<Phase, 1024> = Table::new();

impl Handled for Phase {
    const KIND: Kind = Kind { number: 2, name: "phase" };
}

const PACKAGE: c_int = 2;

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_phase_spec_t {
    /// Size known to the caller.
    pub size: usize,
    pub r#type: c_int,
    /// Maximum number of workers per object.
    pub max_per_object: c_int,
    pub threads: c_int,
    /// Name of the phase, or NULL.
    pub name: Text,
    pub cores: c_int,
    pub sharing: c_int,
    /// Seconds to wait for the CPUs; 0 for the context's limit.
    pub sharing_limit: f64,
    pub pinning: c_int,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers and a pointer that is
// checked when it is read.
unsafe impl Growing for QUO_phase_spec_t {
    const NAME: &'static str = "QUO_phase_spec_t";
    const FIRST: usize = offset_of!(QUO_phase_spec_t, cores);
}

#[derive(Debug)]
#[repr(C)]
pub struct QUO_worker_t {
    /// Number of threads to run.
    pub threads: c_int,
    /// First qid served.
    pub first_qid: c_int,
    /// Number of ranks served.
    pub nqids: c_int,
    /// CPUs as a list.
    pub cpuset: *const c_char,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_phase_metrics_t {
    /// Size known to the caller.
    pub size: usize,
    /// True if this rank was selected.
    pub selected: c_int,
    /// Number of threads it ran.
    pub threads: c_int,
    /// Seconds inside the work.
    pub run_seconds: f64,
    /// Seconds asleep.
    pub quiesced_seconds: f64,
    /// Seconds moving data.
    pub remap_seconds: f64,
}

// SAFETY: repr(C), starts with its size, and all other fields are numbers.
unsafe impl Growing for QUO_phase_metrics_t {
    const NAME: &'static str = "QUO_phase_metrics_t";
}

pub type QUO_phase_work_t = Option<unsafe extern "C" fn(*const QUO_worker_t, *mut c_void)>;

/// A phase held by C; keeps its context from being freed.
struct Phase {
    plan: PhasePlan,
    run: Mutex<Run>,
    context: Held<Context>,
}

#[derive(Default)]
struct Run {
    entered: Option<Begun>,
    /// Reason given to [`QUO_phase_fail`], for the end of the run.
    failed: Option<String>,
    last: Option<PhaseMetrics>,
}

/// A run in progress, and its thread, to which bindings and thread numbers belong.
struct Begun {
    entered: Entered,
    thread: ThreadId,
}

// SAFETY: `Entered` must stay on its thread. It is taken out only by `Phase::end`, which compares
// threads first, and is never dropped in place, since a phase with a run in progress is not freed.
unsafe impl Send for Begun {}

impl Begun {
    fn new(entered: Entered) -> Self {
        Self { entered, thread: thread::current().id() }
    }

    fn is_mine(&self) -> bool {
        self.thread == thread::current().id()
    }
}

impl Phase {
    fn run(&self) -> MutexGuard<'_, Run> {
        self.run.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a description of the phase, with its name if it has one.
    fn label(&self) -> String {
        match self.plan.name() {
            "" => "phase".to_owned(),
            name => format!("phase `{name}`"),
        }
    }

    fn still_begun(&self) -> Failure {
        let text = format!("a run of the {} has begun and not ended", self.label());
        Failure::new(Code::Busy, text)
    }

    /// Starts a run; returns the part of this rank, if it works.
    fn begin(&self) -> Result<Option<Assignment>, Failure> {
        let mut run = self.run();
        if run.entered.is_some() {
            return Err(self.still_begun());
        }
        let entered = self.context.enter_phase(&self.plan);
        // A worker that could not be bound does not work; leaving reports the reason on all ranks.
        let works = entered.is_ready();
        let part = entered.assignment().filter(|_| works).cloned();
        run.entered = Some(Begun::new(entered));
        run.failed = None;
        Ok(part)
    }

    fn end(&self) -> Result<(), Failure> {
        let (begun, failed) = {
            let mut run = self.run();
            let begun = run.entered.take_if(|begun| begun.is_mine()).ok_or_else(|| {
                let text = format!("no run of the {} has begun on this thread", self.label());
                Failure::new(Code::NotBegun, text)
            })?;
            (begun, run.failed.take())
        };
        let metrics = match failed {
            None => self.context.leave_phase(&self.plan, begun.entered)?,
            Some(reason) => self.context.leave_failed_phase(&self.plan, begun.entered, &reason)?,
        };
        self.run().last = Some(metrics);
        Ok(())
    }
}

fn phase(handle: *mut QUO_phase_t) -> Result<Held<Phase>, Failure> {
    let phase = PHASES.get(handle.addr())?;
    mpi_not_finalized()?;
    Ok(phase)
}

fn spec(given: In<QUO_phase_spec_t>) -> Result<PhaseSpec, Failure> {
    let Some(given) = given.read()? else {
        return Ok(PhaseSpec::over(object_type(PACKAGE)?));
    };
    let most = usize::try_from(given.max_per_object).ok().filter(|&most| most > 0);
    let most = most.ok_or_else(|| {
        Failure::invalid(format!(
            "max_per_object is {}; give a positive number",
            given.max_per_object
        ))
    })?;
    let threads = match given.threads {
        0 => Threads::Keep,
        1 => Threads::Follow,
        other => return Err(Failure::invalid(format!("threads {other} is not a QUO_threads_t"))),
    };
    let cores = match given.cores {
        0 => Cores::All,
        1 => Cores::Fastest,
        other => return Err(Failure::invalid(format!("cores {other} is not a QUO_cores_t"))),
    };
    let sharing = match given.sharing {
        0 => Sharing::Overlap,
        1 => Sharing::Wait,
        2 => Sharing::Left,
        other => return Err(Failure::invalid(format!("sharing {other} is not a QUO_sharing_t"))),
    };
    let pinning = match given.pinning {
        0 => Pinning::Environment,
        1 => Pinning::None,
        2 => Pinning::Close,
        3 => Pinning::Spread,
        other => return Err(Failure::invalid(format!("pinning {other} is not a QUO_pinning_t"))),
    };
    let spec = PhaseSpec::over(object_type(given.r#type)?).max_per_object(most);
    let mut spec = spec.threads(threads).cores(cores).sharing(sharing).pinning(pinning);
    if given.sharing_limit != 0.0 {
        let limit = Duration::try_from_secs_f64(given.sharing_limit).map_err(|error| {
            Failure::invalid(format!("sharing_limit {}: {error}", given.sharing_limit))
        })?;
        spec = spec.sharing_limit(limit);
    }
    if given.name.is_null() { Ok(spec) } else { Ok(spec.name(given.name.read("name")?)) }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_create(
    q: *mut QUO_t,
    spec: In<QUO_phase_spec_t>,
    out_phase: RawOut<*mut QUO_phase_t>,
) -> c_int {
    entry("QUO_phase_create", || {
        let place = out_phase.checked_null("out_phase");
        let context = context(q)?;
        let (place, spec) = match place.and_then(|place| Ok((place, self::spec(spec)?))) {
            Ok(checked) => checked,
            Err(failure) => return Err(refuse_selection(&context, failure)),
        };
        let plan = context.plan_phase(spec)?;
        let mut context = context;
        context.keep_for("phase", plan.name());
        let handle = PHASES.insert(Phase { plan, run: Mutex::default(), context })?;
        failures::phases_by(begun_phases);
        place.set(ptr::without_provenance_mut(handle));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_begin(
    phase: *mut QUO_phase_t,
    selected: RawOut<c_int>,
    threads: RawOut<c_int>,
) -> c_int {
    entry("QUO_phase_begin", || {
        let phase = self::phase(phase)?;
        let place = selected.checked("selected")?;
        let part = phase.begin()?;
        place.set(c_int::from(part.is_some()));
        if let Some(place) = threads.optional() {
            place.set_number(part.map_or(0, |part| part.threads()))?;
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_qids(
    phase: *mut QUO_phase_t,
    first: RawOut<c_int>,
    count: RawOut<c_int>,
) -> c_int {
    entry("QUO_phase_qids", || {
        let phase = self::phase(phase)?;
        let (first, count) = (first.checked("first")?, count.checked("count")?);
        let ranks = phase.plan.assignment().map_or(0..0, |part| part.ranks());
        first.set_number(ranks.start)?;
        count.set_number(ranks.len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_pin_thread(
    phase: *mut QUO_phase_t,
    number: c_int,
    count: c_int,
) -> c_int {
    entry("QUO_phase_pin_thread", || {
        let phase = self::phase(phase)?;
        let given = (usize::try_from(number), usize::try_from(count));
        let (Ok(number), Ok(count)) = given else {
            let text = format!("thread {number} among {count}: give numbers from 0");
            return Err(Failure::invalid(text));
        };
        Ok(phase.plan.pin_thread(number, count)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_end(phase: *mut QUO_phase_t) -> c_int {
    entry("QUO_phase_end", || self::phase(phase)?.end())
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_fail(phase: *mut QUO_phase_t, reason: Text) -> c_int {
    entry("QUO_phase_fail", || {
        let phase = self::phase(phase)?;
        // The failure is reported to the other ranks even if the reason cannot be read.
        let given = if reason.is_null() { Ok(String::new()) } else { reason.read("reason") };
        let mut run = phase.run();
        if run.entered.is_none() {
            let text = format!("no run of the {} has begun", phase.label());
            return Err(Failure::new(Code::NotBegun, text));
        }
        let text = given.as_deref().unwrap_or_default();
        let text = if text.is_empty() { "the program gives no reason" } else { text };
        run.failed.get_or_insert_with(|| text.to_owned());
        given.map(drop)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_run(
    phase: *mut QUO_phase_t,
    work: QUO_phase_work_t,
    data: *mut c_void,
) -> c_int {
    entry("QUO_phase_run", || {
        let phase = self::phase(phase)?;
        let part = phase.begin()?;
        let called = match (part, work) {
            (Some(part), Some(work)) => call(&part, work, data),
            (None, Some(_)) => Ok(()),
            // Returned only after the other ranks have been released.
            (_, None) => Err(Failure::invalid("the argument work is NULL")),
        };
        phase.end().and(called)
    })
}

fn call(
    part: &Assignment,
    work: unsafe extern "C" fn(*const QUO_worker_t, *mut c_void),
    data: *mut c_void,
) -> Result<(), Failure> {
    let cpus = CString::new(part.cpus().to_string()).unwrap_or_default();
    let ranks = part.ranks();
    let worker = QUO_worker_t {
        threads: int(part.threads())?,
        first_qid: int(ranks.start)?,
        nqids: int(ranks.len())?,
        cpuset: cpus.as_ptr(),
    };
    let _outside = Mark::outside();
    // SAFETY: by the contract of the C interface `work` is a function of this type that takes the
    // `data` given with it; the worker outlives the call.
    unsafe { work(&raw const worker, data) };
    Ok(())
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_metrics(
    phase: *mut QUO_phase_t,
    metrics: RawOut<QUO_phase_metrics_t>,
) -> c_int {
    entry("QUO_phase_metrics", || {
        let phase = self::phase(phase)?;
        let place = metrics.checked_sized("metrics")?;
        let run = phase.run();
        let last = run.last.as_ref();
        place.set(&QUO_phase_metrics_t {
            size: size_of::<QUO_phase_metrics_t>(),
            selected: c_int::from(last.is_some_and(|last| last.selected)),
            threads: int(last.map_or(0, |last| last.threads))?,
            run_seconds: last.map_or(0.0, |last| last.run_seconds),
            quiesced_seconds: last.map_or(0.0, |last| last.quiesced_seconds),
            remap_seconds: last.map_or(0.0, |last| last.remap_seconds),
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_phase_free(phase: *mut QUO_phase_t) -> c_int {
    entry("QUO_phase_free", || {
        if phase.is_null() {
            return Ok(());
        }
        {
            let phase = self::phase(phase)?;
            if phase.run().entered.is_some() {
                return Err(phase.still_begun());
            }
        }
        drop(PHASES.remove(phase.addr())?);
        Ok(())
    })
}

/// Returns true if this is the handle of a phase in use.
pub(crate) fn is_phase(handle: usize) -> bool {
    PHASES.get(handle).is_ok()
}

/// Ends the run of a phase that has begun on this thread, if there is one, and frees the phase.
pub(crate) fn release(phase: *mut QUO_phase_t) -> Result<(), Failure> {
    {
        let phase = self::phase(phase)?;
        let begun = phase.run().entered.is_some();
        if begun {
            // Its failure belongs to the run; the phase is freed anyway.
            let _ = phase.end();
        }
    }
    drop(PHASES.remove(phase.addr())?);
    Ok(())
}

/// Returns the names of the phases that have begun and not ended, except those with a call in
/// progress.
fn begun_phases() -> Vec<String> {
    let name = |phase: &Held<Phase>| {
        phase.run.try_lock().ok()?.entered.as_ref().map(|_| phase.plan.name().to_owned())
    };
    PHASES.all().iter().filter_map(name).collect()
}
