//! `memprof live`: memory of a job now, from the files its ranks write.

use crate::model::{Child, Group, Job, LoadError, Rank, State};
use crate::observe::{self, Process};
use crate::report::grid::{Align, Grid, Weight};
use crate::terminal::{self, Look, Screen, clean};
use crate::units::{bytes, count, millionths, share, time};
use quo_terminal::child as signals;
use serde::Serialize;
use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

/// Show the memory of a running job until all its ranks have ended.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Also shows the last memory of killed ranks. Ctrl-C ends the display, not the job."
)]
pub struct Options {
    /// The folder of the job
    #[arg(value_name = "DIR", required_unless_present = "pid")]
    pub folder: Option<PathBuf>,
    /// Show any process of this machine instead
    #[arg(long, value_name = "PID", conflicts_with_all = ["folder", "job", "timeout", "ranks"])]
    pub pid: Option<u32>,
    /// Show only one job, where a script started several; 1 is the first
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub job: Option<u32>,
    /// Show once and end
    #[arg(long, conflicts_with = "interval")]
    pub once: bool,
    /// Seconds between refreshes
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
    /// Give up if there is no rank after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 30.0, value_parser = waiting)]
    pub timeout: f64,
    /// Show this many ranks, the largest first
    #[arg(long, value_name = "COUNT", default_value_t = 16)]
    pub ranks: usize,
    /// Print one line of JSON with all ranks for each refresh
    #[arg(long, conflicts_with = "ranks")]
    pub json: bool,
}

