//! Refusals by the system, and programs into which nothing can be loaded: the program runs as
//! without the profiler, and the missing part is reported.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use memprof_trace::layout::{Class, lost};
use quo_tests::memprof::{Finished, PROGRAMS, Profiled, fake_mpi, preload};
use quo_tests::suite::Skipped;
use quo_tests::{CheckedTrace, Checkout, run_compiler};

const LIMIT: Duration = Duration::from_secs(60);

fn skip(why: &str) -> anyhow::Error {
    Skipped(why.to_owned()).into()
}

/// Runs `memprof` with these arguments.
fn memprof(arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(Checkout::find()?.program("memprof")?);
    Ok(command.args(arguments).output()?)
}

/// Returns the standard error of a run.
fn complaints(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn compile(source: &Path, program: &Path, compiler: &str, flags: &[&str]) -> Result<()> {
    let mut command = Command::new(compiler);
    run_compiler(
        command.args(["-O1", "-fno-builtin"]).arg(source).arg("-o").arg(program).args(flags),
    )
}

/// Compiles a program that holds 20 MiB and prints that.
fn holder(folder: &Path) -> Result<PathBuf> {
    let source = folder.join("holder.c");
    let text = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nint main(void)\n{\n    \
                char *volatile block = malloc(20 << 20);\n    memset(block, 1, 20 << 20);\n    \
                puts(\"held\");\n    free(block);\n    return 0;\n}\n";
    fs::write(&source, text)?;
    Ok(source)
}

/// Runs the interpreter of random programs through a wrapper; it must work as without the profiler.
fn through(wrapper: &[&str], traces: &Path, variables: &[(&str, &str)]) -> Result<Finished> {
    let mut profiled = Profiled::through(wrapper, fake_mpi()?.join("interpreter"), traces)?
        .args(&["--blind", "--programs", "20"]);
    for (name, value) in variables {
        profiled = profiled.env(name, value);
    }
    let finished = profiled.run(LIMIT)?;
    finished.expect_success()?;
    ensure!(finished.stdout.contains("agreed"), "{}", finished.report());
    Ok(finished)
}

/// Runs the program that holds 20 MiB through a wrapper; it must work as without the profiler.
fn holds(wrapper: &[&str], program: &Path, traces: &Path, faults: bool) -> Result<Finished> {
    let profiled = Profiled::through(wrapper, program, traces)?.env("MEMPROF_RECORD", "all");
    let faults = if faults { "1" } else { "0" };
    let finished = profiled.env("MEMPROF_FAULTS", faults).run(LIMIT)?;
    finished.expect_success()?;
    ensure!(finished.stdout == "held\n", "{}", finished.report());
    Ok(finished)
}

/// Returns the notes of a complete trace, or the messages if there is no trace.
fn told(finished: &Finished) -> Result<Vec<String>> {
    match finished.traces.as_slice() {
        [] => Ok(finished.stderr.lines().map(str::to_owned).collect()),
        _ => {
            let checked = CheckedTrace::open(finished.trace()?)?;
            checked.summary()?;
            Ok(checked.notes())
        }
    }
}

fn exhausted_quota_is_reported_and_the_program_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (image, disk) = (folder.path().join("image"), folder.path().join("disk"));
    fs::create_dir(&disk)?;
    fs::File::create(&image)?.set_len(160 << 20)?;
    let formatted = Command::new("mkfs.btrfs").arg("-q").arg(&image).output();
    if !formatted.is_ok_and(|output| output.status.success()) {
        return Err(skip("there is no mkfs.btrfs"));
    }
    let (disk, image) = (disk.display(), image.display());
    let traces = format!("{disk}/part");
    // In a separate namespace nothing needs to be unmounted.
    let mount = format!(
        "mount -o loop {image} {disk} && btrfs -q subvolume create {traces} && \
         btrfs quota enable {disk} && btrfs qgroup limit 2M {traces}"
    );
    let tried = Command::new("unshare").args(["--mount", "sh", "-c", &mount]).output()?;
    if !tried.status.success() {
        return Err(skip("no disk with a quota can be mounted"));
    }
    let report =
        format!("{} report {traces} 2>&1", Checkout::find()?.program("memprof")?.display());
    let mount = format!(
        "mount -o loop {image} {disk} && \"$@\" && ls {traces} && {{ {report}; echo code $?; }}"
    );
    let wrapper = ["unshare", "--mount", "sh", "-c", &mount, "sh"];
    let finished = through(&wrapper, Path::new(&traces), &[])?;
    ensure!(finished.stderr.contains("the quota is used up"), "{}", finished.report());
    // The profiler has left the file by which reports recognise it.
    ensure!(finished.stdout.contains(".122.missing"), "{}", finished.report());
    for word in ["no trace could be made in rank 0: Disk quota exceeded", "code 1"] {
        ensure!(finished.stdout.contains(word), "no `{word}`\n{}", finished.report());
    }
    Ok(())
}

fn folder_of_another_user_is_reported_and_the_program_runs() -> Result<()> {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir()?;
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755))?;
    let program = folder.path().join("holder");
    compile(&holder(folder.path())?, &program, "cc", &[])?;
    // The other user must be able to read it.
    let ours = folder.path().join("libmemprof_preload.so");
    fs::copy(preload()?, &ours)?;
    let other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let tried = Command::new(other[0]).args(&other[1..]).arg(&program).output();
    if !tried.is_ok_and(|output| output.status.success()) {
        return Err(skip("only root can be another user"));
    }
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    fs::set_permissions(&traces, fs::Permissions::from_mode(0o755))?;
    let mut profiled = Profiled::new(other[0], &traces)?.args(&other[1..]).arg("env");
    profiled.command().env_remove("LD_PRELOAD");
    profiled = profiled.arg(format!("LD_PRELOAD={}", ours.display())).arg(&program);
    let finished = profiled.env("MEMPROF_RECORD", "all").run(LIMIT)?;
    finished.expect_success()?;
    ensure!(finished.stdout == "held\n" && finished.traces.is_empty(), "{}", finished.report());
    let said = finished.stderr.lines().filter(|line| line.starts_with("memprof: "));
    let [said] = said.collect::<Vec<_>>()[..] else { anyhow::bail!("{}", finished.report()) };
    ensure!(said.contains("it may not be written"), "{said}");
    let report = memprof(&["report", &traces.display().to_string()])?;
    ensure!(report.status.code() == Some(1), "{}", complaints(&report));
    Ok(())
}

