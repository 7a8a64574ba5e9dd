//! The times as one page that needs nothing else.

use super::gather::{Region, Times};
use super::text::{COLUMNS, cells, head};
use crate::report::html::{Page, Table, escape};
use crate::terminal::clean;
use crate::units::time;

/// Colours of useful and lent time and of the kinds of MPI.
const COLOURS: [&str; 8] =
    ["#2a9d57", "#9aa5b1", "#d1495b", "#e07a5f", "#8e6bbf", "#b5838d", "#f2a541", "#7d6b5d"];

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
    for region in &times.regions {
        page.section(&clean(&region.name), "One bar for each rank; of many, the first.");
        page.push(&bars(region));
        page.end();
    }
    page.finish("{}")
}

/// A bar of each rank, as long as its time.
fn bars(region: &Region) -> String {
    const WIDTH: f64 = 800.0;
    const HEIGHT: usize = 14;
    let ranks = &region.ranks[..region.ranks.len().min(DRAWN)];
    let longest = region.elapsed_ns.max(1) as f64;
    let mut out = format!(
        "<svg viewBox=\"0 0 900 {}\" role=img aria-label=\"time of each rank\">",
        ranks.len() * HEIGHT
    );
    for (line, rank) in ranks.iter().enumerate() {
        let y = line * HEIGHT;
        out += &format!("<text x=0 y={} font-size=10>{}</text>", y + 11, rank.rank);
        let mut x = 60.0;
        // All but the sum of MPI's kinds.
        let parts = COLUMNS.iter().filter(|(name, _)| *name != "MPI");
        for ((name, of), colour) in parts.zip(COLOURS) {
            let width = of(rank) as f64 / longest * WIDTH;
            if width > 0.0 {
                out += &format!(
                    "<rect x={x:.2} y={y} width={width:.2} height=12 fill=\"{colour}\"><title>{name} {}</title></rect>",
                    time(of(rank))
                );
            }
            x += width;
        }
    }
    out + "</svg>\n"
}
