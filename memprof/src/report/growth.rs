//! What grows between equal moments of a job, in text and as JSON.

use super::causes;
use super::grid::{Align, Grid, Weight};
use super::symbols::Symbols;
use crate::growth::{FEWEST_MOMENTS, Grown, Growth, NodeGrown, Pace, Slope, Unit, Verdict};
use crate::model::Job;
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, number, time};
use anyhow::bail;
use serde_json::{Value, json};
use std::sync::Arc;

/// Row of a component without a call that shows its growth.
const NO_CALL: &str = "no single call shows this growth; calls are judged from about 20 s on";
/// Growth that has ended and is worth a sentence, in bytes.
const NOTABLE: f64 = 1_048_576.0;
/// Run time in seconds from which growth is shown per hour.
const LONG: f64 = 7200.0;

/// Growth of a job, with names.
#[derive(Debug)]
pub struct Named {
    growth: Growth,
    /// Number of ranks or processes.
    processes: usize,
    noun: &'static str,
    /// Place that begins an iteration; empty if the moments are not iterations.
    place: String,
    /// Unit in which it is shown.
    unit: Shown,
}

/// Unit in which positions and slopes are shown.
#[derive(Copy, Clone, Debug, PartialEq)]
struct Shown {
    /// Name of one.
    name: &'static str,
    /// Its size, in units of positions.
    size: f64,
}

/// Judges a job by the moments that fit it best.
pub fn of(job: &Job) -> Named {
    by(job, Pace::of(job, None))
}

/// Judges a job by the entries of a phase.
///
/// # Errors
/// If the entries of the phase are not known over time.
pub fn of_phase(job: &Job, phase: &str) -> anyhow::Result<Named> {
    let pace = Pace::of(job, Some(phase));
    if pace.unit == Unit::Seconds {
        bail!(
            "growth by entries of the phase {}: its entries are not known over time, since it is the profiler's \
             own, began within a second, or the trace is of an earlier version; without --phase growth is by \
             iteration or time",
            clean(phase)
        );
    }
    Ok(by(job, pace))
}

/// Judges a job by time.
pub fn over_time(job: &Job) -> Named {
    by(job, Pace::of_time(job))
}

fn by(job: &Job, pace: Pace) -> Named {
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    let growth =
        Growth::of(job, pace, &mut |site| causes::place(site, &job.sites.objects, &mut symbols));
    let place = match &growth.pace.unit {
        Unit::Iterations { frame, .. } => {
            let mut names = Symbols::new(&growth.pace.objects, job.started_ns).names(*frame);
            let own = names.iter().position(|name| !name.is_of_compiler).unwrap_or(0);
            names.swap_remove(own).text
        }
        _ => String::new(),
    };
    let unit = match &growth.pace.unit {
        Unit::Iterations { .. } => Shown { name: "iteration", size: 1.0 },
        Unit::Entries { .. } => Shown { name: "entry", size: 1.0 },
        Unit::Seconds if growth.pace.end < LONG => Shown { name: "minute", size: 60.0 },
        Unit::Seconds => Shown { name: "hour", size: 3600.0 },
    };
    let (processes, noun) = (job.ranks().count(), job.noun());
    Named { growth, processes, noun, place, unit }
}

/// Part of the fastest growth below which the growth of a component is only counted.
const LEAST_SHARE: f64 = 0.01;
/// Titles of the columns of the table, after the slope.
const HEAD: [&str; 3] = ["99 % interval", "grows in", "fastest"];

/// Rounds to three digits: more are never known of a prediction.
fn rounded(value: f64) -> u64 {
    let digits = value.max(1.0).log10().floor() as i32;
    let unit = 10_f64.powi((digits - 2).max(0));
    ((value / unit).round() * unit) as u64
}

/// Returns the name of a verdict in JSON.
fn name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::TooShort => "too short",
        Verdict::Steady => "steady",
        Verdict::Unclear(_) => "unclear",
        Verdict::Ended { .. } => "ended",
        Verdict::Slowing(_) => "slowing",
        Verdict::Grows(_) => "grows",
    }
}

/// Returns a slope in JSON.
fn slope_json(slope: Option<Slope>) -> Value {
    slope.map_or(
        Value::Null,
        |slope| json!({ "bytes": slope.bytes, "low": slope.low, "high": slope.high }),
    )
}

/// Formats an amount that may be less than a byte.
fn amount(value: f64) -> String {
    match value {
        value if value < 9.995 => format!("{value:.2} B"),
        value => bytes(value.round() as u64),
    }
}

impl Named {
    /// Returns the name of the counted phase or MPI function; `None` for time.
    pub fn counted(&self) -> Option<(&'static str, &str)> {
        match &self.growth.pace.unit {
            Unit::Iterations { function, .. } => Some(("iteration", function)),
            Unit::Entries { phase } => Some(("entry", phase)),
            Unit::Seconds => None,
        }
    }