fn limits_on_a_process_are_no_crash() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("holder");
    compile(&holder(folder.path())?, &program, "cc", &[])?;
    // The expected message, if the limit costs anything at all.
    for (number, (limit, said)) in [
        ("--as=400000000", ""),
        ("--data=100000000", ""),
        ("--memlock=0", ""),
        ("--core=0", ""),
        ("--nofile=4", "which pages are resident"),
        ("--stack=131072", "the stack may not be larger than 131072 bytes"),
        ("--fsize=65536", "files may not be that large"),
    ]
    .into_iter()
    .enumerate()
    {
        let traces = folder.path().join(number.to_string());
        fs::create_dir(&traces)?;
        let finished = holds(&["prlimit", limit], &program, &traces, false).context(limit)?;
        let told = told(&finished).context(limit)?;
        let is_said = told.iter().any(|note| note.contains(said));
        ensure!(is_said || said.is_empty() && told.is_empty(), "{limit}: {told:?}");
    }
    Ok(())
}

fn refused_system_calls_cost_only_their_own_findings() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let refusing = folder.path().join("refusing");
    let source = Checkout::find()?.root().join(PROGRAMS).join("refusing.c");
    compile(&source, &refusing, "cc", &[])?;
    let refusing = refusing.display().to_string();
    let program = folder.path().join("holder");
    compile(&holder(folder.path())?, &program, "cc", &[])?;
    for (calls, said) in [
        (&["memfd_create"][..], ""),
        (&["process_vm_readv"], ""),
        (&["ioctl"], ""),
        (&["fallocate"], ""),
        (&["readlinkat"], ""),
        (&["prctl"], ""),
        (&["perf_event_open"], "page faults"),
        (&["clone3", "clone"], "sampling thread"),
    ] {
        let what = calls[0];
        for error in ["EPERM", "ENOSYS"] {
            let traces = folder.path().join(format!("{what}-{error}"));
            fs::create_dir(&traces)?;
            let wrapper = [&[refusing.as_str(), error], calls, &["--"]].concat();
            let faults = what == "perf_event_open";
            let finished = holds(&wrapper, &program, &traces, faults).context(what)?;
            let checked = CheckedTrace::open(finished.trace()?).context(what)?;
            let notes = checked.notes();
            let is_said = notes.iter().any(|note| note.contains(said));
            ensure!(is_said || said.is_empty() && notes.is_empty(), "{what}: {notes:?}");
        }
    }
    Ok(())
}

