//! Cost of the memory profiler: each program with and without it, in turns, so that only ratios and
//! differences of one run are compared.

mod alternating;
mod sides;
mod turns;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use memprof_trace::read::{Options, Trace};
use quo_tests::memprof::{make_fake_mpi, traces_in};
use quo_tests::{Job, mpicc, run_compiler};
use serde_json::{Value, json};

use alternating::{Deck, late_mapping};
use turns::{Ratio, Turns};

use super::table::median;
use crate::{project, release, run};

const LIMIT: Duration = Duration::from_secs(180);

/// Number of MPI calls of a long run.
const CALLS: &str = "1000000000";

/// Results: one object per round, and the measurements made in turns.
#[derive(Default)]
pub struct Measured {
    without: Vec<Value>,
    with: Vec<Value>,
    turns: Vec<Turns>,
}

/// How two numbers are compared, and the limit.
enum Target {
    /// With the profiler, at most this much more.
    More(f64),
    /// With the profiler, at least this share.
    Share(f64),
    /// With the profiler, at most this many times.
    Times(f64),
    /// At most this, for the profiler alone.
    AtMost(f64),
    /// Shown without a limit.
    None,
    /// Shown as a difference, without a limit.
    Difference,
}

struct Entry {
    what: &'static str,
    measured: &'static str,
    unit: &'static str,
    scale: f64,
    target: Target,
}

const fn entry(
    what: &'static str,
    measured: &'static str,
    unit: &'static str,
    scale: f64,
    target: Target,
) -> Entry {
    Entry { what, measured, unit, scale, target }
}

const fn pair(what: &'static str, measured: &'static str) -> Entry {
    entry(what, measured, "ns", 1.0, Target::More(15.0))
}

const ENTRIES: &[Entry] = &[
    entry("MPI call, 2 words", "/mpi_call_ns", "ns", 1.0, Target::More(5.0)),
    entry("MPI call, 6 words", "/mpi_call_6_words_ns", "ns", 1.0, Target::More(5.0)),
    entry("MPI call, timed, 2 words", "/timed_call_ns", "ns", 1.0, Target::More(25.0)),
    entry("MPI call, timed, 6 words", "/timed_call_6_words_ns", "ns", 1.0, Target::More(25.0)),
    entry("MPI call, timed and in a loop", "/looped_call_ns", "ns", 1.0, Target::More(50.0)),
    entry("two clocks, the floor", "/two_clocks_ns", "ns", 1.0, Target::None),
    pair("malloc and free, 64 B", "/malloc_free/64/with"),
    pair("the same, 2 threads", "/malloc_free/64_threads/with"),
    pair("1 B to 1 KiB, 64 live", "/malloc_free/1024_pool_64/with"),
    pair("1 B to 1 KiB, 4096 live", "/malloc_free/1024_pool_4096/with"),
    pair("the same, 2 threads", "/malloc_free/1024_threads/with"),
    pair("1 to 16 KiB, 64 live", "/malloc_free/16384_pool_64/with"),
    pair("1 to 16 KiB, 1024 live", "/malloc_free/16384_pool_1024/with"),
    pair("40 to 100 KiB, 64 live", "/malloc_free/102400_pool_64/with"),
    pair("the same, 2 threads", "/malloc_free/102400_threads/with"),
    pair("128 to 977 KiB, 64 live", "/malloc_free/1048576_pool_64/with"),
    pair("the same, 2 threads", "/malloc_free/1048576_threads/with"),
    entry("mmap and munmap, median", "/mmap_munmap_median_ns", "µs", 1e-3, Target::None),
    entry("mmap and munmap, 99.9 %", LATE, "µs", 1e-3, Target::Times(2.0)),
    entry("messages of 1 B", "/sides/1", "10⁶/s", 1e-6, Target::Share(0.97)),
    entry("in jobs by turns", "/messages_per_second/1", "10⁶/s", 1e-6, Target::None),
    entry("messages of 64 B", "/sides/64", "10⁶/s", 1e-6, Target::Share(0.97)),
    entry("messages of 4 KiB", "/sides/4096", "10⁶/s", 1e-6, Target::Share(0.97)),
    entry("messages of 64 KiB", "/sides/65536", "10³/s", 1e-3, Target::Share(0.97)),
    entry("messages of 4 MiB", "/sides/4194304", "/s", 1.0, Target::Share(0.97)),
    entry("coupled example", "/coupled_seconds", "s", 1.0, Target::Times(1.01)),
    entry("its time of processors", "/coupled_processor_seconds", "s", 1.0, Target::None),
    entry("the same, 15 times the steps", "/long_seconds", "s", 1.0, Target::Times(1.01)),
    entry("its time of processors", "/long_processor_seconds", "s", 1.0, Target::Times(1.01)),
    entry("on the demo's deck", "/large_seconds", "s", 1.0, Target::Times(1.01)),
    entry("its time of processors", "/large_processor_seconds", "s", 1.0, Target::Times(1.01)),
    entry("start and end of 2 ranks", "/start_seconds", "ms", 1e3, Target::Difference),
    entry("sampler, of a processor", "/duty", "%", 100.0, Target::AtMost(0.5)),
    entry("in the coupled example", "/coupled_duty", "%", 100.0, Target::AtMost(0.5)),
    entry("with 15 times the steps", "/long_duty", "%", 100.0, Target::AtMost(0.5)),
    entry("on the demo's deck", "/large_duty", "%", 100.0, Target::AtMost(0.5)),
    entry("tool, after 10⁹ calls", "/tool", "MiB", 1.0 / 1_048_576.0, Target::AtMost(8.0)),
];

