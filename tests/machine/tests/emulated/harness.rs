//! The host's side: the machine to boot, the expected results, and the usual test output.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_machine::{Accelerator, Ending, Machine, Shape, Task};
use quo_tests::{Checkout, Selection};
use tempfile::TempDir;

use crate::programs::FOLDER;
use crate::{lives, runner};

/// Shapes booted in every run.
const SHAPES: &[&str] = &["two-packages", "smt", "four-numa-nodes", "memory-without-cpus"];
/// Shapes booted on request.
const MORE_SHAPES: &[&str] = &["one-core"];

/// Limit for everything on one shape.
const LIMIT: Duration = Duration::from_secs(900);
const FULL_LIMIT: Duration = Duration::from_secs(3600);

/// Verdict on a test: an error has the complaints.
type Verdict = Result<String, String>;

pub fn run(selection: &Selection) -> ExitCode {
    let full = std::env::var("QUO_MACHINE_SUITE").is_ok_and(|suite| suite == "full");
    let shapes = if full { [SHAPES, MORE_SHAPES].concat() } else { SHAPES.to_vec() };
    let mut chosen: Vec<(&str, Vec<String>)> = Vec::new();
    for shape in shapes {
        let names = runner::names(shape, full).into_iter();
        let wanted = names.filter(|name| selection.wants(&title(shape, name)));
        chosen.push((shape, wanted.map(str::to_owned).collect()));
    }
    chosen.retain(|(_, names)| !names.is_empty());
    let lives: Vec<&lives::Check> =
        lives::CHECKS.iter().filter(|(name, _)| selection.wants(&life(name))).collect();
    let shaped =
        chosen.iter().flat_map(|(shape, names)| names.iter().map(|name| title(shape, name)));
    let titles: Vec<String> = lives.iter().map(|(name, _)| life(name)).chain(shaped).collect();
    if selection.is_listing() {
        titles.iter().for_each(|title| println!("{title}: test"));
        return ExitCode::SUCCESS;
    }
    let count = titles.len();
    println!("\nrunning {count} tests");
    let cache = match cache() {
        Ok(cache) => cache,
        Err(reason) => return skip(&titles, &format!("{reason:#}")),
    };
    let folder = match compiled_programs(&cache, full) {
        Ok(folder) => folder,
        Err(error) => {
            println!("{error:#}\ntest result: FAILED. 0 passed; {count} failed; 0 ignored");
            return ExitCode::FAILURE;
        }
    };
    let start = Instant::now();
    let (mut failed, mut skipped) = (0, 0);
    for (name, check) in lives {
        let start = Instant::now();
        let outcome = check(&cache);
        let seconds = start.elapsed().as_secs_f64();
        let title = life(name);
        match outcome {
            Ok(()) => println!("test {title} ... ok ({seconds:.1} s)"),
            Err(error) if error.is::<lives::Skipped>() => {
                println!("test {title} ... ignored: {error}");
                skipped += 1;
            }
            Err(error) => {
                println!("{error:#}\ntest {title} ... FAILED");
                failed += 1;
            }
        }
    }
    for (shape, names) in &chosen {
        let mut report = Report { shape, lines: BTreeMap::new(), waiting: String::new() };
        let trouble = boot(shape, names, &cache, folder.path(), full, &mut report).err();
        for name in names {
            let verdict = match (report.lines.get(name), &trouble) {
                (Some(verdict), _) => verdict.clone(),
                (None, Some(error)) => Err(format!("{error:#}")),
                (None, None) => Err("the machine said nothing of it".to_owned()),
            };
            failed += usize::from(verdict.is_err());
            match verdict {
                Ok(time) => println!("test {} ... ok {time}", title(shape, name)),
                Err(text) => println!("{text}\ntest {} ... FAILED", title(shape, name)),
            }
        }
    }
    let word = if failed == 0 { "ok" } else { "FAILED" };
    let seconds = start.elapsed().as_secs_f64();
    println!(
        "\ntest result: {word}. {} passed; {failed} failed; {skipped} ignored; \
         finished in {seconds:.1}s\n",
        count - failed - skipped
    );
    ExitCode::from(u8::from(failed > 0))
}

