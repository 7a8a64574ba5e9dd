//! Charts of an outcome as SVG.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use quo_svg::{Svg, number, round_step};

use super::summary::Group;
use super::text::number as short;
use crate::simulate::{Load, Outcome};
use crate::workload::Workload;
use elastic_policy::time::Time;

/// All lengths are in pixels.
const WIDTH: f64 = 960.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const BOTTOM: f64 = 22.0;
const TOP: f64 = 8.0;
const BAR: f64 = 16.0;
/// Number of columns of a chart over time.
const COLUMNS: usize = 600;
/// Number of rectangles above which jobs could not be distinguished.
const MOST_PIECES: usize = 20_000;

/// Colours that most colour-blind readers can distinguish.
const COLOURS: [&str; 9] = [
    "#3f72af", "#f28e2b", "#2f9e6e", "#d64550", "#8460a8", "#e9c440", "#5bb8c4", "#a0623a",
    "#f29ca3",
];

/// The first colour, mostly transparent.
const LIGHT: &str = "#3f72af4d";

/// A chart of the common width.
pub struct Chart {
    elements: Svg,
    height: f64,
    title: String,
}

impl Chart {
    fn new(height: f64, title: String) -> Chart {
        Chart { elements: Svg::default(), height, title }
    }

    /// Returns the chart as an element of a page.
    #[must_use]
    pub fn text(self) -> String {
        let mut whole = Svg::default();
        self.put_into(&mut whole, &[]);
        whole.text()
    }

    /// Appends the chart to a page or a picture, with more attributes.
    fn put_into(self, whole: &mut Svg, attributes: &[(&str, &dyn Display)]) {
        let view = format!("0 0 {WIDTH} {}", number(self.height));
        let mut all: Vec<(&str, &dyn Display)> = attributes.to_vec();
        all.extend([("viewBox", &view as &dyn Display), ("role", &"img")]);
        whole.open("svg", &all);
        whole.around("title", &[], &self.title);
        whole.append(self.elements);
        whole.close("svg");
    }
}

/// A span of time that all charts of a page share.
#[derive(Clone, Copy, Debug)]
pub struct Axis {
    from: Time,
    to: Time,
}

impl Axis {
    /// Makes the axis from the first submission to the last end of all outcomes.
    #[must_use]
    pub fn of(outcomes: &[&Outcome]) -> Axis {
        let bounds = outcomes.iter().map(|outcome| outcome.bounds());
        let (from, to) =
            bounds.reduce(|all, next| (all.0.min(next.0), all.1.max(next.1))).unwrap_or_default();
        Axis { from, to: to.max(Time(from.0 + 1)) }
    }

    fn x(self, at: Time) -> f64 {
        let share = at.since(self.from).0 as f64 / self.to.since(self.from).0 as f64;
        LEFT + share * (WIDTH - LEFT - RIGHT)
    }

    fn labels(self, svg: &mut Svg, height: f64) {
        let seconds = self.to.since(self.from).as_seconds();
        let (unit, name) = match seconds {
            long if long > 3.0 * 86_400.0 => (86_400.0, "d"),
            hours if hours > 3.0 * 3_600.0 => (3_600.0, "h"),
            minutes if minutes > 600.0 => (60.0, "min"),
            _ => (1.0, "s"),
        };
        let step = round_step(seconds / unit / 8.0);
        let mut value = 0.0;
        while value * unit <= seconds {
            let x = LEFT + value * unit / seconds * (WIDTH - LEFT - RIGHT);
            svg.path("g", &format!("M{x:.1} {TOP}V{:.1}", height - BOTTOM));
            let label = format!("{} {name}", (value * 1000.0).round() / 1000.0);
            svg.label("m", (x, height - 6.0), &label);
            value += step;
        }
    }
}

