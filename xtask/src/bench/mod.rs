//! `cargo xtask bench`: cost of the operations, compared with the kernel's own and, if there is one
//! on the machine, with a reference library. All in one run, since only ratios of one run are
//! meaningful on a shared machine.

mod elastic;
mod growth;
mod lending;
mod memprof;
mod micro;
mod page;
mod quiescence;
mod table;
mod tasks;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use clap::Args;
use quo_tests::{BindTo, Job, Library, run_compiler};
use serde_json::{Value, json};

use crate::{project, release, run, setup};
use quiescence::Quiescence;
use table::Measurements;

/// Time limit of one run of a program.
const LIMIT: Duration = Duration::from_secs(180);

#[derive(Args)]
pub struct Options {
    /// Compare with the QUO library installed below PREFIX.
    #[arg(long, value_name = "PREFIX")]
    reference: Option<PathBuf>,
    /// Runs of each program, for medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..=50))]
    rounds: u8,
    /// Also write all measurements to FILE.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Also write the tables into PAGE, docs/benchmarks.md
    #[arg(long, value_name = "PAGE")]
    write: Option<PathBuf>,
    #[command(flatten)]
    only: Only,
    /// Longest time of `--long-only`.
    #[arg(long, default_value_t = 4, requires = "long_only", value_parser = clap::value_parser!(u8).range(1..=120))]
    minutes: u8,
    /// For `--long-only`, use the large deck of the demo
    #[arg(long, requires = "long_only")]
    large_deck: bool,
    /// For `--lending-only`, also measure DLB
    ///
    /// Its object for MPI (libdlb_mpi.so), and an OpenMP runtime with OMPT (libomp.so).
    #[arg(long, num_args = 2, value_names = ["DLB", "RUNTIME"], requires = "lending_only")]
    dlb: Vec<PathBuf>,
}

#[derive(Args)]
#[group(multiple = false)]
struct Only {
    /// Measure only the cost of the memory profiler.
    #[arg(long)]
    memprof_only: bool,
    /// Measure only the rates of messages under memprof
    #[arg(long)]
    messages_only: bool,
    /// Measure only the longer run of the coupled example
    ///
    /// Under the memory profiler, in as many turns as a precision of half a percent takes, or as there is time for.
    #[arg(long)]
    long_only: bool,
    /// Measure only the cost of a world's resizes.
    #[arg(long)]
    elastic_only: bool,
    /// Measure only gain and loss by quo-run
    #[arg(long)]
    lending_only: bool,
    /// Measure only the times of recursive tasks.
    #[arg(long)]
    tasks_only: bool,
    /// Measure only how costs grow with the ranks of a node
    #[arg(long)]
    growth_only: bool,
}

