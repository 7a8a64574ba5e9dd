//! The report as one self-contained page: it needs no network and no other files.
//!
//! It stays small for large jobs: sums, a heat map of all ranks, and a few ranks in detail.

mod page;
mod stacks;
mod tables;
mod tree;

use super::{growth, pictures, table};
use crate::model::{Job, Node, Rank, Timeline};
use crate::output;
use crate::picture::{self, Heat, Style, Theme};
use crate::terminal::{clean, markup};
use crate::units::{bytes, count, millionths, share, time};
pub use page::{Page, Table};
use std::path::Path;

/// Maximum number of ranks shown in detail.
const DETAILED: usize = 8;
/// Number of nodes shown in detail.
const NODES: usize = 4;
/// Number of call stacks with names.
const SITES: usize = 25;

/// Writes the page. Returns its number of bytes.
///
/// # Errors
/// If a trace can no longer be read, or the file cannot be written.
pub fn write(job: &Job, file: &Path) -> anyhow::Result<u64> {
    output::write(file, page(job)?.as_bytes())
}

/// Returns the page.
///
/// # Errors
/// If a trace can no longer be read.
pub fn page(job: &Job) -> anyhow::Result<String> {
    let mut page = Page::new(&format!("{} · memory", clean(job.program())));
    page.header(&clean(job.program()), &head(job));
    let growth = growth::of(job);
    page.push(&tables::answer(job, &growth));
    page.push(&tiles(job));
    page.push(&tables::alerts(job));

    let mut charts = Charts::default();
    let all = match job.noun() {
        "rank" => "All ranks",
        _ => "All processes",
    };
    let title = match job.nodes.as_slice() {
        [only] => format!("{all} together, node {}", clean(&only.host)),
        _ => format!("{all} together"),
    };
    page.section(
        &title,
        "Resident memory of the whole job; pages several ranks share are counted once per node. The last \
         entry of the legend shows the most that can have been there between samples, by what was allocated and given back.",
    );
    page.push(&charts.figure("job", &pictures::job(job), &job.timeline, false));
    page.end();

    if job.ranks().count() > 1 {
        let noun = job.noun();
        let about = format!(
            "Resident memory of each {noun}, nothing before it started and after it ended: one row per {noun}, or the largest of neighbours where there are many."
        );
        page.section(&format!("Every {noun}"), &about);
        page.push(&heat(job));
        page.end();
    }
    page.section("Ranks in detail", "The dashed line is what components own, exact between samples too; resident memory, as samples found it, lies below it, except for free chunks, the kernel and the profiler.");
    let ranks = detailed(job);
    page.push(&chooser("rank", ranks.iter().map(|(rank, why)| rank_name(rank, why))));
    for (index, (rank, _)) in ranks.iter().enumerate() {
        let shown = match rank.timeline() {
            Ok(timeline) => {
                let drawn =
                    pictures::timeline(&timeline, pictures::rank_title(rank), Some("owned"));
                charts.figure(&format!("rank-{index}"), &drawn, &timeline, index > 0)
            }
            // The file was removed after it was summarized.
            Err(error) => format!("<p class=note>{}</p>", markup(&error.to_string())),
        };
        page.push(&shown);
    }
    page.end();

    if job.nodes.len() > 1 {
        page.section("Nodes", "What all ranks of a node hold together, shared pages once.");
        let nodes = largest_nodes(job);
        page.push(&chooser("node", nodes.iter().map(|node| clean(&node.host))));
        for (index, node) in nodes.iter().enumerate() {
            let drawn = pictures::node(node);
            page.push(&charts.figure(&format!("node-{index}"), &drawn, &node.timeline, index > 0));
        }
        page.end();
    }

    page.push(&tables::causes(job));
    page.push(&tables::growth(&growth));
    page.push(&tables::handles(job));
    page.push(&tables::gpu(job));
    page.push(&tables::touches(job));
    page.push(&tables::components(job));
    page.push(&tables::phases(job));
    page.push(&tables::nodes(job));
    page.push(&tables::shared(job));
    page.push(&stacks::section(job));
    page.push(&tables::sites(job, SITES));
    page.push(&tables::balance(job));
    Ok(page.finish(&charts.data()?))
}

