//! Memory that programs take through pointers to functions counts for the code that calls them, in
//! C and through Python's ctypes; where it cannot, the trace names the code and the function.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::memprof::{PROGRAMS, Profiled, preload};
use quo_tests::suite::Skipped;
use quo_tests::{CheckedTrace, Checkout, run_compiler};

const LIMIT: Duration = Duration::from_secs(100);

/// Bytes that each program keeps.
const KEPT: u64 = 40 << 19;

/// Takes as much memory as the program in C, by the functions of the handle that it is given.
const SCRIPT: &str = "
import ctypes, sys
library = ctypes.CDLL(sys.argv[1] or None)
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
for size, count in (2048, 5120), (1 << 19, 20):
    for _ in range(count):
        library.free(library.malloc(size))
        ctypes.memset(library.malloc(size), 1, size)
";

fn compile(folder: &Path) -> Result<PathBuf> {
    let source = Checkout::find()?.root().join(PROGRAMS).join("by_pointer.c");
    let (library, program) = (folder.join("libtakes.so"), folder.join("by_pointer"));
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-g", "-fno-builtin", "-shared", "-fPIC", "-DLIBRARY"]);
    run_compiler(compiler.arg(&source).arg("-o").arg(&library))?;
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-g", "-fno-builtin"]).arg(&source).arg(&library);
    compiler.arg(format!("-Wl,-rpath,{}", folder.display())).arg("-o").arg(&program);
    run_compiler(compiler.arg("-ldl"))?;
    Ok(program)
}

/// Returns the bytes that components with this part in their names own at the end.
fn owned(trace: &CheckedTrace, part: &str) -> Result<u64> {
    let rows = &trace.summary()?.rows;
    let is_named = |at: &usize| trace.trace.component_name(*at).contains(part);
    Ok((0..rows.len()).filter(is_named).map(|at| rows[at].owned).sum())
}

fn unattributed(trace: &CheckedTrace) -> Result<u64> {
    Ok(trace.summary()?.head.unattributed)
}

fn blocks_through_pointers_count_for_the_code_that_calls() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    for (way, owner) in [
        ("handle", "app.exe:by_pointer"),
        ("plain", "app.exe:by_pointer"),
        ("table", "app.lib:libtakes.so"),
    ] {
        let traces = tempfile::tempdir_in(folder.path())?;
        let profiled = Profiled::new(&program, traces.path())?.env("MEMPROF_RECORD", "all");
        let finished = profiled.arg(way).run(LIMIT)?;
        let one = CheckedTrace::open(finished.expect_success()?.trace()?)?;
        let owned = owned(&one, owner)?;
        ensure!(
            (KEPT - (1 << 19)..KEPT + (1 << 20)).contains(&owned),
            "{owned} B\n{}",
            one.table()
        );
        ensure!(unattributed(&one)? < 1 << 20, "{way}\n{}", one.table());
        ensure!(!one.notes().iter().any(|note| note.contains("dlsym")), "{:?}", one.notes());
    }
    Ok(())
}

/// Returns a Python in which ctypes calls through a libffi that is a separate object.
fn python() -> Result<PathBuf> {
    let mut places = Vec::new();
    for name in ["python3", "/usr/bin/python3"] {
        let ask =
            "import sys, ctypes; print(sys.executable); print(open('/proc/self/maps').read())";
        let Ok(output) = Command::new(name).args(["-c", ask]).output() else { continue };
        let text = String::from_utf8_lossy(&output.stdout);
        if text.contains("libffi") && text.contains("_ctypes") {
            places.extend(text.lines().next().map(PathBuf::from));
        }
    }
    let found = places.into_iter().next();
    found.ok_or_else(|| Skipped("no python3 has a libffi that is a library".to_owned()).into())
}

fn blocks_through_ctypes_count_for_the_frame_above_libffi() -> Result<()> {
    let python = python()?;
    let folder = tempfile::tempdir()?;
    for handle in ["", "libc.so.6"] {
        let traces = tempfile::tempdir_in(folder.path())?;
        let profiled = Profiled::new(&python, traces.path())?.args(&["-c", SCRIPT, handle]);
        let finished = profiled.env("MEMPROF_RECORD", "all").run(LIMIT)?;
        let one = CheckedTrace::open(finished.expect_success()?.trace()?)?;
        let owned = [owned(&one, "app.lib:_ctypes")?, owned(&one, "libffi")?];
        ensure!((KEPT..KEPT + (1 << 20)).contains(&owned[0]), "{owned:?}\n{}", one.table());
        ensure!(owned[1] == 0, "{owned:?}\n{}", one.table());
        ensure!(unattributed(&one)? < 1 << 20, "{handle}\n{}", one.table());
        ensure!(!one.notes().iter().any(|note| note.contains("dlsym")), "{:?}", one.notes());
    }
    Ok(())
}

/// The program calls another preloaded object's malloc by name, so the C library's stays out of
/// reach: blocks of both would be mixed.
fn blocks_behind_another_allocator_have_no_owner_and_a_note() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let other = folder.path().join("libother.so");
    let source = Checkout::find()?.root().join(PROGRAMS).join("other_preload.c");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-shared", "-fPIC"]).arg(source).arg("-o").arg(&other);
    run_compiler(compiler.arg("-ldl"))?;
    let traces = tempfile::tempdir_in(folder.path())?;
    let both = format!("{} {}", preload()?.display(), other.display());
    let profiled = Profiled::new(&program, traces.path())?.env("LD_PRELOAD", both).arg("plain");
    let finished = profiled.env("MEMPROF_RECORD", "all").run(LIMIT)?;
    let one = CheckedTrace::open(finished.expect_success()?.trace()?)?;
    let owned = owned(&one, "app.exe:by_pointer")?;
    ensure!(owned < KEPT / 4, "{owned} B\n{}", one.table());
    let note = "by_pointer takes malloc of libc.so.6 by dlsym: its blocks there have no owner";
    let notes = one.notes();
    ensure!(notes.iter().any(|found| found == note), "{notes:?}");
    ensure!(!finished.stderr.contains("memprof: "), "{}", finished.report());
    let mut report = Command::new(Checkout::find()?.program("memprof")?);
    let report = report.arg("report").arg(traces.path()).output().context("memprof report")?;
    let text = String::from_utf8(report.stdout)?.replace('\n', " ");
    ensure!(text.contains("by dlsym: its blocks there have no owner"), "{text}");
    Ok(())
}

quo_tests::suite! {
    blocks_through_pointers_count_for_the_code_that_calls
    blocks_through_ctypes_count_for_the_frame_above_libffi
    blocks_behind_another_allocator_have_no_owner_and_a_note
}
