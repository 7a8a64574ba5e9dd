//! Tables of times.

use super::gather::{RankTime, Region, Times};
use memprof::report::grid::{Align, Grid, Weight};
use memprof::terminal::{Look, clean};
use memprof::units::{count, time};

/// Time of a rank that a column shows.
type Part = fn(&RankTime) -> u64;

/// Headings of the columns, and their times.
pub const COLUMNS: [(&str, Part); 10] = [
    ("useful", |time| time.useful_ns),
    ("omp", |time| time.openmp_ns),
    ("lent", |time| time.lent_ns),
    ("MPI", |time| time.mpi_ns),
    ("p2p", |time| time.point_to_point_ns),
    ("coll", |time| time.collective_ns),
    ("rma", |time| time.one_sided_ns),
    ("file", |time| time.file_ns),
    ("wait", |time| time.wait_ns),
    ("other", |time| time.other_ns),
];

/// Formats a share as a percentage, `12.3`.
fn percent(part: f64) -> String {
    format!("{:.1}", part * 100.0)
}

fn share(part: u64, whole: u64) -> String {
    if part == 0 || whole == 0 { "-".to_owned() } else { percent(part as f64 / whole as f64) }
}

/// Returns the share of all ranks' time in a region that a column has.
fn of_region(region: &Region, column: Part) -> String {
    let sum = |of: Part| region.ranks.iter().map(of).sum::<u64>();
    share(sum(column), sum(|time| time.elapsed_ns))
}

/// Returns the cells of a region's line: name, time, shares by column, efficiencies.
pub fn cells(region: &Region) -> Vec<String> {
    let mut cells = vec![clean(&region.name), time(region.elapsed_ns)];
    cells.extend(COLUMNS.iter().map(|(_, column)| of_region(region, *column)));
    cells.extend(match &region.efficiency {
        Some(of) => {
            [of.load_balance, of.balance_within, of.balance_between, of.communication, of.parallel]
                .map(percent)
        }
        None => std::array::from_fn(|_| "-".to_owned()),
    });
    cells
}

/// Returns one line that identifies the job.
pub fn head(times: &Times) -> String {
    let ranks = times.regions.iter().map(|region| region.ranks.len()).max().unwrap_or(0);
    let nodes = count(times.nodes.len(), "node");
    format!("{}: {} on {nodes}", clean(&times.program), count(ranks, "rank"))
}

/// Returns the table of regions; with `ranks`, also each rank of each region.
pub fn text(times: &Times, ranks: bool, look: Look) -> String {
    let mut columns = vec![Align::Left; 1];
    columns.extend([Align::Right; 16]);
    // On a narrow terminal the kinds are omitted first, then the parts of the balance.
    let mut grid = Grid::new(&columns).least(&[11, 9, 8, 10, 7, 6, 4, 3, 13, 14]);
    let mut heads = vec!["region".to_owned(), "time".to_owned()];
    heads.extend(COLUMNS.iter().map(|(name, _)| format!("{name} %")));
    heads.extend(["balance", "in node", "nodes", "comm", "parallel"].map(String::from));
    grid.row(Weight::Head, heads);
    for region in &times.regions {
        grid.row(if ranks { Weight::Sum } else { Weight::Plain }, cells(region));
        for rank in region.ranks.iter().filter(|_| ranks) {
            let mut cells = vec![format!("  rank {}", rank.rank), time(rank.elapsed_ns)];
            cells.extend(COLUMNS.iter().map(|(_, of)| share(of(rank), rank.elapsed_ns)));
            grid.row(Weight::Plain, cells);
        }
    }
    look.bold(&head(times)) + "\n\n" + &grid.text(look) + &notes(times, look)
}

/// Returns the notes, one per line.
pub fn notes(times: &Times, look: Look) -> String {
    times.notes.iter().map(|note| look.warn(&clean(note)) + "\n").collect()
}