/// Ending of names measured with the profiler; the name without it has the number without the
/// profiler, measured in the same process.
const WITH: &str = "/with";

/// Name of the number derived from all turns together.
const LATE: &str = "/late_mapping_ns";

/// Headings of the columns of [`Measured::lines`].
pub const HEADINGS: [&str; 6] = ["memory profiler", "without", "with", "compared", "target", ""];

/// Argument of a program whose MPI calls are timed, if it has the profiler.
const TIMED: &str = "timed";
/// Argument of a program in which loops are detected as well.
const LOOPED: &str = "looped";

/// Programs that are compiled once.
pub struct Programs {
    preload: PathBuf,
    costs: PathBuf,
    allocation: PathBuf,
    messages: PathBuf,
    coupled: PathBuf,
}

impl Programs {
    /// Builds the optimised profiler, the fake MPI, and the measured programs.
    pub fn compile(folder: &Path) -> Result<Programs> {
        let fake = folder.join("fakempi");
        make_fake_mpi(project::root(), &fake)?;
        let sources = project::root().join("memprof/benches");
        let headers = project::root().join("memprof/tests/programs/fakempi");
        let costs = folder.join("costs");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O2", "-fno-builtin-malloc", "-fno-builtin-free"]);
        compiler.arg("-I").arg(headers).arg(sources.join("costs.c")).arg("-o").arg(&costs);
        compiler.arg("-L").arg(&fake).args(["-lfakempi", "-lboth"]);
        for option in ["-rpath", "-rpath-link"] {
            compiler.arg(format!("-Wl,{option},{}", fake.display()));
        }
        run_compiler(&mut compiler)?;
        let allocation = folder.join("allocation");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=gnu11", "-O2", "-pthread"]);
        compiler.args(["-fno-builtin-malloc", "-fno-builtin-free"]);
        compiler.arg(project::root().join("memprof/preload/benches/allocation.c"));
        run_compiler(compiler.arg("-o").arg(&allocation).arg("-ldl"))?;
        let messages = Self::messages(folder)?;
        let coupled = release::build(&["coupled"])?.join("coupled");
        Ok(Programs { preload: preload()?, costs, allocation, messages, coupled })
    }

    /// Returns a set with no programs but the profiler.
    fn none() -> Result<Programs> {
        let none = PathBuf::new;
        let (costs, allocation, messages, coupled) = (none(), none(), none(), none());
        Ok(Programs { preload: preload()?, costs, allocation, messages, coupled })
    }

    fn messages(folder: &Path) -> Result<PathBuf> {
        std::fs::create_dir_all(folder)?;
        let messages = folder.join("messages");
        let mut compiler = Command::new(mpicc());
        compiler.args(["-std=gnu11", "-O2"]);
        compiler.arg(project::root().join("memprof/benches/messages.c"));
        run_compiler(compiler.arg("-o").arg(&messages).arg("-ldl"))?;
        Ok(messages)
    }

