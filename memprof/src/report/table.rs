//! The report as text on one screen.

pub mod answer;
pub mod slack;

use super::grid::{Align, Grid, Weight};
use crate::model::{
    ComponentSummary, Group, Job, Node, PhaseAcross, ProcessKey, Rank, Spread, Timeline,
    forked_told, noun, statistics, told,
};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, millionths, share, time};

/// Number of call stacks named among the causes of peaks, and of places with objects not freed.
const CAUSES: usize = 3;
/// Number of owners and touchers with a line.
const TOUCHES: usize = 8;
/// Meaning of the columns of tables of components, and of `slack`, in one line.
const GLOSSARY: &str = "owned: not freed, exact; resident: seen in memory; peak: the most; \
    at peak: when its rank held most; at most: a bound; slack: free in the allocator\n";

/// Number of components of a group with a separate line before the rest is merged.
const KEPT: usize = 6;
/// Beginning of the names of components that are the program itself.
const PROGRAM: &str = "app.exe";

/// Returns the line that explains the columns, of ranks or of processes.
pub fn glossary(noun: &str) -> String {
    GLOSSARY.replace("rank", noun)
}

/// Returns the table shown after a run.
pub fn short(job: &Job, look: Look) -> String {
    let mut out = String::from("\n");
    out += &heading(job, look);
    out += &answer::text(job, look);
    out += &components(&job.components, &total(job.ranks()), false, look);
    out += &look.dim(&look.wrap(&glossary(job.noun())));
    out += &tool_told(job).map_or(String::new(), |text| look.dim(&look.wrap(&format!("{text}\n"))));
    out.push('\n');
    out += &nodes(&job.nodes, look);
    out += &super::gpu::text(job, CAUSES, look);
    out += &slack::text(job, look);
    out += &closing(job, look);
    out += &look.dim(&format!("more: memprof report {}\n", clean(&shown(&job.folder))));
    out
}

/// Returns the overview of a job.
pub fn full(job: &Job, everything: bool, look: Look) -> String {
    let mut out = heading(job, look);
    out += &answer::text(job, look);
    out += &components(&job.components, &total(job.ranks()), everything, look);
    out += &look.dim(&look.wrap(&glossary(job.noun())));
    out += &tool_told(job).map_or(String::new(), |text| look.dim(&look.wrap(&format!("{text}\n"))));
    out.push('\n');
    out += &nodes(&job.nodes, look);
    out += &phases(&job.phases, job.noun(), look);
    out += &super::causes::text(job, CAUSES, look);
    out += &super::causes::allocated_for::text(job, CAUSES, look);
    out += &super::handles::text(job, CAUSES, look);
    out += &super::gpu::text(job, CAUSES, look);
    out += &slack::text(job, look);
    out += &super::touches::text(&job.touches, if everything { usize::MAX } else { TOUCHES }, look);
    out += &closing(job, look);
    out
}

/// Returns the table of one node: the components over its ranks, and their shared memory.
pub fn node(job: &Job, node: &Node, everything: bool, look: Look) -> String {
    let mut out = format!(
        "{}  {} of {}\n\n",
        look.bold(&clean(&node.host)),
        count(node.ranks.len(), job.noun()),
        clean(job.program())
    );
    let rows = statistics::across(node.ranks.iter());
    out += &components(&rows, &total(node.ranks.iter()), everything, look);
    out += &look.dim(&look.wrap(&glossary(job.noun())));
    out.push('\n');
    out += &nodes(std::slice::from_ref(node), look);
    out += &shared(node, everything, look);
    out += &closing(job, look);
    out
}

/// Returns the heading: programs, machines, and times.
fn heading(job: &Job, look: Look) -> String {
    let ranks = job.ranks().count();
    let what = match job.ranks().all(|rank| rank.identity.rank.is_some()) {
        true => "rank",
        false => "process",
    };
    let jobs = match job.jobs.len() {
        0 | 1 => String::new(),
        several => format!(" of {several} jobs"),
    };
    let mut parts = vec![
        format!("{}{jobs} on {}", count(ranks, what), count(job.nodes.len(), "node")),
        time(job.duration_ns()),
    ];
    if let Some(library) =
        job.ranks().map(|rank| &rank.identity.mpi_library).find(|name| !name.is_empty())
    {
        parts.push(clean(library));
    }
    format!(
        "{}  {}   {}\n\n",
        look.bold(&clean(job.program())),
        parts.join(", "),
        look.dim(&clean(&shown(&job.folder)))
    )
}

