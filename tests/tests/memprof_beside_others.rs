//! The memory profiler's figures of a program compared with those of the kernel, the C library and
//! heaptrack.
#![allow(clippy::print_stdout)] // Its output is for the user that runs the tests.

use std::collections::HashMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memprof_trace::layout::Class;
use quo_tests::memprof::{PROGRAMS, Profiled, traces_in};
use quo_tests::suite::Skipped;
use quo_tests::{CheckedTrace, Checkout, run_compiler, until};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const LIMIT: Duration = Duration::from_secs(60);
const PAGE: u64 = 4096;

fn compile(folder: &Path) -> Result<PathBuf> {
    let root = Checkout::find()?.root().to_path_buf();
    let program = folder.join("known-blocks");
    let mut command = Command::new("cc");
    command.args(["-std=gnu11", "-O0", "-g", "-Wall", "-Wextra", "-Werror"]);
    command.arg("-I").arg(root.join("memprof/api/include"));
    command.arg(root.join(PROGRAMS).join("known_blocks.c")).arg("-o").arg(&program).arg("-ldl");
    run_compiler(&mut command)?;
    Ok(program)
}

/// Returns the numbers that the program prints, by the words before them.
fn numbers(said: &str) -> Result<HashMap<String, u64>> {
    let line = said.lines().find(|line| line.starts_with("asked")).context("it says nothing")?;
    let words: Vec<&str> = line.split_whitespace().collect();
    words.chunks(2).map(|pair| Ok((pair[0].to_owned(), pair[1].parse()?))).collect()
}

/// A FIFO as standard input keeps the program at rest until it is written to.
fn resident_equals_smaps_rollup_of_a_process_at_rest() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let gate = folder.path().join("gate");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &gate,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
        0,
    )?;
    // Both ends are opened at once, so that neither open blocks.
    let mut gate = fs::File::options().read(true).write(true).open(&gate)?;
    // Input that the program reads before it is sampled.
    gate.write_all(b"\n")?;
    let mut profiled = Profiled::new(compile(folder.path())?, &traces)?
        .env("MEMPROF_RECORD", "all")
        .env("MEMPROF_MAX_OVERHEAD", "100");
    let (stdout, stderr) = (folder.path().join("out"), folder.path().join("err"));
    let command = profiled.command();
    command.stdin(gate.try_clone()?);
    command.stdout(fs::File::create(&stdout)?).stderr(fs::File::create(&stderr)?);
    let mut child = Guard(command.spawn()?);
    until(LIMIT, "it says that it is ready", || {
        ensure!(child.0.try_wait()?.is_none(), "{}", fs::read_to_string(&stderr)?);
        Ok(fs::read_to_string(&stdout)?.contains("ready"))
    })?;
    let pid = Pid::from_child(&child.0);
    kill_process(pid, Signal::STOP)?;
    // Returns when all threads are stopped.
    waitpid(Some(pid), WaitOptions::UNTRACED)?;
    let text = fs::read_to_string(format!("/proc/{}/smaps_rollup", child.0.id()))?;
    let line = text.lines().find(|line| line.starts_with("Rss:")).context("no line")?;
    let kernel = line.split_whitespace().nth(1).context("no number")?.parse::<u64>()? * 1024;
    let file = traces_in(&traces)?.pop().context("no trace")?;
    let checked = CheckedTrace::open(&file)?;
    let (last, rows) = checked.full().last().context("no sample")?;
    // Page tables belong to the kernel, which does not count them as resident.
    let found = last.walked - checked.resident(rows, |class| class == Class::Kernel);
    let off = found.abs_diff(kernel);
    println!("{found} B found, {kernel} B in smaps_rollup");
    // The profiler's own memory: pages of its file that it writes to after a look.
    ensure!(off <= 4 * PAGE, "{found} B found, {kernel} B in smaps_rollup\n{}", checked.table());
    kill_process(pid, Signal::CONT)?;
    gate.write_all(b"\n")?;
    ensure!(child.0.wait()?.success(), "{}", fs::read_to_string(&stderr)?);
    Ok(())
}

