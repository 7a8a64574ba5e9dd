//! MPI objects that programs make and free: the profiler counts for each line of them what they say
//! themselves, in C and Fortran, under the launcher of the MPI in use.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::memprof::PROGRAMS;
use quo_tests::suite::Skipped;
use quo_tests::{Checkout, Recorded, fortran_support, mpicc, mpifort, run_compiler};
use serde_json::Value;

const RANKS: usize = 2;

/// Numbers of objects made and freed, by kind and line.
type Made = BTreeMap<(String, u64), (u64, u64)>;

/// A compiled program in its folder.
struct Program {
    file: PathBuf,
    source: String,
    folder: tempfile::TempDir,
}

impl Program {
    fn compile(compiler: &OsStr, source: &str) -> Result<Program> {
        let folder = tempfile::tempdir()?;
        let path = Checkout::find()?.root().join(PROGRAMS).join(source);
        let file = folder.path().join("handles");
        let mut command = Command::new(compiler);
        // Optimized code may have the lines of other statements.
        command.current_dir(folder.path()).args(["-g", "-O0"]);
        run_compiler(command.arg(path).arg("-o").arg(&file))?;
        Ok(Program { file, source: source.to_owned(), folder })
    }

    fn record(&self) -> Result<Recorded> {
        let scratch = self.folder.path().join("scratch");
        Recorded::run(RANKS, &self.file, &[scratch.to_str().context("a path that is no text")?])
    }

    /// Compares the report with what the ranks have printed. Returns the report.
    fn check(&self, job: &Recorded) -> Result<Value> {
        let printed = printed(&job.outcome.stdout)?;
        let report = report(job.traces().as_path())?;
        let found = self.reported(&report)?;
        for (place, numbers) in &printed {
            let seen = found.get(place);
            ensure!(seen == Some(numbers), "{place:?}: {seen:?}, not {numbers:?} in {found:?}");
        }
        let more = found.keys().find(|place| !printed.contains_key(place));
        ensure!(more.is_none(), "{more:?} is not in the program");
        Ok(report)
    }

    fn reported(&self, report: &Value) -> Result<Made> {
        let mut made = Made::new();
        for place in report["handles"].as_array().context("no handles")? {
            let name = place["place"].as_str().unwrap_or("");
            let line = name.split_once(&format!("{}:", self.source)).map(|(_, line)| line);
            let line = line.with_context(|| format!("not in {}: {place}", self.source))?.parse()?;
            let kind = place["kind"].as_str().context("no kind")?.to_owned();
            let number = |name: &str| place[name].as_u64().context(format!("no {name}: {place}"));
            let entry: &mut (u64, u64) = made.entry((kind, line)).or_default();
            *entry = (entry.0 + number("made")?, entry.1 + number("freed")?);
            ensure!(number("alive")? == number("made")? - number("freed")?, "{place}");
            ensure!((1..=number("made")?).contains(&number("alive_peak")?), "{place}");
        }
        Ok(made)
    }
}

/// Returns the sums over the ranks of the numbers that they have printed.
fn printed(text: &str) -> Result<Made> {
    let mut sums = Made::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["made", kind, line, made, freed] = words[..] else { continue };
        let entry = sums.entry((kind.to_owned(), line.parse()?)).or_default();
        *entry = (entry.0 + made.parse::<u64>()?, entry.1 + freed.parse::<u64>()?);
    }
    ensure!(!sums.is_empty(), "nothing was printed: {text}");
    Ok(sums)
}

fn report(traces: &Path) -> Result<Value> {
    Ok(serde_json::from_str(&memprof(&["report", "--json"], traces)?)?)
}

fn memprof(words: &[&str], traces: &Path) -> Result<String> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    let output = command.args(words).arg(traces).output()?;
    ensure!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

fn every_kind_is_counted_by_line_in_c() -> Result<()> {
    let program = Program::compile(&mpicc(), "handles.c")?;
    let job = program.record()?;
    let report = program.check(&job)?;
    let kinds = report["nodes"][0]["ranks"][0]["handles"].as_array().context("no kinds")?;
    let datatypes = kinds.iter().find(|kind| kind["kind"] == "datatype").context("no datatypes")?;
    let sum = |name: &str| {
        let places = report["handles"].as_array().into_iter().flatten();
        let of = places.filter(|place| place["kind"] == "datatype");
        of.filter_map(|place| place[name].as_u64()).sum::<u64>()
    };
    ensure!(datatypes["made"] == sum("made") / RANKS as u64, "{datatypes}");
    ensure!(datatypes["alive"] == sum("alive") / RANKS as u64, "{datatypes}");
    Ok(())
}

fn leaked_datatypes_are_named_with_their_memory() -> Result<()> {
    let program = Program::compile(&mpicc(), "handles.c")?;
    let job = program.record()?;
    let traces = job.traces();
    let text = memprof(&["report"], &traces)?.replace('\n', " ");
    let begins = "10,000 datatypes made at handles.c:";
    let Some((_, sentence)) = text.split_once(begins) else { bail!("no sentence in {text}") };
    let ends =
        "in datatypes, by MPI_Type_vector, in 2 processes, were never freed; they hold about";
    ensure!(sentence.contains(ends), "{sentence}");
    let report = report(&traces)?;
    let mut places = report["handles"].as_array().context("no handles")?.iter();
    let vectors = places.find(|place| place["mpi_function"] == "MPI_Type_vector");
    let vectors = vectors.context("no vectors")?;
    let held: u64 = vectors["held"].as_array().context("no memory")?.iter().filter_map(live).sum();
    // A datatype takes more than 200 and less than 4,000 bytes in any MPI.
    ensure!((2_000_000..40_000_000).contains(&held), "{held} B in {vectors}");
    let page = program.folder.path().join("page.html");
    memprof(&["report", "--html", page.to_str().context("a path that is no text")?], &traces)?;
    let page = std::fs::read_to_string(page)?;
    ensure!(page.contains(begins) && page.contains("MPI_Group_incl"), "not in the page");
    let table = memprof(&["report", "--handles", "100"], &traces)?;
    ensure!(table.contains("persistent request") && table.contains("MPI_File_open"), "{table}");
    Ok(())
}

fn live(held: &Value) -> Option<u64> {
    held["live"].as_u64()
}

fn handles_of_fortran_count_for_lines_of_fortran() -> Result<()> {
    let support = fortran_support().map_err(|reason| Skipped(reason.to_string()))?;
    let f08 = support.mpi_f08.then_some("handles_f08.F90");
    for source in ["handles_mpi.F90"].into_iter().chain(f08) {
        let program = Program::compile(&mpifort(), source)?;
        let job = program.record()?;
        program.check(&job).with_context(|| source.to_owned())?;
    }
    Ok(())
}

quo_tests::suite! {
    every_kind_is_counted_by_line_in_c
    leaked_datatypes_are_named_with_their_memory
    handles_of_fortran_count_for_lines_of_fortran
}
