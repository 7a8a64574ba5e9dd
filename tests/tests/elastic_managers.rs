//! Jobs that change their size while they run: by a plan, by the command, and under clients that
//! misbehave.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use quo_tests::suite::Skipped;
use quo_tests::{BindTo, Checkout, Launcher, Outcome, Running};
use serde_json::Value;

const LIMIT: Duration = Duration::from_secs(100);

/// A job of the example `controlled`, and the folder through which the test stops it.
struct Controlled {
    folder: tempfile::TempDir,
    job: Running,
}

impl Controlled {
    fn start(processes: usize, ranks: usize, plan: Option<&str>) -> Result<Controlled> {
        let folder = tempfile::tempdir()?;
        let job = launch(folder.path(), processes, ranks, plan)?;
        job.wait_for("ready", 1)?;
        Ok(Controlled { folder, job })
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn socket(&self) -> PathBuf {
        self.file("sockets/test.sock")
    }

    fn command(&self, words: &[&str]) -> Result<Command> {
        let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
        command.args(words).env("QUO_ELASTIC_DIR", self.file("sockets"));
        Ok(command)
    }

    /// Runs the command, expects this exit status, and returns the output.
    fn tell(&self, words: &[&str], status: i32) -> Result<String> {
        let output = self.command(words)?.output()?;
        let said = said(&output);
        ensure!(output.status.code() == Some(status), "{words:?}: {}\n{said}", output.status);
        Ok(said)
    }

    /// Lets the job end, and returns the events it logged.
    fn stop(self) -> Result<(Vec<Value>, Outcome)> {
        fs::write(self.file("stop"), "")?;
        let Controlled { folder, job } = self;
        let outcome = job.finish()?;
        outcome.expect_success()?;
        ensure!(!folder.path().join("sockets/test.sock").exists(), "the socket is left");
        Ok((lines(&fs::read_to_string(folder.path().join("events"))?)?, outcome))
    }
}

fn launch(folder: &Path, processes: usize, ranks: usize, plan: Option<&str>) -> Result<Running> {
    let launcher = Launcher::find()?;
    let command = launcher.command(processes, BindTo::None);
    launch_by(command, folder, ranks, plan)
}

fn launch_by(
    mut command: Command,
    folder: &Path,
    ranks: usize,
    plan: Option<&str>,
) -> Result<Running> {
    command.arg(Checkout::find()?.program("examples/controlled")?);
    command.args(["test", &ranks.to_string()]).arg(folder);
    if let Some(plan) = plan {
        let file = folder.join("plan");
        fs::write(&file, plan)?;
        command.arg(file);
    }
    Running::start(command.env_remove("QUO_TOPOLOGY"), "controlled", LIMIT)
}

fn said(output: &Output) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    text(&output.stdout) + &text(&output.stderr)
}

/// Returns the job's own lines on its changes; launchers print lines, too.
fn changes(outcome: &Outcome) -> Vec<&str> {
    outcome.stdout.lines().filter(|line| line.starts_with("epoch ")).collect()
}

fn lines(text: &str) -> Result<Vec<Value>> {
    text.lines().map(|line| serde_json::from_str(line).context(line.to_owned())).collect()
}

/// Returns the one event that ended each request, in the order of the requests; fails if a request
/// has none or several.
fn ends(events: &[Value]) -> Result<Vec<&Value>> {
    let is_end = |event: &&Value| {
        matches!(event["event"].as_str(), Some("refused" | "finalized" | "aborted"))
    };
    let asked = events.iter().filter(|event| event["event"] == "requested");
    asked
        .map(|asked| {
            let request = &asked["request"];
            let ends: Vec<&Value> =
                events.iter().filter(is_end).filter(|end| end["request"] == *request).collect();
            ensure!(ends.len() == 1, "request {request} has {} ends", ends.len());
            Ok(ends[0])
        })
        .collect()
}