/// Returns `ranks` or `processes`.
pub fn plural(noun: &str) -> &'static str {
    if noun == "rank" { "ranks" } else { "processes" }
}

/// Sums over the components of each process.
struct Total {
    noun: &'static str,
    now: Spread,
    peak: Spread,
    owned: Spread,
}

fn total<'a>(ranks: impl Iterator<Item = &'a Rank> + Clone) -> Total {
    let mut total = Total {
        noun: noun(ranks.clone()),
        now: Spread::default(),
        peak: Spread::default(),
        owned: Spread::default(),
    };
    for rank in ranks.filter(|rank| rank.is_seen()) {
        let who = ProcessKey::of(rank);
        let owned = (rank.held.iter()).fold(0u64, |sum, held| sum.saturating_add(held.owned));
        total.now.add(rank.totals.resident, &who);
        total.peak.add(rank.peak.bytes, &who);
        total.owned.add(owned, &who);
    }
    total
}

/// Returns a sentence about the profiler's own memory, if it exceeds a tenth of what ranks held at
/// their peaks.
pub fn tool_told(job: &Job) -> Option<String> {
    let tool = job.components.iter().find(|row| row.group == Group::Tool)?;
    let held = tool.resident_at_peak.mean();
    (held > total(job.ranks()).peak.mean() / 10).then(|| {
        format!(
            "tool: {} in each rank are the profiler's tables and trace, however little the program holds and however short it runs",
            bytes(held)
        )
    })
}

fn components(rows: &[ComponentSummary], total: &Total, everything: bool, look: Look) -> String {
    use Align::{Left, Right};
    let mut grid = Grid::new(&[Left, Right, Right, Right, Right, Right, Right, Right, Right, Left])
        .least(&[9, 5, 1, 8, 3, 7, 2]);
    let several = total.peak.count > 1;
    let head = match several {
        true => [
            "",
            "owned",
            "peak",
            "resident",
            "at peak",
            "peak: min",
            "max",
            total.noun,
            "at most",
            "where",
        ],
        false => ["", "owned", "peak", "resident", "at peak", "", "peak", "", "at most", "where"],
    };
    grid.row(Weight::Head, head.map(String::from));
    for group in Group::ALL {
        let members: Vec<&ComponentSummary> =
            rows.iter().filter(|row| row.group == group).collect();
        let Some(first) = members.first() else {
            continue;
        };
        if members.len() == 1 && &*first.name == group.label() {
            grid.row(Weight::Sum, cells(first, &first.name, several));
            for (name, left) in left_by(rows, first) {
                let cells = [format!("  left by {}", clean(name)), String::new(), String::new()];
                grid.row(Weight::Plain, cells.into_iter().chain([String::new(), bytes(left)]));
            }
            continue;
        }
        let sum = |of: fn(&ComponentSummary) -> u64| members.iter().map(|row| of(row)).sum::<u64>();
        grid.row(
            Weight::Sum,
            [
                group.label().to_owned(),
                bytes(sum(|row| row.owned.mean())),
                String::new(),
                bytes(sum(|row| row.resident.mean())),
                bytes(sum(|row| row.resident_at_peak.mean())),
            ],
        );
        let limit = match everything || members.len() <= KEPT + 1 {
            true => members.len(),
            false => KEPT,
        };
        // The program itself is shown, however small it is; of several, the largest.
        let program = members.iter().position(|row| row.name.starts_with(PROGRAM));
        let is_shown = |(at, _): &(usize, _)| *at < limit || Some(*at) == program;
        let (shown, rest): (Vec<_>, Vec<_>) = members.into_iter().enumerate().partition(is_shown);
        for (_, row) in shown {
            grid.row(Weight::Plain, cells(row, &format!("  {}", clean(&row.name)), several));
        }
        if !rest.is_empty() {
            let sum =
                |of: fn(&ComponentSummary) -> u64| bytes(rest.iter().map(|(_, row)| of(row)).sum());
            grid.row(
                Weight::Plain,
                [
                    format!("  {} smaller", rest.len()),
                    sum(|row| row.owned.mean()),
                    String::new(),
                    sum(|row| row.resident.mean()),
                    sum(|row| row.resident_at_peak.mean()),
                ],
            );
        }
    }
    let label = match several {
        true => format!("all, of a {}", total.noun),
        false => "all".to_owned(),
    };
    let mut cells = vec![
        label,
        bytes(total.owned.mean()),
        String::new(),
        bytes(total.now.mean()),
        bytes(total.peak.mean()),
    ];
    cells.extend(spread(&total.peak, several));
    grid.row(Weight::Sum, cells);
    grid.text(look)
}

