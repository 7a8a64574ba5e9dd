//! `quo-info doctor`: set-ups that are broken on purpose, each recognised under the launcher, in
//! ranks that end where MPI begins.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Launcher, Outcome, Running, mpicc, run_compiler};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(100);

/// A command to examine, and what is around it.
struct SetUp {
    ranks: usize,
    bind_to: BindTo,
    variables: Vec<(&'static str, String)>,
    /// Variables that are not set, though the launch sets them.
    without: Vec<&'static str>,
    /// Shell commands before the doctor, such as limits.
    shell: &'static str,
    /// Shell commands of each rank before the program.
    rank_shell: &'static str,
}

impl Default for SetUp {
    fn default() -> Self {
        Self {
            ranks: 2,
            bind_to: BindTo::Core,
            variables: Vec::new(),
            without: Vec::new(),
            shell: "",
            rank_shell: "",
        }
    }
}

impl SetUp {
    fn with(name: &'static str, value: impl Into<String>) -> Self {
        Self { variables: vec![(name, value.into())], ..Self::default() }
    }

    fn and(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Examines a program with this launcher.
    fn examine(&self, launcher: &Launcher, program: &Path, folder: &Path) -> Result<Examined> {
        let launch = launcher.command(self.ranks, self.bind_to);
        let mut command = Command::new("sh");
        command.arg("-c").arg(format!("{}\nexec \"$@\"", self.shell)).arg("sh");
        command.arg(Checkout::find()?.program("quo-info")?).args(["doctor", "--json", "--"]);
        command.arg(launch.get_program()).args(launch.get_args());
        let envs = launch.get_envs().filter_map(|(name, value)| Some((name, value?)));
        command.env("OMP_NUM_THREADS", "1").envs(envs);
        for name in &self.without {
            command.env_remove(name);
        }
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        if self.rank_shell.is_empty() {
            command.arg(program);
        } else {
            let script = folder.join("rank.sh");
            fs::write(&script, format!("#!/bin/sh\n{}\nexec \"$@\"\n", self.rank_shell))?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755))?;
            command.arg(script).arg(program);
        }
        Examined::by(&mut command)
    }
}

/// What the doctor has said.
struct Examined {
    outcome: Outcome,
    report: Value,
}

impl Examined {
    fn by(command: &mut Command) -> Result<Self> {
        let description = format!("{command:?}");
        let outcome = Running::start(command, &description, LIMIT)?.finish()?;
        let report = serde_json::from_str(&outcome.stdout)
            .with_context(|| format!("{}\n{}", outcome.stdout, outcome.stderr))?;
        Ok(Self { outcome, report })
    }

    fn situations(&self) -> BTreeSet<String> {
        let all = self.report["situations"].as_array().into_iter().flatten();
        all.filter_map(|it| Some(it["situation"].as_str()?.to_owned())).collect()
    }

    fn situation(&self, name: &str) -> Result<&Value> {
        let all = self.report["situations"].as_array().into_iter().flatten();
        let found = all.into_iter().find(|it| it["situation"] == name);
        found.with_context(|| format!("no {name} in {}", self.report))
    }
}