/// Draws busy nodes over time, with columns for the mean of their time, or waiting jobs, with
/// columns for the maximum.
#[must_use]
pub fn over_time(outcome: &Outcome, axis: Axis, is_waiting: bool) -> Chart {
    let (height, colour) = if is_waiting { (110.0, COLOURS[1]) } else { (170.0, COLOURS[0]) };
    let columns = columns(&outcome.load, axis, is_waiting);
    let most = match is_waiting {
        true => columns.iter().fold(1.0_f64, |most, value| most.max(*value)),
        false => f64::from(outcome.cluster.nodes.max(1)),
    };
    let plot = height - TOP - BOTTOM;
    let y = |value: f64| TOP + plot * (1.0 - value / most);
    let width = (WIDTH - LEFT - RIGHT) / COLUMNS as f64;
    let mut path = format!("M{LEFT} {:.1}", y(0.0));
    for (column, value) in columns.iter().enumerate() {
        let x = LEFT + width * column as f64;
        let _ = write!(path, "V{:.1}H{:.1}", y(*value), x + width);
    }
    let _ = write!(path, "V{:.1}Z", y(0.0));
    let name = if is_waiting { "waiting jobs" } else { "busy nodes" };
    let mut chart = Chart::new(height, format!("{name} over time, {}", outcome.policy));
    let svg = &mut chart.elements;
    axis.labels(svg, height);
    scale(svg, most, y, name);
    svg.element("path", &[("d", &path), ("fill", &colour), ("fill-opacity", &".75")]);
    chart
}

fn columns(load: &[Load], axis: Axis, is_waiting: bool) -> Vec<f64> {
    let mut columns = vec![0.0; COLUMNS];
    let span = axis.to.since(axis.from).0 as f64;
    let width = span / COLUMNS as f64;
    for (place, step) in load.iter().enumerate() {
        let next = load.get(place + 1).map_or(step.at, |next| next.at);
        let (begin, end) = (step.at.since(axis.from).0 as f64, next.since(axis.from).0 as f64);
        let (first, last) = ((begin / width) as usize, (end / width) as usize);
        for (column, value) in columns.iter_mut().enumerate().take(last + 1).skip(first) {
            if is_waiting {
                *value = f64::max(*value, f64::from(step.waiting));
            } else {
                let from = begin.max(column as f64 * width);
                let to = end.min((column + 1) as f64 * width);
                *value += f64::from(step.busy) * (to - from).max(0.0) / width;
            }
        }
    }
    columns
}

/// Draws the nodes of each job over time. Nodes that a job gained after its start have an edge.
/// `None` if there are too many, jobs shared nodes, or the simulation did not keep nodes.
#[must_use]
pub fn gantt(outcome: &Outcome, workload: &Workload, axis: Axis) -> Option<Chart> {
    if outcome.is_shared || outcome.pieces.is_empty() || outcome.pieces.len() > MOST_PIECES {
        return None;
    }
    let nodes = f64::from(outcome.cluster.nodes.max(1));
    let plot = (nodes * 9.0).clamp(120.0, 560.0);
    let height = plot + TOP + BOTTOM;
    let y = |value: f64| TOP + plot * value / nodes;
    let mut chart = Chart::new(height, format!("jobs by node over time, {}", outcome.policy));
    let svg = &mut chart.elements;
    axis.labels(svg, height);
    scale(svg, nodes, |value| y(nodes - value), "nodes");
    let mut sorted: Vec<_> = outcome.pieces.iter().collect();
    sorted.sort_by_key(|piece| (piece.from, piece.nodes));
    for piece in sorted {
        let (Some(record), Some(spec)) =
            (outcome.records.get(piece.job as usize), workload.jobs.get(piece.job as usize))
        else {
            continue;
        };
        let is_gained = record.started.is_some_and(|started| piece.from > started);
        let (x, end) = (axis.x(piece.from), axis.x(piece.to));
        let (top, width) = (y(nodes - f64::from(piece.nodes.end())), (end - x).max(0.5));
        let height = (plot * f64::from(piece.nodes.count) / nodes).max(0.5);
        let class = if is_gained { "n" } else { "" };
        let colour = COLOURS[piece.job as usize % COLOURS.len()];
        svg.open(
            "rect",
            &[
                ("x", &number(x)),
                ("y", &number(top)),
                ("width", &number(width)),
                ("height", &number(height)),
                ("fill", &colour),
                ("class", &class),
            ],
        );
        let (count, from, to) = (piece.nodes.count, piece.from, piece.to);
        let (name, class) = (&spec.name, record.class);
        let hint = format!("{name}: {class:?}, {count} nodes from {from} to {to}");
        svg.around("title", &[], &hint);
        svg.close("rect");
    }
    Some(chart)
}