pub fn run(options: &Options) -> Result<()> {
    // Checked first, before minutes are spent on figures that cannot be written.
    let load = page::load()?;
    println!("load of the machine before the measurement: {load}");
    if let Some(file) = &options.write {
        page::check(file, load)?;
    }
    setup::ensure()?;
    if options.only.elastic_only {
        let measured = elastic::run(options.rounds)?;
        let lines = elastic::lines(&measured);
        println!("\n{}", table::lines(&elastic::HEADINGS, &lines, false));
        let synthetic = elastic::synthetic()?;
        write_page(options, "elastic", table::lines(&elastic::HEADINGS, &lines, true))?;
        println!("\n{synthetic}");
        return write_json(options, &json!({"elastic": measured, "synthetic": synthetic}));
    }
    if options.only.lending_only {
        let peer = match &options.dlb[..] {
            [dlb, runtime] => Some(lending::Peer { dlb, runtime }),
            _ => None,
        };
        let measured = lending::run(options.rounds, peer.as_ref())?;
        println!("\n{}", table::lines(&lending::HEADINGS, &measured.lines(), false));
        write_page(options, "lending", table::lines(&lending::HEADINGS, &measured.lines(), true))?;
        return write_json(options, &json!({"lending": measured.to_json()}));
    }
    if options.only.tasks_only {
        let rows = tasks::run()?;
        println!("\n{}", table::lines(&tasks::HEADINGS, &rows, false));
        write_page(options, "tasks", table::lines(&tasks::HEADINGS, &rows, true))?;
        return write_json(options, &json!({"tasks": rows}));
    }
    if options.only.messages_only || options.only.long_only {
        let folder = project::target()?.join("xtask/benches/memprof");
        let measured = match options.only.long_only {
            true => {
                let time = Duration::from_secs(60 * u64::from(options.minutes));
                memprof::long(time, options.large_deck)?
            }
            false => memprof::messages(&folder)?,
        };
        let part = match options.only.long_only {
            true => "memprof long".to_owned(),
            false => format!("memprof messages {}", crate::mpi::chosen().unwrap_or_default()),
        };
        print_profiled(&measured, part.trim_end(), options)?;
        return write_json(options, &json!({"memprof": measured.to_json()}));
    }
    if options.only.memprof_only {
        let measured = profiled(options)?;
        return write_json(options, &json!({"memprof": measured.to_json()}));
    }
    let reference = options.reference.as_deref().map(Library::in_prefix).transpose()?;
    let built = release::build_library()?;
    let include = project::root().join("bindings-c/include");
    let ours = Library::as_built(&include, &built.join("libquo_c.so"))?;
    let programs = Programs::compile(&ours, reference.as_ref())?;
    if options.only.growth_only {
        return growing(options, &programs);
    }

    let (mut measurements, mut quiescence) = (Measurements::default(), Quiescence::new());
    for round in 1..=options.rounds {
        println!("round {round} of {}", options.rounds);
        measurements.ours.push(program_output(&operations(&programs.ours))?);
        if let Some(program) = &programs.reference {
            measurements.reference.push(program_output(&operations(program))?);
        }
        measurements.kernel.push(plain_output(&programs.kernel)?);
        quiescence.round(&programs.quiescence, 2)?;
    }
    let rows = table::rows(&measurements);
    println!("\n{}", table::plain(&rows));
    println!("{}", table::lines(&quiescence::HEADINGS, &quiescence.lines(), false));
    write_page(options, "operations", table::markdown(&rows))?;
    let waiting = table::lines(&quiescence::HEADINGS, &quiescence.lines(), true);
    write_page(options, "waiting", waiting)?;
    let micro = micro::run()?;
    let profiled = profiled(options)?;
    let everything = json!({
        "ours": measurements.ours,
        "reference": measurements.reference,
        "kernel": measurements.kernel,
        "quiescence": quiescence.to_json(),
        "micro": micro.iter().map(|line| json!({"name": line.name, "time": line.time}))
            .collect::<Vec<_>>(),
        "memprof": profiled.to_json(),
    });
    write_json(options, &everything)
}

/// Measures how costs grow with the ranks of a node.
fn growing(options: &Options, programs: &Programs) -> Result<()> {
    let (ours, reference) = (&programs.growth[0], programs.growth.get(1));
    let reference = reference.map(PathBuf::as_path);
    let measured = growth::run(&growth::Programs { ours, reference })?;
    let lines = measured.lines();
    println!("\n{}", table::lines(&growth::HEADINGS, &lines, false));
    write_page(options, "growth", table::lines(&growth::HEADINGS, &lines, true))?;
    if let Some(page) = &options.write {
        println!("written to {}", measured.write_picture(page)?.display());
    }
    write_json(options, &json!({"growth": measured.to_json()}))
}

fn write_json(options: &Options, everything: &Value) -> Result<()> {
    let Some(file) = &options.json else { return Ok(()) };
    std::fs::write(file, format!("{everything:#}\n"))
        .with_context(|| format!("writing {}", file.display()))?;
    println!("\nwritten to {}", file.display());
    Ok(())
}

