//! Programs run under the ledger as they do without it.

use quo_tests::suite::skip;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Path of cargo's build of the object that programs load.
fn preload() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test.parent().and_then(Path::parent).expect("a build folder");
    let object = folder.join("libmemprof_preload.so");
    assert!(object.exists(), "{} is missing: build the workspace first", object.display());
    object
}

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().expect("a folder for this test")
}

/// Compiles a program of this folder; skips the test without the compiler.
fn compiled(into: &Path, compiler: &str, source: &str, options: &[&str]) -> PathBuf {
    let program = into.join(Path::new(source).with_extension(""));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(source);
    let status = Command::new(compiler).args(options).arg("-o").arg(&program).arg(source).status();
    match status {
        Ok(status) => {
            assert!(status.success(), "{compiler} failed");
            program
        }
        Err(_) => skip(format!("there is no {compiler}")),
    }
}

/// Runs a command to its end, with a limit of one minute.
fn run(command: &mut Command) -> Output {
    use std::process::Stdio;
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program starts");
    let (to, from) = std::sync::mpsc::channel();
    let pid = i32::try_from(child.id()).expect("a process number");
    let watcher = std::thread::spawn(move || {
        let end = Instant::now() + Duration::from_secs(60);
        if from.recv_timeout(end - Instant::now()).is_err() {
            let _ = Command::new("kill").args(["-9", &pid.to_string()]).status();
        }
    });
    let mut out = Vec::new();
    let mut err = Vec::new();
    let stderr = child.stderr.take();
    let reader = std::thread::spawn(move || {
        use std::io::Read;
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_end(&mut err);
        }
        err
    });
    if let Some(mut stdout) = child.stdout.take() {
        use std::io::Read;
        let _ = stdout.read_to_end(&mut out);
    }
    let status = child.wait().expect("the program ends");
    let _ = to.send(());
    let _ = watcher.join();
    Output { status, stdout: out, stderr: reader.join().expect("the reader ends") }
}

/// Runs a command without and with the ledger, and compares its output and its end.
fn same_with_and_without(program: &str, arguments: &[&str], folder: &Path) {
    same_with(program, arguments, folder, &[]);
}

/// Runs a program as a rank whose trace is written to a folder.
fn same_as_a_rank(program: &str, arguments: &[&str], folder: &Path) {
    let traces = self::folder();
    let traces = traces.path().to_string_lossy().into_owned();
    for how in [("PMI_RANK", "0"), ("MEMPROF_RECORD", "all")] {
        let variables = [("MEMPROF_DIR", &*traces), ("MEMPROF_QUIET", "1"), how];
        same_with(program, arguments, folder, &variables);
    }
}

fn same_with(program: &str, arguments: &[&str], folder: &Path, variables: &[(&str, &str)]) {
    if Command::new("sh")
        .args(["-c", "command -v -- \"$0\"", program])
        .output()
        .is_ok_and(|output| !output.status.success())
    {
        skip(format!("there is no {program}"));
    }
    let command = || {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        command
    };
    let without = run(&mut command());
    let with = run(command().env("LD_PRELOAD", preload()).envs(variables.iter().copied()));
    let text = |output: &Output| {
        let of = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (of(&output.stdout), of(&output.stderr), output.status)
    };
    assert_eq!(text(&with), text(&without), "{program} {arguments:?} {variables:?}");
}

fn blocks_are_mapped_from_the_same_size_as_without_tool() {
    let folder = folder();
    let program = compiled(folder.path(), "cc", "thresholds.c", &[]);
    let program = program.to_string_lossy();
    same_with_and_without(&program, &[], folder.path());
    same_as_a_rank(&program, &[], folder.path());
}

fn every_context_of_a_cxx_program_works() {
    let folder = folder();
    for compiler in ["g++", "clang++"] {
        let options =
            ["-std=c++17", "-fsized-deallocation", "-O1", "-g", "-pthread", "-fno-builtin", "-w"];
        let program = compiled(folder.path(), compiler, "contexts.cpp", &options);
        let output = run(Command::new(program).env("LD_PRELOAD", preload()));
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{:?}: {said}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "all right\n", "{said}");
    }
}

fn a_program_with_operators_of_its_own_keeps_them() {
    let folder = folder();
    let program = compiled(folder.path(), "g++", "own_operators.cpp", &["-O1", "-w"]);
    same_with_and_without(&program.to_string_lossy(), &[], folder.path());
}

fn a_program_with_an_allocator_of_its_own_keeps_it() {
    let folder = folder();
    let program = compiled(folder.path(), "g++", "own_allocator.cpp", &["-O1", "-w"]);
    same_with_and_without(&program.to_string_lossy(), &[], folder.path());
}

/// Compiles a library of this folder for programs that are compiled with the returned options.
fn library(into: &Path, source: &str) -> [String; 3] {
    let object = compiled(into, "cc", source, &["-O1", "-shared", "-fPIC", "-pthread"]);
    let path = object.to_string_lossy().into_owned();
    ["-Wl,--no-as-needed".into(), path, "-pthread".into()]
}

fn library_may_have_ended_its_threads_before_a_fork() {
    let folder = folder();
    let options = library(folder.path(), "handlers.c");
    let options = options.each_ref().map(String::as_str);
    let program = compiled(folder.path(), "cc", "forks.c", &options);
    same_as_a_rank(&program.to_string_lossy(), &[], folder.path());
}

fn signal_handler_may_exit_or_fork_while_the_tool_works() {
    let folder = folder();
    let program = compiled(folder.path(), "cc", "leaves.c", &["-O1"]);
    for _ in 0..5 {
        same_as_a_rank(&program.to_string_lossy(), &[], folder.path());
    }
    same_as_a_rank(&program.to_string_lossy(), &["forks"], folder.path());
}

