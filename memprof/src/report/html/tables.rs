//! Tables of the page.

use super::page::Table;
use crate::model::{ComponentSummary, Group, Job, Spread};
use crate::report::causes::allocated_for;
use crate::report::grid::Weight;
use crate::report::{
    causes, gpu as devices, growth, handles as objects, sites as stacks, table,
    touches as first_touches,
};
use crate::terminal::{Look, clean, markup};
use crate::units::{bytes, count, millionths, share, time};

/// Number of components of a group that have their own row; the terminal shows all with --all.
const KEPT: usize = 12;
/// Maximum number of rows of a table; the omission is stated.
const ROWS: usize = 400;
/// Number of owners and touchers with a row.
const CELLS: usize = 60;
/// Number of call stacks named among the causes of peaks.
const CAUSES: usize = 10;

fn section(title: &str, about: &str, body: &str) -> String {
    let about = match about.is_empty() {
        true => String::new(),
        false => format!("<p class=about>{}</p>\n", markup(about)),
    };
    format!("<section>\n<h2>{}</h2>\n{about}{body}</section>\n", markup(title))
}

/// Returns the sentences about the largest peak, the memory of its node, and growth.
pub fn answer(job: &Job, grown: &growth::Named) -> String {
    let sentences = table::answer::of(job, grown).map_or(Vec::new(), |answer| answer.sentences);
    let lines = sentences.iter().map(|text| format!("<p>{}</p>\n", markup(text)));
    format!("<div class=answer>\n{}</div>\n", lines.collect::<String>())
}

/// Returns warnings that must be read before the numbers.
pub fn alerts(job: &Job) -> String {
    let text = table::remarks(job, Look::plain());
    let lines = text.lines().map(|line| line.trim_start_matches("note: "));
    lines.map(|line| format!("<p class=note>{}</p>\n", markup(line))).collect()
}

/// Returns the table of components over ranks.
pub fn components(job: &Job) -> String {
    let mut out = Table::new(
        1,
        &[
            "component",
            "owned now, mean",
            "owned peak, max",
            "resident now, mean",
            "at the rank's peak, mean",
            "resident peak, min",
            "mean",
            "max",
            job.noun(),
            "at most",
            "where",
        ],
    );
    for group in Group::ALL {
        let members: Vec<&ComponentSummary> =
            job.components.iter().filter(|row| row.group == group).collect();
        if members.is_empty() {
            continue;
        }
        let alone = members.len() == 1 && &*members[0].name == group.label();
        if !alone {
            let sum =
                |of: fn(&ComponentSummary) -> u64| bytes(members.iter().map(|row| of(row)).sum());
            out.row(
                "group",
                [
                    group.label().to_owned(),
                    sum(|row| row.owned.mean()),
                    String::new(),
                    sum(|row| row.resident.mean()),
                    sum(|row| row.resident_at_peak.mean()),
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                    String::new(),
                ],
            );
        }
        let shown = if members.len() <= KEPT + 1 { members.len() } else { KEPT };
        for row in &members[..shown] {
            let place: Vec<String> = [&row.phase, &row.mpi_function]
                .into_iter()
                .flatten()
                .map(|name| clean(name))
                .collect();
            out.row(
                if alone { "group" } else { "member" },
                [
                    clean(&row.name),
                    bytes(row.owned.mean()),
                    bytes(row.owned_peak.max),
                    bytes(row.resident.mean()),
                    bytes(row.resident_at_peak.mean()),
                    bytes(row.resident_peak.min),
                    bytes(row.resident_peak.mean()),
                    bytes(row.resident_peak.max),
                    who(&row.resident_peak),
                    match row.group.has_ledger() {
                        true => bytes(row.resident_bound.max),
                        false => String::new(),
                    },
                    place.join(" · "),
                ],
            );
        }
        for (name, left) in table::left_by(&job.components, members[0]) {
            let empty = String::new;
            let cells =
                [format!("left by {}", clean(name)), empty(), empty(), empty(), bytes(left)];
            out.row("member", cells.into_iter().chain((0..6).map(|_| empty())));
        }
        let rest = &members[shown..];
        if !rest.is_empty() {
            let sum =
                |of: fn(&ComponentSummary) -> u64| bytes(rest.iter().map(|row| of(row)).sum());
            let cells = [
                format!("{} smaller", rest.len()),
                sum(|row| row.owned.mean()),
                String::new(),
                sum(|row| row.resident.mean()),
                sum(|row| row.resident_at_peak.mean()),
            ];
            out.row("member", cells.into_iter().chain((0..6).map(|_| String::new())));
        }
    }
    let (slack, arenas) =
        table::slack::of(job).map_or_else(Default::default, |told| (told.sentences, told.arenas));
    let tool = table::tool_told(job).into_iter().chain(slack);
    let mut tool: String =
        tool.map(|text| format!("<p class=about>{}</p>\n", markup(text.trim()))).collect();
    if !arenas.is_empty() {
        let mut out = Table::new(1, &table::slack::ARENAS_HEAD);
        arenas.into_iter().for_each(|cells| out.row("", cells));
        tool += &out.finish();
    }
    section(
        "Components",
        "Owned: what a component asked for and has not given back; exact. Resident: pages of it in memory; sampled. At \
         the rank's peak: what it had when the rank as a whole held most; this column adds up. At most: a bound on \
         what was resident at any time, between samples too.",
        &(out.finish() + &tool),
    )
}