/// Returns the reason why there is no chart of jobs by node.
#[must_use]
pub fn why_no_jobs(outcome: &Outcome) -> &'static str {
    if outcome.is_shared {
        "jobs shared nodes, of which there is no chart of jobs by node"
    } else {
        "there are too many jobs for a chart of jobs by node"
    }
}

/// Styles of a standalone picture on light and on dark backgrounds.
const ALONE: &str = "<style>text{font:11px 'Inter','Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;\
    fill:#52606d}.m{text-anchor:middle}.e{text-anchor:end}.g{stroke:#d5dae0;fill:none}.n{stroke:#1f2933}\
    @media(prefers-color-scheme:dark){text{fill:#aab4c0}.g{stroke:#3a424c}.n{stroke:#f5f7fa}}</style>";
/// Largest number of jobs in a legend.
const MOST_NAMES: usize = 16;
/// Largest length of a name in a legend.
const LONGEST_NAME: usize = 32;

/// Draws an outcome as a standalone image: busy nodes, waiting jobs, and the nodes of each job over
/// time. `None` if there is no chart of jobs by node.
#[must_use]
pub fn picture(outcome: &Outcome, workload: &Workload) -> Option<String> {
    let axis = Axis::of(&[outcome]);
    let charts = [
        over_time(outcome, axis, false),
        over_time(outcome, axis, true),
        gantt(outcome, workload, axis)?,
    ];
    let mut top = 0.0;
    let mut svg = Svg::default();
    svg.verbatim(ALONE);
    for chart in charts {
        let height = chart.height;
        chart.put_into(&mut svg, &[("y", &top), ("width", &WIDTH), ("height", &height)]);
        top += height;
    }
    let mut left = LEFT;
    let named = workload.jobs.iter().enumerate().take(MOST_NAMES);
    let mut entries: Vec<(String, &str)> = named
        .map(|(place, spec)| (cut(&spec.name.to_string()), COLOURS[place % COLOURS.len()]))
        .collect();
    let more = workload.jobs.len() - entries.len();
    if more > 0 {
        entries.push((format!("{more} more in the same colours"), "none"));
    }
    for (name, colour) in entries {
        let width = 30.0 + 7.0 * name.chars().count() as f64;
        if left > LEFT && left + width > WIDTH - RIGHT {
            (left, top) = (LEFT, top + BAR);
        }
        svg.rectangle((left, top), (10.0, 10.0), colour);
        svg.label("", (left + 14.0, top + 10.0), &name);
        left += width;
    }
    Some(svg.document(WIDTH, top + BAR, &[]))
}

/// Shortens a name to at most [`LONGEST_NAME`] letters.
fn cut(name: &str) -> String {
    match name.chars().nth(LONGEST_NAME) {
        None => name.to_owned(),
        Some(_) => name.chars().take(LONGEST_NAME - 1).chain(['…']).collect(),
    }
}

/// Draws the waits by class: mean and 95 %, one row for each class and policy.
#[must_use]
pub fn waits(groups: &[(String, Group)]) -> Chart {
    let mut rows: BTreeMap<&str, Vec<&(String, Group)>> = BTreeMap::new();
    for entry in groups {
        rows.entry(&entry.1.name).or_default().push(entry);
    }
    let height = groups.len() as f64 * (BAR + 4.0) + TOP + BOTTOM;
    let most = groups
        .iter()
        .fold(1.0_f64, |most, entry| most.max(entry.1.wait.p95).max(entry.1.wait.mean));
    let left = 280.0;
    let x = |value: f64| left + value / most * (WIDTH - left - 150.0);
    let mut chart = Chart::new(height, "waits by class".to_owned());
    let svg = &mut chart.elements;
    let mut top = TOP;
    for (policy, group) in rows.into_values().flatten() {
        let (mean, p95) = (x(group.wait.mean), x(group.wait.p95));
        let ends = p95.max(mean);
        svg.label("e", (left - 8.0, top + 12.0), &format!("{} · {policy}", group.name));
        svg.rectangle((left, top), (p95 - left, BAR), LIGHT);
        svg.rectangle((left, top + 4.0), (mean - left, 8.0), COLOURS[0]);
        let (mean, p95) = (short(group.wait.mean), short(group.wait.p95));
        svg.label("", (ends + 6.0, top + 12.0), &format!("{mean} s, 95 % {p95} s"));
        top += BAR + 4.0;
    }
    chart
}

