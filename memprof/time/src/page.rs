//! The times as one self-contained page.

use super::gather::{RankTime, Region, Times};
use super::loops;
use super::text::{COLUMNS, cells, head};
use memprof::picture::{self, Bar, Bars, Style, Theme};
use memprof::report::html::{Page, Table};
use memprof::terminal::{clean, markup};
use memprof::units::{count, time};

/// A part of a rank's time: its column, colour, and name.
struct Part {
    column: &'static str,
    colour: &'static str,
    name: &'static str,
}

const fn part(column: &'static str, colour: &'static str, name: &'static str) -> Part {
    Part { column, colour, name }
}

/// Parts of a bar from left to right: all columns except the sum of MPI's kinds and the part of
/// useful time in OpenMP.
const PARTS: [Part; 8] = [
    part("useful", "#2a9d57", "useful: outside of MPI"),
    part("lent", "#9aa5b1", "lent: processors are for others"),
    part("p2p", "#2f6fb5", "point-to-point (p2p)"),
    part("coll", "#d1495b", "collective (coll)"),
    part("rma", "#8e6bbf", "one-sided (rma)"),
    part("file", "#17a2a8", "file"),
    part("wait", "#f2a541", "wait and test"),
    part("other", "#6b4f3a", "other MPI"),
];

/// Maximum number of rows of bars; with more ranks, each row is the busiest of neighbouring ranks.
const ROWS: usize = 1024;
/// Number of regions with bars.
const DRAWN: usize = 32;

/// Meaning of the columns of regions.
const COLUMNS_TOLD: &str = "Shares are of the time of all ranks. omp: inside OpenMP's parallel regions, a part of useful; \
    lent: processors lent to others in quo's barrier; p2p, coll, rma, file, wait and other: kinds of MPI calls, as the \
    legend below names them. Parallel efficiency is load balance times communication efficiency. Balance: useful time of \
    a mean rank by that of the busiest, within the busiest node (in node) and between nodes (nodes); comm: useful time \
    of the busiest rank by the time of the region.";
/// Meaning of the columns of loops.
const LOOPS_TOLD: &str = "Where the program calls MPI again and again: figures are means of the ranks, with the least \
    and the greatest. Iteration: time from one call to the next; MPI/compute: time inside MPI by time outside.";

/// Returns the page.
pub fn page(times: &Times) -> String {
    let mut page = Page::new(&format!("{} · time", clean(&times.program)));
    page.header(&head(times), "time inside and outside of MPI");
    for note in &times.notes {
        page.push(&format!("<p class=note>{}</p>\n", markup(note)));
    }
    page.section("Regions", COLUMNS_TOLD);
    let mut heads = vec!["region".to_owned(), "time".to_owned()];
    heads.extend(COLUMNS.iter().map(|(name, _)| format!("{name} %")));
    heads.extend(
        ["balance", "in node", "nodes", "comm", "parallel"].map(|name| format!("{name} %")),
    );
    let mut table = Table::new(1, &heads.iter().map(String::as_str).collect::<Vec<_>>());
    for region in &times.regions {
        table.row("", cells(region));
    }
    page.push(&table.finish());
    page.end();
    if let Some(loops) = &times.loops {
        page.section("Loops", LOOPS_TOLD);
        let mut table = Table::new(2, &loops::HEADS);
        for line in loops::lines(loops) {
            table.row("", line.cells("\u{2003}"));
        }
        page.push(&table.finish());
        page.end();
    }
    page.section("Ranks", "");
    page.push(&legend(times));
    // The bars of the whole run and of the program's longest region are shown; those of others are
    // collapsed.
    let drawn = || times.regions.iter().take(DRAWN).enumerate();
    let own = drawn().filter(|(_, region)| region.origin != "memprof");
    let longest = own.max_by_key(|(_, region)| region.elapsed_ns).map(|(index, _)| index);
    for (index, region) in drawn() {
        let ranks = count(region.ranks.len(), "rank");
        page.push(&format!(
            "<details{}><summary><h2>{}</h2>{}, {ranks}</summary>\n<p class=about>{}</p>\n\
             <div class=scroll>{}</div></details>\n",
            if index == 0 || Some(index) == longest { " open" } else { "" },
            markup(&region.name),
            time(region.elapsed_ns),
            rows_told(region),
            bars(region, times)
        ));
    }
    if let Some(more @ 1..) = times.regions.len().checked_sub(DRAWN) {
        let more = count(more, "more region");
        page.push(&format!(
            "<p class=about>{more} without bars: memprof time --region NAME --html</p>\n"
        ));
    }
    page.end();
    page.finish("{}")
}

/// Returns the number of ranks in a row of bars.
fn per_row(region: &Region) -> usize {
    region.ranks.len().div_ceil(ROWS).max(1)
}

/// Returns the description of the rows.
fn rows_told(region: &Region) -> String {
    let rows = match per_row(region) {
        1 => "One bar for each rank".to_owned(),
        several => {
            format!("One bar for every {several} neighbouring ranks, the one with most useful time")
        }
    };
    format!("{rows}; its parts stand in the order of the legend.")
}