fn who(spread: &Spread) -> String {
    match spread.min == spread.max && spread.count > 1 {
        true => "all".to_owned(),
        false => spread.max_at.to_string(),
    }
}

/// Returns the table of peaks and their causes.
pub fn causes(job: &Job) -> String {
    let mut out = Table::new(3, &["peak of", "in", "largest then", "resident", "at"]);
    for peak in causes::peaks(job, causes::SHOWN) {
        let (resident, at) = (peak.resident.clone(), time(peak.moment.time_ns));
        out.row("", [peak.of.clone(), peak.place(), peak.holders(), resident, at]);
    }
    let mut body = out.finish();
    let stacks = causes::causes(job, CAUSES);
    if !stacks.is_empty() {
        let heads = ["allocated by", "of", "live at the peaks of ranks", "in"];
        let mut out = Table::new(2, &heads);
        for cause in stacks {
            let live = bytes(cause.at_peak);
            let processes = cause.processes();
            out.row("", [cause.place, cause.component, live, processes]);
        }
        body += &out.finish();
    }
    let libraries = allocated_for::of(job, CAUSES);
    if !libraries.calls.is_empty() {
        let heads = ["allocated for", "of", "live at the peaks of ranks", "in"];
        let mut out = Table::new(2, &heads);
        for call in &libraries.calls {
            let (live, processes) = (bytes(call.at_peak), call.processes());
            out.row("", [call.place.clone(), call.component.clone(), live, processes]);
        }
        body += &out.finish();
        let remainder = libraries.remainder();
        body.extend(remainder.map(|text| format!("<p class=about>{}</p>\n", markup(&text))));
    }
    section(
        "Peaks and what made them",
        "Phase and MPI function the main thread was in when most was seen, who held it, and which calls had allocated \
         what lived then: estimates from sampled call stacks. Memory of a library is also shown by the call of the \
         application above it, which it was allocated for.",
        &body,
    )
}

/// Returns what grows between equal moments: components with calls, then nodes.
pub fn growth(named: &growth::Named) -> String {
    let mut body = String::new();
    let heads = named.heads();
    let mut out = Table::new(1, &heads.each_ref().map(String::as_str));
    let rows = named.rows();
    for (weight, cells) in &rows {
        let class = if *weight == Weight::Sum { "group" } else { "member" };
        let empty = heads.len() - cells.len();
        out.row(class, cells.iter().cloned().chain((0..empty).map(|_| String::new())));
    }
    if !rows.is_empty() {
        body += &out.finish();
    }
    let paragraphs = named.sentences().into_iter().flatten();
    body.extend(paragraphs.map(|text| format!("<p>{}</p>\n", markup(&text))));
    let head = named.head();
    let mut about = format!("{}{}.", head[..1].to_uppercase(), &head[1..]);
    about += &named.method().map_or(String::new(), |method| format!(" {method}."));
    section("Growth", &about, &body)
}

