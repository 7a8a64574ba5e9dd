//! The study as a table, as JSON and as a picture.

use super::fit::{Coefficient, Fit, Law, Prediction};
use super::fits::{At, NodeAt, Part};
use super::gather::{Growth, Study};
use memprof::picture::{self, Curve, Fitted, Point, Style};
use memprof::report::grid::{Align, Grid, Weight};
use memprof::terminal::{Look, clean};
use memprof::units;
use serde::Serialize;

/// Version of the JSON form; fields are only added within one.
const VERSION: u32 = 1;
/// Components that never hold this share of a rank are left out of the table.
const LEAST_SHARE: f64 = 0.005;
/// Curves in the picture.
const MOST_CURVES: usize = 8;

#[derive(Serialize)]
struct Document<'a> {
    memprof_sweep: u32,
    #[serde(flatten)]
    study: &'a Study,
    predictions: Vec<Predicted<'a>>,
    /// One for each number of ranks with a number of nodes.
    nodes_at: Vec<NodeDocument>,
}

#[derive(Serialize)]
struct NodeDocument {
    #[serde(flatten)]
    node: NodeAt,
    /// `null` if the memory of a node is not known, or lies within the interval.
    fits: Option<bool>,
}

#[derive(Serialize)]
struct Predicted<'a> {
    name: &'a str,
    #[serde(flatten)]
    prediction: Prediction,
}

/// Returns the study as a document, with the laws' predictions for these numbers of ranks.
///
/// # Errors
///
/// The document cannot be written as JSON.
pub fn json(study: &Study, at: &[At]) -> anyhow::Result<String> {
    let all = [("one rank", &study.rank), ("largest node", &study.node)].into_iter();
    let all = all.chain(study.growths.iter().map(|growth| (&*growth.name, growth)));
    let mut predictions = Vec::new();
    for (name, growth) in all {
        for At { ranks, .. } in at {
            let fit = growth.fit.as_ref();
            predictions.extend(
                fit.map(|fit| Predicted { name, prediction: fit.predict(f64::from(*ranks)) }),
            );
        }
    }
    let nodes = at.iter().filter_map(|at| NodeAt::of(study, *at));
    let nodes_at = nodes.map(|node| NodeDocument { fits: node.fits(), node }).collect();
    let document = Document { memprof_sweep: VERSION, study, predictions, nodes_at };
    Ok(serde_json::to_string_pretty(&document)? + "\n")
}

/// Returns the study as a table, with the laws' predictions; with `all`, also small components.
pub fn table(study: &Study, at: &[At], all: bool, look: Look) -> String {
    let mut out = look.bold(&format!(
        "{}: {} in bytes, by number of ranks",
        clean(&study.program),
        study.metric.label()
    ));
    out.push_str("\n\n");
    let mut align = vec![Align::Left];
    align.extend(study.counts.iter().map(|_| Align::Right));
    align.push(Align::Left);
    align.push(Align::Left);
    align.extend(at.iter().map(|_| Align::Right));
    // On a narrow terminal measured values go before the law, those between the ends first.
    let measured = study.counts.len();
    let mut least: Vec<usize> = (2..measured).collect();
    least.extend([measured + 2, 1, measured]);
    let mut grid = Grid::new(&align).least(&least);
    let mut head = vec!["component".to_owned()];
    head.extend(study.counts.iter().map(u32::to_string));
    head.extend(["law".to_owned(), "left over".to_owned()]);
    head.extend(at.iter().map(|at| format!("at {}", at.ranks)));
    grid.row(Weight::Head, head);
    grid.row(Weight::Sum, row("one rank", &study.rank, study, at));
    grid.row(Weight::Sum, row("largest node", &study.node, study, at));
    let least = study.rank.most() * LEAST_SHARE;
    let mut left_out = 0;
    for growth in &study.growths {
        if all || growth.most() >= least {
            grid.row(Weight::Plain, row(&clean(&growth.name), growth, study, at));
        } else {
            left_out += 1;
        }
    }
    out += &grid.text(look);
    if left_out > 0 {
        let line =
            format!("{} below half a percent of a rank", units::count(left_out, "component"));
        out += &look.dim(&line);
        out.push('\n');
    }
    out.push('\n');
    let nodes: Vec<NodeAt> = at.iter().filter_map(|at| NodeAt::of(study, *at)).collect();
    for node in &nodes {
        out += &node.text(study.limit, look);
    }
    if !nodes.is_empty() {
        out += &parts(study, all, look);
    }
    let mut notes = study.notes.iter().map(|note| clean(note)).collect::<Vec<_>>();
    let fits = || {
        study
            .growths
            .iter()
            .chain([&study.rank, &study.node])
            .filter_map(|growth| growth.fit.as_ref())
    };
    if fits().any(|fit| !fit.is_tested()) {
        notes.push("? marks laws that no further number of ranks could test".to_owned());
    }
    if nodes.is_empty() && at.iter().any(|at| at.nodes.is_some()) {
        let why = "no prediction per node: no complete job ran several ranks on one node";
        notes.push(why.to_owned());
    }
    let outside = |at: &At| fits().any(|fit| fit.predict(f64::from(at.ranks)).extrapolated);
    if at.iter().any(outside) || nodes.iter().any(|node| node.extrapolated) {
        let (from, to) = (study.counts.first().unwrap_or(&0), study.counts.last().unwrap_or(&0));
        notes.push(format!("! outside of what was measured ({from} to {to} ranks): true only if the law still holds there"));
    }
    for note in notes {
        out += &look.warn(&note);
        out.push('\n');
    }
    out
}

