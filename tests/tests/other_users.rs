//! Names that another user took first, in a folder that all users may write to, with and without
//! the sticky bit: no command writes, reads or starts anything through them.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};

use anyhow::{Context, Result, ensure};
use quo_tests::suite::{self, Test};
use quo_tests::{Checkout, Job};
use tempfile::TempDir;

const TESTS: &[Test] = &[
    ("queue_folder_of_another_user_is_refused", queue_folder_of_another_user_is_refused),
    ("job_folder_that_is_a_link_is_refused", job_folder_that_is_a_link_is_refused),
    ("record_and_simulation_do_not_follow_links", record_and_simulation_do_not_follow_links),
    ("reports_do_not_follow_links_nor_guessed_names", reports_do_not_follow_links),
    ("traces_do_not_go_to_folders_of_others", traces_do_not_go_to_folders_of_others),
    ("picture_and_trace_of_phases_do_not_follow_links", picture_and_trace_do_not_follow_links),
    ("control_folder_that_all_could_exchange_is_refused", control_folder_is_refused),
];

fn main() -> ExitCode {
    let obstacle = (!rustix::process::geteuid().is_root())
        .then(|| "only root can act as another user".to_owned());
    suite::run(TESTS, obstacle)
}

const NOBODY: u32 = 65534;
const PRECIOUS: &str = "precious\n";

/// A folder that all users may write to, and a file into which another user wants a command to
/// write.
struct Scene {
    base: TempDir,
    is_sticky: bool,
}

impl Scene {
    fn new(is_sticky: bool) -> Result<Self> {
        let scene = Self { base: tempfile::tempdir()?, is_sticky };
        let rights = |path: &Path, mode| fs::set_permissions(path, Permissions::from_mode(mode));
        rights(scene.base.path(), 0o755)?;
        fs::create_dir(scene.shared(""))?;
        rights(&scene.shared(""), if is_sticky { 0o1777 } else { 0o777 })?;
        for name in ["victim", "victim.2"] {
            fs::write(scene.base.path().join(name), PRECIOUS)?;
            rights(&scene.base.path().join(name), 0o600)?;
        }
        Ok(scene)
    }

    fn shared(&self, name: &str) -> PathBuf {
        self.base.path().join("shared").join(name)
    }

    fn victim(&self) -> String {
        self.base.path().join("victim").display().to_string()
    }

    /// Runs a script as the other user, in the shared folder.
    fn other(&self, script: &str) -> Result<()> {
        let mut command = Command::new("sh");
        command.arg("-ec").arg(script).current_dir(self.shared("")).uid(NOBODY).gid(NOBODY);
        let output = command.env("V", self.victim()).output()?;
        ensure!(output.status.success(), "the other user cannot: {output:?}");
        Ok(())
    }

    fn unharmed(&self) -> Result<()> {
        for name in ["victim", "victim.2"] {
            let text = fs::read_to_string(self.base.path().join(name))?;
            ensure!(text == PRECIOUS, "{name} has {text:?}");
        }
        Ok(())
    }
}

/// Runs a check in a folder with the sticky bit and in one without.
fn both(check: impl Fn(&Scene) -> Result<()>) -> Result<()> {
    for is_sticky in [true, false] {
        let scene = Scene::new(is_sticky)?;
        check(&scene)
            .and_then(|()| scene.unharmed())
            .with_context(|| format!("sticky: {is_sticky}"))?;
    }
    Ok(())
}

fn run(name: &str, words: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new(Checkout::find()?.program(name)?);
    command
        .args(words)
        .env("OMPI_ALLOW_RUN_AS_ROOT", "1")
        .env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
    let Output { status, stderr, stdout } = command.output().with_context(|| name.to_owned())?;
    let said = format!("{}{}", String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
    Ok((status.success(), said))
}

fn refused((done, said): (bool, String), words: &[&str]) -> Result<()> {
    ensure!(!done, "it was done: {said}");
    ensure!(words.iter().any(|word| said.contains(word)), "no {words:?} in {said}");
    Ok(())
}

const EXCHANGED: &str = "has no sticky bit";

fn queue(scene: &Scene) -> Result<String> {
    let job = "[[job]]\nname = \"a\"\ncommand = [\"echo\", \"written by the job\"]\nranks = 1\ntime = \"30s\"\n";
    let queue = scene.shared("q.toml");
    fs::write(&queue, job)?;
    Ok(queue.display().to_string())
}

fn pool(queue: &str, more: &[&str]) -> Result<(bool, String)> {
    run("quo-elastic", &[&["manage", "--pool", "localhost:2", "--queue", queue], more].concat())
}

fn queue_folder_of_another_user_is_refused() -> Result<()> {
    both(|scene| {
        let queue = queue(scene)?;
        scene.other(
            "mkdir -p -m 777 q.toml.run/a; cd q.toml.run/a; ln -s $V log; ln -s $V.2 status",
        )?;
        refused(pool(&queue, &[])?, &["belongs to another user", EXCHANGED])?;
        scene.other("rm -r q.toml.run; ln -s /tmp q.toml.run")?;
        refused(pool(&queue, &[])?, &["is a link of another user", EXCHANGED])?;
        scene.other("rm q.toml.run")?;
        // Without interference it works where no other user could replace the folder.
        let (done, said) = pool(&queue, &[])?;
        ensure!(done == scene.is_sticky, "{said}");
        if done {
            let log = fs::read_to_string(scene.shared("q.toml.run/a/log"))?;
            ensure!(log.contains("written by the job"), "{log}");
            let mode = fs::metadata(scene.shared("q.toml.run"))?.permissions().mode();
            ensure!(mode & 0o777 == 0o700, "{mode:o}");
        }
        Ok(())
    })
}

/// The contents of the folder are checked, too: it may have been open to other users before.
fn job_folder_that_is_a_link_is_refused() -> Result<()> {
    let scene = Scene::new(true)?;
    let queue = queue(&scene)?;
    let folder = scene.base.path().join("run");
    let dir = folder.display().to_string();
    let anew = |plant: &dyn Fn() -> std::io::Result<()>| {
        let _absent = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).and_then(|()| plant())
    };
    let elsewhere = scene.base.path().join("elsewhere");
    fs::create_dir(&elsewhere)?;
    anew(&|| symlink(&elsewhere, folder.join("a")))?;
    refused(pool(&queue, &["--dir", &dir])?, &["is no folder"])?;
    for name in ["log", "status", "alive"] {
        anew(&|| {
            fs::create_dir(folder.join("a"))?;
            symlink(scene.victim(), folder.join("a").join(name))
        })?;
        refused(pool(&queue, &["--dir", &dir])?, &["is a link"])?;
        scene.unharmed()?;
    }
    for name in ["lock", "began", "decisions"] {
        anew(&|| symlink(scene.victim(), folder.join(name)))?;
        refused(pool(&queue, &["--dir", &dir])?, &["is a link"])?;
        scene.unharmed()?;
    }
    Ok(())
}