fn scale(svg: &mut Svg, most: f64, y: impl Fn(f64) -> f64, name: &str) {
    let step = round_step(most / 4.0).max(1.0);
    let mut value = 0.0;
    while value <= most {
        let at = y(value);
        svg.path("g", &format!("M{LEFT} {at:.1}H{}", WIDTH - RIGHT));
        svg.label("e", (LEFT - 6.0, at + 4.0), &value.to_string());
        value += step;
    }
    let place = format!("translate(14 {:.1}) rotate(-90)", y(most / 2.0));
    svg.around("text", &[("class", &"m"), ("transform", &place)], name);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_hold_the_mean_of_their_time() {
        let load = |at, busy, waiting| Load { at: Time(at), busy, waiting };
        let steps = [load(0, 4, 0), load(300, 8, 2), load(450, 0, 1), load(600, 0, 0)];
        let axis = Axis { from: Time(0), to: Time(600) };
        let busy = columns(&steps, axis, false);
        assert_eq!(
            (busy[0], busy[299], busy[300], busy[449], busy[450]),
            (4.0, 4.0, 8.0, 8.0, 0.0)
        );
        let coarse = columns(&steps, Axis { from: Time(0), to: Time(180_000) }, false);
        assert_eq!(coarse[0], 4.0);
        assert_eq!((coarse[1], coarse[2]), (4.0, 0.0));
        assert_eq!(columns(&steps, axis, true)[310], 2.0);
    }

    #[test]
    fn picture_is_one_image_with_all_charts_and_names() {
        use crate::simulate::{Settings, Simulation};
        use crate::workload::generate::{Synthetic, synthetic};
        use elastic_policy::state::Cluster;
        let workload = synthetic(Synthetic { jobs: 3, nodes: 8, load: 0.9, seed: 1 });
        let cluster = Cluster { nodes: 8, cores_per_node: 1 };
        let settings = Settings { keep_course: true, ..Settings::new(cluster) };
        let mut policy = elastic_policy::rigid::Fcfs;
        let outcome = Simulation::new(&workload, settings, &mut policy, &mut ()).run().unwrap();
        let picture = picture(&outcome, &workload).unwrap();
        let count = |part| picture.matches(part).count();
        assert_eq!((count("<svg "), count("</svg>"), count("xmlns=")), (4, 4, 1));
        assert_eq!(count("height=\"10\""), 3, "a name for each job");
        // Images are XML: every value needs quotes.
        let is_bare = |part: &str| part.starts_with(|letter: char| letter.is_ascii_alphanumeric());
        let tags = picture.split('<').filter_map(|tag| tag.split_once('>')).map(|(tag, _)| tag);
        let mut values =
            tags.filter(|tag| !tag.starts_with('/')).flat_map(|tag| tag.split('=').skip(1));
        assert!(!values.any(is_bare), "{picture}");
    }

    #[test]
    fn legend_of_many_jobs_says_how_many_it_leaves_out() {
        use crate::simulate::{Settings, Simulation};
        use crate::workload::generate::{Synthetic, synthetic};
        use elastic_policy::state::Cluster;
        let workload = synthetic(Synthetic { jobs: 20, nodes: 8, load: 0.9, seed: 1 });
        let settings = Settings {
            keep_course: true,
            ..Settings::new(Cluster { nodes: 8, cores_per_node: 1 })
        };
        let mut policy = elastic_policy::rigid::Fcfs;
        let outcome = Simulation::new(&workload, settings, &mut policy, &mut ()).run().unwrap();
        assert!(picture(&outcome, &workload).unwrap().contains(">4 more in the same colours<"));
        assert_eq!(cut(&"n".repeat(40)), "n".repeat(31) + "…");
        assert_eq!(cut("short"), "short");
    }
}