fn descriptors_belong_to_the_program_whatever_numbers_it_wants() {
    let folder = folder();
    let path = folder.path();
    std::fs::write(path.join("lines"), "first\nsecond\n").expect("a file");
    let takes = "exec 3<lines 4<lines 5<lines 6<lines\n\
        for i in 3 4 5 6; do (read -r line <&$i; echo $i $line); done; head -1 <&3";
    same_as_a_rank("bash", &["-c", takes], path);
    let program = compiled(path, "cc", "closes.c", &["-O1"]);
    same_as_a_rank(&program.to_string_lossy(), &[], path);
}

fn threads_with_the_least_stack_free_what_they_like() {
    let folder = folder();
    let options = ["-O1", "-pthread"];
    let program = compiled(folder.path(), "cc", "small_stacks.c", &options);
    same_as_a_rank(&program.to_string_lossy(), &[], folder.path());
}

fn functions_an_allocator_lacks_work_as_without_the_tool() {
    let folder = folder();
    let path = folder.path();
    let options = ["-O1", "-fno-builtin", "-rdynamic", "-DOWN"];
    let program = compiled(path, "cc", "family.c", &options);
    {
        same_as_a_rank(&program.to_string_lossy(), &[], path);
    }
    let options = library(path, "allocator.c");
    let options = options.each_ref().map(String::as_str);
    let program = compiled(path, "cc", "family.c", &options);
    same_as_a_rank(&program.to_string_lossy(), &[], path);
}

fn a_function_that_the_program_defines_itself_is_called() {
    let folder = folder();
    // Bound at their first call, so that nothing shows beforehand where calls lead.
    let lazy = ["-O1", "-shared", "-fPIC", "-Wl,-z,lazy"];
    let library = compiled(folder.path(), "cc", "mapper.c", &lazy);
    let options = ["-O1", "-rdynamic", "-Wl,--no-as-needed", &library.to_string_lossy()];
    let program = compiled(folder.path(), "cc", "maps.c", &options);
    same_as_a_rank(&program.to_string_lossy(), &[], folder.path());
}

fn blocks_are_those_of_the_library_that_is_there_now() {
    let folder = folder();
    let path = folder.path();
    let (cc, options) = ("cc", ["-O1", "-shared", "-fPIC", "-fno-builtin"]);
    let part = compiled(path, cc, "replaced_part.c", &options);
    let libraries = ["first_part.so", "other_part.so"].map(|name| path.join(name));
    for library in &libraries {
        std::fs::copy(&part, library).expect("a copy of the library");
    }
    let options = ["-O1", "-fno-builtin", "-ldl"];
    let program = compiled(path, cc, "replaced.c", &options);
    let mut command = Command::new(program);
    command.args(libraries).env("LD_PRELOAD", preload()).env("MEMPROF_DIR", path);
    let output = run(command.env("MEMPROF_RECORD", "all").env("MEMPROF_QUIET", "1"));
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{:?}: {said}", output.status);
    match said.trim() {
        "replaced" => {}
        said => skip(format!("the loader put the libraries {said}")),
    }
}

fn programs_of_the_system_do_what_they_do() {
    let folder = folder();
    let path = folder.path();
    std::fs::write(path.join("a.c"), "int main(void) { return 7; }\n").expect("a file");
    same_with_and_without(
        "bash",
        &["-c", "for i in 1 2 3; do echo $i | cat; done; (exit 3)"],
        path,
    );
    same_with_and_without(
        "python3",
        &[
            "-c",
            "import json, threading, sqlite3, decimal\nx = [dict(a=i) for i in range(99999)]\n\
            t = [threading.Thread(target=lambda: [str(i) for i in range(9999)]) for _ in range(4)]\n\
            [i.start() for i in t]; [i.join() for i in t]; print(len(json.dumps(x)))",
        ],
        path,
    );
    same_with_and_without("gcc", &["-O2", "-c", "a.c", "-o", "a.o"], path);
    same_with_and_without("git", &["-c", "init.defaultBranch=main", "init", "-q", "."], path);
    same_with_and_without("git", &["add", "a.c"], path);
    same_with_and_without("git", &["status", "--porcelain"], path);
    same_with_and_without("sort", &["-R", "--random-source=a.c", "a.c"], path);
    same_with_and_without(
        "perl",
        &["-e", "my %h = map { $_ => 'x' x $_ } 1..2000; print scalar keys %h"],
        path,
    );
}

fn a_launcher_has_blocks_and_children_as_without() {
    let folder = folder();
    let program = compiled(folder.path(), "cc", "launches.c", &["-O1", "-fno-builtin"]);
    let launcher = folder.path().join("mpirun");
    std::fs::rename(program, &launcher).expect("the name of a launcher");
    let traces = folder.path().to_string_lossy().into_owned();
    let variables = [("MEMPROF_DIR", &*traces), ("MEMPROF_QUIET", "1")];
    same_with(&launcher.to_string_lossy(), &[], folder.path(), &variables);
}

quo_tests::suite! {
    blocks_are_mapped_from_the_same_size_as_without_tool
    every_context_of_a_cxx_program_works
    a_program_with_operators_of_its_own_keeps_them
    a_program_with_an_allocator_of_its_own_keeps_it
    library_may_have_ended_its_threads_before_a_fork
    signal_handler_may_exit_or_fork_while_the_tool_works
    descriptors_belong_to_the_program_whatever_numbers_it_wants
    threads_with_the_least_stack_free_what_they_like
    functions_an_allocator_lacks_work_as_without_the_tool
    a_function_that_the_program_defines_itself_is_called
    blocks_are_those_of_the_library_that_is_there_now
    programs_of_the_system_do_what_they_do
    a_launcher_has_blocks_and_children_as_without
}
