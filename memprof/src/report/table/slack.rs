//! The allocator's free memory: what would return it, what keeps it, and in which arenas it is.

use crate::model::{Arena, FreePages, Group, Holder, Job, ProcessKey, Rank, Slack};
use crate::report::causes;
use crate::report::grid::{Align, Grid, Weight};
use crate::report::symbols::Symbols;
use crate::terminal::{Look, clean};
use crate::units::{bytes, count};
use serde::Serialize;

/// Slack that is worth sentences, in bytes.
const LEAST: u64 = 4 << 20;
/// Part of the process's peak, as one in so many, that slack must be for these.
const PART: u64 = 10;
/// Thread arenas from which on fewer of them would help.
const MANY_ARENAS: u32 = 4;
/// Arenas that have a line each; the others are added up.
const ARENAS: usize = 4;

/// Titles of the columns of the table of arenas.
pub const ARENAS_HEAD: [&str; 7] =
    ["arena", "resident", "in use", "free", "trim returns", "last block of", "left by"];

/// Slack of the process that has most of it, with sentences.
#[derive(Debug, Serialize)]
pub struct Told {
    /// The process.
    pub process: ProcessKey,
    /// True for its peak, false for its last sample.
    pub at_peak: bool,
    /// Resident bytes that are free in the allocator.
    pub slack: u64,
    /// Bytes that `malloc_trim(0)` returns at least; `None` if that is not known.
    pub returned_by_trim: Option<u64>,
    /// Bytes that it returns at most.
    pub returned_by_trim_at_most: Option<u64>,
    /// Call that allocated a block in the last page of the main heap that has one.
    pub held_by_call: Option<String>,
    /// All of it in words.
    pub sentences: Vec<String>,
    /// Cells of the arenas, if there is more than the main one.
    #[serde(skip)]
    pub arenas: Vec<[String; 7]>,
}

/// Returns the slack of the process with most of it at its peak, or, if there is little at peaks,
/// at its last sample; `None` if there is little then, too.
pub fn of(job: &Job) -> Option<Told> {
    let most = |at_peak: bool| {
        let ranks = job.ranks().filter(move |rank| is_much(rank, slack_of(rank, at_peak)));
        ranks.max_by_key(move |rank| slack_of(rank, at_peak)).map(|rank| (rank, at_peak))
    };
    let (rank, at_peak) = most(true).or_else(|| most(false))?;
    let found = rank.slack.as_ref()?;
    let bytes = slack_of(rank, at_peak);
    let pages = if at_peak { &found.at_peak } else { &found.now };
    let is_known =
        found.allocator.is_none() && rank.lost.iter().all(|lost| &*lost.table != "granules");
    let least = pages.returned_by_trim().min(bytes);
    let most = least.saturating_add(pages.uncertain).min(bytes);
    let call = if is_known { call_of(rank, &pages.holder, job.started_ns) } else { None };
    let when = if at_peak { "peak" } else { "last sample" };
    let who = match job.ranks().count() {
        1 => format!("at the {when}"),
        _ => format!("of {} at its {when}", rank.label()),
    };
    let sentences = sentences(&who, bytes, found, pages, is_known, call.as_deref());
    Some(Told {
        process: ProcessKey::of(rank),
        at_peak,
        slack: bytes,
        returned_by_trim: is_known.then_some(least),
        returned_by_trim_at_most: is_known.then_some(most),
        held_by_call: call,
        sentences,
        arenas: if is_known { arenas(rank, pages, bytes, job.started_ns) } else { Vec::new() },
    })
}

/// Returns the cells of the arenas with most free memory, and of the sum of the others. They say
/// nothing new where a thread's arena has little.
fn arenas(rank: &Rank, pages: &FreePages, slack: u64, started_ns: u64) -> Vec<[String; 7]> {
    let is_much = |arena: &&Arena| arena.free >= slack / PART && arena.free >= LEAST / 4;
    if !pages.by_arena.iter().any(|arena| arena.number != Some(0) && is_much(&arena)) {
        return Vec::new();
    }
    let named = pages.by_arena.iter().filter(|arena| arena.number.is_some());
    let named = named.take_while(is_much).take(ARENAS).count();
    let (named, others) = pages.by_arena.split_at(named);
    let mut rows: Vec<_> =
        named.iter().map(|arena| cells(arena, &held_by(rank, &arena.holder, started_ns))).collect();
    if let Some((first, more)) = others.split_first() {
        let mut sum = first.clone();
        more.iter().for_each(|arena| sum.add(arena));
        rows.push(cells(&sum, ""));
    }
    rows
}

