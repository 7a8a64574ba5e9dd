//! The quo-info command as its users run it.
#![allow(clippy::unwrap_used)] // A test that cannot continue has failed.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quo-info"));
    // The environment of the test must not show.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        let launched = ["OMPI_", "PMI", "SLURM_", "HYD"].iter().any(|sign| text.starts_with(sign));
        if launched || text.starts_with("QUO_") || text == "COLUMNS" {
            command.env_remove(&name);
        }
    }
    command
}

fn run(arguments: &[&str]) -> Output {
    program().args(arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Returns the output of a successful call, which must print nothing to standard error.
fn printed(arguments: &[&str]) -> String {
    let output = run(arguments);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", text(&output.stderr));
    assert_eq!(text(&output.stderr), "", "{arguments:?}");
    text(&output.stdout).to_owned()
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(arguments)).unwrap()
}

/// Returns the one line that a failing call prints.
fn refused(arguments: &[&str], status: i32) -> String {
    let output = run(arguments);
    let error = text(&output.stderr);
    assert_eq!(output.status.code(), Some(status), "{arguments:?}: {error}");
    assert_eq!(text(&output.stdout), "", "{arguments:?}");
    assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    assert!(error.starts_with("quo-info: "), "{arguments:?}: {error}");
    error.to_owned()
}

fn machine(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/machines");
    folder.join(name).to_str().unwrap().to_owned()
}

#[test]
fn help_and_version_fit_one_screen() {
    for arguments in [&["--help"][..], &["plan", "--help"]] {
        let help = printed(arguments);
        assert!(help.lines().count() <= 24, "{help}");
        assert!(help.lines().all(|line| line.chars().count() <= 80), "{help}");
    }
    assert_eq!(printed(&["--version"]), format!("quo-info {}\n", env!("CARGO_PKG_VERSION")));
    let nothing = run(&[]);
    assert_eq!(nothing.status.code(), Some(2));
    assert!(text(&nothing.stderr).contains("Usage:"));
}

#[test]
fn wrong_command_line_is_one_line_with_status_2() {
    for (arguments, cause) in [
        (&["--wheel"][..], "--wheel"),
        (&["wheel"], "wheel"),
        (&["--lang", "cobol", "--libs"], "cobol"),
        (&["--lang", "C"], "--cflags"),
        (&["--libs", "topology"], "topology"),
        (&["topology", "--svg"], "--svg"),
        (&["topology", "--svg", "x", "--json"], "--json"),
        (&["plan"], "--ranks"),
        (&["plan", "--ranks", "0"], "0"),
        (&["plan", "--ranks", "many"], "many"),
        (&["plan", "--ranks", "99999999"], "99999999"),
        (&["plan", "--ranks", "2", "--over", "wheel"], "wheel"),
        (&["plan", "--ranks", "2", "--max", "0"], "--max"),
        (&["plan", "--ranks", "2", "--binding", "3-1"], "3-1"),
        (&["plan", "--ranks", "2", "--policy", "best"], "best"),
        (&["bindings", "extra"], "extra"),
        (&["environment", "--xml"], "--xml"),
    ] {
        let error = refused(arguments, 2);
        assert!(error.contains(cause), "{arguments:?}: {error}");
    }
}

#[test]
fn impossible_command_is_one_line_with_status_1() {
    let four = ["--topology", "4"];
    for (arguments, cause) in [
        (&["topology", "--topology", "nonsense"][..], "`nonsense` is not a synthetic topology"),
        (&["topology", "--topology", "/nonexistent.xml"], "No such file"),
        (&["topology", "--topology", ""], "empty"),
        (&["topology", four[0], four[1], "--svg", "/nonexistent/x"], "/nonexistent/x"),
        (&["plan", four[0], four[1], "--ranks", "2", "--over", "die"], "no dies"),
        (
            &["plan", four[0], four[1], "--ranks", "2", "--over", "pu", "--binding", "9"],
            "--binding",
        ),
        (&["--cflags"], "quo.h is not installed in"),
        (&["--libs", "--lang", "fortran"], "not installed"),
    ] {
        let error = refused(arguments, 1);
        assert!(error.contains(cause), "{arguments:?}: {error}");
    }
}

#[test]
fn dangling_topology_variable_is_named_with_value_and_cause() {
    for (value, cause) in [("/nonexistent", "No such file"), ("wheel:4", "`wheel` is not one of")] {
        for arguments in [&["topology"][..], &["plan", "--ranks", "2"], &["bindings"]] {
            let output = program().args(arguments).env("QUO_TOPOLOGY", value).output().unwrap();
            let error = text(&output.stderr);
            assert_eq!(output.status.code(), Some(1), "{error}");
            assert_eq!(error.lines().count(), 1, "{error}");
            for part in ["QUO_TOPOLOGY", value, cause] {
                assert!(error.contains(part), "{arguments:?}: {error}");
            }
        }
    }
}

/// A folder laid out like an installation, with this program in it.
struct Installed(tempfile::TempDir);

impl Installed {
    fn new() -> Self {
        // A link, because a file just written may still be open in a process forked by another
        // test. In the program's folder, because a hard link must stay on its file system.
        let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        for (file, content) in
            [("include/quo.h", ""), ("include/quo.mod", ""), ("lib/libquo.so", "")]
        {
            let path = folder.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_quo-info"), bin.join("quo-info")).unwrap();
        Self(folder)
    }

    fn prefix(&self) -> PathBuf {
        self.0.path().canonicalize().unwrap()
    }

    fn printed(&self, arguments: &[&str]) -> String {
        let program = self.0.path().join("bin/quo-info");
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout).to_owned()
    }
}

#[test]
fn flags_follow_the_folder_the_program_is_in() {
    let installed = Installed::new();
    let prefix = installed.prefix();
    let prefix = prefix.to_str().unwrap();
    let (include, library) = (format!("-I{prefix}/include"), format!("-L{prefix}/lib"));
    assert_eq!(installed.printed(&["--prefix"]), format!("{prefix}\n"));
    for language in ["C", "c++", "Fortran"] {
        let flags = installed.printed(&["--cflags", "--libs", "--lang", language]);
        assert_eq!(flags, format!("{include} {library} -lquo\n"));
    }
    assert_eq!(installed.printed(&["--cflags-only-I"]), format!("{include}\n"));
    assert_eq!(installed.printed(&["--libs-only-L"]), format!("{library}\n"));
    assert_eq!(installed.printed(&["--libs-only-l"]), "-lquo\n");
    assert_eq!(installed.printed(&["--libs-only-other"]), "\n");
    assert!(installed.printed(&["--config"]).contains(env!("CARGO_PKG_VERSION")));
}

#[test]
fn the_program_can_be_called_through_a_link() {
    let installed = Installed::new();
    let elsewhere = tempfile::tempdir().unwrap();
    let link = elsewhere.path().join("quo-info");
    std::os::unix::fs::symlink(installed.0.path().join("bin/quo-info"), &link).unwrap();
    let output = Command::new(link).arg("--prefix").output().unwrap();
    assert_eq!(Path::new(text(&output.stdout).trim_end()), installed.prefix());
}

#[test]
fn a_machine_is_drawn_told_and_written() {
    let file = machine("dies-and-smt.xml");
    let drawn = printed(&["topology", "--topology", &file]);
    assert!(drawn.contains("die 3") && drawn.contains("31·63"), "{drawn}");
    let told = json(&["topology", "--topology", &file, "--json", "--no-smt"]);
    let pus = told["objects"].as_array().unwrap().iter().filter(|object| object["kind"] == "pu");
    assert_eq!(pus.count(), 32);
    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("machine.svg");
    let arguments = ["topology", "--topology", &file, "--svg", picture.to_str().unwrap()];
    assert_eq!(printed(&arguments), "");
    let picture = std::fs::read_to_string(picture).unwrap();
    assert_eq!(picture, printed(&["topology", "--topology", &file, "--svg", "-"]));
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
}

#[test]
fn the_picture_is_as_wide_as_the_terminal() {
    let output = program()
        .args(["topology", "--topology", "package:4 core:8 pu:2"])
        .env("COLUMNS", "50")
        .output()
        .unwrap();
    let widest = text(&output.stdout).lines().map(|line| line.chars().count()).max();
    assert_eq!(widest, Some(50));
}

#[test]
fn hybrid_machine_shows_kinds_and_plans_by_them() {
    let file = machine("fast-and-slow-cores.xml");
    let shown = printed(&["topology", "--topology", &file]);
    assert!(shown.contains("core kind 0: CPUs 12-19 (IntelAtom, speed 3500)\n"), "{shown}");
    assert!(shown.contains("core kind 1: CPUs 0-11 (IntelCore, speed 4700)\n"), "{shown}");
    let base = ["plan", "--topology", &file, "--ranks", "2", "--max", "2", "--json"];
    let cpus = |arguments: &[&str]| {
        let plan = json(arguments);
        [0, 1].map(|rank| plan["ranks"][rank]["works"]["cpus"].as_str().unwrap().to_owned())
    };
    assert_eq!(cpus(&base), ["0-5,12-15", "6-11,16-19"]);
    assert_eq!(cpus(&[&base[..], &["--fastest"]].concat()), ["0-5", "6-11"]);
}

#[test]
fn devices_of_a_machine_are_listed_with_near_cpus() {
    let file = machine("gpus.xml");
    let shown = printed(&["topology", "--topology", &file]);
    assert!(shown.contains("gpu 0000:c1:00.0 (cuda1): near CPUs 4-7\n"), "{shown}");
    let told = json(&["topology", "--topology", &file, "--json"]);
    assert_eq!(told["devices"][0]["names"][1], "mlx5_0");
    assert_eq!(told["devices"][0]["cpuset"], "0-3");
}

#[test]
fn limit_is_set_on_a_job_and_lifted() {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let space = quo::group::local::LocalSpace::new(1, directory.path()).unwrap();
    let options = quo::context::CreateOptions::new().with_directory(directory.path());
    let context = quo::Context::create_with(space.join(0).unwrap(), options).unwrap();
    let before = context.binding().unwrap();
    let last = before.last().unwrap().to_string();
    let process = std::process::id().to_string();
    let phase = context.phase(quo::phase::PhaseSpec::over(quo::ObjectType::Machine)).unwrap();
    let cpus = || phase.run(|worker| worker.cpus().clone()).unwrap().value.unwrap();
    let all = cpus();
    let told = printed(&["set", &process, "--cpus", &last]);
    assert_eq!(told, format!("1 context limited to CPUs {last} from the next phase on\n"));
    assert_eq!(cpus().to_string(), last);
    assert_eq!(context.binding().unwrap().to_string(), last);
    let told = printed(&["set", &process, "--all"]);
    assert_eq!(told, "1 context without a limit from the next phase on\n");
    assert_eq!(cpus(), all);
    assert_eq!(context.binding().unwrap(), before);
    let error = refused(&["set", &process, "--cpus", "8000"], 1);
    assert!(error.contains("none of the CPUs 8000"), "{error}");
    context.free().unwrap();
    assert!(refused(&["set", &process, "--all"], 1).contains("has no context"));
    let error = refused(&["set", "2147483647", "--all"], 1);
    assert!(error.contains("there is no process 2147483647"), "{error}");
    assert!(refused(&["set", &process], 2).contains("--cpus"));
}

#[test]
fn a_plan_tells_workers_cpus_and_threads() {
    let topology = ["--topology", "package:2 numa:2 core:4 pu:2"];
    let base = ["plan", topology[0], topology[1], "--ranks", "16", "--over", "numa", "--max", "1"];
    let plan = json(&[&base[..], &["--json"]].concat());
    let ranks = plan["ranks"].as_array().unwrap();
    let workers: Vec<usize> = (0..16).filter(|&rank| !ranks[rank]["works"].is_null()).collect();
    assert_eq!(workers, [0, 4, 8, 12]);
    assert_eq!(ranks[4]["binding"], "8-9");
    assert_eq!(ranks[4]["works"]["object"], 1);
    assert_eq!(ranks[4]["works"]["cpus"], "8-15");
    assert_eq!(ranks[4]["works"]["threads"], 8);
    assert_eq!(ranks[4]["works"]["serves"], "4-7");
    let table = printed(&base);
    assert!(table.contains("4 of 16 ranks would work"), "{table}");
    assert_eq!(table.lines().count(), 1 + 1 + 16 + 1, "{table}");
    let picture = printed(&[&base[..], &["--svg", "-"]].concat());
    assert!(picture.contains("rank 12: 24-31 (NUMA 3)"));
}

#[test]
fn the_binding_decides_who_is_selected() {
    let selected = |binding: &str, policy: &str| -> Vec<usize> {
        let plan = json(&[
            "plan",
            "--topology",
            "package:2 core:2 pu:1",
            "--ranks",
            "4",
            "--binding",
            binding,
            "--policy",
            policy,
            "--json",
        ]);
        let ranks = plan["ranks"].as_array().unwrap();
        (0..4).filter(|&rank| !ranks[rank]["works"].is_null()).collect()
    };
    assert_eq!(selected("core", "spread"), [0, 2]);
    assert_eq!(selected("package", "spread"), [0, 1]);
    assert_eq!(selected("none", "spread"), [0, 1]);
    assert_eq!(selected("0;0;0;3", "spread"), [0, 3]);
    // Ranks without their own object fill the remaining places; under `libquo` they never do.
    assert_eq!(selected("0;0-3", "spread"), [0, 1]);
    assert_eq!(selected("0;0-3", "libquo"), [0]);
}

#[test]
fn every_variable_is_listed_with_what_it_is_set_to() {
    let rows = json(&["environment", "--json"]);
    let rows = rows.as_array().unwrap();
    let table = printed(&["environment"]);
    assert_eq!(rows.len(), quo::environment::VARIABLES.len());
    for (row, variable) in rows.iter().zip(quo::environment::VARIABLES) {
        assert_eq!(row["name"], variable.name);
        assert!(row["value"].is_null());
        assert!(table.contains(variable.name), "{table}");
    }
    let output = program().arg("environment").env("QUO_WAIT", "mpi").output().unwrap();
    assert!(text(&output.stdout).contains("QUO_WAIT (`mpi`)"));
}

#[test]
fn without_a_launcher_the_process_tells_about_itself() {
    let nodes = json(&["bindings", "--json"]);
    assert_eq!(nodes[0]["ranks"].as_array().unwrap().len(), 1);
    assert_eq!(nodes[0]["simulated"], false);
    let simulated = program()
        .arg("bindings")
        .envs([("QUO_TOPOLOGY", "package:2 core:2 pu:1"), ("QUO_BINDING", "core")])
        .output()
        .unwrap();
    let table = text(&simulated.stdout);
    assert!(table.contains("simulated machine") && table.contains("core 0"), "{table}");
}

#[test]
fn a_reader_that_has_seen_enough_is_no_error() {
    use std::process::Stdio;
    let mut child = program()
        .args(["topology", "--topology", &machine("large.xml"), "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), text(&output.stderr)), (Some(0), ""));
}

#[test]
fn control_characters_never_reach_the_terminal() {
    const HOSTILE: &str = "\u{1b}[31mEVIL\u{9b}2J\u{7f}\u{202e}";
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join(format!("{HOSTILE}.xml"));
    let absent = file.to_str().unwrap().to_owned();
    for words in [
        &["topology", "--topology", &absent][..],
        &["environment"],
        &["environment", "--json"],
        &[HOSTILE],
    ] {
        let output = program().args(words).env("QUO_TRACE", HOSTILE).output().unwrap();
        let said = text(&output.stdout).to_owned() + text(&output.stderr);
        assert!(
            !said.contains(|c: char| c != '\n' && c.is_control() || c == '\u{202e}'),
            "{said:?}"
        );
        assert!(said.contains("EVIL"), "{words:?}: {said:?}");
    }
}

#[test]
fn topology_takes_the_machine_as_a_word() {
    let spec = "package:2 core:2 pu:1";
    assert_eq!(printed(&["topology", spec]), printed(&["topology", "--topology", spec]));
    let both = refused(&["topology", spec, "--topology", spec], 2);
    assert!(both.contains("cannot be used with"), "{both}");
    assert!(refused(&["topology", "absent.xml"], 1).contains("absent.xml"));
}

#[test]
fn commands_without_a_reader_end_with_their_own_status() {
    let machine = "package:8 core:16 pu:2";
    let plan = ["plan", "--ranks", "8", "--topology", machine];
    let json = ["topology", "--json", machine];
    for (arguments, status) in [
        (&["topology", machine][..], 0),
        (&json, 0),
        (&plan, 0),
        (&["environment"], 0),
        (&["--help"], 0),
        (&[], 2),
        (&["topology", "nonsense"], 1),
        (&["--nonsense"], 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = program();
        command.args(arguments).stdout(writer.try_clone().unwrap()).stderr(writer);
        assert_eq!(command.status().unwrap().code(), Some(status), "{arguments:?}");
    }
}