fn job_told_from_outside_resizes_with_one_end_per_request() -> Result<()> {
    let job = Controlled::start(4, 2, None)?;
    let status = job.tell(&["status", "test"], 0)?;
    ensure!(status.starts_with("test: 2 of 4 ranks, epoch 0\n"), "{status}");
    ensure!(job.tell(&["list"], 0)? == "test: 2 of 4 ranks\n");
    let mut follower =
        job.command(&["events", "test", "--follow"])?.stdout(Stdio::piped()).spawn()?;
    let grown = job.tell(&["grow", "test", "2", "--wait", "--grace", "60s"], 0)?;
    ensure!(grown == "request 1 is done: 4 ranks, epoch 1\n", "{grown}");
    // Impossible requests are refused and change nothing.
    for words in [
        &["grow", "test", "1"][..],
        &["size", "test", "4"],
        &["shrink", "test", "4", "--wait"],
        &["grow", "test", "1", "--on", "nowhere"],
        &["leave", "test", "nowhere"],
    ] {
        let refused = job.tell(words, 3)?;
        ensure!(refused.contains("is refused: "), "{refused}");
    }
    ensure!(job.tell(&["status", "test"], 0)?.starts_with("test: 4 of 4 ranks, epoch 1\n"));
    for (words, status) in [
        (&["grow", "test"][..], 2),
        (&["grow", "test", "0"], 2),
        (&["grow", "test", "1", "--grace", "soon"], 2),
        (&["status", "nobody"], 1),
        (&["cancel", "test", "77"], 3),
        (&["move", "test", "--from", "a", "--to", "a"], 1),
    ] {
        job.tell(words, status)?;
    }
    let shrunk = lines(&job.tell(&["shrink", "test", "3", "--wait", "--json"], 0)?)?;
    ensure!(shrunk[0]["accepted"]["request"] == 7, "{shrunk:?}");
    ensure!(shrunk[1]["event"]["event"] == "finalized" && shrunk[1]["event"]["size"] == 1);
    let log = job.tell(&["events", "test"], 0)?;
    let (events, outcome) = job.stop()?;
    ensure!(lines(&log)? == events, "the file and the command tell different stories");
    let mut followed = String::new();
    follower.stdout.take().context("no output")?.read_to_string(&mut followed)?;
    ensure!(follower.wait()?.success() && lines(&followed)? == events, "{followed}");
    ensure!(changes(&outcome) == ["epoch 1 size 4", "epoch 2 size 1"], "{}", outcome.report());
    let ends = ends(&events)?;
    let words: Vec<&str> = ends.iter().filter_map(|end| end["event"].as_str()).collect();
    ensure!(words[0] == "finalized" && words[6] == "finalized", "{words:?}");
    ensure!(words[1..6].iter().all(|word| *word == "refused"), "{words:?}");
    // Times of the steps, in order.
    let steps = &ends[0]["steps"];
    let times: Option<Vec<u64>> = [
        "requested",
        "accepted",
        "announced",
        "launched",
        "ready",
        "agreed",
        "begun",
        "moved",
        "confirmed",
        "finalized",
    ]
    .iter()
    .map(|step| steps[step].as_u64())
    .collect();
    ensure!(times.is_some_and(|times| times.is_sorted()), "{steps}");
    Ok(())
}

fn plan_is_followed_and_impossible_steps_are_refused() -> Result<()> {
    let growing =
        "at iteration 3: grow 2 grace 60s\nat iteration 3: size 9\nafter 1ms: grow 1 on nowhere\n";
    // In a separate job: a shrink cancels a growth that has not begun yet.
    let shrinking = "at iteration 6: shrink 1\nat iteration 1000000000: size 1\n";
    for (ranks, plan, last, right) in
        [(1, growing, "epoch 1 size 3", (1, 2)), (2, shrinking, "epoch 1 size 1", (1, 0))]
    {
        let job = Controlled::start(4, ranks, Some(plan))?;
        job.job.wait_for(last, 1)?;
        let (events, _) = job.stop()?;
        let ends = ends(&events)?;
        let count = |word: &str| ends.iter().filter(|end| end["event"] == word).count();
        ensure!((count("finalized"), count("refused")) == right, "{ends:?}");
        let origins = events.iter().filter(|event| event["event"] == "requested");
        ensure!(origins.into_iter().all(|event| event["asked"]["origin"] == "plan"));
        // A step that was not due when the job ended is named.
        let notices: Vec<&str> = events
            .iter()
            .filter(|event| event["event"] == "notice")
            .filter_map(|event| event["cause"]["detail"].as_str())
            .filter(|text| text.contains("not due when the job ended"))
            .collect();
        let missed = "\"at iteration 1000000000: size 1\"";
        let are_right = match plan.contains("1000000000") {
            true => notices.len() == 1 && notices[0].contains(missed),
            false => notices.is_empty(),
        };
        ensure!(are_right, "{notices:?}");
    }
    Ok(())
}