/// Minimum slack of a component that is named.
const LEFT: u64 = 256 << 10;

/// Returns the components that have left at least a tenth of the slack at the peak, largest first.
pub fn left_by<'a>(rows: &'a [ComponentSummary], slack: &ComponentSummary) -> Vec<(&'a str, u64)> {
    let all = slack.resident_at_peak.mean();
    let mut left: Vec<(&str, u64)> = (rows.iter())
        .filter(|_| slack.group == Group::Slack)
        .map(|row| (&*row.name, row.slack_at_peak.mean().min(all)))
        .filter(|(_, bytes)| *bytes >= LEFT && *bytes >= all / 10)
        .collect();
    left.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    left
}

fn cells(row: &ComponentSummary, name: &str, several: bool) -> Vec<String> {
    let mut cells = vec![
        name.to_owned(),
        bytes(row.owned.mean()),
        bytes(row.owned_peak.max),
        bytes(row.resident.mean()),
        bytes(row.resident_at_peak.mean()),
    ];
    cells.extend(spread(&row.resident_peak, several));
    cells.push(match row.group.has_ledger() {
        true => bytes(row.resident_bound.max),
        false => String::new(),
    });
    let place: Vec<String> =
        [&row.phase, &row.mpi_function].into_iter().flatten().map(|name| clean(name)).collect();
    cells.push(place.join(" · "));
    cells
}

fn spread(spread: &Spread, several: bool) -> [String; 3] {
    match several {
        true => [
            bytes(spread.min),
            bytes(spread.max),
            match spread.min == spread.max {
                true => "all".to_owned(),
                false => spread.max_at.to_string(),
            },
        ],
        false => [String::new(), bytes(spread.max), String::new()],
    }
}

/// Number of nodes with a separate line.
const NODES: usize = 4;

fn nodes(nodes: &[Node], look: Look) -> String {
    use Align::{Left, Right};
    let mut grid = Grid::new(&[Left, Right, Right, Right, Right, Left]);
    let noun = noun(nodes.iter().flat_map(|node| &node.ranks));
    let head = ["node", plural(noun), "now", "of it shared", "peak", "when"];
    grid.row(Weight::Head, head.map(String::from));
    let mut order: Vec<&Node> = nodes.iter().collect();
    let peak = |node: &Node| node.timeline.peak.as_ref().map_or(0, |peak| peak.bytes);
    order.sort_by_key(|node| std::cmp::Reverse(peak(node)));
    for node in order.iter().take(NODES) {
        let (_, sum) = node.present();
        let when = node.timeline.peak.as_ref().map(|moment| {
            let phase =
                (moment.phase.as_deref()).map_or(String::new(), |p| format!(" · {}", clean(p)));
            format!("{}{phase}", time(moment.time_ns))
        });
        grid.row(
            Weight::Plain,
            [
                clean(&node.host),
                node.ranks_told(),
                bytes(sum.saturating_sub(node.mapped.repeated)),
                bytes(node.mapped.shared()),
                peak_between(&node.timeline),
                when.unwrap_or_default(),
            ],
        );
    }
    let mut out = grid.text(look);
    if let (true, Some(least)) = (order.len() > NODES, order.last()) {
        out += &look.dim(&format!(
            "{} more nodes, the smallest peak {} on {}\n",
            order.len() - NODES,
            bytes(peak(least)),
            clean(&least.host)
        ));
    }
    out
}

/// Returns a peak, with its upper bound if it is not known well.
pub fn peak_between(timeline: &Timeline) -> String {
    let least = timeline.peak.as_ref().map_or(0, |peak| peak.bytes);
    let most = timeline.peak_at_most;
    match most.saturating_sub(least) > least / 50 {
        true => format!("{} to {}", bytes(least), bytes(most)),
        false => bytes(least),
    }
}

