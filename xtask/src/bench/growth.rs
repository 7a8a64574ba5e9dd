//! How the cost of calls grows with the ranks of a node: among local processes on a simulated
//! machine, and among ranks of MPI, where a reference library can be measured, too.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, bail};
use quo_svg::Svg;
use quo_tests::Job;
use serde_json::Value;

use super::{LIMIT, parse, program_output};
use crate::{project, run};

/// Numbers of ranks that are measured.
const LOCAL: [usize; 9] = [2, 4, 8, 16, 32, 64, 128, 256, 512];
const MPI: [usize; 6] = [2, 4, 8, 16, 32, 64];
/// Numbers of ranks that have a column.
const COLUMNS: [usize; 6] = [2, 8, 32, 64, 256, 512];
/// Ranks from which the exponent is computed: more than a small machine has CPUs.
const FROM: usize = 8;

pub const HEADINGS: [&str; 8] = ["µs", "2", "8", "32", "64", "256", "512", "exponent"];

/// One program's measurements, by number of ranks.
#[derive(Default)]
struct Series {
    name: &'static str,
    measured: Vec<Value>,
}

/// Measurements of all programs.
pub struct Growth {
    series: Vec<Series>,
}

/// The programs over MPI.
pub struct Programs<'a> {
    pub ours: &'a Path,
    pub reference: Option<&'a Path>,
}

pub fn run(programs: &Programs<'_>) -> Result<Growth> {
    let mut local = Series { name: "local group", ..Series::default() };
    for ranks in LOCAL {
        println!("{ranks} local processes");
        local.measured.push(local_output(ranks)?);
    }
    let mut series = vec![local];
    let reference = programs.reference.map(|program| ("libquo", program));
    for (name, program) in [("MPI", programs.ours)].into_iter().chain(reference) {
        let mut over_mpi = Series { name, ..Series::default() };
        for ranks in MPI {
            println!("{ranks} ranks of MPI, {name}");
            over_mpi.measured.push(program_output(&Job::new(ranks, program).limit(LIMIT))?);
        }
        series.push(over_mpi);
    }
    Ok(Growth { series })
}

fn local_output(ranks: usize) -> Result<Value> {
    let log = project::target()?.join("xtask/growth.log");
    let mut cargo: Command = project::cargo()?;
    cargo.args(["bench", "--package", "quo-benches", "--bench", "growth", "--"]);
    let finished =
        run::logged(cargo.arg(ranks.to_string()), &log, LIMIT + Duration::from_secs(600))?;
    if !finished.ending.is_success() {
        bail!("{}\n{}", finished.output, finished.ending);
    }
    parse(&finished.output)
}

/// Returns the slope of `ln(cost)` over `ln(ranks)`: 1 is linear growth, 0 none. Pure.
fn exponent(points: &[(usize, f64)]) -> Option<f64> {
    let points: Vec<(f64, f64)> = points
        .iter()
        .filter(|(ranks, cost)| *ranks >= FROM && *cost > 0.0)
        .map(|&(ranks, cost)| ((ranks as f64).ln(), cost.ln()))
        .collect();
    let count = points.len() as f64;
    let sum = |value: &dyn Fn(&(f64, f64)) -> f64| points.iter().map(value).sum::<f64>();
    let (x, y) = (sum(&|point| point.0) / count, sum(&|point| point.1) / count);
    let spread = sum(&|point| (point.0 - x).powi(2));
    (spread > 0.0).then(|| sum(&|point| (point.0 - x) * (point.1 - y)) / spread)
}

impl Series {
    /// Returns ranks and numbers at a JSON pointer.
    fn points(&self, pointer: &str) -> Vec<(usize, f64)> {
        let point = |value: &Value| {
            let ranks = usize::try_from(value.pointer("/ranks")?.as_u64()?).ok()?;
            Some((ranks, value.pointer(pointer)?.as_f64()?))
        };
        self.measured.iter().filter_map(point).collect()
    }

    fn operations(&self) -> Vec<String> {
        let first = self.measured.first().and_then(|value| value.pointer("/cpu")?.as_object());
        first.map(|all| all.keys().cloned().collect()).unwrap_or_default()
    }