/// Measures programs with the memory profiler and without.
fn profiled(options: &Options) -> Result<memprof::Measured> {
    let folder = project::target()?.join("xtask/benches/memprof");
    let programs = memprof::Programs::compile(&folder)?;
    let mut measured = memprof::Measured::default();
    for round in 1..=options.rounds {
        println!("memory profiler, round {round} of {}", options.rounds);
        programs.round(&mut measured, round == 1)?;
    }
    programs.turns(&mut measured)?;
    print_profiled(&measured, "memprof", options)?;
    Ok(measured)
}

fn print_profiled(measured: &memprof::Measured, part: &str, options: &Options) -> Result<()> {
    let lines = measured.lines();
    println!("\n{}", table::lines(&memprof::HEADINGS, &lines, false));
    write_page(options, part, table::lines(&memprof::HEADINGS, &lines, true))
}

fn write_page(options: &Options, part: &str, table: String) -> Result<()> {
    match &options.write {
        Some(file) => page::write(file, part, &table),
        None => Ok(()),
    }
}

struct Programs {
    ours: PathBuf,
    reference: Option<PathBuf>,
    kernel: PathBuf,
    quiescence: PathBuf,
    /// With our library, and with the reference.
    growth: Vec<PathBuf>,
}

impl Programs {
    fn compile(ours: &Library, reference: Option<&Library>) -> Result<Programs> {
        let folder = project::target()?.join("xtask/benches");
        std::fs::create_dir_all(&folder)?;
        let source = |name: &str| project::root().join("bindings-c/benches").join(name);
        let compile = |library: &Library, from: &str, to: &str| -> Result<PathBuf> {
            let program = folder.join(to);
            library.compile(&source(from), &program, &["-O2", "-fopenmp", "-lm"])?;
            Ok(program)
        };
        let kernel = folder.join("kernel");
        let mut compiler = Command::new("cc");
        compiler.args(["-std=c11", "-O2"]).arg(source("kernel.c")).arg("-o").arg(&kernel);
        run_compiler(compiler.args(hwloc_flags()?).args(["-lm", "-pthread"]))?;
        let mut growth = vec![compile(ours, "growth.c", "growth-ours")?];
        if let Some(library) = reference {
            growth.push(compile(library, "growth.c", "growth-reference")?);
        }
        Ok(Programs {
            growth,
            ours: compile(ours, "operations.c", "operations-ours")?,
            reference: reference
                .map(|library| compile(library, "operations.c", "operations-reference"))
                .transpose()?,
            kernel,
            quiescence: compile(ours, "quiescence.c", "quiescence")?,
        })
    }
}

fn hwloc_flags() -> Result<Vec<String>> {
    let mut asked = Command::new("pkg-config");
    let flags = run::captured(asked.args(["--cflags", "--libs", "hwloc"]))?;
    Ok(flags.split_whitespace().map(str::to_owned).collect())
}

fn operations(program: &Path) -> Job {
    Job::new(2, program).bind_to(BindTo::Core).limit(LIMIT)
}

/// Returns the object that a program prints under the launcher.
fn program_output(job: &Job) -> Result<Value> {
    let outcome = job.run()?;
    outcome.expect_success()?;
    parse(&outcome.stdout).with_context(|| outcome.report())
}

fn plain_output(program: &Path) -> Result<Value> {
    let finished = run::logged(&mut Command::new(program), &program.with_extension("log"), LIMIT)?;
    if !finished.ending.is_success() {
        bail!("{}: {}\n{}", program.display(), finished.ending, finished.output);
    }
    parse(&finished.output)
}

fn parse(output: &str) -> Result<Value> {
    // Launchers may add their own lines.
    let Some(line) = output.lines().find(|line| line.starts_with('{')) else {
        bail!("the benchmark printed no line of JSON: {output:?}");
    };
    serde_json::from_str(line).context("reading the benchmark's result")
}