fn programs_that_nothing_is_loaded_into_run_and_are_named() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = holder(folder.path())?;
    let wide = folder.path().join("wide.S");
    let text = ".globl _start\n_start: mov $1, %eax\n xor %ebx, %ebx\n int $0x80\n";
    fs::write(&wide, text)?;
    let written = |name: &str, text: &str| -> Result<PathBuf> {
        let source = folder.path().join(name);
        fs::write(&source, text)?;
        Ok(source)
    };
    let bare =
        written("bare.S", ".globl _start\n_start: mov $60, %eax\n xor %edi, %edi\n syscall\n")?;
    let go = written("go.go", "package main\nfunc main() {}\n")?;
    let rust = written("rust.rs", "fn main() {}\n")?;
    let mut tried = Vec::new();
    for (name, compiler, flags, source, said) in [
        ("static", "cc", &["-static"][..], &source, "is linked statically"),
        ("musl", "musl-gcc", &[], &source, "uses musl"),
        ("static-musl", "musl-gcc", &["-static"], &source, "without the GNU C library"),
        (
            "bare",
            "cc",
            &["-nostdlib", "-static", "-Wl,--build-id=none"],
            &bare,
            "without the GNU C library",
        ),
        ("go", "go", &["build"], &go, "-linkmode=external"),
        (
            "rust",
            "rustc",
            &["-Copt-level=0", "--target=x86_64-unknown-linux-musl"],
            &rust,
            "unknown-linux-gnu",
        ),
        ("narrow", "cc", &["-m32", "-nostdlib", "-static"], &wide, "another kind of machine"),
    ] {
        let program = folder.path().join(name);
        let made = match compiler {
            "go" | "rustc" => {
                let mut command = Command::new(compiler);
                run_compiler(command.args(flags).arg("-o").arg(&program).arg(source))
            }
            _ => compile(source, &program, compiler, flags),
        };
        if made.is_err() {
            continue;
        }
        let (program, traces) = (program.display().to_string(), folder.path().join("traces"));
        let traces = traces.display().to_string();
        let output = memprof(&["run", "--all", "-o", &traces, "--", &program])?;
        let text = complaints(&output);
        ensure!(output.status.success() && text.contains(said), "{name}: {text}");
        ensure!(!Path::new(&traces).exists(), "{name}: a folder with nothing in it stays");
        tried.push(name);
    }
    ensure!(tried.contains(&"static") || tried.contains(&"musl"), "no compiler makes any");
    Ok(())
}