/// Returns first touches by owner and toucher; empty if page faults were not recorded.
pub fn touches(job: &Job) -> String {
    let matrix = &job.touches;
    if matrix.processes == 0 {
        return String::new();
    }
    let mut out = Table::new(2, &["memory of", "first touched by", "bytes", "page faults"]);
    for cell in matrix.cells.iter().take(CELLS) {
        let toucher = first_touches::toucher(cell);
        out.row("", [clean(&cell.owner), toucher, bytes(cell.bytes), cell.faults.to_string()]);
    }
    section("Who touched whose memory first", &first_touches::note(matrix), &out.finish())
}

/// Returns the sentences about MPI objects that were not freed, and the table of places that make
/// some; empty if none were made.
pub fn handles(job: &Job) -> String {
    if job.handles.is_empty() {
        return String::new();
    }
    let (said, _) = objects::sentences(job, CAUSES);
    let said = said.iter().map(|text| format!("<p>{}</p>\n", markup(text)));
    let mut body: String = said.collect();
    let heads = ["kind", "made by", "in", "memory, estimated", "alive", "of", "most at once"];
    let mut out = Table::new(4, &heads);
    for named in objects::named(job).iter().take(CELLS) {
        let [alive, made, kind, most, _, function, place, memory] = objects::cells(named);
        out.row("", [kind, function, place, memory, alive, made, most]);
    }
    body += &out.finish();
    section(
        "MPI objects",
        "How many objects each call of the program made, and how many of them are alive.",
        &body,
    )
}

/// Returns the tables of the memory requested from the runtimes of GPUs: of components, and of call
/// sites; empty if there was none.
pub fn gpu(job: &Job) -> String {
    let held = devices::held(job);
    if held.is_empty() {
        return String::new();
    }
    let mut all = Table::new(2, &devices::HEAD);
    for cells in held.iter().take(CELLS) {
        all.row("", cells.clone());
    }
    let [alive, peak, kind, function, place, processes] = devices::SITES_HEAD;
    let mut calls = Table::new(4, &[kind, function, place, processes, alive, peak]);
    for named in devices::named(job).iter().take(CELLS) {
        let [alive, peak, kind, function, place, processes] = devices::cells(named);
        calls.row("", [kind, function, place, processes, alive, peak]);
    }
    section("Memory of GPUs", devices::NOTE, &(all.finish() + &calls.finish()))
}

/// Returns the table of phases over ranks.
pub fn phases(job: &Job) -> String {
    if job.phases.is_empty() {
        return String::new();
    }
    let heads = [
        "phase",
        "largest components",
        "times per rank",
        "time, mean",
        "max",
        "resident peak, mean",
        "max",
        job.noun(),
    ];
    let mut out = Table::new(2, &heads);
    for phase in job.phases.iter().take(ROWS) {
        let largest: Vec<String> = phase
            .components
            .iter()
            .take(3)
            .filter(|component| component.resident_peak.max > 0)
            .map(|c| format!("{} {}", clean(&c.name), bytes(c.resident_peak.max)))
            .collect();
        let indent = "\u{2003}".repeat(phase.depth.min(8) as usize);
        out.row(
            "",
            [
                format!("{indent}{}", clean(&phase.name)),
                largest.join(", "),
                (phase.entries / u64::from(phase.processes.max(1))).to_string(),
                time(phase.time_ns.mean()),
                time(phase.time_ns.max),
                match phase.resident_peak.count {
                    0 => String::new(),
                    _ => bytes(phase.resident_peak.mean()),
                },
                table::resident_in(&phase.resident_peak),
                match phase.resident_peak.count {
                    0 => String::new(),
                    _ => who(&phase.resident_peak),
                },
            ],
        );
    }
    section(
        "Phases",
        "The resident peak of a phase adds up what components held at most in it; where they peaked at different \
         moments, the process never held so much at once.",
        &out.finish(),
    )
}

