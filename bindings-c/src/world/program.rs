//! Programs as arrays of elements: the functions of `quo-program.h`.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::Mutex;

use elastic::manager::{ControlSocket, ScriptedPlan};
use elastic::{Status, World, WorldOptions};
use elastic_program::{Action, Host, Kind, Machine, ProgramError, Standing, Traced, drive};
use quo_mpi::Mpi;
use quo_mpi::communicator::ThreadLevel;

use super::options::QUO_world_options_t;
use super::{Open, WORLDS, create_world, end, events, with};
use crate::codes::Code;
use crate::guard::{Failure, Mark, entry_with_number, stay_quiet};
use crate::types::{Growing, In, QUO_world_t, RawOut, Text};

#[derive(Clone, Copy)]
#[repr(C)]
pub struct QUO_element_t {
    pub r#type: c_int,
    /// Name of the element, or NULL.
    pub name: Text,
    /// Creates the data of a process.
    pub init: Option<
        unsafe extern "C" fn(*mut QUO_world_t, c_int, *mut *mut c_char, *mut *mut c_void) -> c_int,
    >,
    /// Computes a round of a phase.
    pub compute: Option<unsafe extern "C" fn(*mut QUO_world_t, *mut c_void) -> c_int>,
    /// Moves data between begin and commit.
    pub redistribute: Option<unsafe extern "C" fn(*mut QUO_world_t, *mut c_void) -> c_int>,
    /// Loop condition of a phase.
    pub again: Option<unsafe extern "C" fn(*mut c_void) -> c_int>,
    /// Returns the next position.
    pub branch: Option<unsafe extern "C" fn(c_int, *mut c_void) -> c_int>,
}

#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct QUO_program_t {
    /// Size known to the caller.
    pub size: usize,
    /// Size of an element as known to the caller.
    pub element: usize,
    /// Number of elements.
    pub count: usize,
    /// The elements.
    pub elements: *const QUO_element_t,
}

// SAFETY: repr(C), starts with its size; the other fields are numbers and a pointer that is checked when it is read.
unsafe impl Growing for QUO_program_t {
    const NAME: &'static str = "QUO_program_t";
}

/// Error of a run: the library's, or the program's with EPOP's number for it.
struct Stopped {
    number: c_int,
    failure: Failure,
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self { number: failure.code as c_int, failure }
    }
}

impl From<elastic::Error> for Stopped {
    fn from(error: elastic::Error) -> Self {
        Failure::from(error).into()
    }
}

impl From<ProgramError> for Stopped {
    fn from(error: ProgramError) -> Self {
        let code = Code::InvalidArgument;
        let number = error.code().unwrap_or(code as c_int);
        Self { number, failure: Failure::new(code, error.to_string()) }
    }
}

fn wrong(position: usize, reason: impl Into<String>) -> Stopped {
    ProgramError::Element { position, reason: reason.into() }.into()
}

/// A checked program: its elements, their names and their kinds.
struct Checked {
    elements: Vec<QUO_element_t>,
    names: Vec<String>,
    machine: Machine,
}

fn check(program: In<QUO_program_t>) -> Result<Checked, Stopped> {
    let given = program.read()?.ok_or_else(|| Failure::invalid("the argument program is NULL"))?;
    let known = size_of::<QUO_element_t>();
    if given.element != known || (given.elements.is_null() && given.count > 0) {
        let text = format!(
            "program: elements of {} bytes at {:p}: they have {known}, make it with QUO_PROGRAM()",
            given.element, given.elements
        );
        return Err(Failure::invalid(text).into());
    }
    let mut checked = (Vec::new(), Vec::new(), Vec::new());
    for position in 0..given.count {
        // SAFETY: by the contract of the C interface `count` elements are there, of the size that
        // was checked.
        let element = unsafe { given.elements.add(position).read() };
        let kind = kind(&element, position)?;
        let name = match element.name.is_null() {
            true => format!("element {position}"),
            false => element.name.read("name")?,
        };
        checked.0.push(element);
        checked.1.push(name);
        checked.2.push(kind);
    }
    let (elements, names, kinds) = checked;
    Ok(Checked { elements, names, machine: Machine::new(kinds)? })
}

