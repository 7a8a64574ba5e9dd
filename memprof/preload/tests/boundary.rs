//! The boundary of MPI, the loader and the kernel's mappings, as programs use it.

use quo_tests::suite::skip;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

fn preload() -> PathBuf {
    let test = std::env::current_exe().expect("the test's own path");
    let folder = test.parent().and_then(Path::parent).expect("a build folder");
    let object = folder.join("libmemprof_preload.so");
    assert!(object.exists(), "{} is missing: build the workspace first", object.display());
    object
}

fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

fn compile(compiler: &str, into: &Path, sources: &[&str], options: &[&str]) {
    let mut command = Command::new(compiler);
    command.arg("-o").arg(into).args(sources.iter().map(|name| source(name))).args(options);
    match command.status() {
        Ok(status) => assert!(status.success(), "{compiler} failed"),
        Err(_) => skip(format!("there is no {compiler}")),
    }
}

/// Returns a folder with the small MPI library and its plugin.
fn library() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder for this test");
    let plugins = folder.path().join("plugins");
    std::fs::create_dir(&plugins).expect("a folder");
    let shared = ["-g", "-fPIC", "-shared", "-fexceptions"];
    compile("cc", &folder.path().join("libentered_mpi.so"), &["entered_mpi.c"], &shared);
    compile("cc", &plugins.join("libentered_plugin.so"), &["entered_plugin.c"], &shared);
    folder
}

/// Runs a program of the folder, recorded or not, to its end.
fn run(folder: &Path, program: &str, recorded: bool) {
    let traces = folder.join("traces");
    std::fs::create_dir_all(&traces).expect("a folder");
    let mut command = Command::new("timeout");
    command.arg("60").arg(folder.join(program)).env("LD_PRELOAD", preload());
    if recorded {
        command.env("MEMPROF_DIR", &traces).env("MEMPROF_RECORD", "all");
    }
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {} {text} {errors}", output.status);
    assert_eq!(text.trim(), "done", "{program}: {errors}");
}

fn linked<'a>(folder: &'a str, more: &[&'a str]) -> Vec<String> {
    let mut options = vec![
        "-g".to_owned(),
        "-pthread".to_owned(),
        format!("-L{folder}"),
        "-lentered_mpi".to_owned(),
        "-ldl".to_owned(),
        "-Wl,-rpath,$ORIGIN:$ORIGIN/plugins".to_owned(),
    ];
    options.extend(more.iter().map(|option| (*option).to_owned()));
    options
}

fn every_way_into_mpi_is_seen_for_any_linking() {
    let folder = library();
    let place = folder.path().to_str().expect("a name in UTF-8");
    for (index, more) in [
        &["-Wl,-z,lazy"][..],
        &["-Wl,-z,now,-z,relro"],
        &["-fno-plt", "-O2"],
        &["-no-pie", "-fno-pie"],
        &["-no-pie", "-fno-pie", "-Wl,-z,now"],
        &["-Wl,-z,norelro"],
        &["-Wl,--disable-new-dtags"],
    ]
    .iter()
    .enumerate()
    {
        let name = format!("entered{index}");
        let options = linked(place, more);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        // Libraries follow the source, as linkers require.
        compile("cc", &folder.path().join(&name), &["entered.c"], &options);
        run(folder.path(), &name, true);
    }
}

fn exceptions_pass_through_entries() {
    let folder = library();
    let place = folder.path().to_str().expect("a name in UTF-8");
    let options = linked(place, &[]);
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    compile("c++", &folder.path().join("thrown"), &["thrown.cpp"], &options);
    run(folder.path(), "thrown", true);
    run(folder.path(), "thrown", false);
}

/// Returns name and number of words of every function of the table.
fn table() -> BTreeMap<&'static str, usize> {
    include_str!("../../boundary/src/functions.s")
        .lines()
        .filter_map(|line| line.strip_prefix("memprof_mpi ")?.split_once(", "))
        .map(|(name, words)| (name, words.parse().expect("a number")))
        .collect()
}

/// Removes the words in `__attribute__((...))` for GNU compilers.
fn without_attributes(text: &str) -> String {
    let mut parts = text.split("__attribute__");
    let mut plain = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut depth = 0;
        let end = part.find(|letter| {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            letter == ')' && depth == 0
        });
        plain.push_str(&part[end.map_or(0, |end| end + 1)..]);
    }
    plain
}

/// Returns the functions that a preprocessed header declares: name, the words before it, arguments.
fn declared(text: &str) -> Vec<(String, String, Vec<String>)> {
    let text = without_attributes(text);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut found = Vec::new();
    for statement in text.split(';') {
        let Some((before, rest)) = statement.split_once('(') else { continue };
        let Some(name) = before.split([' ', '*']).rfind(|word| !word.is_empty()) else { continue };
        let is_function = name.starts_with("MPI_") || name.starts_with("PMPI_");
        if !is_function || before.contains("typedef") || before.contains('=') {
            continue;
        }
        let (mut depth, mut arguments) = (1, vec![String::new()]);
        for letter in rest.chars() {
            depth += match letter {
                '(' => 1,
                ')' => -1,
                _ => 0,
            };
            match letter {
                _ if depth == 0 => break,
                ',' if depth == 1 => arguments.push(String::new()),
                _ => arguments.last_mut().expect("one").push(letter),
            }
        }
        arguments.retain(|argument| !matches!(argument.trim(), "" | "void"));
        found.push((name.to_owned(), before.to_owned(), arguments));
    }
    found
}

fn the_table_agrees_with_the_mpi_header_of_the_machine() {
    let folder = tempfile::tempdir().expect("a folder for this test");
    let program = folder.path().join("header.c");
    std::fs::write(&program, "#include <mpi.h>\n").expect("written");
    let table = table();
    let chosen = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
    let mut absent = Vec::new();
    for compiler in [chosen.as_str(), "mpicc.openmpi", "mpicc.mpich"] {
        let output = Command::new(compiler).args(["-E", "-P"]).arg(&program).output();
        let Ok(output) = output else {
            absent.push(compiler);
            continue;
        };
        assert!(output.status.success(), "{compiler}");
        let functions = declared(&String::from_utf8_lossy(&output.stdout));
        assert!(functions.len() > 500, "{compiler}: {}", functions.len());
        for (name, before, arguments) in functions {
            let plain = name.strip_prefix('P').unwrap_or(&name);
            if before.contains("double")
                || arguments.iter().any(|argument| argument.contains("..."))
            {
                assert!(!table.contains_key(plain), "{name} takes more than words");
                continue;
            }
            assert_eq!(
                table.get(plain),
                Some(&arguments.len()),
                "{compiler}: {name} {arguments:?}"
            );
        }
    }
    if !absent.is_empty() {
        skip(format!("there is no {}", absent.join(", nor ")));
    }
}

fn no_name_of_mpi_is_defined_or_needed() {
    let Ok(output) = Command::new("nm").arg("-D").arg(preload()).output() else {
        skip("there is no nm");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("memprof_hooks"));
    let mpi: Vec<&str> = text
        .lines()
        .filter(|line| {
            let name = line.rsplit(' ').next().unwrap_or_default().to_lowercase();
            name.starts_with("mpi") || name.starts_with("pmpi")
        })
        .collect();
    assert!(mpi.is_empty(), "{mpi:?}");
}

quo_tests::suite! {
    every_way_into_mpi_is_seen_for_any_linking
    exceptions_pass_through_entries
    the_table_agrees_with_the_mpi_header_of_the_machine
    no_name_of_mpi_is_defined_or_needed
}