/// Returns the models of which predictions per node are the sum, as a table.
fn parts(study: &Study, all: bool, look: Look) -> String {
    let largest = |part: &Part| part.per_rank.most().max(part.shared.most());
    let sum: f64 = study.parts.iter().map(largest).sum();
    let mut parts: Vec<&Part> =
        study.parts.iter().filter(|part| all || largest(part) >= sum * LEAST_SHARE).collect();
    parts.sort_by(|one, other| largest(other).total_cmp(&largest(one)));
    let mut grid = Grid::new(&[Align::Left; 3]);
    grid.row(
        Weight::Head,
        ["of a node", "private in each rank, by ranks", "shared, by ranks of the node"]
            .map(str::to_owned),
    );
    for part in parts {
        let model = |growth: &Growth| match growth.fit.as_ref() {
            Some(fit) if growth.most() > 0.0 => law(fit) + if fit.is_tested() { "" } else { " ?" },
            _ => String::new(),
        };
        let cells = [clean(&part.per_rank.name), model(&part.per_rank), model(&part.shared)];
        grid.row(Weight::Plain, cells);
    }
    format!("\n{}\n", grid.text(look))
}

fn row(name: &str, growth: &Growth, study: &Study, at: &[At]) -> Vec<String> {
    let mut cells = vec![name.to_owned()];
    let mean = |count: &u32| growth.mean_at(f64::from(*count));
    cells.extend(study.counts.iter().map(|count| mean(count).map_or("-".to_owned(), bytes)));
    let Some(fit) = &growth.fit else { return cells };
    cells.push(law(fit) + if fit.is_tested() { "" } else { " ?" });
    cells.push(bytes(fit.largest_residual));
    for At { ranks, .. } in at {
        let prediction = fit.predict(f64::from(*ranks));
        let within =
            prediction.plus_minus.map_or(" ± ?".to_owned(), |by| format!(" ± {}", bytes(by)));
        let mark = if prediction.extrapolated { " !" } else { "" };
        cells.push(format!("{}{within}{mark}", bytes(prediction.bytes)));
    }
    cells
}

/// Returns the law with its numbers: `4.00 MiB + 1.50 MiB (± 2.00 KiB) per rank`.
pub(super) fn law(fit: &Fit) -> String {
    let mut text = bytes(fit.fixed.value);
    let mut term = |coefficient: &Option<Coefficient>, what: &str| {
        if let Some(coefficient) = coefficient {
            let sign = if coefficient.value < 0.0 { " - " } else { " + " };
            let within = match coefficient.plus_minus {
                Some(by) => format!(" (± {})", bytes(by)),
                None => String::new(),
            };
            text += &format!("{sign}{}{within} {what}", bytes(coefficient.value.abs()));
        }
    };
    term(&fit.per_rank, "per rank");
    term(&fit.per_doubling, "per doubling");
    term(&fit.divided, "/ ranks");
    if fit.law == Law::Constant
        && let Some(by) = fit.fixed.plus_minus
    {
        text += &format!(" (± {})", bytes(by));
    }
    text
}

fn bytes(value: f64) -> String {
    match value < 0.0 {
        true => format!("-{}", units::bytes(-value as u64)),
        false => units::bytes(value as u64),
    }
}

/// Returns a picture of the components that grow most and of the largest, over the measured numbers
/// of ranks.
pub fn picture(study: &Study) -> String {
    let mut chosen: Vec<&Growth> =
        study.growths.iter().filter(|growth| growth.most() > 0.0).collect();
    let reach = |growth: &Growth| {
        let least = growth.points.iter().map(|point| point.bytes).fold(f64::MAX, f64::min);
        growth.most() - least
    };
    let weight = |growth: &&Growth| reach(growth) + growth.most() * 0.1;
    chosen.sort_by(|a, b| weight(b).total_cmp(&weight(a)));
    chosen.truncate(MOST_CURVES);
    let fitted = |growth: &&Growth| Fitted {
        name: clean(&growth.name),
        group: growth.group.map_or("", |group| group.label()).to_owned(),
        formula: growth.fit.as_ref().map_or(String::new(), |fit| {
            law(fit) + if fit.is_tested() { "" } else { " (not tested)" }
        }),
        points: growth
            .points
            .iter()
            .map(|point| Point { at: point.ranks, bytes: point.bytes })
            .collect(),
        line: growth.fit.as_ref().map_or(Vec::new(), line),
    };
    let drawing = Curve {
        title: format!("{}: {}, by number of ranks", clean(&study.program), study.metric.label()),
        variable: "ranks".to_owned(),
        fits: chosen.iter().map(fitted).collect(),
    };
    picture::curve(&drawing, &Style::default())
}

fn line(fit: &Fit) -> Vec<Point> {
    let (from, to) = (fit.range.0.log2(), fit.range.1.log2());
    let steps = 48;
    (0..=steps)
        .map(|step| 2f64.powf(from + (to - from) * f64::from(step) / f64::from(steps)))
        .map(|at| Point { at, bytes: fit.at(at) })
        .collect()
}