fn shared(node: &Node, everything: bool, look: Look) -> String {
    use Align::{Left, Right};
    let files = &node.joined.files;
    if files.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&[Left, Right, Right, Right, Left]);
    let head = ["shared", plural(noun(node.ranks.iter())), "added up", "once", "component"];
    grid.row(Weight::Head, head.map(String::from));
    let limit = if everything { files.len() } else { 12 };
    for file in files.iter().take(limit) {
        let once = match file.least == file.once {
            true => bytes(file.once),
            false => format!("{} to {}", bytes(file.least), bytes(file.once)),
        };
        grid.row(
            Weight::Plain,
            [
                clean(&file.path),
                // No process maps it any longer.
                match file.mapped {
                    0 => format!("{}, unmapped", file.processes),
                    _ => file.processes.to_string(),
                },
                bytes(file.sum),
                once,
                clean(&file.component),
            ],
        );
    }
    if files.len() > limit {
        grid.row(Weight::Plain, [format!("{} smaller", files.len() - limit)]);
    }
    format!("\n{}", grid.text(look))
}

fn phases(phases: &[PhaseAcross], noun: &str, look: Look) -> String {
    use Align::{Left, Right};
    const SHOWN: usize = 12;
    if phases.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&[Left, Right, Right, Right, Right, Left]).least(&[4, 1]);
    let head = ["phase", "times", "time", "resident peak", noun, "largest"];
    grid.row(Weight::Head, head.map(String::from));
    for phase in phases.iter().take(SHOWN) {
        let largest: Vec<String> = phase
            .components
            .iter()
            .take(2)
            .filter(|component| component.resident_peak.max > 0)
            .map(|c| format!("{} {}", clean(&c.name), bytes(c.resident_peak.max)))
            .collect();
        let indent = "  ".repeat(phase.depth.min(4) as usize);
        grid.row(
            Weight::Plain,
            [
                format!("{indent}{}", clean(&phase.name)),
                (phase.entries / u64::from(phase.processes.max(1))).to_string(),
                time(phase.time_ns.mean()),
                resident_in(&phase.resident_peak),
                match phase.resident_peak.count {
                    0 => String::new(),
                    _ => phase.resident_peak.max_at.to_string(),
                },
                largest.join(", "),
            ],
        );
    }
    if phases.len() > SHOWN {
        grid.row(Weight::Plain, [format!("{} more", phases.len() - SHOWN)]);
    }
    format!("\n{}", grid.text(look))
}

/// Returns the largest value; for a phase that ended before a sample in any rank, a text that says
/// so.
pub fn resident_in(peak: &Spread) -> String {
    match peak.count {
        0 => "no sample".to_owned(),
        _ => bytes(peak.max),
    }
}

/// Returns the quality of the numbers, the notes, and the missing parts.
pub fn closing(job: &Job, look: Look) -> String {
    let balance = &job.balance;
    if balance.resident == 0 {
        let line = "balance: none, since no sample is left of any rank";
        return format!("\n{}\n{}", look.warn(line), remarks(job, look));
    }
    let now = share(balance.unattributed, balance.resident);
    let mut line = format!(
        "balance: {} unattributed ({} at worst, {})",
        millionths(now),
        millionths(balance.worst_unattributed),
        balance.worst_at.label()
    );
    line += &match balance.kernel_distance {
        0 => "; the sum is the kernel's own, to the page".to_owned(),
        distance => format!(
            "; the sum within {} of the kernel's own ({})",
            bytes(distance),
            balance.kernel_at.label()
        ),
    };
    let samples = samples_in_main(job);
    let mut more =
        format!("         sampler {} of a processor; {}", millionths(balance.duty), samples.0);
    if balance.ranks > balance.nodes {
        let repeated = balance.ranks - balance.nodes;
        more += &format!("; {} shared counted once", bytes(repeated));
        if balance.uncertain > 0 {
            more += &format!(" (± {})", bytes(balance.uncertain));
        }
    }
    if let Some(shares) = job.by_shares() {
        more += &format!("; {shares}");
    }
    let mut out = String::from("\n");
    let seen = job.ranks().all(|rank| rank.unseen == 0);
    let well = now < 10_000 && balance.excesses.is_empty() && seen && samples.1 > 0;
    out += &match well {
        true => look.good(&look.wrap(&line)),
        false => look.warn(&look.wrap(&line)),
    };
    out += &format!("\n{}\n", look.dim(&look.wrap(&more)));
    for excess in balance.excesses.iter().take(3) {
        let text = format!(
            "  {} of {} has {} resident and owns {}",
            clean(&excess.component),
            excess.who.label(),
            bytes(excess.resident),
            bytes(excess.owned)
        );
        out += &format!("{}\n", look.warn(&look.wrap(&text)));
    }
    out + &remarks(job, look)
}