fn kind(element: &QUO_element_t, position: usize) -> Result<Kind, Stopped> {
    let needs = |is_there: bool, block: &str| match is_there {
        true => Ok(()),
        false => Err(wrong(position, format!("its block {block} is NULL"))),
    };
    match element.r#type {
        0 => needs(element.init.is_some(), "init").map(|()| Kind::Init),
        1 => needs(element.compute.is_some(), "compute")
            .map(|()| Kind::Rigid { repeats: element.again.is_some() }),
        2 => needs(element.compute.is_some(), "compute")
            .and_then(|()| needs(element.again.is_some(), "again"))
            .map(|()| Kind::Elastic),
        3 => needs(element.branch.is_some(), "branch").map(|()| Kind::Branch),
        other => Err(wrong(position, format!("type {other} is not a QUO_element_type_t"))),
    }
}

/// Arguments of INIT.
#[derive(Clone, Copy)]
struct Arguments(c_int, *mut *mut c_char);

/// Driver of programs in C. Blocks access the world by its handle, so that it is locked only during
/// calls.
struct Driver<'p> {
    elements: &'p [QUO_element_t],
    names: &'p [String],
    world: *mut QUO_world_t,
    arguments: Arguments,
    data: *mut c_void,
    /// Number of rounds of elastic phases that have begun, for plans that count them.
    rounds: u64,
}

impl Driver<'_> {
    fn standing(&self) -> Result<Standing, Failure> {
        with(self.world, |open| {
            if open.is_serial() {
                return Ok(Standing::Rank);
            }
            Ok(match open.world()?.status() {
                Status::New | Status::Staying => Standing::Rank,
                Status::Joining => Standing::Joining,
                Status::Parked => Standing::Parked,
                Status::Ended => Standing::Ended,
            })
        })
    }

    fn failed(&self, position: usize, block: &str, code: c_int) -> Stopped {
        let name = &self.names[position];
        let text =
            format!("program: element {position}, `{name}`: its block {block} returned {code}");
        Failure::new(Code::WorkFailed, text).into()
    }

    /// Runs the redistribution of an element; an error aborts the resize.
    fn redistribute(&self, position: usize) -> Result<(), String> {
        let element = self.elements.get(position).filter(|element| element.r#type == 2);
        let element = element.ok_or_else(|| {
            format!("rank 0 is at element {position}, which is no elastic phase here: all processes run the same program")
        })?;
        let Some(redistribute) = element.redistribute else { return Ok(()) };
        let code = {
            let _outside = Mark::outside();
            // SAFETY: by the contract of the C interface the block takes these arguments.
            unsafe { redistribute(self.world, self.data) }
        };
        match code {
            0 => Ok(()),
            code => {
                let name = &self.names[position];
                Err(format!("redistribution of element {position}, `{name}`: it returned {code}"))
            }
        }
    }
}