fn head(job: &Job) -> String {
    let mut parts = vec![
        count(job.ranks().count(), job.noun()),
        count(job.nodes.len(), "node"),
        time(job.duration_ns()),
    ];
    let library = job.ranks().map(|rank| &rank.identity.mpi_library);
    parts.extend(library.filter(|name| !name.is_empty()).take(1).map(|name| clean(name)));
    parts.join(" · ")
}

/// Returns the most important figures.
fn tiles(job: &Job) -> String {
    let mut tiles = Vec::new();
    if let Some(rank) = job.largest() {
        let place: Vec<String> = [&rank.peak.phase, &rank.peak.mpi_function]
            .into_iter()
            .flatten()
            .map(|name| clean(name))
            .collect();
        let at = match place.is_empty() {
            true => rank.label(),
            false => format!("{}, in {}", rank.label(), place.join(" · ")),
        };
        let largest = match job.noun() {
            "rank" => "largest rank at its peak",
            _ => "largest process at its peak",
        };
        tiles.push((largest, bytes(rank.peak.bytes), at));
        let mpi: u64 = (rank.held.iter())
            .filter(|held| held.group == crate::model::Group::Mpi)
            .map(|held| held.resident_at_peak)
            .sum();
        let part = millionths(share(mpi, rank.peak.bytes));
        if !rank.identity.mpi_library.is_empty() || mpi > 0 {
            tiles.push(("of that MPI", bytes(mpi), part));
        }
    }
    if let Some(peak) = &job.timeline.peak {
        let at = format!("at {}", time(peak.time_ns));
        tiles.push(("whole job at its peak", table::peak_between(&job.timeline), at));
    }
    let balance = &job.balance;
    tiles.push((
        "unattributed",
        millionths(share(balance.unattributed, balance.resident)),
        format!("{} at worst", millionths(balance.worst_unattributed)),
    ));
    tiles.push((
        "taken by sampling",
        millionths(balance.duty),
        format!("of one processor, in the worst {}", job.noun()),
    ));
    let mut out = String::from("<div class=tiles>");
    for (name, value, detail) in tiles {
        out += &format!(
            "<div class=tile><span>{}</span><b>{}</b><span>{}</span></div>",
            markup(name),
            markup(&value),
            markup(&detail)
        );
    }
    out + "</div>\n"
}

fn heat(job: &Job) -> String {
    let ranks: Vec<&Rank> = job.ranks().collect();
    let picture = Heat {
        title: format!("resident by {}", job.noun()),
        times: (0..job.timeline.bins).map(|bin| job.timeline.middle_ns(bin)).collect(),
        rows: ranks.iter().map(|rank| rank.label()).collect(),
        values: ranks.iter().map(|rank| rank.heat.clone()).collect(),
    };
    let style = Style {
        theme: Theme::Page,
        width: 1160.0,
        height: 120.0 + 14.0 * ranks.len().min(32) as f64,
        legend: true,
    };
    format!("<div class=scroll>{}</div>", picture::heat(&picture, &style))
}

/// Returns all ranks if they are few; otherwise the first, and those around the smallest, median
/// and largest peak.
fn detailed(job: &Job) -> Vec<(&Rank, &'static str)> {
    let mut order: Vec<&Rank> = job.ranks().collect();
    if order.len() <= DETAILED {
        return order.into_iter().map(|rank| (rank, "")).collect();
    }
    order.sort_by_key(|rank| rank.peak.bytes);
    let last = order.len() - 1;
    let mut chosen = vec![
        (order[last], "largest peak"),
        (order[last / 2], "median peak"),
        (order[0], "smallest peak"),
    ];
    let first = job.rank(0);
    chosen.extend(
        first
            .filter(|first| chosen.iter().all(|(rank, _)| rank.file != first.file))
            .map(|first| (first, "")),
    );
    chosen
}