    fn line(&self, label: String, pointer: &str) -> [String; 8] {
        let points = self.points(pointer);
        let at = |ranks: usize| {
            let found = points.iter().find(|point| point.0 == ranks);
            found.map_or(String::new(), |point| super::table::significant(point.1))
        };
        let slope = exponent(&points).map_or(String::new(), |slope| format!("{slope:.2}"));
        let mut cells = vec![label];
        cells.extend(COLUMNS.map(at));
        cells.push(slope);
        cells.try_into().unwrap_or_default()
    }
}

impl Growth {
    pub fn to_json(&self) -> Value {
        let all = self.series.iter();
        Value::Object(
            all.map(|series| (series.name.to_owned(), series.measured.clone().into())).collect(),
        )
    }

    /// Returns the lines of the table: time of a call, CPU time of one rank, bytes.
    pub fn lines(&self) -> Vec<[String; 8]> {
        let mut lines = Vec::new();
        for series in &self.series {
            for operation in series.operations() {
                for (what, field) in [("time", "wall"), ("CPU of a rank", "cpu")] {
                    let label = format!("{operation}, {}, {what}", series.name);
                    lines.push(series.line(label, &format!("/{field}/{operation}")));
                }
            }
            let bytes = "bytes of segment per rank".to_owned();
            if !series.points("/segment_per_rank").is_empty() {
                lines.push(series.line(bytes, "/segment_per_rank"));
            }
        }
        lines
    }

    /// Returns a picture of the CPU time of one rank per call among local processes, both axes
    /// logarithmic.
    pub fn picture(&self) -> String {
        const LEFT: f64 = 70.0;
        const RIGHT: f64 = 650.0;
        const TOP: f64 = 50.0;
        const BOTTOM: f64 = 380.0;
        let mut svg = Svg::default();
        svg.around("style", &[], STYLE);
        svg.area("ground", (0.0, 0.0), (800.0, 440.0));
        svg.label(
            "title",
            (LEFT, 28.0),
            "CPU time of one rank per call (µs), by ranks of the node",
        );
        let Some(series) = self.series.first() else { return svg.text() };
        let curves: Vec<(String, Vec<(usize, f64)>)> = series
            .operations()
            .into_iter()
            .map(|name| (name.clone(), series.points(&format!("/cpu/{name}"))))
            .collect();
        let costs = curves.iter().flat_map(|(_, points)| points).map(|point| point.1);
        let (least, most) = costs
            .filter(|&cost| cost > 0.0)
            .fold((f64::MAX, f64::MIN), |(least, most), cost| (least.min(cost), most.max(cost)));
        let (low, high) = (least.log10().floor(), most.log10().ceil());
        let x = |ranks: usize| LEFT + (RIGHT - LEFT) * ((ranks as f64).log2() - 1.0) / 8.0;
        let y = |cost: f64| BOTTOM - (BOTTOM - TOP) * (cost.log10() - low) / (high - low);
        for ranks in LOCAL {
            svg.path("grid", &format!("M{:.1} {TOP}V{BOTTOM}", x(ranks)));
            svg.label("middle", (x(ranks), BOTTOM + 22.0), &ranks.to_string());
        }
        svg.label("middle", ((LEFT + RIGHT) / 2.0, BOTTOM + 46.0), "ranks");
        let mut decade = low;
        while decade <= high {
            let cost = 10f64.powf(decade);
            let digits = (-decade).max(0.0) as usize;
            svg.path("grid", &format!("M{LEFT} {:.1}H{RIGHT}", y(cost)));
            svg.label("end", (LEFT - 8.0, y(cost) + 5.0), &format!("{cost:.digits$}"));
            decade += 1.0;
        }
        // Names of curves that end close together are moved apart.
        let mut ends: Vec<(f64, String, usize)> = Vec::new();
        for (place, (name, points)) in curves.iter().enumerate() {
            let drawn = points.iter().filter(|point| point.1 > 0.0);
            let steps: Vec<String> =
                drawn.map(|point| format!("{:.1} {:.1}", x(point.0), y(point.1))).collect();
            svg.path(&format!("curve c{place}"), &format!("M{}", steps.join("L")));
            if let Some(last) = points.last() {
                ends.push((y(last.1.max(least)), name.clone(), place));
            }
        }
        ends.sort_by(|one, other| one.0.total_cmp(&other.0));
        let mut free = 0.0;
        for (height, name, place) in ends {
            let height = f64::max(height, free);
            svg.label(&format!("name t{place}"), (RIGHT + 10.0, height + 5.0), &name);
            free = height + 18.0;
        }
        let label = "CPU time of one rank per call of quo, from 2 to 512 ranks on one node";
        svg.document(800.0, 440.0, &[("aria-label", &label)])
    }