fn what_cannot_be_run_ends_as_in_a_shell() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = |name: &str, text: &str, mode: u32| -> Result<String> {
        use std::os::unix::fs::PermissionsExt;
        let path = folder.path().join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path.display().to_string())
    };
    let script = file("script", "echo \"$1 and $0\"\nexit 5\n", 0o755)?;
    for (program, status) in [
        ("/nowhere/at/all".to_owned(), 127),
        ("no-command-of-this-name".to_owned(), 127),
        (file("text", "echo no\n", 0o644)?, 126),
        (folder.path().display().to_string(), 126),
        (file("other", "#!/nowhere/interpreter\n", 0o755)?, 127),
        (file("binary", "\x7fELF\0\0\0\0", 0o755)?, 126),
        // Shells run such a file themselves.
        (script.clone(), 5),
        (file("shell", "#!/bin/sh\nexit 6\n", 0o755)?, 6),
    ] {
        let traces = folder.path().join("traces").display().to_string();
        let output = memprof(&["run", "-o", &traces, "--", &program, "one"])?;
        let (ended, text) = (output.status.code(), complaints(&output));
        ensure!(ended == Some(status), "{program}: {ended:?}\n{text}");
        // A shell is recorded like any other process.
        let ran = status < 126;
        let said = if ran { "  1 process on 1 node" } else { "memprof: " };
        ensure!(text.contains(said), "{program}: {text}");
        ensure!(Path::new(&traces).exists() == ran, "{program}: there is a folder, or none");
        if ran {
            fs::remove_dir_all(&traces)?;
        }
        if program == script {
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            ensure!(said == format!("one and {script}\n"), "{said}");
        }
    }
    Ok(())
}

fn bad_components_file_is_reported_once_and_the_program_runs() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join("components");
    let garbage: Vec<u8> = (0..20_000_u32).map(|at| ((at * 7919) >> 3) as u8 | 0x80).collect();
    let huge = b"libz* app.lib:z\n".repeat(200_000);
    for (number, (text, said)) in [
        (&b"libz* app.lib:z\nnonsense\n"[..], &["line 2: a line is"][..]),
        (b"libm* no.such\n*\n", &["line 1: no such class", "line 2: a line is"]),
        (&garbage, &["not text to its end"]),
        (&huge, &["up to its first MiB"]),
    ]
    .into_iter()
    .enumerate()
    {
        fs::write(&file, text)?;
        let traces = folder.path().join(number.to_string());
        fs::create_dir(&traces)?;
        let path = file.display().to_string();
        let finished = through(&["env"], &traces, &[("MEMPROF_COMPONENTS", &path)])?;
        let lines = finished.stderr.lines().filter(|line| line.starts_with("memprof: "));
        ensure!(lines.count() == 1, "{}", finished.report());
        let traces = traces.display().to_string();
        let report = memprof(&["report", &traces])?;
        let report = String::from_utf8_lossy(&report.stdout).into_owned();
        for said in said {
            ensure!(report.matches(said).count() == 1, "not once `{said}` in\n{report}");
        }
    }
    Ok(())
}

/// Returns the trace of a program with these lines in the file of components, and the report's
/// lines on it.
fn named(program: &Path, lines: &str) -> Result<(CheckedTrace, String)> {
    let folder = tempfile::tempdir()?;
    let (file, traces) = (folder.path().join("components"), folder.path().join("traces"));
    fs::write(&file, lines)?;
    fs::create_dir(&traces)?;
    let profiled = Profiled::new(program, &traces)?.env("MEMPROF_RECORD", "all");
    let profiled = profiled.env("MEMPROF_COMPONENTS", file.display().to_string());
    let finished = profiled.run(LIMIT)?;
    ensure!(finished.expect_success()?.stderr.is_empty(), "{}", finished.report());
    let report = memprof(&["report", "--all", &traces.display().to_string()])?;
    let said = String::from_utf8_lossy(&report.stdout).into_owned();
    Ok((CheckedTrace::open(finished.trace()?)?, said))
}