    /// Returns the name of the unit.
    pub fn unit_name(&self) -> &'static str {
        self.unit.name
    }

    /// Returns `ranks` or `processes`.
    pub fn processes_name(&self) -> &'static str {
        super::table::plural(self.noun)
    }

    /// Returns true if there are too few moments for a judgement.
    pub fn is_too_short(&self) -> bool {
        self.growth.is_too_short()
    }

    /// Returns the components that grow, and the call of each with the fastest growth.
    pub fn slopes(&self) -> Vec<(Arc<str>, Slope, Option<String>)> {
        let place = |grown: &Grown| grown.calls.first().map(|call| call.place.clone());
        let slope =
            |grown: &Grown| Some((grown.name.clone(), grown.verdict.slope()?, place(grown)));
        self.growth.growing().filter_map(slope).collect()
    }

    /// Returns a slope for one unit.
    pub fn per(&self, value: f64) -> String {
        amount(value * self.unit.size)
    }

    /// Returns the interval of a slope.
    fn interval(&self, slope: Slope) -> String {
        format!("{} to {}", self.per(slope.low), self.per(slope.high))
    }

    /// Returns a position: `1,200`, `2 h 05 min`.
    fn bare_position(&self, at: f64) -> String {
        match self.growth.pace.unit {
            Unit::Seconds => time((at * 1e9) as u64),
            _ => number(rounded(at)),
        }
    }

    /// Returns a position with its unit: `iteration 1,200`, `2 h 05 min`.
    fn position(&self, at: f64) -> String {
        match self.growth.pace.unit {
            Unit::Seconds => self.bare_position(at),
            _ => format!("{} {}", self.unit.name, self.bare_position(at)),
        }
    }

    /// Returns the growing components that have a row, and the number of the others.
    fn shown(&self) -> (Vec<(&Grown, Slope)>, usize) {
        let growing = self.growth.growing();
        let mut shown: Vec<(&Grown, Slope)> =
            growing.filter_map(|grown| Some((grown, grown.verdict.slope()?))).collect();
        let all = shown.len();
        let most = shown.first().map_or(0.0, |(_, slope)| slope.bytes);
        shown.retain(|(_, slope)| slope.bytes >= LEAST_SHARE * most);
        let left_out = all - shown.len();
        (shown, left_out)
    }

    /// Returns the titles of the columns.
    pub fn heads(&self) -> [String; 5] {
        let [interval, spread, fastest] = HEAD.map(String::from);
        ["component".to_owned(), format!("per {}", self.unit.name), interval, spread, fastest]
    }

    /// Returns the rows of the table: components, each with the calls that make it grow.
    pub fn rows(&self) -> Vec<(Weight, Vec<String>)> {
        let mut rows = Vec::new();
        for (grown, slope) in self.shown().0 {
            let what = if grown.is_owned { "" } else { ", resident" };
            let cells = vec![
                clean(&grown.name) + what,
                self.per(slope.bytes),
                self.interval(slope),
                self.spread(grown),
                self.fastest(grown),
            ];
            rows.push((Weight::Sum, cells));
            for call in &grown.calls {
                let (per, interval) = (self.per(call.slope.bytes), self.interval(call.slope));
                rows.push((Weight::Plain, vec![clean(&call.place), per, interval]));
            }
            if grown.calls.is_empty() && grown.is_owned {
                rows.push((Weight::Plain, vec![NO_CALL.to_owned()]));
            }
        }
        rows
    }

    /// Returns a sentence about components without a row; `None` if all have one.
    fn left_out(&self) -> Option<String> {
        let left_out = self.shown().1;
        (left_out > 0).then(|| {
            format!(
                "{} by less than 1 % of the first",
                match left_out {
                    1 => "1 component more grows".to_owned(),
                    more => format!("{more} components more grow"),
                }
            )
        })
    }

    /// Returns how the growth was found; `None` if there are too few moments for a judgement.
    pub fn method(&self) -> Option<String> {
        (!self.growth.is_too_short()).then(|| {
            format!(
                "{} compared, the first quarter is the warm-up; sums of all {}; calls: estimated from samples",
                count(self.growth.moments, "moment"),
                self.processes_name()
            )
        })
    }

    /// Returns a sentence about the fastest growth and the node that it fills first; `None` if
    /// there are too few moments for a judgement.
    pub fn sentence(&self) -> Option<String> {
        if self.growth.is_too_short() {
            return None;
        }
        let mut growing = self.growth.growing();
        let fastest = growing.next().and_then(|grown| Some((grown, grown.verdict.slope()?)));
        let Some((grown, slope)) = fastest else {
            return Some("Nothing grows to the end of the run.".to_owned());
        };
        let mut text = format!(
            "{} grows by {} per {} ({})",
            clean(&grown.name),
            self.per(slope.bytes),
            self.unit.name,
            self.interval(slope)
        );
        let call = grown.calls.first();
        text += &call.map_or(String::new(), |call| format!(" at {}", clean(&call.place)));
        text += if matches!(grown.verdict, Verdict::Slowing(_)) {
            ", more and more slowly"
        } else {
            ""
        };
        text += &match growing.count() {
            0 => String::new(),
            1 => "; 1 other component grows more slowly".to_owned(),
            more => format!("; {more} other components grow more slowly"),
        };
        let nodes = self.growth.nodes.iter().filter(|node| node.passing.is_some());
        let first = nodes.min_by(|one, other| at(one).total_cmp(&at(other)));
        text += &first
            .map_or(String::new(), |node| format!("; {}{}", clean(&node.host), self.passing(node)));
        Some(text + ".")
    }

    /// Returns the whole as JSON: slopes in bytes per iteration, entry or second.
    pub fn json(&self) -> Value {
        let growth = &self.growth;
        let (unit, function, phase) = match &growth.pace.unit {
            Unit::Iterations { function, .. } => ("iteration", Some(function), None),
            Unit::Entries { phase } => ("entry", None, Some(phase)),
            Unit::Seconds => ("second", None, None),
        };
        let components =
            growth.components.iter().map(|grown| {
                let (until, bytes) = match grown.verdict {
                    Verdict::Ended { until, bytes } => (Some(until), Some(bytes)),
                    _ => (None, None),
                };
                let fastest = grown.fastest.as_ref().map(
                    |(who, slope)| json!({ "process": who, "slope": slope_json(Some(*slope)) }),
                );
                let calls = grown.calls.iter().map(
                    |call| json!({ "place": call.place, "slope": slope_json(Some(call.slope)) }),
                );
                json!({
                    "name": grown.name,
                    "of": if grown.is_owned { "owned" } else { "resident" },
                    "verdict": name(grown.verdict),
                    "slope": slope_json(grown.verdict.slope()),
                    "until": until,
                    "grown": bytes,
                    "processes": grown.processes,
                    "fastest": fastest,
                    "calls": calls.collect::<Vec<_>>(),
                })
            });
        let nodes = growth.nodes.iter().map(|node| {
            let passes = node.passing.map(|passing| {
                json!({ "at": passing.at, "earliest": passing.earliest, "latest": passing.latest })
            });
            json!({
                "host": node.host,
                "verdict": name(node.verdict),
                "slope": slope_json(node.verdict.slope()),
                "now": node.now.map(|now| now.bytes),
                "limit": node.limit.map(|limit| limit.bytes),
                "limit_of": node.limit.map(|limit| if limit.is_of_group { "control group" } else { "node" }),
                "passes": passes,
            })
        });
        json!({
            "unit": unit,
            "function": function,
            "place": (!self.place.is_empty()).then_some(&self.place),
            "phase": phase,
            "end": growth.pace.end,
            "moments": growth.moments,
            "too_short": growth.is_too_short(),
            "components": components.collect::<Vec<_>>(),
            "nodes": nodes.collect::<Vec<_>>(),
        })
    }

    /// Returns the first line: what the equal moments are.
    pub fn head(&self) -> String {
        let end = self.growth.pace.end;
        match &self.growth.pace.unit {
            Unit::Iterations { function, .. } => format!(
                "growth per iteration of the loop that begins with {} in {}: {} iterations",
                clean(function),
                clean(&self.place),
                number(end as u64)
            ),
            Unit::Entries { phase } => {
                let entries = number(end as u64);
                format!("growth per entry of the phase {}: {entries} entries", clean(phase))
            }
            Unit::Seconds => {
                let took = time((end * 1e9) as u64);
                match self.growth.is_too_short() {
                    true => format!("growth of a run of {took}"),
                    false => format!("growth per {}: {took}", self.unit.name),
                }
            }
        }
    }

    /// Returns how a run counts its iterations; `None` if the moments are counted.
    fn hint(&self) -> Option<&'static str> {
        (self.growth.pace.unit == Unit::Seconds).then_some(
            "memprof run --loops counts iterations; a phase of the program (MPI_Pcontrol) counts its entries",
        )
    }

    /// Returns a sentence if the run is too short for a judgement.
    fn too_short(&self) -> Option<String> {
        let moments = self.growth.moments;
        let noun = if self.counted().is_some() { "moment" } else { "second" };
        self.growth.is_too_short().then(|| {
            let moments = count(moments, noun);
            format!("too short to say: {moments} to compare, {FEWEST_MOMENTS} are needed")
        })
    }

    /// Returns the processes in which a component grows: `4 of 4 ranks`.
    fn spread(&self, grown: &Grown) -> String {
        match self.processes {
            1 => String::new(),
            all => format!("{} of {}", grown.processes, count(all, self.noun)),
        }
    }

    /// Returns the process in which it grows fastest: `rank 3, 1.20 MiB`.
    fn fastest(&self, grown: &Grown) -> String {
        match &grown.fastest {
            Some((who, slope)) if self.processes > 1 => {
                format!("{}, {}", who.label(), self.per(slope.bytes))
            }
            _ => String::new(),
        }
    }

    /// Returns sentences about the components that do not grow to the end, or may have a bound.
    fn bounded(&self) -> Vec<String> {
        let sentence = |grown: &Grown| {
            let name = clean(&grown.name);
            match grown.verdict {
                Verdict::Ended { until, bytes } if bytes >= NOTABLE => Some(format!(
                    "{name} grew by {} until {} and has not grown since",
                    amount(bytes),
                    self.position(until)
                )),
                Verdict::Slowing(_) => {
                    Some(format!("{name}: its growth is slowing and may level off"))
                }
                Verdict::Unclear(_) => {
                    Some(format!("{name} varies too much to say whether its growth has ended"))
                }
                _ => None,
            }
        };
        self.growth.components.iter().filter_map(sentence).collect()
    }

    /// Returns all sentences: about the whole, the nodes, and what has ended or may end.
    pub fn sentences(&self) -> [Vec<String>; 3] {
        let nothing = || "nothing grows to the end".to_owned();
        let whole = match self.too_short() {
            Some(why) => Some(why),
            None if self.growth.growing().next().is_none() => Some(nothing()),
            None => self.left_out(),
        };
        [whole.into_iter().collect(), self.nodes(), self.bounded()]
    }

    /// Returns sentences about the nodes: what they hold, and when that does not fit.
    fn nodes(&self) -> Vec<String> {
        let something_grows = self.growth.growing().next().is_some();
        let sentence = |node: &NodeGrown| {
            if node.verdict == Verdict::TooShort && something_grows {
                return Some(format!(
                    "{}: too few samples of resident memory to say when it does not fit",
                    clean(&node.host)
                ));
            }
            let (Some(slope), Some(now)) = (node.verdict.slope(), node.now) else { return None };
            let mut text = format!(
                "{} holds {}, {} more per {} ({})",
                clean(&node.host),
                bytes(now.bytes as u64),
                self.per(slope.bytes),
                self.unit.name,
                self.interval(slope)
            );
            if node.passing.is_some() {
                text += &format!(":{}", self.passing(node));
            }
            Some(text)
        };
        self.growth.nodes.iter().filter_map(sentence).collect()
    }

    /// Returns text such as ` will exceed the node's 64.0 GiB at iteration 18,400 (17,900 to
    /// 19,100)`; empty if the node does not grow or its memory is not known.
    fn passing(&self, node: &NodeGrown) -> String {
        let (Some(limit), Some(passing)) = (node.limit, node.passing) else { return String::new() };
        let of = if limit.is_of_group { "its control group" } else { "the node" };
        format!(
            " will exceed {of}'s {} at {} ({} to {})",
            bytes(limit.bytes),
            self.position(passing.at),
            self.bare_position(passing.earliest),
            self.bare_position(passing.latest)
        )
    }
}