fn record_and_simulation_do_not_follow_links() -> Result<()> {
    both(|scene| {
        let names = ["a.csv", "b.csv", "c.svg", "d.html", "e.log", "f.record"];
        for name in names {
            scene.other(&format!("ln -s $V {name}"))?;
        }
        let path = |name: &str| scene.shared(name).display().to_string();
        for (option, name) in [
            ("--csv", "a.csv"),
            ("--jobs-csv", "b.csv"),
            ("--svg", "c.svg"),
            ("--html", "d.html"),
            ("--decisions", "e.log"),
        ] {
            let words = ["simulate", "--synthetic", "5", "--nodes", "4", option, &path(name)];
            refused(run("quo-elastic", &words)?, &["is a link of another user"])?;
            scene.unharmed()?;
        }
        let queue = scene.base.path().join("q.toml");
        fs::write(&queue, fs::read_to_string(self::queue(scene)?)?)?;
        let queue = queue.display().to_string();
        refused(pool(&queue, &["--record", &path("f.record")])?, &["is a link of another user"])
    })
}

fn job_of_one_trace(scene: &Scene) -> Result<String> {
    let traces = scene.base.path().join("traces").display().to_string();
    let (done, said) = run("memprof", &["generate", "-o", &traces, "--ranks", "1"])?;
    ensure!(done, "{said}");
    Ok(traces)
}

fn reports_do_not_follow_links() -> Result<()> {
    both(|scene| {
        let traces = job_of_one_trace(scene)?;
        let page = scene.shared("r.html").display().to_string();
        // A name derived from the PID would be this one.
        let memprof = Checkout::find()?.program("memprof")?;
        let script = r#"ln -s "$V" ".r.html.$$"; exec "$@""#;
        let mut command = Command::new("sh");
        command
            .args(["-ec", script, "sh"])
            .arg(&memprof)
            .args(["report", &traces, "--html", &page]);
        let output = command.current_dir(scene.shared("")).env("V", scene.victim()).output()?;
        ensure!(output.status.success(), "{output:?}");
        scene.unharmed()?;
        let found = fs::symlink_metadata(scene.shared("r.html"))?;
        ensure!(found.is_file() && found.len() > 1000, "{found:?}");
        scene.other("ln -s $V s.html; mkfifo t.html")?;
        let page = scene.shared("s.html").display().to_string();
        let answer = run("memprof", &["report", &traces, "--html", &page])?;
        refused(answer, &["is a link of another user"])
    })
}

fn traces_do_not_go_to_folders_of_others() -> Result<()> {
    both(|scene| {
        scene.other("mkdir -m 777 traces; ln -s traces link")?;
        for (name, words) in
            [("traces", "belongs to another user"), ("link", "is a link of another user")]
        {
            let folder = scene.shared(name).display().to_string();
            let answer = run("memprof", &["run", "-o", &folder, "--", "true"])?;
            refused(answer, &[words, EXCHANGED])?;
            let answer = run("memprof", &["generate", "-o", &folder, "--ranks", "1"])?;
            refused(answer, &[words, EXCHANGED])?;
        }
        ensure!(fs::read_dir(scene.shared("traces"))?.next().is_none(), "traces are there");
        Ok(())
    })
}

fn picture_and_trace_do_not_follow_links() -> Result<()> {
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    let program = checkout.compile_c("tests/programs/unread_errors.c", folder.path(), &[])?;
    both(|scene| {
        scene.other("ln -s $V m.svg; ln -s $V trace.json")?;
        let picture = scene.shared("m.svg").display().to_string();
        let answer = run("quo-info", &["topology", "--svg", &picture])?;
        refused(answer, &["is a link of another user"])?;
        let job = Job::new(1, &program).arg("right").env("QUO_TRACE", scene.shared("trace.json"));
        let outcome = job.run()?;
        ensure!(outcome.stderr.contains("is a link of another user"), "{}", outcome.report());
        Ok(())
    })
}

fn control_folder_is_refused() -> Result<()> {
    both(|scene| {
        let folder = scene.shared("control");
        fs::create_dir(&folder)?;
        fs::set_permissions(&folder, Permissions::from_mode(0o700))?;
        let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
        let output = command.arg("list").env("QUO_ELASTIC_DIR", &folder).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(said.contains(EXCHANGED) != scene.is_sticky, "{said}");
        Ok(())
    })
}