    /// Runs one round of all measurements; `whole` includes the long ones.
    pub fn round(&self, measured: &mut Measured, whole: bool) -> Result<()> {
        // The first side alternates, so that drift affects both sides equally.
        let with_first = measured.with.len() % 2 == 1;
        for profiled in [with_first, !with_first] {
            let folder = tempfile::tempdir()?;
            let traces = profiled.then_some(folder.path());
            let mut numbers = self.alone(&self.costs, &[], traces)?;
            if let Some(traces) = traces {
                merge(&mut numbers, json!({"duty": duty(traces)?}));
                clear(traces)?;
                if whole {
                    self.alone(&self.costs, &["calls", CALLS], Some(traces))?;
                    merge(&mut numbers, json!({"tool": tool(traces)?}));
                    clear(traces)?;
                }
            }
            for way in [TIMED, LOOPED] {
                merge(&mut numbers, self.alone(&self.costs, &[way], traces)?);
                traces.map_or(Ok(()), clear)?;
            }
            if let Some(traces) = traces {
                merge(&mut numbers, self.alone(&self.allocation, &[], Some(traces))?);
                clear(traces)?;
            }
            if profiled { &mut measured.with } else { &mut measured.without }.push(numbers);
        }
        Ok(())
    }

    /// Runs all measurements that are made in turns.
    pub fn turns(&self, measured: &mut Measured) -> Result<()> {
        measured.turns = alternating::all(self)?;
        Ok(())
    }

    fn alone(&self, program: &Path, arguments: &[&str], traces: Option<&Path>) -> Result<Value> {
        let mut command = Command::new(program);
        command.args(arguments).env("PMI_RANK", "0").env("PMI_SIZE", "1");
        if let Some(traces) = traces {
            command.env("LD_PRELOAD", &self.preload).env("MEMPROF_DIR", traces);
            if [TIMED, LOOPED].iter().any(|way| arguments.first() == Some(way)) {
                command.env("MEMPROF_MPI_TIME", "1");
            }
            if arguments.first() == Some(&LOOPED) {
                command.env("MEMPROF_LOOP_INTERVAL", "1");
            }
        }
        let finished = run::logged(&mut command, &program.with_extension("log"), LIMIT)?;
        if !finished.ending.is_success() {
            bail!("{}: {}\n{}", program.display(), finished.ending, finished.output);
        }
        super::parse(&finished.output)
    }

    fn job(&self, job: Job, traces: Option<&Path>) -> Job {
        let job = job.limit(LIMIT);
        let Some(traces) = traces else { return job };
        job.env("LD_PRELOAD", &self.preload).env("MEMPROF_DIR", traces).env("MEMPROF_QUIET", "1")
    }
}

/// Builds the profiler's object as it is installed: optimised, and without code that only archives
/// need.
fn preload() -> Result<PathBuf> {
    let base = project::base()?;
    let mut cargo = release::cargo()?;
    cargo.env("CARGO_TARGET_DIR", &base);
    run::shown(cargo.args(["--package", "memprof-preload"]), LIMIT * 4)?;
    Ok(base.join("release/libmemprof_preload.so"))
}

fn all_traces(folder: &Path) -> Result<Vec<Trace>> {
    let open = |file: &PathBuf| Trace::open_with(file, Options { history: false, detail: true });
    traces_in(folder)?
        .iter()
        .map(|file| open(file).with_context(|| format!("reading the trace {}", file.display())))
        .collect()
}

/// Returns the share of a processor that the sampler took, on the rank where it was largest.
fn duty(traces: &Path) -> Result<f64> {
    let mut most: Option<f64> = None;
    for trace in all_traces(traces)? {
        let spent =
            trace.summary.as_ref().context("reading a trace: it has no sample")?.head.cpu_ns;
        let share = spent as f64 / trace.last_time().max(1) as f64;
        most = Some(most.map_or(share, |most| most.max(share)));
    }
    most.with_context(|| format!("no trace in {}", traces.display()))
}

/// Returns the bytes that the profiler held.
fn tool(traces: &Path) -> Result<u64> {
    let trace = all_traces(traces)?.pop();
    let trace = trace.with_context(|| format!("no trace in {}", traces.display()))?;
    Ok(trace.summary.context("reading a trace: it has no sample")?.head.tool)
}

