//! `quo-elastic`: asks running elastic jobs to grow, shrink and move, and reports the end of each
//! request.

mod arguments;
mod launch;
mod manage;
mod output;
mod run;
mod simulate;
mod top;

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use elastic::change::{Event, Happening, Step};
use elastic::manager::control::wire::{Answer, Call};
use elastic::manager::control::{Client, ClientError, Folders, jobs, socket_of};
use elastic::manager::{JobLoops, LatestReport, WorldStatus};

use quo_pages::{Names, Words};

use arguments::{Arguments, Command};
use output::{complain, say, say_json};

const REFUSED: u8 = 3;
const ABORTED: u8 = 4;

/// Texts of the manual pages that the command line does not have.
const PAGES: Words<'_> = Words {
    status: "0 when it is done or accepted, 1 without an answer, 2 for a wrong command line, \
        3 when the job refuses, 4 when it gave the request up.",
    see: "quo(7), mpirun(1), scontrol(1)",
    names: Some(Names { argument: "job", command: "quo-elastic list --names" }),
};

fn main() -> ExitCode {
    let arguments = match quo_pages::parse(PAGES) {
        Ok(arguments) => arguments,
        Err(status) => return status,
    };
    match run(arguments) {
        Ok(status) => ExitCode::from(status),
        Err(error) => {
            complain(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: Arguments) -> Result<u8> {
    let json = arguments.json;
    if let Command::SlurmAgent { words } = &arguments.command {
        return elastic::manager::slurm::agent(words).map_err(anyhow::Error::msg);
    }
    if let Command::Run { words } = arguments.command {
        return run::run(words);
    }
    if let Command::Launch(arguments) = &arguments.command {
        return launch::run(arguments);
    }
    if let Command::Simulate(arguments) = &arguments.command {
        return simulate::run(arguments, json);
    }
    if let Command::Manage(arguments) = &arguments.command {
        return manage::run(arguments, json);
    }
    if let Command::Top(arguments) = &arguments.command {
        return top::run(arguments, json);
    }
    if let Command::Call { job, call } = &arguments.command {
        return pass(job, call);
    }
    if let Command::List { names: true } = &arguments.command {
        return list_names();
    }
    let Some((job, call)) = arguments.command.call() else { return list(json) };
    let mut client = connect(&job)?;
    let waits = call.request().map_err(anyhow::Error::msg)?.is_some_and(|(_, wait)| wait);
    let mut answer = client.ask(&call)?;
    loop {
        if json {
            say_json(&serde_json::to_string(&answer)?)?;
        }
        match &answer {
            Answer::Status(status) if !json => say(&status_text(status))?,
            Answer::Status(_) => {}
            Answer::Accepted { request, after } => {
                if !json && !waits {
                    let after = after.map_or(String::new(), |other| format!(", after {other}"));
                    say(&format!("{request} is accepted{after}\n"))?;
                }
                if waits {
                    answer = client.wait().context("waiting for the end of the request")?;
                    continue;
                }
            }
            Answer::Refused { request, cause } => {
                complain(&format!("{request} is refused: {cause}"));
                return Ok(REFUSED);
            }
            Answer::Cancelled { request } if !json => say(&format!("{request} is taken back\n"))?,
            Answer::Cancelled { .. } => {}
            Answer::Event(event) if matches!(call, Call::Events { .. }) => {
                if !json {
                    say_json(&event.to_line())?;
                }
                answer = match client.wait() {
                    // Events end with the job.
                    Err(ClientError::Ended)
                        if matches!(call, Call::Events { follow: true, .. }) =>
                    {
                        return Ok(0);
                    }
                    answer => answer?,
                };
                continue;
            }
            Answer::Event(event) => return end(event, json),
            Answer::End {} => {}
            Answer::Wrong { reason } if matches!(call, Call::Cancel { .. }) => {
                complain(reason);
                return Ok(REFUSED);
            }
            Answer::Wrong { reason } => bail!("{reason}"),
        }
        return Ok(0);
    }
}

/// Connects to a job by its name, or by the path of its socket.
fn connect(job: &str) -> Result<Client> {
    Ok(match job.contains('/') {
        true => Client::connect(Path::new(job))?,
        false => Client::of_job(&Folders::of_this_user(), job)?,
    })
}

/// Passes a call of a manager on another node, and prints the answers as lines of JSON.
fn pass(job: &str, call: &str) -> Result<u8> {
    let call = Call::from_line(call.as_bytes()).map_err(anyhow::Error::msg)?;
    let mut client = connect(job)?;
    if let Call::Events { since, follow: false } = call {
        for event in client.events(since)? {
            say_json(&serde_json::to_string(&Answer::Event(Box::new(event)))?)?;
        }
        return Ok(0);
    }
    say_json(&serde_json::to_string(&client.ask(&call)?)?)?;
    Ok(0)
}

fn end(event: &Event, json: bool) -> Result<u8> {
    let request = event.request.map_or(String::new(), |request| request.to_string());
    if event.what == Happening::Step(Step::Finalized) {
        if !json {
            say(&format!("{request} is done: {} ranks, epoch {}\n", event.size, event.epoch))?;
        }
        return Ok(0);
    }
    let cause = event.cause.as_ref().map_or(String::new(), |cause| format!(": {cause}"));
    complain(&format!("{request} was aborted{cause}; there are {} ranks", event.size));
    Ok(ABORTED)
}

fn status_text(status: &WorldStatus) -> String {
    let mut text = format!(
        "{}: {} of {} ranks, epoch {}\n",
        status.job, status.size, status.capacity, status.epoch
    );
    if let (Some(request), Some(step)) = (status.under_way, status.step) {
        text.push_str(&format!("{request} is {step}\n"));
    }
    if status.waiting > 0 {
        text.push_str(&format!("requests that wait: {}\n", status.waiting));
    }
    if let Some(trouble) = &status.log_trouble {
        text.push_str(&format!("the event log's file is not complete: {trouble}\n"));
    }
    if let Some(limits) = &status.limits {
        text.push_str(&format!("sizes: {limits}\n"));
    }
    if let Some(report) = &status.report {
        text.push_str(&report_text(report));
    }
    if let Some(loops) = &status.loops {
        text.push_str(&loops_text(loops, status.size));
    }
    for host in &status.hosts {
        let ranks = if host.ranks.is_empty() { "none".to_owned() } else { ranges(&host.ranks) };
        text.push_str(&format!("{}: {} slots, ranks: {ranks}\n", host.host, host.slots));
    }
    for unit in &status.units {
        let ranks = ranges(&unit.ranks);
        text.push_str(&format!("{}, leaves as a whole: ranks {ranks}\n", unit.unit));
    }
    text
}

/// Formats ranks as text, three or more in a row as a range: `0 1 4-63`.
fn ranges(ranks: &[u64]) -> String {
    let runs = ranks.chunk_by(|rank, next| rank.checked_add(1) == Some(*next));
    let texts = runs.flat_map(|run| match run {
        [first, _, .., last] => vec![format!("{first}-{last}")],
        few => few.iter().map(u64::to_string).collect(),
    });
    texts.collect::<Vec<_>>().join(" ")
}

/// Describes the program's last report.
fn report_text(report: &LatestReport) -> String {
    let LatestReport { iteration, iteration_seconds, mean_seconds, reports, size, .. } = report;
    let mut text =
        format!("iteration {iteration}: {} on {size} ranks", seconds(*iteration_seconds));
    if *reports > 1 {
        text.push_str(&format!(", {} in the mean of {reports} reports", seconds(*mean_seconds)));
    }
    if let (Some(ratio), Some(total)) = (report.mpi_ratio, report.mpi_ratio_total) {
        text.push_str(&format!("; MPI to computing {ratio:.3}, {total:.3} on this size"));
    }
    if let Some(last) = report.redistribution_seconds {
        text.push_str(&format!("; last resize {}", seconds(last)));
    }
    if let Some(count) = report.bytes_per_rank {
        text.push_str(&format!("; {} a rank", elastic_policy::memory::bytes(count)));
    }
    if let Some(left) = report.remaining_seconds {
        text.push_str(&format!("; ends in {}", seconds(left)));
    }
    text + "\n"
}

/// Describes the loop common to all ranks.
fn loops_text(loops: &JobLoops, size: u64) -> String {
    let JobLoops { ranks, common } = loops;
    let Some(common) = common else {
        return format!("no loop of all ranks: {ranks} of {size} have loops\n");
    };
    let mut text = format!(
        "loop of all ranks: {} iterations in {}, {} of it in MPI",
        common.iterations,
        seconds(common.seconds),
        seconds(common.mpi_seconds)
    );
    if let (Some(ratio), Some(recent)) = (common.mpi_ratio, common.recent_mpi_ratio) {
        text.push_str(&format!("; MPI to computing {recent:.3}, {ratio:.3} on this size"));
    }
    text + "\n"
}

/// Formats a time with three significant digits or more.
fn seconds(seconds: f64) -> String {
    match seconds {
        100.0.. => format!("{seconds:.0} s"),
        1.0.. => format!("{seconds:.2} s"),
        _ => format!("{:.3} ms", seconds * 1e3),
    }
}

/// Prints the names of the jobs for shell completion, without contacting the jobs. Names with a
/// meaning to the shell are left out.
fn list_names() -> Result<u8> {
    let folders = Folders::of_this_user();
    for folder in folders.list()? {
        let jobs = jobs(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for job in jobs.iter().filter(|job| is_plain(job)) {
            say(&format!("{job}\n"))?;
        }
    }
    Ok(0)
}

/// Returns true for a word that no shell changes.
fn is_plain(word: &str) -> bool {
    !word.starts_with('-') && word.chars().all(|c| c.is_ascii_alphanumeric() || "._+-".contains(c))
}

fn list(json: bool) -> Result<u8> {
    let folders = Folders::of_this_user();
    let mut is_any = false;
    for folder in folders.list()? {
        // Removes the sockets of dead jobs.
        folders.sweep(&folder);
        let jobs = jobs(&folder).with_context(|| format!("reading {}", folder.display()))?;
        for job in jobs {
            let answer = Client::connect(&socket_of(&folder, &job))
                .and_then(|mut client| client.ask(&Call::Status {}));
            match answer {
                Ok(Answer::Status(status)) if json => {
                    say_json(&serde_json::to_string(&Answer::Status(status))?)?;
                }
                Ok(Answer::Status(status)) => {
                    say(&format!("{job}: {} of {} ranks\n", status.size, status.capacity))?;
                }
                // The job has died, or is just ending.
                _ => continue,
            }
            is_any = true;
        }
    }
    if !is_any && !json {
        complain("no job of yours has a control socket on this machine");
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_a_shell_expands_are_not_completed() {
        for plain in ["weather-app.12", "a_b+c"] {
            assert!(is_plain(plain), "{plain}");
        }
        for strange in ["$(id)", "`id`", "a;b", "*", "-x", "a'b"] {
            assert!(!is_plain(strange), "{strange}");
        }
    }

    #[test]
    fn status_shows_hosts_ranks_and_units() {
        let line = r#"{"status":{"job":"weather","epoch":3,"size":4,"capacity":8,"waiting":0,"next_event":1,"up_us":1,
            "hosts":[{"host":"n1","slots":4,"ranks":[0,1]},{"host":"n2","slots":4,"ranks":[2,3]}],
            "units":[{"unit":2,"ranks":[2,3]}]}}"#;
        let Answer::Status(status) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        let expected = "weather: 4 of 8 ranks, epoch 3\nn1: 4 slots, ranks: 0 1\nn2: 4 slots, ranks: 2 3\n\
            unit 2, leaves as a whole: ranks 2 3\n";
        assert_eq!(status_text(&status), expected);
    }

    #[test]
    fn status_shows_sizes_and_the_latest_report() {
        let line = r#"{"status":{"job":"weather","epoch":3,"size":4,"capacity":8,"waiting":0,"next_event":1,"up_us":1,
            "hosts":[],"limits":{"min":2,"max":8,"allowed":{"multiple_of":2}},
            "report":{"iteration":20,"iteration_seconds":1.5,"mean_seconds":1.25,"reports":2,"size":4,
            "redistribution_seconds":0.25,"mpi_ratio":0.04,"mpi_ratio_total":0.05,"remaining_seconds":300.0,
            "bytes_per_rank":3221225472}}}"#;
        let Answer::Status(status) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        let expected = "weather: 4 of 8 ranks, epoch 3\nsizes: 2 to 8, multiples of 2\n\
            iteration 20: 1.50 s on 4 ranks, 1.25 s in the mean of 2 reports; MPI to computing 0.040, 0.050 on this \
            size; last resize 250.000 ms; 3.0 GiB a rank; ends in 300 s\n";
        assert_eq!(status_text(&status), expected);
    }

    #[test]
    fn status_shows_the_loop_of_all_ranks_or_none() {
        let loops = |loops: &str| {
            let loops: JobLoops = serde_json::from_str(loops).unwrap();
            loops_text(&loops, 4)
        };
        let common = r#"{"ranks":4,"common":{"iterations":20,"seconds":30.0,"mpi_seconds":2.0,"mpi_ratio":0.0714,
            "recent_mpi_ratio":0.05}}"#;
        let expected = "loop of all ranks: 20 iterations in 30.00 s, 2.00 s of it in MPI; MPI to computing 0.050, 0.071 on \
            this size\n";
        assert_eq!(loops(common), expected);
        assert_eq!(loops(r#"{"ranks":3}"#), "no loop of all ranks: 3 of 4 have loops\n");
    }

    #[test]
    fn ranks_in_a_row_are_a_range() {
        let all: Vec<u64> = (0..1000).collect();
        assert_eq!(ranges(&all), "0-999");
        assert_eq!(ranges(&[0, 1, 4, 5, 6, 8, u64::MAX]), format!("0 1 4-6 8 {}", u64::MAX));
        assert_eq!(ranges(&[]), "");
    }
}
