//! `quo-elastic top`: a live table of this user's elastic jobs.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use elastic::change::{Event, Happening, Request, RequestKind, Step};
use elastic::manager::WorldStatus;
use quo_terminal::{clean, clean_json};
use serde_json::{Value, json};

use crate::manage::{Contact, here};

/// The number of a job's latest events that are searched for its last request.
const EVENTS: u64 = 64;
/// The columns of a screen of unknown width.
const USUAL_WIDTH: usize = 120;

/// Options of `quo-elastic top`.
#[derive(Debug, Args)]
pub struct Top {
    /// Show the table once and exit
    #[arg(long, conflicts_with = "interval")]
    once: bool,
    /// Time between refreshes
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = crate::manage::time)]
    interval: Duration,
}

/// A job with its last request.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    status: WorldStatus,
    last: Option<Last>,
}

/// The last request to a job, and its outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Last {
    asked: Request,
    /// Microseconds since the start of the job.
    at_us: u64,
    /// The event that ended it; `None` while it is under way.
    end: Option<Event>,
}

/// Shows the jobs until the output is closed, or once.
pub fn run(top: &Top, json: bool) -> Result<u8> {
    let is_screen = std::io::stdout().is_terminal() && !top.once && !json;
    let mut is_first = true;
    loop {
        let rows: Vec<Row> = here()?.into_iter().map(row).collect();
        let text = if json {
            clean_json(&document(&rows).to_string()) + "\n"
        } else if is_screen {
            screen(&table(&rows, width()), std::mem::take(&mut is_first))
        } else {
            table(&rows, usize::MAX)
        };
        if !print(&text)? || top.once {
            return Ok(0);
        }
        std::thread::sleep(top.interval);
        if !is_screen && !json && !print("\n")? {
            return Ok(0);
        }
    }
}

/// Prints a sanitised text. Returns false if the output is closed.
fn print(text: &str) -> Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        done => Ok(done.map(|()| true)?),
    }
}

/// Writes a table over the last one: clears the rest of each line, then the rest of the screen.
fn screen(table: &str, is_first: bool) -> String {
    let clear = if is_first { "\x1b[2J" } else { "" };
    format!("{clear}\x1b[H{}\x1b[J", table.replace('\n', "\x1b[K\n"))
}

fn width() -> usize {
    let size = rustix::termios::tcgetwinsize(std::io::stdout());
    size.ok().map(|size| usize::from(size.ws_col)).filter(|width| *width > 0).unwrap_or(USUAL_WIDTH)
}

fn row((status, contact): (WorldStatus, Contact)) -> Row {
    let events = contact.events(status.next_event.saturating_sub(EVENTS)).unwrap_or_default();
    Row { last: last(&events), status }
}

/// Returns the last request in the events of a job.
fn last(events: &[Event]) -> Option<Last> {
    let requested = events.iter().rev().find(|event| event.asked.is_some())?;
    let is_end = |event: &&Event| event.is_end() && event.request == requested.request;
    let end = events.iter().find(is_end).cloned();
    Some(Last { asked: requested.asked.clone()?, at_us: requested.time_us, end })
}

impl Last {
    /// Describes the request, its age, its state and its reason.
    fn words(&self, status: &WorldStatus) -> String {
        let places = |names: &[String]| names.join(",");
        let Request { kind: wish, on, from, nodes, .. } = &self.asked;
        let mut text = match wish {
            RequestKind::Grow(ranks) => format!("grow by {ranks}"),
            RequestKind::Shrink(ranks) => format!("shrink by {ranks}"),
            RequestKind::Size(ranks) => format!("size {ranks}"),
            RequestKind::Leave => format!("leave {}", places(from)),
            RequestKind::Move => format!("move from {} to {}", places(from), places(on)),
        };
        if *nodes > 0 {
            text.push_str(&format!(" on {nodes} new nodes"));
        }
        text.push_str(&format!(", {} ago", age(status.up_us.saturating_sub(self.at_us))));
        match &self.end {
            None => match status.step {
                Some(step) => text.push_str(&format!(", {step}")),
                None => text.push_str(", waits"),
            },
            Some(end) if end.what == Happening::Step(Step::Finalized) => text.push_str(", done"),
            Some(end) => {
                let cause = end.cause.as_ref().map_or(String::new(), |cause| format!(" ({cause})"));
                text.push_str(&format!(", not done{cause}"));
            }
        }
        if let Some(why) = &self.asked.why {
            text.push_str(&format!(": {why}"));
        }
        text
    }
}

fn age(microseconds: u64) -> String {
    match microseconds / 1_000_000 {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds => format!("{} h", seconds / 3600),
    }
}