/// Returns the number of samples on which the figures are based, as text, and the fewest in a rank:
/// `3 to 118 samples in main (fewest: rank 2)`.
pub fn samples_in_main(job: &Job) -> (String, u64) {
    let mut samples = Spread::default();
    job.ranks().for_each(|rank| samples.add(rank.sampler.in_main, &ProcessKey::of(rank)));
    let text = match samples.min == samples.max {
        true => format!("{} in main", count(samples.max as usize, "sample")),
        false => format!(
            "{} to {} samples in main (fewest: {})",
            samples.min,
            samples.max,
            samples.min_at.label()
        ),
    };
    (text, samples.min)
}

/// Returns the notes and what is missing, one per line.
pub fn remarks(job: &Job, look: Look) -> String {
    let mut out = String::new();
    let processes = job.ranks().count();
    for note in &job.notes {
        let everywhere = note.processes as usize == processes;
        let place = match everywhere {
            true => String::new(),
            false => format!(" ({} of {processes})", note.processes),
        };
        let text = look.wrap(&format!("note: {}{place}\n", clean(&note.text)));
        out += &text.replacen("note:", &look.warn("note:"), 1);
    }
    if let Some(unseen) = super::gpu::unseen(job) {
        let text = look.wrap(&format!("note: {unseen}\n"));
        out += &text.replacen("note:", &look.warn("note:"), 1);
    }
    out += &between_samples(job.ranks(), look);
    out += &missing(job, look);
    out
}

/// Components that are named as possible owners of memory between samples.
const OWNERS: usize = 3;

/// Returns a line about memory that the kernel counted but no sample saw; empty if samples saw all
/// peaks. It is a note if a twentieth is missing.
pub fn between_samples<'a>(ranks: impl Iterator<Item = &'a Rank>, look: Look) -> String {
    let Some((told, is_note)) = missed(ranks) else { return String::new() };
    match is_note {
        true => look.wrap(&format!("note: {told}\n")).replacen("note:", &look.warn("note:"), 1),
        false => look.dim(&look.wrap(&format!("peak between samples: {told}\n"))),
    }
}

/// Returns a sentence about memory that the kernel counted but no sample saw, with the rank that
/// has most of it and the components that may have held it, and whether a twentieth of a peak is
/// missing; `None` if samples saw all peaks.
pub fn missed<'a>(ranks: impl Iterator<Item = &'a Rank>) -> Option<(String, bool)> {
    let ranks: Vec<&Rank> = ranks.filter(|rank| rank.missed > 0).collect();
    let worst = ranks.iter().max_by_key(|rank| rank.missed)?;
    let more = match ranks.len() {
        1 => String::new(),
        several => format!(" and {} more", several - 1),
    };
    let owners = worst.owners_of_missed();
    let owners: Vec<String> = owners
        .iter()
        .take(OWNERS)
        .map(|(name, more)| format!("{} {}", clean(name), bytes(*more)))
        .collect();
    let owners = match owners.is_empty() {
        true => {
            "; no single component owned enough for a tenth of it: it was free memory of the allocator, of stacks or \
             of files, or belongs to many components"
                .to_owned()
        }
        false => format!(
            "; by what each component owned they can be, at most: {}",
            owners.join(", ")
        ),
    };
    let told = format!(
        "{}{more}: the kernel counted {} resident at most, samples saw {} of that: {} more ({}) were there between \
         samples or while recording was off{owners}",
        worst.label(),
        bytes(worst.kernel_peak),
        bytes(worst.kernel_peak - worst.missed),
        bytes(worst.missed),
        millionths(share(worst.missed, worst.kernel_peak)),
    );
    Some((told, ranks.iter().any(|rank| rank.unseen > 0)))
}