fn waiting(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.0..=1e9).contains(&value) => Ok(value),
        _ => Err("seconds from 0 to 1e9".to_owned()),
    }
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if (0.05..=3600.0).contains(&value) => Ok(value),
        _ => Err("seconds from 0.05 to 3600".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// If the process or folder cannot be observed, or standard output cannot be written.
pub fn run(options: &Options) -> anyhow::Result<ExitCode> {
    signals::handle();
    match (options.pid, &options.folder) {
        (Some(pid), _) => process(pid, options),
        (None, Some(folder)) => job(folder, options),
        (None, None) => anyhow::bail!("memprof live needs the folder of a job, or --pid"),
    }
}

/// Shows a process until it ends.
fn process(pid: u32, options: &Options) -> anyhow::Result<ExitCode> {
    let mut process = Process::open(pid)?;
    let terminal = std::io::stdout().is_terminal() && !options.json && !options.once;
    let screen = if terminal { Screen::open()? } else { None };
    let mut is_first = true;
    while let Some(seen) = process.observe()? {
        let text = match options.json {
            true => observe::json(&seen)?,
            false => observe::display(&seen, Look::stdout()),
        };
        let apart = if options.json || is_first { "" } else { "\n" };
        is_first = false;
        let is_heard = match &screen {
            Some(screen) => screen.show(&text)?,
            None => terminal::print(&format!("{apart}{text}"))?,
        };
        if !is_heard || options.once || !pause(Duration::from_secs_f64(options.interval)) {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Shows a job until all its ranks have ended.
fn job(folder: &Path, options: &Options) -> anyhow::Result<ExitCode> {
    let terminal = std::io::stdout().is_terminal() && !options.json;
    let (mut has_ranks, mut told) = (false, false);
    let mut screen = None;
    let until = std::time::Instant::now() + Duration::from_secs_f64(options.timeout);
    let mut unread = Unread::default();
    loop {
        let job = match Job::load_summaries(folder, options.job, &mut |_, _| {}) {
            Ok(job) => Some(job),
            // A job that has just been started has no ranks yet, or only one whose trace is being
            // created.
            Err(
                LoadError::Empty { .. } | LoadError::Unreadable { .. } | LoadError::NoJob { .. },
            ) if !options.once && (has_ranks || std::time::Instant::now() < until) => None,
            Err(error) => return Err(error.into()),
        };
        let ended = job.as_ref().is_some_and(|job| over(job) && unread.stay(job));
        match &job {
            Some(job) => {
                let goes_on = terminal && !options.once && !ended;
                if goes_on && screen.is_none() {
                    screen = Screen::open()?;
                }
                // The last look is printed on the main screen, where the commands are.
                if !goes_on {
                    screen = None;
                }
                let on = screen.as_ref();
                let ranks = match on {
                    Some(_) => options.ranks.min(room()),
                    None => options.ranks,
                };
                let text = match options.json {
                    true => json(job)?,
                    false => display(job, ranks, Look::stdout()),
                };
                let heard = match on {
                    Some(screen) => screen.show(&text)?,
                    None => terminal::print(&text)?,
                };
                if !heard {
                    return Ok(ExitCode::SUCCESS);
                }
            }
            None if !told => terminal::say("waiting for ranks"),
            None => {}
        }
        told = true;
        has_ranks |= job.is_some();
        if options.once || ended {
            return Ok(ExitCode::SUCCESS);
        }
        if !pause(Duration::from_secs_f64(options.interval)) {
            return Ok(ExitCode::SUCCESS);
        }
        if !terminal && !options.json && job.is_some() {
            terminal::print("\n")?;
        }
    }
}

/// Returns the number of ranks that fit on the terminal, one per line.
fn room() -> usize {
    /// Number of lines of [`display`] other than those of ranks.
    const OTHERS: usize = 8;
    terminal::height().map_or(usize::MAX, |height| height.saturating_sub(OTHERS).max(1))
}

/// Waits. Returns false if a signal has arrived, or the reader of standard output is gone.
fn pause(length: Duration) -> bool {
    let until = std::time::Instant::now() + length;
    while std::time::Instant::now() < until {
        if signals::asked_to_end() || terminal::is_abandoned() {
            return false;
        }
        std::thread::sleep(length.min(Duration::from_millis(50)));
    }
    !signals::asked_to_end()
}

/// Returns true if all readable ranks have ended. Ranks on other machines cannot be checked; they
/// have ended when they have closed their files.
fn over(job: &Job) -> bool {
    let ended = |rank: &Rank| {
        matches!(rank.state, State::Closed | State::Killed | State::Gone | State::Replaced)
    };
    job.ranks().all(ended)
}

/// Files that cannot be read, possibly because they are being created.
#[derive(Default)]
struct Unread {
    sizes: Vec<(PathBuf, u64)>,
    looks: u32,
}

impl Unread {
    /// Number of looks at unchanged sizes after which such files are considered abandoned.
    const LOOKS: u32 = 3;

    /// Returns true if none of them will become a trace any more.
    fn stay(&mut self, job: &Job) -> bool {
        let size = |file: &PathBuf| file.metadata().map_or(0, |data| data.len());
        let sizes: Vec<_> =
            job.unread.iter().map(|unread| (unread.file.clone(), size(&unread.file))).collect();
        self.looks = if sizes == self.sizes { self.looks + 1 } else { 0 };
        self.sizes = sizes;
        self.sizes.is_empty() || self.looks >= Unread::LOOKS
    }
}

/// Returns one screen.
pub fn display(job: &Job, ranks: usize, look: Look) -> String {
    use Align::{Left, Right};
    let all: Vec<&Rank> = job.ranks().collect();
    let running = all.iter().filter(|rank| rank.state == State::Running).count();
    let mut out = format!(
        "{}  {} on {}, {running} running, {}\n\n",
        look.bold(&clean(job.program())),
        count(all.len(), job.noun()),
        count(job.nodes.len(), "node"),
        time(job.duration_ns())
    );
    let groups: Vec<Group> = Group::ALL
        .into_iter()
        .filter(|group| {
            job.components.iter().any(|row| row.group == *group && row.resident_peak.max > 0)
        })
        .collect();
    let mut align = vec![Left, Left, Right, Right, Right];
    align.extend(groups.iter().map(|_| Right));
    align.push(Left);
    let mut grid = Grid::new(&align);
    let mut head = [job.noun(), "node", "at", "resident", "peak"].map(String::from).to_vec();
    head.extend(groups.iter().map(|group| group.label().to_owned()));
    grid.row(Weight::Head, head);
    let mut order = all.clone();
    order.sort_by_key(|rank| std::cmp::Reverse(rank.totals.resident));
    order.truncate(ranks);
    order.sort_by_key(|rank| rank.order());
    for rank in &order {
        let mut cells =
            vec![clean(&rank.short()), clean(&rank.identity.host), time(rank.duration_ns)];
        match rank.is_seen() {
            true => {
                cells.extend([rank.totals.resident, rank.peak.bytes].map(bytes));
                cells.extend(groups.iter().map(|group| bytes(held(rank, *group))));
            }
            false => {
                // Columns: resident, peak, and one for each group.
                cells.extend(std::iter::repeat_n("-".to_owned(), 2 + groups.len()));
            }
        }
        cells.push(match (rank.state, rank.is_seen()) {
            (State::Running, true) => String::new(),
            (State::Running, false) => "no sample".to_owned(),
            (state, true) => state.label().to_owned(),
            (state, false) => format!("{}, no sample", state.label()),
        });
        grid.row(Weight::Plain, cells);
    }
    if all.len() > order.len() {
        grid.row(Weight::Plain, [format!("{} more", all.len() - order.len())]);
    }
    let sum = |of: &dyn Fn(&Rank) -> u64| present(job, of).map_or_else(|| "-".to_owned(), bytes);
    let mut cells = vec![
        if all.iter().any(|rank| rank.left) { "there" } else { "all" }.to_owned(),
        String::new(),
        String::new(),
        sum(&|rank| rank.totals.resident),
        String::new(),
    ];
    cells.extend(groups.iter().map(|group| sum(&|rank| held(rank, *group))));
    grid.row(Weight::Sum, cells);
    out += &grid.text(look);
    let balance = &job.balance;
    let mut line =
        format!("{} unattributed", millionths(share(balance.unattributed, balance.resident)));
    if balance.ranks > balance.nodes {
        line += &format!("; nodes hold {}, shared pages once", bytes(balance.nodes));
    }
    if !job.unread.is_empty() {
        line += &format!("; {} cannot be read yet", count(job.unread.len(), "file"));
    }
    out += &format!("\n{}\n", look.dim(&line));
    // While ranks run, a trace that is being written may look damaged.
    if running == 0
        && let Some(damage) = job.damage()
    {
        out += &format!("{}\n", look.warn(&damage));
    }
    out
}

/// Version of the JSON form; fields are only added within one.
const VERSION: u32 = 2;

#[derive(Serialize)]
struct Document<'a> {
    memprof_live: u32,
    program: &'a str,
    duration_ns: u64,
    /// `None` before the first sample of any present rank; the same holds for `unattributed`.
    resident: Option<u64>,
    unattributed: Option<u64>,
    unread: usize,
    ranks: Vec<RankNow<'a>>,
}

#[derive(Serialize)]
struct RankNow<'a> {
    rank: Option<u32>,
    spawned: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    child: Option<Child>,
    job: Option<u32>,
    host: &'a str,
    pid: u32,
    state: State,
    duration_ns: u64,
    /// `None` if the rank has no sample; the same holds for `unattributed`, `peak` and `groups`.
    resident: Option<u64>,
    unattributed: Option<u64>,
    peak: Option<u64>,
    damaged: bool,
    left: bool,
    groups: Option<BTreeMap<&'static str, u64>>,
}

/// Returns one look as JSON, for other programs.
fn json(job: &Job) -> anyhow::Result<String> {
    let now = |rank: &'_ Rank| {
        let groups = Group::ALL.into_iter().map(|group| (group.label(), held(rank, group)));
        groups.collect::<BTreeMap<_, _>>()
    };
    let ranks = job.ranks().map(|rank| RankNow {
        rank: rank.identity.rank,
        spawned: rank.identity.spawned,
        child: rank.identity.child,
        job: rank.job,
        host: &rank.identity.host,
        pid: rank.identity.pid,
        state: rank.state,
        duration_ns: rank.duration_ns,
        resident: rank.is_seen().then_some(rank.totals.resident),
        unattributed: rank.is_seen().then_some(rank.totals.unattributed),
        peak: rank.is_seen().then_some(rank.peak.bytes),
        damaged: rank.damaged && rank.state != State::Running,
        left: rank.left,
        groups: rank.is_seen().then(|| now(rank)),
    });
    let document = Document {
        memprof_live: VERSION,
        program: job.program(),
        duration_ns: job.duration_ns(),
        resident: present(job, &|rank| rank.totals.resident),
        unattributed: present(job, &|rank| rank.totals.unattributed),
        unread: job.unread.len(),
        ranks: ranks.collect(),
    };
    Ok(serde_json::to_string(&document)? + "\n")
}

/// Returns the sum over the present ranks that have a sample; `None` if no rank has one.
fn present(job: &Job, of: &dyn Fn(&Rank) -> u64) -> Option<u64> {
    job.ranks().filter(|rank| !rank.left && rank.is_seen()).map(of).reduce(u64::saturating_add)
}

fn held(rank: &Rank, group: Group) -> u64 {
    let members = rank.held.iter().filter(|held| held.group == group);
    members.fold(0u64, |sum, held| sum.saturating_add(held.resident))
}
