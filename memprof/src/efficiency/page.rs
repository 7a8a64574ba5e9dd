//! The times as one page that needs nothing else.

use super::gather::{RankTime, Region, Times};
use super::loops;
use super::text::{COLUMNS, cells, head};
use crate::report::html::{Page, Table, escape};
use crate::terminal::clean;
use crate::units::time;

/// A part of a rank's time: its column, colour, and name.
struct Part {
    column: &'static str,
    colour: &'static str,
    name: &'static str,
}

const fn part(column: &'static str, colour: &'static str, name: &'static str) -> Part {
    Part { column, colour, name }
}

/// Parts of a bar from left to right: all columns but the sum of MPI's kinds and the part of useful time in OpenMP.
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

/// Ranks drawn of a region at most.
const DRAWN: usize = 256;

/// Returns the page.
pub fn page(times: &Times) -> String {
    let mut page = Page::new(&format!("{} · time", clean(&times.program)));
    page.push(&format!("<header><h1>{}</h1></header>\n", escape(&head(times))));
    page.section(
        "Regions",
        "Shares are of the time of all ranks, in percent. Parallel efficiency is load balance times communication efficiency.",
    );
    let mut heads = vec!["region", "time"];
    heads.extend(COLUMNS.map(|(name, _)| name));
    heads.extend(["balance", "in node", "nodes", "comm", "parallel"]);
    let mut table = Table::new(1, &heads);
    for region in &times.regions {
        table.row("", cells(region));
    }
    page.push(&table.finish());
    page.end();
    if let Some(loops) = &times.loops {
        page.section(
            "Loops",
            "Where the program calls MPI again and again: figures are means of the ranks, with the least and the greatest.",
        );
        let mut table = Table::new(2, &loops::HEADS);
        for line in loops::lines(loops) {
            table.row("", line.cells("\u{2003}"));
        }
        page.push(&table.finish());
        page.end();
    }
    page.push(&legend(times));
    for region in &times.regions {
        page.section(&clean(&region.name), "One bar for each rank; of many, the first.");
        page.push(&bars(region));
        page.end();
    }
    page.finish("{}")
}

/// Time of a rank in a part.
fn time_of(part: &Part, rank: &RankTime) -> u64 {
    COLUMNS.iter().find(|(name, _)| *name == part.column).map_or(0, |(_, of)| of(rank))
}

/// Names of the colours, of the parts that some bar has.
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

/// A bar of each rank, as long as its time.
fn bars(region: &Region) -> String {
    const WIDTH: f64 = 800.0;
    const HEIGHT: usize = 14;
    let ranks = &region.ranks[..region.ranks.len().min(DRAWN)];
    let longest = region.elapsed_ns.max(1) as f64;
    let mut out = format!(
        "<div class=scroll><svg viewBox=\"0 0 900 {}\" role=img aria-label=\"time of each rank\">",
        ranks.len() * HEIGHT
    );
    for (line, rank) in ranks.iter().enumerate() {
        let y = line * HEIGHT;
        out +=
            &format!("<text x=0 y={} font-size=10 fill=currentColor>{}</text>", y + 11, rank.rank);
        let mut x = 60.0;
        for part in &PARTS {
            let amount = time_of(part, rank);
            let width = amount as f64 / longest * WIDTH;
            if width > 0.0 {
                out += &format!(
                    "<rect x={x:.2} y={y} width={width:.2} height=12 fill=\"{}\"><title>{} {}</title></rect>",
                    part.colour,
                    part.name,
                    time(amount)
                );
            }
            x += width;
        }
    }
    out + "</svg></div>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::efficiency::text;

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
        let (legend, bars) = html.split_once("class=legend").unwrap().1.split_once("</p>").unwrap();
        for part in &PARTS {
            let is_drawn = bars.contains(part.colour);
            assert_eq!(legend.contains(part.colour), is_drawn, "{}", part.name);
            assert_eq!(legend.contains(part.name), is_drawn, "{}", part.name);
            assert_eq!(is_drawn, ["useful", "coll", "wait"].contains(&part.column));
        }
    }
}