fn compile(folder: &Path) -> Result<PathBuf> {
    let source = Checkout::find()?.root().join("tests/programs/examined.c");
    let program = folder.join("examined");
    let mut compiler = Command::new(mpicc());
    run_compiler(
        compiler
            .args(["-std=c11", "-Wall", "-Werror", "-fopenmp"])
            .arg(source)
            .arg("-o")
            .arg(&program),
    )?;
    Ok(program)
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns the file of a library by its name, where distributions install it.
fn library(name: &str) -> Option<PathBuf> {
    let machine = format!("{}-linux-gnu", std::env::consts::ARCH);
    let folders = [format!("/usr/lib/{machine}"), "/usr/lib64".into(), "/usr/lib".into()];
    folders.iter().map(|folder| Path::new(folder).join(name)).find(|path| path.is_file())
}

fn program_is_examined_and_does_not_run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let examined = SetUp::default().examine(&Launcher::find()?, &program, folder.path())?;
    let report = &examined.report;
    ensure!(examined.outcome.status.success(), "{report}\n{}", examined.outcome.stderr);
    ensure!(report["missing"].is_null(), "{report}");
    let ranks = report["facts"]["ranks"].as_array().context("no ranks")?;
    ensure!(ranks.len() == 2, "{report}");
    for (number, rank) in ranks.iter().enumerate() {
        ensure!(
            rank["rank"] == number && rank["program"] == program.to_string_lossy().as_ref(),
            "{rank}"
        );
        let objects = rank["objects"].to_string();
        ensure!(objects.contains("libgomp.so") && objects.contains("libmpi"), "{objects}");
        ensure!(!objects.contains("libquo_info_preload"), "{objects}");
    }
    ensure!(examined.outcome.stderr.contains("before MPI"), "{}", examined.outcome.stderr);
    for output in [&examined.outcome.stderr, &examined.outcome.stdout] {
        ensure!(!output.contains("after MPI"), "{output}");
    }
    Ok(())
}

/// Set-ups, with the situation of each that the plain job does not have.
fn set_ups(folder: &Path) -> Result<Vec<(&'static str, SetUp)>> {
    let open = folder.join("open");
    fs::create_dir(&open)?;
    fs::set_permissions(&open, fs::Permissions::from_mode(0o777))?;
    let shell = |shell| SetUp { shell, ..SetUp::default() };
    let rank_shell = |rank_shell| SetUp { rank_shell, ..SetUp::default() };
    let mut all = vec![
        ("openmp-binds", SetUp::with("OMP_PROC_BIND", "close")),
        ("openmp-binds", SetUp::with("GOMP_CPU_AFFINITY", "0")),
        ("openmp-place-outside", SetUp::with("OMP_PLACES", "{4000}")),
        ("openmp-gomp-affinity", SetUp::with("OMP_PLACES", "cores").and("GOMP_CPU_AFFINITY", "0")),
        ("openmp-dynamic", SetUp::with("OMP_DYNAMIC", "true")),
        ("openmp-thread-limit", SetUp::with("OMP_THREAD_LIMIT", "1")),
        ("openmp-zero-threads", SetUp::with("OMP_NUM_THREADS", "0")),
        ("openmp-spins", SetUp::with("OMP_WAIT_POLICY", "active")),
        ("simulated", SetUp::with("QUO_TOPOLOGY", "pack:2 core:2 pu:1")),
        ("topology-unusable", SetUp::with("QUO_TOPOLOGY", "pak:2 core:2")),
        ("topology-unusable", SetUp::with("QUO_TOPOLOGY", "./no-such-machine.xml")),
        ("binding-unusable", SetUp::with("QUO_BINDING", "core")),
        ("binding-unusable", SetUp::with("QUO_TOPOLOGY", "core:4 pu:1").and("QUO_BINDING", "0;9")),
        ("wait-mpi", SetUp::with("QUO_WAIT", "mpi")),
        ("unknown-variable", SetUp::with("MEMPROF_DUTY", "1")),
        ("unknown-variable", SetUp::with("QUO_TOPOLOGIE", "core:4")),
        ("shared-missing", SetUp::with("QUO_TMPDIR", "/nowhere")),
        ("shared-unsafe", SetUp::with("QUO_TMPDIR", open.to_string_lossy())),
        ("limit-files", shell("ulimit -n 256")),
        ("limit-file-size", shell("ulimit -f 8192")),
        ("limit-address-space", rank_shell("ulimit -v 16000000")),
        (
            "cpus-shared",
            SetUp { bind_to: BindTo::None, ..rank_shell("taskset -cp 0 $$ > /dev/null") },
        ),
        (
            "environment-differs",
            rank_shell(
                "[ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 1 ] && export OMP_SCHEDULE=dynamic",
            ),
        ),
    ];
    if processors() > 1 {
        all.push(("cpus-unbound", SetUp { bind_to: BindTo::None, ..SetUp::default() }));
        all.push(("cpus-fewer-than-machine", shell("taskset -cp 0 $$ > /dev/null")));
        let bare = SetUp { bind_to: BindTo::None, ..rank_shell("unset OMP_NUM_THREADS") };
        all.push(("openmp-team-of-all", bare));
    }
    for (name, situation) in [
        ("libjemalloc.so.2", "allocator"),
        ("libomp.so.5", "openmp-two-runtimes"),
        ("libtbb.so.12", "tbb"),
    ] {
        if let Some(path) = library(name) {
            all.push((situation, SetUp::with("LD_PRELOAD", path.to_string_lossy())));
        }
    }
    if Path::new("/usr/bin/scontrol").exists() {
        // A configuration with a controller that does not run.
        let file = folder.join("slurm.conf");
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        fs::write(
            &file,
            format!(
                "ClusterName=none\nSlurmctldHost=localhost\nSlurmctldPort={port}\nSlurmUser=root\n\
                 MessageTimeout=2\nNodeName=localhost CPUs=1\nPartitionName=a Nodes=localhost\n"
            ),
        )?;
        all.push(("slurm-unreachable", SetUp::with("SLURM_CONF", file.to_string_lossy())));
    }
    Ok(all)
}