struct Guard(std::process::Child);

impl Drop for Guard {
    fn drop(&mut self) {
        let _already_ended = self.0.kill();
        let _already_waited = self.0.wait();
    }
}

/// A block of the C library has the requested length, the profiler's eight bytes and the library's
/// own, rounded to sixteen.
fn owned_is_what_mallinfo2_says_but_for_its_headers() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let program = compile(folder.path())?;
    let profiled = Profiled::new(&program, &traces)?.env("MEMPROF_RECORD", "all");
    let finished = profiled.start("\n")?.finish(LIMIT)?;
    let with = numbers(&finished.expect_success()?.stdout)?;
    ensure!(with["owned"] == with["asked"], "{}", finished.report());
    let overhead = with["mallinfo"].checked_sub(with["owned"]).context("less than owned")?;
    // 8 bytes of the profiler, 8 or 16 of the library, up to 15 of rounding and 16 that are too few
    // for a block; large blocks are whole pages.
    let most = (with["blocks"] - 4) * (8 + 16 + 15 + 16) + 4 * (PAGE + 24);
    ensure!(
        (with["blocks"] * 16..=most).contains(&overhead),
        "{overhead} B\n{}",
        finished.report()
    );

    let plain = Command::new(&program).stdin(Stdio::null()).output()?;
    let without = numbers(std::str::from_utf8(&plain.stdout)?)?;
    let more = with["mallinfo"].abs_diff(without["mallinfo"]);
    println!("{overhead} B beside what is owned; {more} B more than without the profiler");
    // The tags, as visible after rounding.
    ensure!(more <= with["blocks"] * 16 + 4 * PAGE, "{more} B more than without the profiler");
    Ok(())
}

/// Returns the peak in the output of `heaptrack_print`, in bytes. It is printed in powers of a
/// thousand with two digits.
fn peak_of(said: &str) -> Result<f64> {
    let line = said.lines().find(|line| line.starts_with("peak heap memory consumption:"));
    let text = line.and_then(|line| line.split_whitespace().last()).context("no peak")?;
    let (number, unit) = text.split_at(text.len() - 1);
    let factor = match unit {
        "B" => 1.0,
        "K" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        _ => anyhow::bail!("the unit of {text}"),
    };
    Ok(number.parse::<f64>()? * factor)
}

fn the_peak_is_that_of_heaptrack() -> Result<()> {
    for tool in ["heaptrack", "heaptrack_print"] {
        if Command::new(tool).arg("--version").output().is_err() {
            return Err(Skipped(format!("there is no {tool}")).into());
        }
    }
    let folder = tempfile::tempdir()?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let program = compile(folder.path())?;
    let into = folder.path().join("track");
    let mut track = Command::new("heaptrack");
    track.arg("-o").arg(&into).arg(&program).stdin(Stdio::null());
    run_compiler(track.current_dir(folder.path()))?;
    let mut files = fs::read_dir(folder.path())?.filter_map(Result::ok).map(|entry| entry.path());
    let is_track = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("track."))
    };
    let file = files.find(is_track).context("heaptrack wrote nothing")?;
    let output = Command::new("heaptrack_print").arg(&file).output()?;
    let theirs = peak_of(&String::from_utf8_lossy(&output.stdout))?;

    let profiled = Profiled::new(&program, &traces)?.env("MEMPROF_RECORD", "all");
    let finished = profiled.start("\n")?.finish(LIMIT)?;
    let checked = CheckedTrace::open(finished.expect_success()?.trace()?)?;
    let ours = checked.owned_peak(|_| true)? as f64;
    println!("{ours} B, and {theirs} B by heaptrack");
    // heaptrack prints two digits, and memprof also counts mappings and what libraries have at
    // their start.
    ensure!((ours - theirs).abs() < 0.01 * theirs, "{ours} B and {theirs} B\n{}", checked.table());
    Ok(())
}

quo_tests::suite! {
    resident_equals_smaps_rollup_of_a_process_at_rest
    owned_is_what_mallinfo2_says_but_for_its_headers
    the_peak_is_that_of_heaptrack
}