/// Reason why a rank may have left neither a trace nor a report in the folder.
const NO_WORD: &str = "; perhaps the folder is not there where they ran, LD_PRELOAD and MEMPROF_DIR were not \
                       passed on to them, or MPI_Init did not return";

/// Returns missing or damaged parts, one per line.
pub fn missing(job: &Job, look: Look) -> String {
    use crate::model::State;
    let mut out = String::new();
    let mut line = |text: String| out.push_str(&format!("{} {text}\n", look.warn("note:")));
    let several = job.several();
    if let Some(several) = &several {
        line(several.clone());
    }
    for part in job.jobs.iter().filter(|part| !part.missing.is_empty()) {
        let some: Vec<String> = part.missing.iter().take(8).map(u32::to_string).collect();
        let more = if part.missing.len() > 8 { ", ..." } else { "" };
        let ranks = count(part.missing.len(), "rank");
        let of = if several.is_some() { format!(" of job {}", part.number) } else { String::new() };
        // Ranks that could not write a trace report this separately, which is shown below.
        let said =
            |rank: &u32| job.missing_ranks.refused.iter().any(|word| word.rank == Some(*rank));
        let why = if part.missing.iter().all(said) { "" } else { NO_WORD };
        line(format!("{ranks}{of} left no trace: {}{more}{why}", some.join(", ")));
    }
    told(&job.missing_ranks.refused).into_iter().for_each(&mut line);
    forked_told(&job.missing_ranks.forked).into_iter().for_each(&mut line);
    if job.missing_ranks.helpers > 0 {
        let traces = count(job.missing_ranks.helpers, "trace");
        line(format!("{traces} of programs beside the ranks that never called MPI, not counted"));
    }
    for (state, what) in [
        (State::Replaced, "became another program, which has a trace of its own"),
        (State::Killed, "ended without closing its trace (killed, or _exit)"),
        (State::Running, "still running"),
        (State::Open, "not closed: killed, or running on another machine"),
    ] {
        let ranks: Vec<&Rank> = job.ranks().filter(|rank| rank.state == state).collect();
        if let Some(first) = ranks.first() {
            let more = match ranks.len() {
                1 => String::new(),
                n => format!(" and {} more", n - 1),
            };
            let held = if state == State::Killed { last_words(&ranks) } else { String::new() };
            line(format!("{}{more}: {what}{held}", first.label()));
        }
    }
    let mut unseen = job.ranks().filter(|rank| !rank.is_seen());
    if let Some(first) = unseen.next() {
        let more = match unseen.count() {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        line(format!("{}{more}: no sample is left, not counted in the figures", first.label()));
    }
    match job.damage() {
        Some(damage) => line(damage),
        None => {
            let small: Vec<&Rank> = job.ranks().filter(|rank| !rank.faults.is_empty()).collect();
            if let Some(first) = small.first() {
                let (traces, fault) = (count(small.len(), "trace"), clean(&first.faults[0]));
                line(format!("{traces} too small; {}: {fault}", first.label()));
            }
        }
    }
    for unread in job.unread.iter().take(4) {
        line(format!("{}: {}", clean(&shown(&unread.file)), clean(&unread.why)));
    }
    if job.unread.len() > 4 {
        line(format!("{} more files cannot be read", job.unread.len() - 4));
    }
    out
}

/// Returns text about killed processes: which one held most when it was last sampled, and when that
/// was.
fn last_words(ranks: &[&Rank]) -> String {
    let Some(most) = ranks.iter().max_by_key(|rank| rank.totals.resident) else {
        return String::new();
    };
    let who = if ranks.len() > 1 { format!("most had {}, ", most.label()) } else { String::new() };
    let end = time(most.offset_ns.saturating_add(most.duration_ns));
    format!("; {who}last seen at {end} with {}", bytes(most.totals.resident))
}

/// Returns a path as users write it: relative if it is below the current folder.
pub fn shown(path: &std::path::Path) -> String {
    let here = std::env::current_dir().unwrap_or_default();
    let short = path.strip_prefix(&here).unwrap_or(path);
    match short.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => short.to_string_lossy().into_owned(),
    }
}