fn broken_set_ups_are_recognised_by_name() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let launcher = Launcher::find()?;
    let plain = SetUp::default().examine(&launcher, &program, folder.path())?.situations();
    let mut wrong = Vec::new();
    for (situation, set_up) in set_ups(folder.path())? {
        let examined = set_up.examine(&launcher, &program, folder.path())?;
        let shown = format!("{:?} {}{}", set_up.variables, set_up.shell, set_up.rank_shell);
        let found = examined.situations();
        if plain.contains(situation) || !found.contains(situation) {
            wrong.push(format!("{shown}: no {situation} in {found:?}, without it {plain:?}"));
            continue;
        }
        let level = examined.situation(situation)?["level"].clone();
        if (level == "error") == examined.outcome.status.success() {
            wrong.push(format!("{shown}: {level} ends with {}", examined.outcome.status));
        }
    }
    ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

fn situation_of_one_rank_names_that_rank() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let shell = "[ \"${OMPI_COMM_WORLD_RANK:-$PMI_RANK}\" = 1 ] && export OMP_NUM_THREADS=0";
    let set_up = SetUp { rank_shell: shell, ..SetUp::default() };
    let examined = set_up.examine(&Launcher::find()?, &program, folder.path())?;
    let situation = examined.situation("openmp-zero-threads")?;
    ensure!(situation["ranks"] == serde_json::json!([1]), "{situation}");
    ensure!(situation["value"] == "OMP_NUM_THREADS=0", "{situation}");
    Ok(())
}

fn launcher_of_another_mpi_is_an_error() -> Result<()> {
    let own = Launcher::find()?;
    let others =
        ["mpirun.mpich", "mpirun.openmpi"].into_iter().filter_map(|name| Launcher::of(name).ok());
    let is_open_mpi =
        |launcher: &Launcher| format!("{:?}", launcher.family()).starts_with("OpenMpi");
    let Some(other) = others.into_iter().find(|other| is_open_mpi(other) != is_open_mpi(&own))
    else {
        return Err(Skipped("no launcher of another MPI is installed".to_owned()).into());
    };
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let set_up = SetUp { bind_to: BindTo::None, ..SetUp::default() };
    let examined = set_up.examine(&other, &program, folder.path())?;
    examined.situation("mpi-other-launcher")?;
    ensure!(examined.outcome.status.code() == Some(1), "{}", examined.report);
    Ok(())
}