    /// Writes the picture into the folder of a page.
    pub fn write_picture(&self, page: &Path) -> Result<PathBuf> {
        let file = page.with_file_name("growth.svg");
        std::fs::write(&file, self.picture())?;
        Ok(file)
    }
}

/// Colours in light and dark.
const STYLE: &str = "
.ground { fill: #ffffff; }
text { fill: #1f2430; font-size: 14px; }
.title { font-weight: 700; font-size: 17px; }
.middle { text-anchor: middle; }
.end { text-anchor: end; }
.name { font-weight: 600; }
.grid { stroke: #dfe4eb; fill: none; }
.curve { fill: none; stroke-width: 2.5; }
.c0 { stroke: #2f6fdb; } .c1 { stroke: #b4622a; } .c2 { stroke: #1c8a5a; }
.c3 { stroke: #8460a8; } .c4 { stroke: #c2342f; } .c5 { stroke: #2a8c99; }
.t0 { fill: #2f6fdb; } .t1 { fill: #b4622a; } .t2 { fill: #1c8a5a; }
.t3 { fill: #8460a8; } .t4 { fill: #c2342f; } .t5 { fill: #2a8c99; }
@media (prefers-color-scheme: dark) {
.ground { fill: #171a20; }
text { fill: #e8ebf0; }
.grid { stroke: #39404c; }
.t0 { fill: #7ba6ee; } .t1 { fill: #e0965f; } .t2 { fill: #55c08f; }
.t3 { fill: #b79bd4; } .t4 { fill: #ec7f7b; } .t5 { fill: #6cc6d2; }
.c0 { stroke: #7ba6ee; } .c1 { stroke: #e0965f; } .c2 { stroke: #55c08f; }
.c3 { stroke: #b79bd4; } .c4 { stroke: #ec7f7b; } .c5 { stroke: #6cc6d2; }
}
";

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn growth() -> Growth {
        let at = |ranks: u32| {
            json!({"ranks": ranks, "wall": {"barrier": ranks * 2}, "cpu": {"barrier": 3.0},
                   "segment_per_rank": 500})
        };
        Growth {
            series: vec![Series {
                name: "local group",
                measured: [2, 8, 32, 512].map(at).to_vec(),
            }],
        }
    }

    #[test]
    fn exponent_tells_linear_growth_from_none() {
        let lines = growth().lines();
        assert_eq!(
            lines[0],
            ["barrier, local group, time", "4.00", "16.0", "64.0", "", "", "1024", "1.00"]
        );
        assert_eq!(lines[1][7], "0.00");
        assert_eq!(lines[2][1], "500");
        assert_eq!(exponent(&[(8, 1.0)]), None);
        let quadratic = [8, 16, 64].map(|ranks| (ranks, (ranks * ranks) as f64));
        assert!((exponent(&quadratic).unwrap() - 2.0).abs() < 1e-9);
    }

    #[test]
    fn picture_names_curves_and_ranks() {
        let picture = growth().picture();
        for text in [">barrier<", ">512<", "aria-label", "prefers-color-scheme"] {
            assert!(picture.contains(text), "{text}");
        }
        let short = json!({"ranks": 2, "cpu": {"lend": 0.02, "barrier": 3.0}});
        let picture = Growth { series: vec![Series { name: "local", measured: vec![short] }] };
        for label in [">0.01<", ">0.1<", ">1<", ">10<"] {
            assert!(picture.picture().contains(label), "{label}");
        }
    }
}