/// Returns the table of nodes.
pub fn nodes(job: &Job) -> String {
    let ranks = table::plural(job.noun());
    let heads = ["node", ranks, "added up now", "now, shared once", "of it shared", "peak", "at"];
    let mut out = Table::new(1, &heads);
    for node in job.nodes.iter().take(ROWS) {
        let (_, sum) = node.present();
        let peak = node.timeline.peak.clone().unwrap_or_default();
        out.row(
            "",
            [
                clean(&node.host),
                node.ranks_told(),
                bytes(sum),
                bytes(sum.saturating_sub(node.mapped.repeated)),
                bytes(node.mapped.shared()),
                table::peak_between(&node.timeline),
                time(peak.time_ns),
            ],
        );
    }
    let mut body = out.finish();
    if job.nodes.len() > ROWS {
        body += &format!("<p>{} more nodes</p>", job.nodes.len() - ROWS);
    }
    section("Memory of nodes", "", &body)
}

/// Returns the memory that the ranks of the fullest node share.
pub fn shared(job: &Job) -> String {
    let fullest = job.nodes.iter().max_by_key(|node| node.joined.repeated);
    let Some(node) = fullest.filter(|node| !node.joined.files.is_empty()) else {
        return String::new();
    };
    let ranks = table::plural(job.noun());
    let heads = ["file or segment", "component", ranks, "added up", "once", "at least"];
    let mut out = Table::new(2, &heads);
    for file in node.joined.files.iter().take(40) {
        out.row(
            "",
            [
                clean(&file.path),
                clean(&file.component),
                file.processes.to_string(),
                bytes(file.sum),
                bytes(file.once),
                bytes(file.least),
            ],
        );
    }
    let about = format!(
        "Pages that {ranks} of {} map together, by the bitmaps of device, inode and page.",
        clean(&node.host)
    );
    section("Shared pages", &about, &out.finish())
}

/// Returns the sampled call stacks.
pub fn sites(job: &Job, limit: usize) -> String {
    let named = stacks::named(&job.sites, job.started_ns, limit);
    if named.is_empty() {
        return String::new();
    }
    let mut body = String::new();
    for (index, site) in named.iter().enumerate() {
        let open = if index < 3 { " open" } else { "" };
        let names: Vec<String> = site.names.iter().map(|name| markup(name)).collect();
        let call = site.allocated_for.as_ref();
        let call = call.map_or(String::new(), |call| format!(" · allocated for {}", markup(call)));
        body += &format!(
            "<details{open}><summary><b>{}</b> at peak, {} now · {} · {}{call}</summary><pre>{}</pre></details>\n",
            bytes(site.site.peak),
            bytes(site.site.live),
            markup(&site.site.component),
            count(site.site.processes as usize, "process"),
            names.join("\n")
        );
    }
    section(
        "Where memory was allocated",
        "Sampled call stacks, innermost first. Estimates, right on average; peaks added up over processes.",
        &body,
    )
}

/// Returns the checks of the numbers.
pub fn balance(job: &Job) -> String {
    let balance = &job.balance;
    let mut out = Table::new(1, &["check", "value", "worst at"]);
    let mut row = |what: &str, value: String, at: String| out.row("", [what.to_owned(), value, at]);
    row(
        "without an owner, of all resident memory at the last samples",
        millionths(share(balance.unattributed, balance.resident)),
        String::new(),
    );
    row(
        "without an owner, at any time",
        millionths(balance.worst_unattributed),
        balance.worst_at.label(),
    );
    row(
        "sum of components against the kernel's own count",
        bytes(balance.kernel_distance),
        balance.kernel_at.label(),
    );
    row("ranks added up", bytes(balance.ranks), String::new());
    row(
        "shared pages counted more than once by that",
        bytes(balance.ranks - balance.nodes),
        String::new(),
    );
    row("of these not certain", bytes(balance.uncertain), String::new());
    row("nodes", bytes(balance.nodes), String::new());
    row(
        "components with more resident than owned",
        balance.excesses.len().to_string(),
        String::new(),
    );
    row(
        "small blocks on shared heap pages: resident known to ±",
        bytes(balance.mixed_bytes),
        String::new(),
    );
    row("sampler, of one processor", millionths(balance.duty), String::new());
    row("full samples behind these figures", table::samples_in_main(job).0, String::new());
    section(
        "Closing balance",
        "At every sample the components and what has no owner add up to what the kernel holds for the process.",
        &out.finish(),
    )
}