fn rank_name(rank: &Rank, why: &str) -> String {
    match why.is_empty() {
        true => format!("{} ({})", rank.label(), clean(&rank.identity.host)),
        false => format!("{} ({why}, {})", rank.label(), clean(&rank.identity.host)),
    }
}

fn largest_nodes(job: &Job) -> Vec<&Node> {
    let mut nodes: Vec<&Node> = job.nodes.iter().collect();
    nodes.sort_by_key(|node| {
        std::cmp::Reverse(node.timeline.peak.as_ref().map_or(0, |peak| peak.bytes))
    });
    nodes.truncate(NODES);
    nodes
}

/// Returns a choice between figures of one kind; empty if there is only one.
fn chooser(kind: &str, names: impl Iterator<Item = String>) -> String {
    let options: Vec<String> = names
        .enumerate()
        .map(|(index, name)| format!("<option value={kind}-{index}>{}</option>", markup(&name)))
        .collect();
    match options.len() {
        0 | 1 => String::new(),
        _ => {
            format!("<label>show <select data-choose={kind}>{}</select></label>", options.concat())
        }
    }
}

/// Timelines of the page, with the numbers shown under the pointer.
#[derive(Default)]
struct Charts {
    data: serde_json::Map<String, serde_json::Value>,
}

impl Charts {
    /// Number of components named under the pointer; the others are one number.
    const NAMED: usize = 12;

    fn figure(
        &mut self,
        id: &str,
        drawn: &picture::Timeline,
        timeline: &Timeline,
        hidden: bool,
    ) -> String {
        let style = Style { theme: Theme::Page, width: 1160.0, ..Style::default() };
        let mut order: Vec<_> = timeline.series.iter().collect();
        order.sort_by_key(|series| {
            std::cmp::Reverse(series.high.iter().max().copied().unwrap_or(0))
        });
        let mut series = Vec::new();
        for one in order.iter().take(Charts::NAMED) {
            series.push(serde_json::json!([clean(&one.name), kib(&one.mean)]));
        }
        self.data.insert(
            id.to_owned(),
            serde_json::json!({
                "start": timeline.start_ns,
                "bin": timeline.bin_ns,
                "total": kib(&timeline.totals()),
                "series": series,
            }),
        );
        let hidden = if hidden { " hidden" } else { "" };
        format!(
            "<figure id={id} class=scroll{hidden}>{}</figure>\n",
            picture::timeline(drawn, &style)
        )
    }

    /// Returns JSON that can be embedded in a script element.
    fn data(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(&self.data)?.replace("</", "<\\/").replace("<!", "<\\!"))
    }
}

/// Returns values in KiB, only where they change: `[bin, value, bin, value, ...]`.
fn kib(values: &[u64]) -> Vec<u64> {
    let mut out = Vec::new();
    let mut last = None;
    for (bin, value) in values.iter().enumerate() {
        let value = value.div_ceil(1024);
        if last != Some(value) {
            out.extend([bin as u64, value]);
            last = Some(value);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_changes_are_kept_for_the_pointer() {
        assert_eq!(kib(&[1024, 1000, 2048, 2048, 0]), [0, 1, 2, 2, 4, 0]);
        assert_eq!(kib(&[]), Vec::<u64>::new());
    }

    #[test]
    fn what_is_put_into_the_script_cannot_end_it() {
        let mut charts = Charts::default();
        charts.data.insert("</script><!--".to_owned(), serde_json::json!(1));
        let text = charts.data().expect("JSON");
        assert!(!text.contains("</script") && !text.contains("<!--"), "{text}");
    }
}