/// Returns the component that has the last block of an arena, with the call if it was sampled.
fn held_by(rank: &Rank, holder: &Holder, started_ns: u64) -> String {
    let Some(name) = &holder.held_by else { return String::new() };
    match call_of(rank, holder, started_ns) {
        Some(call) => format!("{} ({call})", clean(name)),
        None => clean(name),
    }
}

fn cells(arena: &Arena, held_by: &str) -> [String; 7] {
    let name = match arena.number {
        Some(0) => "main".to_owned(),
        Some(number) => format!("thread arena {number}"),
        None => count(arena.arenas as usize, "other"),
    };
    let (least, most) = (arena.returned_by_trim, arena.returned_by_trim + arena.uncertain);
    let most = most.min(arena.free);
    let returned = match most.saturating_sub(least) > arena.free / 20 {
        true => format!("{} to {}", bytes(least), bytes(most)),
        false => bytes(least),
    };
    let left_by = arena.left_by.as_ref().map_or(String::new(), |name| clean(name));
    let [resident, in_use, free] = [arena.resident, arena.in_use, arena.free].map(bytes);
    [name, resident, in_use, free, returned, held_by.to_owned(), left_by]
}

/// Returns the sentences and the arenas for the terminal, after an empty line; nothing if there is
/// little slack.
pub fn text(job: &Job, look: Look) -> String {
    use Align::{Left, Right};
    let Some(told) = of(job).filter(|told| !told.sentences.is_empty()) else {
        return String::new();
    };
    let lines = super::answer::lines(&told.sentences, look);
    let mut grid = Grid::new(&[Left, Right, Right, Right, Right, Left, Left]);
    if !told.arenas.is_empty() {
        grid.row(Weight::Head, ARENAS_HEAD.map(String::from));
    }
    told.arenas.into_iter().for_each(|cells| grid.row(Weight::Plain, cells));
    format!("\n{lines}{}", grid.text(look))
}

fn slack_of(rank: &Rank, at_peak: bool) -> u64 {
    let slack = rank.held.iter().filter(|held| held.group == Group::Slack);
    slack.map(|held| if at_peak { held.resident_at_peak } else { held.resident }).sum()
}

fn is_much(rank: &Rank, slack: u64) -> bool {
    slack >= LEAST && slack >= rank.peak.bytes / PART
}

/// Returns the call that allocated the last block, if it was sampled.
fn call_of(rank: &Rank, holder: &Holder, started_ns: u64) -> Option<String> {
    let (at, component) = (holder.site?, holder.held_by.as_ref()?);
    // The trace may have been removed since.
    let (objects, sites) = rank.sites().ok()?;
    let site = sites.get(at).filter(|site| site.component == *component)?;
    let place = causes::place(site, &objects, &mut Symbols::new(&objects, started_ns));
    (!place.is_empty()).then(|| clean(&place))
}