fn clear(traces: &Path) -> Result<()> {
    for file in traces_in(traces)? {
        std::fs::remove_file(file)?;
    }
    Ok(())
}

fn merge(into: &mut Value, more: Value) {
    if let (Value::Object(into), Value::Object(more)) = (into, more) {
        into.extend(more);
    }
}

impl Measured {
    /// Returns everything measured, for a file.
    pub fn to_json(&self) -> Value {
        let turns = self.turns.iter().map(Turns::to_json).collect::<Vec<_>>();
        json!({"without": self.without, "with": self.with, "turns": turns})
    }

    /// Returns the table's lines: subject, without, with, comparison, target, and whether the
    /// target is met. A number that was not measured has no line.
    pub fn lines(&self) -> Vec<[String; 6]> {
        ENTRIES.iter().filter_map(|entry| self.line(entry)).collect()
    }

    fn line(&self, entry: &Entry) -> Option<[String; 6]> {
        let turns = self.turns.iter().find(|turns| !turns.of(true, entry.measured).is_empty());
        let of = |with: bool| {
            let rounds = if with { &self.with } else { &self.without };
            let found = if entry.measured == LATE {
                self.turns.iter().find_map(|turns| late_mapping(turns, with))
            } else if let Some(turns) = turns {
                let mut numbers = turns.of(with, entry.measured);
                numbers.sort_by(f64::total_cmp);
                turns::middle(&numbers)
            } else if let Some(beside) = entry.measured.strip_suffix(WITH).filter(|_| !with) {
                // Both were measured in turns in the process that has the profiler.
                median(&self.with, &format!("{beside}/without"))
            } else {
                median(rounds, entry.measured)
            };
            Some(found? * entry.scale)
        };
        let (without, with) = (of(false), of(true));
        with.or(without)?;
        let number = |value: Option<f64>| match value {
            Some(value) => format!("{value:.2} {}", entry.unit),
            None => String::new(),
        };
        let paired = turns.and_then(|turns| match entry.target {
            Target::Difference => turns.difference(entry.measured),
            _ => turns.ratio(entry.measured),
        });
        let (compared, target, met) = match paired {
            Some(paired) => compare_turns(entry, paired),
            None => {
                let (compared, target, met) = compare(entry, without, with);
                (compared, target, met.map_or("", verdict))
            }
        };
        Some([entry.what.to_owned(), number(without), number(with), compared, target, met.into()])
    }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

/// As [`compare`], for turns: the middle of their ratios, and its interval. A target is met, or
/// missed, if the whole interval is on that side of it.
fn compare_turns(entry: &Entry, ratio: Ratio) -> (String, String, &'static str) {
    let Ratio { median, low, high } = ratio;
    if let Target::Difference = entry.target {
        let (unit, scale) = (entry.unit, entry.scale);
        let text =
            format!("{:+.1} {unit} ({:+.1} to {:+.1})", median * scale, low * scale, high * scale);
        return (text, String::new(), "");
    }
    let (_, target, met) = compare(entry, Some(1.0), Some(low));
    let at_other_end = compare(entry, Some(1.0), Some(high)).2;
    let met = match met {
        None => "",
        Some(low) if at_other_end == Some(low) => verdict(low),
        Some(_) => "cannot tell",
    };
    let text = match entry.target {
        Target::Share(_) => {
            format!("{:.1} % ({:.1} to {:.1})", median * 100.0, low * 100.0, high * 100.0)
        }
        _ => format!("{median:.3} x ({low:.3} to {high:.3})"),
    };
    (text, target, met)
}

fn compare(
    entry: &Entry,
    without: Option<f64>,
    with: Option<f64>,
) -> (String, String, Option<bool>) {
    let more = with.zip(without).map(|(with, without)| with - without);
    let ratio = with.zip(without).map(|(with, without)| with / without);
    let unit = entry.unit;
    let text = |value: Option<f64>, show: fn(f64) -> String| value.map_or(String::new(), show);
    match entry.target {
        Target::More(limit) => (
            more.map_or(String::new(), |more| format!("{more:+.2} {unit}")),
            format!("≤ +{limit} {unit}"),
            more.map(|more| more <= limit),
        ),
        Target::Share(least) => (
            text(ratio, |ratio| format!("{:.1} %", ratio * 100.0)),
            format!("≥ {:.0} %", least * 100.0),
            ratio.map(|ratio| ratio >= least),
        ),
        Target::Times(limit) => (
            text(ratio, |ratio| format!("{ratio:.3} x")),
            format!("≤ {limit} x"),
            ratio.map(|ratio| ratio <= limit),
        ),
        Target::AtMost(limit) => {
            (String::new(), format!("≤ {limit} {unit}"), with.map(|with| with <= limit))
        }
        Target::None | Target::Difference => {
            (text(ratio, |ratio| format!("{ratio:.3} x")), String::new(), None)
        }
    }
}

/// Measures rates of messages only, on the MPI in use.
pub fn messages(folder: &Path) -> Result<Measured> {
    let programs = Programs { messages: Programs::messages(folder)?, ..Programs::none()? };
    let turns = vec![sides::messages(&programs)?, alternating::messages(&programs)?];
    Ok(Measured { turns, ..Measured::default() })
}

/// Measures the longer run of the coupled example only, or the demo's.
pub fn long(time: Duration, large_deck: bool) -> Result<Measured> {
    let coupled = release::build(&["coupled"])?.join("coupled");
    let deck = if large_deck { Deck::Large } else { Deck::Long };
    let turns = vec![alternating::long(&Programs { coupled, ..Programs::none()? }, time, deck)?];
    Ok(Measured { turns, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_compares_medians_as_its_target_says() {
        let take = |one: &dyn Fn(bool) -> Value| {
            let plan = turns::Plan {
                least: 10,
                most: 10,
                time: Duration::ZERO,
                of: "",
                width: 0.0,
                trims: true,
            };
            Turns::take(&plan, |with| Ok(one(with))).unwrap()
        };
        let messages = take(&|with| json!({"sides": {"1": if with { 0.98e6 } else { 1e6 }}}));
        let mappings = take(&|with| {
            let slowest: Vec<u64> = vec![if with { 3000 } else { 2000 }; 3];
            json!({"mappings": 1000, "slowest_mappings_ns": slowest})
        });
        let runs = std::cell::Cell::new(0);
        let long = take(&|with| {
            runs.set(runs.get() + 1);
            let more = if with { f64::from(runs.get() / 4 % 2) * 0.03 } else { 0.0 };
            json!({"long_seconds": 2.0 * (1.0 + more),
                "long_processor_seconds": if with { 3.03 } else { 2.94 }})
        });
        let measured = Measured {
            without: vec![json!({"mpi_call_ns": 4.0})],
            with: vec![json!({"mpi_call_ns": 10.0, "duty": 0.004, "tool": 4 << 20,
                "malloc_free": {"64": {"without": 10.0, "with": 22.5}}})],
            turns: vec![messages, mappings, long],
        };
        let lines = measured.lines();
        let line = |what: &str| lines.iter().find(|line| line[0].starts_with(what)).unwrap();
        assert_eq!(line("MPI call, 2")[3..], ["+6.00 ns", "≤ +5 ns", "missed"]);
        assert_eq!(line("malloc")[3..], ["+12.50 ns", "≤ +15 ns", "met"]);
        assert_eq!(line("messages of 1 B")[3..], ["98.0 % (98.0 to 98.0)", "≥ 97 %", "met"]);
        assert_eq!(
            line("mmap and munmap, 99.9")[1..],
            ["2.00 µs", "3.00 µs", "1.500 x", "≤ 2 x", "met"]
        );
        assert_eq!(line("the same, 15 times")[5], "cannot tell");
        let processors = |line: &&[String; 6]| line[0] == "its time of processors";
        let line_of = lines.iter().find(processors).unwrap();
        assert_eq!(line_of[3..], ["1.031 x (1.031 to 1.031)", "≤ 1.01 x", "missed"]);
        assert_eq!(line("sampler")[2..], ["0.40 %", "", "≤ 0.5 %", "met"]);
        assert_eq!(line("tool")[5], "met");
        assert!(!lines.iter().any(|line| line[0].starts_with("coupled")), "not measured");
    }
}