fn a_file_of_components_decides_what_objects_are_called() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = folder.path().join("holder");
    compile(&holder(folder.path())?, &program, "cc", &[])?;
    let of_libraries = |class| class == Class::AppLibrary;
    let (plain, said) = named(&program, "")?;
    ensure!(said.contains("system:libc") && plain.peak(of_libraries) == 0, "{said}");
    let (library, said) = named(&program, "# ours\nlibc.so* app.lib:everybodys\n")?;
    ensure!(said.contains("app.lib:everybodys") && !said.contains("system:libc"), "{said}");
    ensure!(library.peak(of_libraries) >= 1 << 20, "{said}");
    // The program's blocks are assigned with it.
    let (program, said) = named(&program, "holder app.lib:work\n")?;
    let owned = program.owned_peak(of_libraries)?;
    ensure!(said.contains("app.lib:work") && owned >= 20 << 20, "{owned} B\n{said}");
    Ok(())
}

fn components_file_decides_what_an_mpi_library_is() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = fake_mpi()?.join("interpreter").display().to_string();
    let (file, traces) = (folder.path().join("components"), folder.path().join("traces"));
    let (file, traces) = (file.display().to_string(), traces.display().to_string());
    let mut peaks = Vec::new();
    for lines in ["", "libfakempi.so* mpi.dep:regrouped\n", "libfakempi.so* app.lib:regrouped\n"] {
        fs::write(&file, lines)?;
        let mut command = Command::new(Checkout::find()?.program("memprof")?);
        command.args(["run", "--components", &file, "-o", &traces, "--", &program]);
        command.args(["--blind", "--programs", "50"]).env("PMI_RANK", "0").env("PMI_SIZE", "1");
        let output = command.output()?;
        ensure!(output.status.success(), "{}", complaints(&output));
        let report = memprof(&["report", "--all", &traces])?;
        let said = String::from_utf8_lossy(&report.stdout).into_owned();
        let [trace] = &quo_tests::memprof::traces_in(Path::new(&traces))?[..] else {
            anyhow::bail!("not one trace\n{said}");
        };
        let checked = CheckedTrace::open(trace)?;
        let names: Vec<String> =
            (0..checked.summary()?.rows.len()).map(|at| checked.trace.component_name(at)).collect();
        let name = lines.split_whitespace().nth(1).unwrap_or("mpi.core:libfakempi.so");
        ensure!(names.iter().any(|other| other == name) && said.contains(name), "{name}: {said}");
        let before = "mpi.core:libfakempi.so";
        ensure!(lines.is_empty() || !said.contains(before), "{before} is still there\n{said}");
        peaks.push(checked.owned_peak(|class| class == Class::AppLibrary)?);
        fs::remove_dir_all(&traces)?;
    }
    // MPI's memory is the application's here.
    ensure!(peaks[0] == peaks[1] && peaks[2] > peaks[0], "{peaks:?}");
    Ok(())
}

/// More mapped files than a trace has rows for: the summary and the report count the files without
/// a row.
fn what_finds_no_room_is_counted_and_said_once() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("many.c"), folder.path().join("many"));
    let text = "#define _GNU_SOURCE\n#include <stdio.h>\n#include <sys/mman.h>\n#include <unistd.h>\n\
                int main(void)\n{\n    for (int at = 0; at < 400; at++) {\n        \
                int file = memfd_create(\"part\", 0);\n        \
                if (file < 0 || ftruncate(file, 4096) != 0) return 1;\n        \
                char *part = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);\n        \
                if (part == MAP_FAILED) return 2;\n        *part = 1;\n        close(file);\n    }\n    \
                puts(\"held\");\n    return 0;\n}\n";
    fs::write(&source, text)?;
    compile(&source, &program, "cc", &[])?;
    let traces = folder.path().join("traces");
    fs::create_dir(&traces)?;
    let finished = holds(&["env"], &program, &traces, false)?;
    let checked = CheckedTrace::open(finished.trace()?)?;
    let lost = checked.summary()?.head.lost[lost::SEGMENTS];
    // There are 256 rows, and the program has also mapped its libraries and the trace.
    ensure!((145..200).contains(&lost), "{lost} found no room\n{}", checked.table());
    let said = checked.notes();
    let count = said.iter().filter(|note| note.contains("more mapped files")).count();
    ensure!(count == 1, "{said:?}");
    let report = memprof(&["report", "--json", &traces.display().to_string()])?;
    let report: serde_json::Value = serde_json::from_slice(&report.stdout)?;
    let told = &report["nodes"][0]["ranks"][0]["lost"];
    ensure!(*told == serde_json::json!([{ "table": "segments", "count": lost }]), "{told}");
    Ok(())
}