/// Makes the table, with lines cut at this width.
fn table(rows: &[Row], width: usize) -> String {
    let head =
        ["JOB", "RANKS", "SIZES", "NODES", "ITERATION", "TIME", "MPI", "LEFT", "LAST REQUEST"];
    let mut lines = vec![head.map(str::to_owned)];
    lines.extend(rows.iter().map(cells));
    // A long name must not displace the figures.
    for line in &mut lines {
        line[0] = cut(&line[0], (width / 3).max(12));
    }
    let mut widths = [0; 9];
    for line in &lines {
        for (width, cell) in widths.iter_mut().zip(line) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for line in lines {
        let mut whole = String::new();
        for (index, (cell, width)) in line.iter().zip(widths).enumerate() {
            match index {
                0 => whole.push_str(&format!("{cell:<width$}")),
                8 => whole.push_str(&format!("  {cell}")),
                _ => whole.push_str(&format!("  {cell:>width$}")),
            }
        }
        text.push_str(&cut(whole.trim_end(), width));
        text.push('\n');
    }
    if rows.is_empty() {
        text.push_str("no job of yours has a control socket on this machine\n");
    }
    text
}

/// Cuts a text to the available width, and marks the cut.
fn cut(text: &str, room: usize) -> String {
    match text.chars().nth(room) {
        None => text.to_owned(),
        Some(_) => text.chars().take(room.saturating_sub(1)).chain(['…']).collect(),
    }
}

fn cells(row: &Row) -> [String; 9] {
    let Row { status, last } = row;
    let report = status.report.as_ref();
    let of = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let nodes = status.hosts.iter().filter(|host| !host.ranks.is_empty()).count();
    let seconds = |seconds: f64| match seconds {
        0.1.. => format!("{seconds:.1} s"),
        _ => format!("{:.1} ms", seconds * 1e3),
    };
    let cells = [
        status.job.clone(),
        status.size.to_string(),
        of(status.limits.as_ref().map(ToString::to_string)),
        nodes.to_string(),
        of(report.map(|report| report.iteration.to_string())),
        of(report.map(|report| seconds(report.iteration_seconds))),
        of(status.mpi_ratio().map(|(_, recent)| format!("{recent:.3}"))),
        of(report.and_then(|report| report.remaining_seconds).map(|left| age((left * 1e6) as u64))),
        of(last.as_ref().map(|last| last.words(status))),
    ];
    // A name could contain terminal control sequences.
    cells.map(|cell| clean(&cell))
}

/// Makes the JSON form of one table.
fn document(rows: &[Row]) -> Value {
    let jobs: Vec<Value> = rows
        .iter()
        .map(|Row { status, last }| {
            let last = last
                .as_ref()
                .map(|last| json!({"asked": last.asked, "at_us": last.at_us, "end": last.end}));
            json!({"status": status, "last": last})
        })
        .collect();
    json!({"jobs": jobs})
}

#[cfg(test)]
mod tests {
    use elastic::manager::control::wire::Answer;

    use super::*;

    fn rows() -> Vec<Row> {
        let line = r#"{"status":{"job":"wea\u001bther","epoch":3,"size":4,"capacity":8,"waiting":0,"next_event":9,
            "up_us":130000000,"hosts":[{"host":"n1","slots":4,"ranks":[0,1,2,3]},{"host":"n2","slots":4,"ranks":[]}],
            "limits":{"min":1,"max":8,"allowed":"any"},"report":{"iteration":12,"iteration_seconds":0.25,
            "mean_seconds":0.25,"reports":3,"size":4,"mpi_ratio":0.031,"remaining_seconds":400.0}}}"#;
        let Answer::Status(status) = serde_json::from_str(line).unwrap() else { panic!("{line}") };
        let events = r#"{"sequence":5,"time_us":90000000,"event":"requested","request":2,"epoch":2,"size":2,"asked":{"wish":{"grow":2},"origin":"socket","why":"idle nodes"}}
{"sequence":8,"time_us":91000000,"event":"finalized","request":2,"epoch":3,"size":4}"#;
        let last = last(&Event::from_lines(events).unwrap());
        vec![Row { status: *status, last }]
    }

    #[test]
    fn table_has_a_line_for_each_job_with_the_reason() {
        let table = table(&rows(), usize::MAX);
        let expected = "\
JOB       RANKS   SIZES  NODES  ITERATION   TIME    MPI   LEFT  LAST REQUEST
wea\u{fffd}ther      4  1 to 8      1         12  0.2 s  0.031  6 min  grow by 2, 40 s ago, done: idle nodes
";
        assert_eq!(table, expected);
        let narrow = self::table(&rows(), 20);
        assert!(narrow.lines().all(|line| line.chars().count() <= 20), "{narrow}");
        assert!(self::table(&[], 80).contains("no job of yours"));
        let mut long = rows();
        long[0].status.job = "n".repeat(200);
        let text = self::table(&long, 80);
        let line = text.lines().nth(1).unwrap();
        assert!(line.starts_with(&("n".repeat(25) + "…      4  1 to 8 ")), "{text}");
        assert!(line.ends_with('…') && line.chars().count() == 80, "{text}");
    }

    #[test]
    fn request_that_was_not_done_or_goes_on_is_told() {
        let mut row = rows().remove(0);
        let last = row.last.as_mut().unwrap();
        last.asked.why = None;
        last.end.as_mut().unwrap().what = Happening::Step(Step::Aborted);
        assert_eq!(last.words(&row.status), "grow by 2, 40 s ago, not done");
        last.end = None;
        assert_eq!(last.words(&row.status), "grow by 2, 40 s ago, waits");
    }

    #[test]
    fn screen_is_overwritten_without_flicker() {
        assert_eq!(screen("a\nb\n", true), "\x1b[2J\x1b[Ha\x1b[K\nb\x1b[K\n\x1b[J");
        assert_eq!(screen("a\n", false), "\x1b[Ha\x1b[K\n\x1b[J");
    }
}