fn launcher_without_slots_is_told_with_its_remedy() -> Result<()> {
    let launcher = Launcher::find()?;
    if !format!("{:?}", launcher.family()).starts_with("OpenMpi") {
        return Err(
            Skipped("only Open MPI's launcher refuses ranks beyond its slots".into()).into()
        );
    }
    let folder = tempfile::tempdir()?;
    let program = compile(folder.path())?;
    let examine = |words: &[&str]| {
        let mut command = Command::new(Checkout::find()?.program("quo-info")?);
        let launch = launcher.command(1, BindTo::None);
        command.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
        command.env("QUO_ELASTIC_RANKS", "1..3").args(["doctor", "--json", "--"]);
        Examined::by(command.arg(launch.get_program()).args(words).arg(&program))
    };
    let refused = examine(&["--host", "localhost:2", "-n", "3"])?;
    let value = refused.situation("openmpi-slots")?["value"].to_string();
    ensure!(value == "\"not enough slots for 3 processes\"", "{value}");
    ensure!(refused.outcome.stderr.contains("not enough slots"), "{}", refused.outcome.stderr);
    ensure!(refused.outcome.status.code() == Some(1), "{}", refused.report);
    let small = examine(&["--host", "localhost:2", "-n", "1"])?;
    let value = small.situation("world-slots")?["value"].clone();
    ensure!(value == "up to 3 ranks are asked for, the launcher has 2 slots", "{value}");
    let fits = examine(&["--host", "localhost:3", "-n", "1"])?.situations();
    ensure!(!fits.contains("world-slots") && !fits.contains("openmpi-slots"), "{fits:?}");
    Ok(())
}

/// Runs the doctor with these words, and returns its report and how it ended.
fn doctor(words: &[&str]) -> Result<Examined> {
    let launch = Launcher::find()?.command(2, BindTo::None);
    let mut command = Command::new(Checkout::find()?.program("quo-info")?);
    command.args(["doctor", "--json"]);
    let envs = launch.get_envs().filter_map(|(name, value)| Some((name, value?)));
    command.envs(envs);
    for word in words {
        if *word == "LAUNCH" {
            command.arg(launch.get_program()).args(launch.get_args());
        } else {
            command.arg(word);
        }
    }
    Examined::by(&mut command)
}

fn command_without_mpi_is_said_and_ends_in_time() -> Result<()> {
    for (words, text) in [
        (&["--", "LAUNCH", "hostname"][..], "ran to its end"),
        (&["--timeout", "2", "--", "LAUNCH", "sleep", "90"], "within 2 s"),
        (&["--", "LAUNCH", "/nowhere/program"], "what it printed says why"),
        (&["--", "LAUNCH", "sh", "-c", "exit 3"], "what it printed says why"),
    ] {
        let examined = doctor(words)?;
        let missing = examined.report["missing"].to_string();
        ensure!(missing.contains(text), "{words:?}: {missing}");
        ensure!(
            examined.outcome.status.code() == Some(1),
            "{words:?}: {}",
            examined.outcome.status
        );
    }
    Ok(())
}

fn program_without_mpi_is_read_and_not_run() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
    fs::write(
        &source,
        "#include <omp.h>\n#include <stdio.h>\nint main(void) { remove(\"mark\"); return omp_get_max_threads(); }\n",
    )?;
    run_compiler(Command::new("cc").args(["-fopenmp"]).arg(&source).arg("-o").arg(&program))?;
    fs::write(folder.path().join("mark"), "")?;
    let mut command = Command::new(Checkout::find()?.program("quo-info")?);
    command.args(["doctor", "--json", "--"]).arg(&program).current_dir(folder.path());
    let examined = Examined::by(command.env("OMP_DYNAMIC", "true"))?;
    examined.situation("openmp-dynamic")?;
    ensure!(folder.path().join("mark").exists(), "the program was run");
    let objects = examined.report["facts"]["ranks"][0]["objects"].to_string();
    if !objects.contains("libgomp") {
        bail!("{objects}");
    }
    Ok(())
}

quo_tests::suite! {
    program_is_examined_and_does_not_run
    broken_set_ups_are_recognised_by_name
    situation_of_one_rank_names_that_rank
    launcher_of_another_mpi_is_an_error
    launcher_without_slots_is_told_with_its_remedy
    command_without_mpi_is_said_and_ends_in_time
    program_without_mpi_is_read_and_not_run
}