/// Returns the position at which the memory of a node is exceeded.
fn at(node: &NodeGrown) -> f64 {
    node.passing.map_or(f64::INFINITY, |passing| passing.at)
}

/// Returns the growth for the terminal.
pub fn text(named: &Named, look: Look) -> String {
    use Align::{Left, Right};
    let mut out = look.wrap(&format!("{}\n", named.head()));
    let mut grid = Grid::new(&[Left, Right, Left, Left, Left]);
    grid.row(Weight::Head, named.heads());
    for (weight, mut cells) in named.rows() {
        if weight == Weight::Plain {
            cells[0].insert_str(0, "  ");
        }
        grid.row(weight, cells);
    }
    if !grid.is_empty() {
        out += &format!("\n{}", grid.text(look));
    }
    for sentences in named.sentences().iter().filter(|sentences| !sentences.is_empty()) {
        if !grid.is_empty() {
            out.push('\n');
        }
        out.extend(sentences.iter().map(|sentence| look.wrap(&format!("{sentence}\n"))));
    }
    if let Some(method) = named.method() {
        out += &format!("\n{}", look.dim(&look.wrap(&format!("{method}\n"))));
    }
    let hint = named.hint().map(|hint| look.dim(&look.wrap(&format!("{hint}\n"))));
    out + &hint.unwrap_or_default()
}

#[cfg(test)]
#[path = "growth_tests.rs"]
mod tests;