/// Returns the time of a rank in a part.
fn time_of(part: &Part, rank: &RankTime) -> u64 {
    COLUMNS.iter().find(|(name, _)| *name == part.column).map_or(0, |(_, of)| of(rank))
}

/// Returns the names of the colours for all parts that occur in a bar.
fn legend(times: &Times) -> String {
    let mut out = "<p class=legend aria-label=\"colours of the bars\">".to_owned();
    for part in &PARTS {
        let mut ranks = times.regions.iter().flat_map(|region| &region.ranks);
        if ranks.any(|rank| time_of(part, rank) > 0) {
            out +=
                &format!("<span><i style=\"background:{}\"></i>{}</span>", part.colour, part.name);
        }
    }
    out + "</p>\n"
}

/// Returns the bars of a region.
fn bars(region: &Region, times: &Times) -> String {
    let busiest = |ranks: &[RankTime]| ranks.iter().max_by_key(|rank| rank.useful_ns).cloned();
    let rows = region.ranks.chunks(per_row(region)).filter_map(|ranks| {
        let rank = busiest(ranks)?;
        let told = PARTS.iter().map(|part| (part.name, time_of(part, &rank)));
        let told = told.filter(|(_, amount)| *amount > 0);
        let parts: Vec<String> =
            told.map(|(name, amount)| format!("{name} {}", time(amount))).collect();
        let node = times.nodes.get(rank.node).map_or("", String::as_str);
        let whole = time(rank.elapsed_ns);
        Some(Bar {
            name: format!("rank {}", rank.rank),
            hint: clean(&format!("rank {} on {node}, {whole}: {}", rank.rank, parts.join("; "))),
            parts: PARTS.iter().map(|part| time_of(part, &rank)).collect(),
        })
    });
    let picture = Bars {
        title: format!("time of each rank in {}", clean(&region.name)),
        colours: PARTS.iter().map(|part| part.colour).collect(),
        rows: rows.collect(),
    };
    picture::bars(&picture, &Style { theme: Theme::Page, width: 1160.0, ..Style::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text;

    #[test]
    fn parts_are_all_columns_but_sums_and_their_parts() {
        let columns: Vec<&str> = text::COLUMNS.iter().map(|(name, _)| *name).collect();
        let mut parts: Vec<&str> = PARTS.iter().map(|part| part.column).collect();
        parts.insert(1, "omp");
        parts.insert(3, "MPI");
        assert_eq!(parts, columns);
    }

    #[test]
    fn legend_has_the_colour_of_every_drawn_part() {
        let mut rank = RankTime::default();
        (rank.elapsed_ns, rank.useful_ns, rank.mpi_ns) = (100, 60, 40);
        (rank.collective_ns, rank.wait_ns) = (30, 10);
        let region = Region::new("solve".to_owned(), "pcontrol", vec![rank]);
        let times = Times {
            program: "a".to_owned(),
            nodes: vec!["n".to_owned()],
            regions: vec![region],
            loops: None,
            notes: Vec::new(),
        };
        let html = page(&times);
        assert!(html.contains(
            "rank 0 on n, 100 ns: useful: outside of MPI 60 ns; collective (coll) 30 ns"
        ));
        let (legend, bars) = html.split_once("class=legend").unwrap().1.split_once("</p>").unwrap();
        for part in &PARTS {
            let is_drawn = bars.contains(part.colour);
            assert_eq!(legend.contains(part.colour), is_drawn, "{}", part.name);
            assert_eq!(legend.contains(part.name), is_drawn, "{}", part.name);
            assert_eq!(is_drawn, ["useful", "coll", "wait"].contains(&part.column));
        }
    }

    #[test]
    fn row_of_many_ranks_is_the_busiest_and_says_so() {
        let rank = |rank: u32| RankTime {
            rank,
            elapsed_ns: 100,
            useful_ns: if rank == 3 { 90 } else { 50 },
            ..RankTime::default()
        };
        let region =
            |ranks| Region::new("solve".to_owned(), "pcontrol", (0..ranks).map(rank).collect());
        assert_eq!(
            rows_told(&region(1024)),
            "One bar for each rank; its parts stand in the order of the legend."
        );
        let region = region(2049);
        assert!(rows_told(&region).starts_with("One bar for every 3 neighbouring ranks"));
        let times = Times {
            program: "a".to_owned(),
            nodes: vec!["n".to_owned()],
            regions: Vec::new(),
            loops: None,
            notes: Vec::new(),
        };
        let svg = bars(&region, &times);
        assert!(svg.contains("aria-label=\"time of each rank in solve\""));
        // 2,049 by three rows; the second begins with the rank that has more useful time than its neighbours.
        assert_eq!(
            svg.split("stroke=\"#2a9d57\"")
                .nth(1)
                .unwrap()
                .split("\"/>")
                .next()
                .unwrap()
                .matches('M')
                .count(),
            683
        );
    }
}