fn programs_under_each_sanitizer_run_and_are_said() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = holder(folder.path())?;
    let mut tried = 0;
    for (name, says) in [
        ("address", "AddressSanitizer"),
        ("thread", "ThreadSanitizer"),
        ("leak", "LeakSanitizer"),
        ("undefined", ""),
    ] {
        let program = folder.path().join(name);
        let flag = format!("-fsanitize={name}");
        if compile(&source, &program, "cc", &[&flag]).is_err() {
            continue;
        }
        let (program, traces) = (program.display().to_string(), folder.path().join("traces"));
        // Some programs cannot run in every address space, with or without the profiler.
        if !Command::new(&program).output()?.status.success() {
            continue;
        }
        let traces = traces.display().to_string();
        let output = memprof(&["run", "--all", "-o", &traces, "--", &program])?;
        let text = complaints(&output);
        ensure!(output.status.success() && output.stdout == b"held\n", "{name}: {text}");
        ensure!(text.contains(says) && text.contains("balance:"), "{name}: {text}");
        ensure!(!text.contains("WARNING"), "{name}: {text}");
        fs::remove_dir_all(&traces)?;
        tried += 1;
    }
    if tried == 0 { Err(skip("the compiler has no sanitizer")) } else { Ok(()) }
}

fn allocators_that_are_preloaded_or_linked_keep_their_work() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = holder(folder.path())?;
    let plain = folder.path().join("plain");
    compile(&source, &plain, "cc", &[])?;
    let mut tried = 0;
    for library in ["libjemalloc.so.2", "libtcmalloc_minimal.so.4", "libmimalloc.so.2"] {
        let places = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
        let found = places.iter().map(|place| Path::new(place).join(library));
        let Some(library) = found.into_iter().find(|file| file.exists()) else { continue };
        let library = library.display().to_string();
        let linked = folder.path().join("linked");
        compile(&source, &linked, "cc", &["-Wl,--no-as-needed", &library])?;
        for (program, preloaded) in [(&plain, true), (&linked, false)] {
            let traces = folder.path().join("traces");
            fs::create_dir(&traces)?;
            let mut both = preload()?.display().to_string();
            if preloaded {
                both += &format!(":{library}");
            }
            let profiled = Profiled::new(program, &traces)?.env("LD_PRELOAD", both);
            let finished = profiled.env("MEMPROF_RECORD", "all").run(LIMIT)?;
            finished.expect_success()?;
            let checked = CheckedTrace::open(finished.trace()?)?;
            let owned = checked.owned_peak(quo_tests::APPLICATION)?;
            ensure!(owned >= 20 << 20, "{library}: {owned} B\n{}", checked.table());
            fs::remove_dir_all(&traces)?;
            tried += 1;
        }
    }
    if tried == 0 { Err(skip("there is no other allocator")) } else { Ok(()) }
}

quo_tests::suite! {
    exhausted_quota_is_reported_and_the_program_runs
    folder_of_another_user_is_reported_and_the_program_runs
    limits_on_a_process_are_no_crash
    refused_system_calls_cost_only_their_own_findings
    programs_that_nothing_is_loaded_into_run_and_are_named
    what_cannot_be_run_ends_as_in_a_shell
    bad_components_file_is_reported_once_and_the_program_runs
    a_file_of_components_decides_what_objects_are_called
    components_file_decides_what_an_mpi_library_is
    what_finds_no_room_is_counted_and_said_once
    programs_under_each_sanitizer_run_and_are_said
    allocators_that_are_preloaded_or_linked_keep_their_work
}