fn clients_that_behave_badly_do_no_harm() -> Result<()> {
    let job = Controlled::start(2, 1, None)?;
    let connect = || UnixStream::connect(job.socket());
    for bytes in [
        &b"\n\n\n"[..],
        b"\0\xff\xfe{{{{\n",
        b"{\"call\":\"grow\"}\n",
        b"{\"call\":\"grow\",\"ranks\":1}",
        b"GET / HTTP/1.1\r\n\r\n",
    ] {
        // Sends this and disconnects.
        connect()?.write_all(bytes)?;
    }
    // Wrong lines are answered, and the connection stays open.
    let mut client = BufReader::new(connect()?);
    client
        .get_mut()
        .write_all(b"nothing\n{\"call\":\"grow\",\"ranks\":0}\n{\"call\":\"status\"}\n")?;
    let mut answers = String::new();
    for _ in 0..3 {
        client.read_line(&mut answers)?;
    }
    let answers = lines(&answers)?;
    ensure!(answers[0]["wrong"]["reason"].is_string() && answers[1]["wrong"]["reason"].is_string());
    ensure!(answers[2]["status"]["size"] == 1, "{answers:?}");
    // A line without an end is rejected. Sending what the job no longer reads fails.
    let mut endless = connect()?;
    let _ = (0..64).try_for_each(|_| endless.write_all(&[b'x'; 16 << 10]));
    let mut answer = String::new();
    let _ = endless.read_to_string(&mut answer);
    ensure!(answer.is_empty() || answer.contains("at most 65536 bytes"), "{answer}");
    // Many clients that send nothing, and some that never read the events they requested.
    let limit = rustix::process::Resource::Nofile;
    let mut files = rustix::process::getrlimit(limit);
    files.current = files.maximum.map_or(Some(4096), |most| Some(most.min(4096)));
    rustix::process::setrlimit(limit, files)?;
    let mut many = (0..1000).map(|_| connect()).collect::<std::io::Result<Vec<_>>>()?;
    for deaf in many.iter_mut().skip(960) {
        for _ in 0..200 {
            // The job may have dropped this client.
            let _ = deaf.set_nonblocking(true);
            let _ = deaf.write(b"{\"call\":\"events\"}\n");
        }
    }
    let grown = job.tell(&["grow", "test", "1", "--wait"], 0)?;
    ensure!(grown == "request 1 is done: 2 ranks, epoch 1\n", "{grown}");
    drop(many);
    let (events, outcome) = job.stop()?;
    ensure!(ends(&events)?.len() == 1, "{events:?}");
    ensure!(changes(&outcome) == ["epoch 1 size 2"], "{}", outcome.report());
    Ok(())
}

fn a_client_that_vanishes_leaves_its_request_to_the_job() -> Result<()> {
    let job = Controlled::start(3, 2, None)?;
    // A rank that does not enter the resize keeps it from ending before its client is gone.
    fs::write(job.file("hold-1"), "")?;
    let mut client =
        job.command(&["grow", "test", "1", "--wait", "--json"])?.stdout(Stdio::piped()).spawn()?;
    let mut said = BufReader::new(client.stdout.take().context("no output")?);
    let mut answer = String::new();
    said.read_line(&mut answer)?;
    ensure!(answer.contains("accepted"), "{answer}");
    client.kill()?;
    client.wait()?;
    // A request that arrives in the meantime waits, and is withdrawn; another one waits and is
    // done.
    let waits = job.tell(&["shrink", "test", "1"], 0)?;
    ensure!(waits == "request 2 is accepted, after request 1\n", "{waits}");
    job.tell(&["cancel", "test", "1"], 3)?;
    ensure!(job.tell(&["cancel", "test", "2"], 0)? == "request 2 is taken back\n");
    job.tell(&["shrink", "test", "2"], 0)?;
    fs::remove_file(job.file("hold-1"))?;
    job.job.wait_for("epoch 2 size 1", 1)?;
    let (events, _) = job.stop()?;
    let ends = ends(&events)?;
    let words: Vec<&str> = ends.iter().filter_map(|end| end["event"].as_str()).collect();
    ensure!(words == ["finalized", "aborted", "finalized"], "{words:?}");
    ensure!(ends[1]["cause"]["kind"] == "cancelled", "{}", ends[1]);
    Ok(())
}