impl Host for Driver<'_> {
    type Error = Stopped;

    fn name(&self, position: usize) -> &str {
        self.names.get(position).map_or("", String::as_str)
    }

    fn init(&mut self) -> Result<Standing, Stopped> {
        let Some(init) = self.elements[0].init else { return Err(wrong(0, "it has no init")) };
        let Arguments(argc, argv) = self.arguments;
        let code = {
            let _outside = Mark::outside();
            // SAFETY: by the contract of the C interface the block takes these arguments.
            unsafe { init(self.world, argc, argv, &raw mut self.data) }
        };
        if code != 0 {
            return Err(self.failed(0, "init", code));
        }
        Ok(self.standing()?)
    }

    fn wait(&mut self) -> Result<Standing, Stopped> {
        with(self.world, |open| Ok(open.world_mut()?.wait()?))?;
        Ok(self.standing()?)
    }

    fn probe(&mut self) -> Result<bool, Stopped> {
        let rounds = self.rounds;
        self.rounds += 1;
        let (is_due, brings) = with(self.world, |open| {
            if open.is_serial() {
                return Ok((false, false));
            }
            let world = open.world_mut()?;
            world.report_iteration(rounds);
            Ok((world.probe()?, open.seen.has_handler()))
        })?;
        if brings {
            events::deliver_events(self.world);
        }
        Ok(is_due)
    }

    fn resize(&mut self, from: Option<usize>) -> Result<(usize, Standing), Stopped> {
        let mine = (from.unwrap_or(0), self.rounds);
        let (position, rounds) = with(self.world, |open| {
            open.begin()?;
            let mut told = mine;
            open.window()?.broadcast(&mut told)?;
            Ok(told)
        })?;
        let redistributed = match from {
            Some(from) if from != position => Err(format!(
                "it is at element {from} and rank 0 at {position}: conditions and branches decide alike on all ranks"
            )),
            _ => self.redistribute(position),
        };
        let done = with(self.world, |open| {
            match open.take_window(redistributed.is_ok())?.commit(redistributed) {
                // Aborted: the ranks are the same as before.
                Ok(()) | Err(elastic::Error::Aborted { .. }) => Ok(()),
                Err(error) => Err(error.into()),
            }
        });
        events::deliver_events(self.world);
        done?;
        self.rounds = rounds;
        Ok((position, self.standing()?))
    }

    fn compute(&mut self, position: usize) -> Result<(), Stopped> {
        let Some(compute) = self.elements[position].compute else { return Ok(()) };
        let code = {
            let _outside = Mark::outside();
            // SAFETY: by the contract of the C interface the block takes these arguments.
            unsafe { compute(self.world, self.data) }
        };
        if code == 0 { Ok(()) } else { Err(self.failed(position, "compute", code)) }
    }

    fn again(&mut self, position: usize) -> Result<bool, Stopped> {
        let Some(again) = self.elements[position].again else { return Ok(false) };
        let _outside = Mark::outside();
        // SAFETY: by the contract of the C interface the block takes this argument.
        Ok(unsafe { again(self.data) } != 0)
    }

    fn branch(&mut self, position: usize) -> Result<i64, Stopped> {
        let Some(branch) = self.elements[position].branch else { return Ok(0) };
        let at = c_int::try_from(position).unwrap_or(c_int::MAX);
        let _outside = Mark::outside();
        // SAFETY: by the contract of the C interface the block takes these arguments.
        Ok(i64::from(unsafe { branch(at, self.data) }))
    }
}