fn title(shape: &str, name: &str) -> String {
    format!("{}::{name}", shape.replace('-', "_"))
}

fn life(name: &str) -> String {
    format!("machine::{name}")
}

/// Returns the kernel's folder, with the kernel in it.
fn cache() -> Result<PathBuf> {
    if let Some(reason) = quo_machine::missing() {
        anyhow::bail!(reason);
    }
    let executable = std::env::current_exe()?;
    // <build folder>/debug/deps/<this program>
    let build = executable.ancestors().nth(3).context("not in a build folder")?;
    let cache = build.join("machine");
    quo_machine::prepare(&cache)?;
    Ok(cache)
}

fn skip(titles: &[String], reason: &str) -> ExitCode {
    let reason = reason.replace('\n', " ");
    for title in titles {
        println!("test {title} ... ignored: {reason}");
    }
    println!("\ntest result: ok. 0 passed; 0 failed; {} ignored\n", titles.len());
    ExitCode::SUCCESS
}

/// Output of the runner in the machine.
struct Report<'a> {
    shape: &'a str,
    lines: BTreeMap<String, Verdict>,
    waiting: String,
}

impl std::io::Write for Report<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.waiting.push_str(&String::from_utf8_lossy(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Report<'_> {
    /// The complaints of a check are printed above its line.
    fn read(&mut self) {
        let mut above = Vec::new();
        for line in self.waiting.lines() {
            let verdict = line.strip_prefix("test ").and_then(|rest| rest.split_once(" ... "));
            match verdict {
                Some((name, ending)) => {
                    let verdict = match ending.strip_prefix("ok ") {
                        Some(time) => Ok(time.to_owned()),
                        None => Err(format!("on {}:\n{}", self.shape, above.join("\n"))),
                    };
                    self.lines.insert(name.to_owned(), verdict);
                    above.clear();
                }
                None => above.push(line),
            }
        }
    }
}

fn boot(
    shape: &str,
    names: &[String],
    cache: &Path,
    programs: &Path,
    full: bool,
    report: &mut Report<'_>,
) -> Result<()> {
    let executable = std::env::current_exe()?;
    let build = executable.ancestors().nth(2).context("not in a build folder")?;
    let mut words = vec![executable.clone().into_os_string(), "--inside".into(), shape.into()];
    words.extend(names.iter().map(Into::into));
    let task =
        Task::here(words)?.with_programs_in(build).env("TMPDIR", "/tmp").env(FOLDER, programs);
    let machine = Machine::new(Shape::named(shape)?, cache.to_owned())
        .accelerator(Accelerator::from_environment()?)
        .limit(if full { FULL_LIMIT } else { LIMIT });
    let mut complaints = Vec::new();
    let ending = machine.run(&task, report, &mut complaints);
    report.read();
    let complaints = String::from_utf8_lossy(&complaints);
    let ending = ending.with_context(|| format!("on {shape}: {complaints}"))?;
    ensure!(
        ending == Ending::Exited(0) || report.lines.values().any(Result::is_err),
        "on {shape}: {ending:?}\n{}\n{complaints}",
        report.waiting
    );
    Ok(())
}

/// Compiles the C programs of the checks; the machine has a compiler too, but is slow.
fn compiled_programs(cache: &Path, full: bool) -> Result<TempDir> {
    let checkout = Checkout::find()?;
    // Not in the folder for temporary files, which may be hidden by the machine's own.
    let folder = tempfile::Builder::new().prefix("programs-").tempdir_in(cache)?;
    let source = "tests/machine/tests/emulated/openmp_pool.c";
    checkout.compile_c(source, folder.path(), &["-fopenmp"])?;
    if full {
        let (source, target) = (checkout.root().join("bindings-c/tests"), folder.path().join("c"));
        std::fs::create_dir(&target)?;
        for entry in std::fs::read_dir(source)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "c") {
                let name = format!("bindings-c/tests/{}", entry_name(&path));
                checkout.compile_c(&name, &target, &["-pthread"])?;
            }
        }
    }
    Ok(folder)
}

fn entry_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}