fn another_user_is_not_heard() -> Result<()> {
    const NOBODY: u32 = 65534;
    if !rustix::process::geteuid().is_root() {
        return Err(Skipped("only root can be another user".to_owned()).into());
    }
    let job = Controlled::start(2, 1, None)?;
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode));
    // The other user must be able to read the command.
    let program = job.file("quo-elastic");
    Checkout::find()?.copy_program("quo-elastic", &program)?;
    mode(job.folder.path(), 0o755)?;
    mode(&program, 0o755)?;
    let socket = job.socket();
    let ask = || -> Result<String> {
        let mut command = Command::new(&program);
        command.arg("grow").arg(&socket).arg("1").uid(NOBODY).gid(NOBODY);
        let output = command.output()?;
        ensure!(output.status.code() == Some(1), "{}", said(&output));
        Ok(said(&output))
    };
    let closed = fs::metadata(job.file("sockets"))?.permissions().mode() & 0o777;
    let own = fs::metadata(&socket)?.permissions().mode() & 0o777;
    ensure!((closed, own) == (0o700, 0o600), "{closed:o} {own:o}");
    let refused = ask()?;
    ensure!(refused.contains("Permission denied"), "{refused}");
    // Even if the closed modes have been opened, the kernel identifies the client.
    mode(&job.file("sockets"), 0o755)?;
    mode(&socket, 0o666)?;
    let refused = ask()?;
    ensure!(refused.contains("belongs to another user"), "{refused}");
    let (events, _) = job.stop()?;
    ensure!(events.len() == 1, "{events:?}");
    Ok(())
}

fn folder_open_to_others_is_refused_on_every_rank() -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("sockets"))?;
    fs::set_permissions(folder.path().join("sockets"), fs::Permissions::from_mode(0o770))?;
    let outcome = launch(folder.path(), 2, 1, None)?.finish()?;
    ensure!(!outcome.status.success() && !outcome.out_of_time, "{}", outcome.report());
    let complaints = outcome.stderr.matches("it needs mode 0700").count();
    ensure!(complaints >= 1, "{}", outcome.report());
    Ok(())
}

fn killed_job_leaves_its_name_to_the_next_one() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let runtime = folder.path();
    fs::set_permissions(runtime, fs::Permissions::from_mode(0o700))?;
    let start = || {
        let mut command = Launcher::find()?.command(2, BindTo::None);
        command.env("XDG_RUNTIME_DIR", runtime).env("ELASTIC_USUAL_SOCKET", "1");
        command.env_remove("QUO_ELASTIC_DIR");
        let job = launch_by(command, runtime, 1, None)?;
        job.wait_for("ready", 1)?;
        anyhow::Ok(job)
    };
    let is_listed = |job: &str| {
        let mut command = Command::new(Checkout::find()?.program("quo-elastic")?);
        command.env_remove("QUO_ELASTIC_DIR").env("XDG_RUNTIME_DIR", runtime);
        let output = command.arg("list").output()?;
        ensure!(output.status.success(), "{}", said(&output));
        // The user may have other jobs as well.
        anyhow::Ok(said(&output).lines().any(|line| line == job))
    };
    let socket = runtime.join("quo-elastic/test.sock");
    for _ in 0..2 {
        let job = start()?;
        ensure!(is_listed("test: 1 of 2 ranks")?);
        job.kill_all();
        job.finish()?;
        ensure!(socket.exists());
    }
    ensure!(!is_listed("test: 1 of 2 ranks")? && !socket.exists(), "a socket of nobody is left");
    Ok(())
}

fn late_rank_is_named_after_the_grace_time() -> Result<()> {
    let job = Controlled::start(2, 2, None)?;
    fs::write(job.file("hold-1"), "")?;
    job.tell(&["shrink", "test", "1", "--grace", "300ms"], 0)?;
    // An event reports it; nothing else happens to the job.
    let mut follower =
        job.command(&["events", "test", "--follow"])?.stdout(Stdio::piped()).spawn()?;
    let told = BufReader::new(follower.stdout.take().context("no output")?);
    let overdue = told
        .lines()
        .map_while(Result::ok)
        .find(|line| line.contains("\"overdue\""))
        .context("no word of the late rank")?;
    let overdue: Value = serde_json::from_str(&overdue)?;
    let late = overdue["late"].as_array().context("nobody is late")?;
    ensure!(late.contains(&1.into()), "{overdue}");
    follower.kill()?;
    follower.wait()?;
    let status = job.tell(&["status", "test"], 0)?;
    ensure!(status.contains("2 of 2 ranks, epoch 0\nrequest 1 is "), "{status}");
    fs::remove_file(job.file("hold-1"))?;
    job.job.wait_for("epoch 1 size 1", 1)?;
    let (events, _) = job.stop()?;
    ensure!(ends(&events)?[0]["event"] == "finalized", "{events:?}");
    Ok(())
}

quo_tests::suite! {
    job_told_from_outside_resizes_with_one_end_per_request
    plan_is_followed_and_impossible_steps_are_refused
    clients_that_behave_badly_do_no_harm
    a_client_that_vanishes_leaves_its_request_to_the_job
    another_user_is_not_heard
    folder_open_to_others_is_refused_on_every_rank
    killed_job_leaves_its_name_to_the_next_one
    late_rank_is_named_after_the_grace_time
}