/// Runs a checked program over the world of a handle, and ends the world.
fn run_over(
    world: *mut QUO_world_t,
    checked: &mut Checked,
    arguments: Arguments,
    trace: Option<File>,
) -> Result<(), Stopped> {
    let Checked { elements, names, machine } = checked;
    let data = ptr::null_mut();
    let mut driver = Driver { elements, names, world, arguments, data, rounds: 0 };
    let done = match trace {
        None => drive(machine, &mut driver),
        Some(mut file) => {
            let mut untold = None;
            let tell = |name: &str, action: Action| {
                let told = writeln!(file, "{name}: {action:?}");
                untold = untold.take().or(told.err());
            };
            let done = drive(machine, &mut Traced { host: &mut driver, tell });
            let untold = untold.map(|error| Failure::new(Code::System, format!("trace: {error}")));
            done.and(untold.map_or(Ok(()), |failure| Err(failure.into())))
        }
    };
    let is_alike = done.as_ref().err().is_none_or(|stopped| stopped.number == -2);
    events::deliver_events(world);
    let open = WORLDS.remove(world.addr())?;
    if is_alike {
        // After a branch to nowhere on all ranks, the sleeping processes are notified of the end.
        end(open)?;
    }
    done
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_program_run(
    program: In<QUO_program_t>,
    options: In<QUO_world_options_t>,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    answer("QUO_program_run", || {
        stay_quiet();
        let mut checked = check(program)?;
        let mut world = ptr::null_mut();
        // SAFETY: `world` lives until the call returns.
        create_world(unsafe { RawOut::new(&raw mut world) }, options)?;
        run_over(world, &mut checked, Arguments(argc, argv), None)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_program_serial(
    program: In<QUO_program_t>,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    answer("QUO_program_serial", || {
        stay_quiet();
        run_serial(&mut check(program)?, Arguments(argc, argv), None)
    })
}

fn run_serial(
    checked: &mut Checked,
    arguments: Arguments,
    trace: Option<File>,
) -> Result<(), Stopped> {
    let handle = WORLDS.insert(Mutex::new(Open::serial()))?;
    run_over(ptr::without_provenance_mut(handle), checked, arguments, trace)
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_program_main(
    program: In<QUO_program_t>,
    argc: c_int,
    argv: *mut *mut c_char,
) -> c_int {
    answer("QUO_program_main", || {
        stay_quiet();
        let mut checked = check(program)?;
        let (words, places) = words(argc, argv)?;
        let settings = Settings::read(&words)?;
        // INIT gets the name of the program and the words after the driver's own.
        let mut rest: Vec<*mut c_char> = places.first().copied().into_iter().collect();
        rest.extend(&places[settings.own.min(places.len())..]);
        let count = c_int::try_from(rest.len()).unwrap_or(c_int::MAX);
        rest.push(ptr::null_mut());
        let arguments = Arguments(count, rest.as_mut_ptr());
        if settings.serial {
            return run_serial(&mut checked, arguments, settings.trace(0)?);
        }
        let mpi = Mpi::initialize_for(ThreadLevel::Multiple).map_err(quo::Error::from);
        let mpi = mpi.map_err(Failure::from)?;
        let done = settings.run(&mut checked, arguments, &mpi);
        if done.is_err() {
            // The other ranks may still compute: the end of this process ends the job, not
            // MPI_Finalize.
            std::mem::forget(mpi);
        }
        done
    })
}

fn answer(call: &'static str, body: impl FnOnce() -> Result<(), Stopped>) -> c_int {
    entry_with_number(call, || body().map_err(|stopped| (stopped.number, stopped.failure)))
}

/// Returns the words of a command line, and their addresses.
fn words(argc: c_int, argv: *mut *mut c_char) -> Result<(Vec<String>, Vec<*mut c_char>), Failure> {
    let count = usize::try_from(argc).ok().filter(|_| !argv.is_null());
    let count = count.ok_or_else(|| {
        Failure::invalid(format!("argv is NULL, or {argc} words are said to be there"))
    })?;
    let (mut words, mut places) = (Vec::new(), Vec::new());
    for index in 0..count {
        // SAFETY: by the contract of the C interface there are `argc` words, each a C string or
        // NULL.
        let place = unsafe { argv.add(index).read() };
        if place.is_null() {
            return Err(Failure::invalid(format!("word {index} of argv is NULL")));
        }
        // SAFETY: as above.
        words.push(unsafe { CStr::from_ptr(place) }.to_string_lossy().into_owned());
        places.push(place);
    }
    Ok((words, places))
}

/// Settings of the driver from the command line.
#[derive(Debug, Default, PartialEq, Eq)]
struct Settings {
    serial: bool,
    initial_ranks: Option<usize>,
    max_ranks: Option<usize>,
    oversubscribe: bool,
    plan: Option<PathBuf>,
    name: Option<String>,
    log: Option<PathBuf>,
    trace: Option<PathBuf>,
    /// Number of words that belong to the driver, including the name of the program.
    own: usize,
}

impl Settings {
    /// Reads the words up to `--`; the rest belongs to the program.
    fn read(words: &[String]) -> Result<Self, Failure> {
        let mut settings = Self::default();
        let mut left = words.iter().enumerate().skip(1);
        while let Some((at, word)) = left.next() {
            let mut value = || {
                let next = left.next().map(|(_, value)| value);
                next.ok_or_else(|| Failure::invalid(format!("the option {word} needs a value")))
            };
            let number = |text: &String| {
                text.parse::<usize>().ok().filter(|&number| number > 0).ok_or_else(|| {
                    Failure::invalid(format!("{word} {text}: a number of ranks is expected"))
                })
            };
            match word.as_str() {
                "--" => {
                    settings.own = at + 1;
                    return Ok(settings);
                }
                "--serial" => settings.serial = true,
                "--oversubscribe" => settings.oversubscribe = true,
                "--initial-ranks" => settings.initial_ranks = Some(number(value()?)?),
                "--max-ranks" => settings.max_ranks = Some(number(value()?)?),
                "--plan" => settings.plan = Some(value()?.into()),
                "--name" => settings.name = Some(value()?.clone()),
                "--log" => settings.log = Some(value()?.into()),
                "--trace" => settings.trace = Some(value()?.into()),
                other => {
                    return Err(Failure::invalid(format!(
                        "{other} is no option of the driver: --serial, --initial-ranks N, --max-ranks N, --oversubscribe, \
                         --plan FILE, --name NAME, --log FILE and --trace FILE are; words of the program follow --"
                    )));
                }
            }
        }
        settings.own = words.len();
        Ok(settings)
    }

    /// Creates the trace file of one process.
    fn trace(&self, process: usize) -> Result<Option<File>, Failure> {
        let Some(path) = &self.trace else { return Ok(None) };
        let path = PathBuf::from(format!("{}.{process}", path.display()));
        let failed =
            |error| Failure::new(Code::System, format!("--trace {}: {error}", path.display()));
        File::create(&path).map(Some).map_err(failed)
    }

    fn run(&self, checked: &mut Checked, arguments: Arguments, mpi: &Mpi) -> Result<(), Stopped> {
        let mut options = WorldOptions::new();
        if let Some(ranks) = self.initial_ranks {
            options = options.initial_ranks(ranks);
        }
        if let Some(ranks) = self.max_ranks {
            options = options.max_ranks(ranks);
        }
        options = options.allow_oversubscribe(self.oversubscribe);
        if let Some(name) = &self.name {
            options = options.name(name).manager(ControlSocket::new());
        }
        if let Some(log) = &self.log {
            options = options.log(log);
        }
        if let Some(path) = &self.plan {
            options = options.manager(ScriptedPlan::new(plan(path)?));
        }
        let world = World::create(options)?;
        let started = if world.was_started() { std::process::id() as usize } else { 0 };
        let process = mpi.rank().map_err(|error| Failure::from(quo::Error::from(error)))?;
        let handle = WORLDS.insert(Mutex::new(Open::new(world)))?;
        let trace = self.trace(process + started)?;
        run_over(ptr::without_provenance_mut(handle), checked, arguments, trace)
    }
}

fn plan(path: &Path) -> Result<elastic::plan::Plan, Failure> {
    let wrong = |error: &dyn std::fmt::Display| {
        Failure::invalid(format!("--plan {}: {error}", path.display()))
    };
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    text.parse().map_err(|error: elastic::plan::PlanError| wrong(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(line: &str) -> Result<Settings, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Settings::read(&words).map_err(|failure| failure.text().to_owned())
    }

    #[test]
    fn options_end_at_two_dashes_and_leave_the_programs_words() {
        let settings = read("prog --initial-ranks 2 --max-ranks 4 -- --initial-ranks 7").unwrap();
        assert_eq!(
            (settings.initial_ranks, settings.max_ranks, settings.own),
            (Some(2), Some(4), 6)
        );
        assert_eq!(read("prog").unwrap(), Settings { own: 1, ..Settings::default() });
    }

    #[test]
    fn wrong_options_of_the_driver_are_named() {
        assert!(
            read("prog --initial-ranks").unwrap_err().contains("--initial-ranks needs a value")
        );
        assert!(read("prog --initial-ranks no").unwrap_err().contains("--initial-ranks no"));
        assert!(read("prog 12").unwrap_err().contains("12 is no option"));
    }
}