fn sentences(
    who: &str,
    slack: u64,
    found: &Slack,
    pages: &FreePages,
    is_known: bool,
    call: Option<&str>,
) -> Vec<String> {
    if let Some(allocator) = &found.allocator {
        return vec![format!(
            "slack {who}: {} are free in {}; what of it can be returned is not known, since \
             malloc_trim acts on the C library's heaps only",
            bytes(slack),
            clean(allocator)
        )];
    }
    if !is_known {
        return Vec::new();
    }
    let least = pages.returned_by_trim().min(slack);
    let most = least.saturating_add(pages.uncertain).min(slack);
    let returned = match most - least > slack / 20 {
        true => format!("{} to {}", bytes(least), bytes(most)),
        false => bytes(least),
    };
    let mut out = vec![format!(
        "slack {who}: {} are free in the allocator, of which malloc_trim(0) would return {returned}",
        bytes(slack)
    )];
    let is_much = |bytes: u64| bytes >= slack / PART && bytes >= LEAST / 4;
    let below = pages.main.saturating_sub(pages.main_top);
    if is_much(below) {
        let holder = match (&pages.holder.held_by, call) {
            (Some(name), Some(call)) => format!("a block of {} ({call})", clean(name)),
            (Some(name), None) => format!("a block of {}", clean(name)),
            (None, _) => "the last block in use".to_owned(),
        };
        out.push(format!(
            "  {} in the main heap, below {holder}: free alone does not return it",
            bytes(below)
        ));
    }
    if is_much(pages.main_top) {
        out.push(format!(
            "  {} at the end of the main heap, which a free there returns unless a freed block in a thread's cache or the \
             threshold (MALLOC_TRIM_THRESHOLD_) keeps it",
            bytes(pages.main_top)
        ));
    }
    let arenas = count(pages.number_of_arenas as usize, "thread arena");
    let inside = pages.arenas.saturating_sub(pages.arenas_top);
    if is_much(inside) {
        out.push(format!("  {} in {arenas}, between blocks", bytes(inside)));
    }
    if is_much(pages.arenas_top) {
        out.push(format!(
            "  {} at the ends of {arenas}, which malloc_trim leaves; with MALLOC_TRIM_THRESHOLD_=131072 a free there \
             returns it",
            bytes(pages.arenas_top)
        ));
    }
    if is_much(pages.arenas) && pages.arenas > slack / 2 && pages.number_of_arenas >= MANY_ARENAS {
        out.push(
            "  with MALLOC_ARENA_MAX=2 threads use each other's free memory, and wait for each other"
                .to_owned(),
        );
    }
    let free = pages.main.saturating_add(pages.arenas).saturating_add(pages.uncertain);
    if free < slack / PART {
        out.push("  it lies in pages that have live blocks; later blocks may use it".to_owned());
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn told(pages: FreePages) -> String {
        let found =
            Slack { allocator: None, now: FreePages::default(), at_peak: FreePages::default() };
        sentences("at the peak", 100 * MIB, &found, &pages, true, Some("keep  a.c:3")).join("\n")
    }

    #[test]
    fn block_that_keeps_the_main_heap_is_named() {
        let holder = Holder { held_by: Some("app.exe:a".into()), site: None };
        let pages = FreePages { main: 90 * MIB, main_top: MIB, holder, ..FreePages::default() };
        assert_eq!(
            told(pages),
            "slack at the peak: 100 MiB are free in the allocator, of which malloc_trim(0) would return 90.0 MiB\n  \
             89.0 MiB in the main heap, below a block of app.exe:a (keep  a.c:3): free alone does not return it"
        );
    }

    #[test]
    fn ends_of_arenas_are_not_returned_by_trim() {
        let pages = FreePages {
            arenas: 80 * MIB,
            arenas_top: 60 * MIB,
            number_of_arenas: 6,
            uncertain: 10 * MIB,
            ..FreePages::default()
        };
        let told = told(pages);
        for part in [
            "would return 20.0 MiB to 30.0 MiB\n",
            "20.0 MiB in 6 thread arenas, between blocks\n",
            "60.0 MiB at the ends of 6 thread arenas, which malloc_trim leaves",
            "MALLOC_ARENA_MAX=2",
        ] {
            assert!(told.contains(part), "{part} not in {told}");
        }
    }

    #[test]
    fn fragments_and_other_allocators_are_not_promised_back() {
        let told = told(FreePages { main: MIB, ..FreePages::default() });
        assert!(told.ends_with("it lies in pages that have live blocks; later blocks may use it"));
        let allocator = Some("libjemalloc.so.2".into());
        let found = Slack { allocator, now: FreePages::default(), at_peak: FreePages::default() };
        let pages = FreePages::default();
        let told = sentences("at the peak", 9 * MIB, &found, &pages, false, None).join("\n");
        assert!(told.contains("9.00 MiB are free in libjemalloc.so.2; what of it"), "{told}");
    }
}
