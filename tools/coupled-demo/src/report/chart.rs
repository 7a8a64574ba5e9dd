//! The picture of cores: the work of each over time, mode below mode on one time axis.

use std::fmt::Write;

use coupled::result::{Mode, count};
use quo_svg::Svg;

use super::style::{axis, document, legend};
use super::{Measured, Report};
use crate::sample::usage::{Split, Usage, Use, Window};

const WIDTH: f64 = 1000.0;
const LEFT: f64 = 78.0;
const RIGHT: f64 = 92.0;
/// More CPUs than this are not drawn one by one.
const MOST_CPUS: usize = 64;

/// Describes a mode, in half a sentence.
pub fn describe(measured: &Measured) -> String {
    let run = &measured.run;
    let workers =
        format!("L1 on {} of {}", count(run.workers, "rank"), count(run.threads, "thread"));
    let each = if run.workers > 1 { " each" } else { "" };
    match run.mode {
        Mode::Under => {
            format!("{}: L0 leaves cores idle; {workers}{each}", count(run.ranks, "rank"))
        }
        Mode::Over => format!(
            "{}: {workers}{each}, sharing cores with ranks that spin in MPI_Barrier",
            count(run.ranks, "rank")
        ),
        Mode::Quo => format!(
            "{}: {workers}{each}, on cores that sleeping ranks lend",
            count(run.ranks, "rank")
        ),
    }
}

/// Time to place on the picture.
struct Scale {
    longest: f64,
}

impl Scale {
    fn x(&self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.longest).clamp(0.0, 1.0)
    }

    /// Seconds that are so many pixels wide.
    fn seconds(&self, pixels: f64) -> f64 {
        self.longest * pixels / (WIDTH - LEFT - RIGHT)
    }
}

/// The whole picture as one SVG element that needs nothing else.
pub fn picture(report: &Report, title: &str) -> String {
    let scale = Scale { longest: report.longest().max(1e-9) };
    let mut panels = Svg::default();
    let mut y = 82.0;
    for measured in &report.runs {
        y = panel(&mut panels, report, measured, &scale, y + 12.0);
    }
    let mut body = Svg::default();
    axis(&mut body, scale.longest, (74.0, y + 4.0), |seconds| scale.x(seconds));
    body.label("title", (16.0, 34.0), title);
    // Idle is the track's colour.
    let uses = Use::ALL.iter().map(|what| (what.class(), what.title()));
    legend(&mut body, 62.0, 16.0, uses.chain([("track", "idle")]));
    body.append(panels);
    document(body, WIDTH, y + 34.0, title, "")
}

fn panel(svg: &mut Svg, report: &Report, measured: &Measured, scale: &Scale, top: f64) -> f64 {
    let run = &measured.run;
    let mut y = top + 14.0;
    svg.label("strong", (16.0, y), run.mode.name());
    svg.label("quiet", (LEFT, y), &describe(measured));
    y += 10.0;
    let usage = &measured.usage;
    let first = y;
    if usage.windows.is_empty() {
        let said = "not sampled: `coupled-demo run` measures what each core does";
        svg.label("quiet", (LEFT, y + 16.0), said);
        y += 26.0;
    } else {
        let shown = usage.cpus.len().min(MOST_CPUS);
        let height = (160.0 / shown as f64).clamp(5.0, 30.0);
        let gap = if height > 12.0 { 4.0 } else { 1.0 };
        let bins = merge(&usage.windows, scale.seconds(2.0));
        for (at, cpu) in usage.cpus.iter().take(shown).enumerate() {
            core(svg, scale, &bins, at, run.seconds, y, height);
            if height > 9.0 {
                let middle = y + height / 2.0 + 4.0;
                svg.label("quiet end", (LEFT - 8.0, middle), &format!("CPU {cpu}"));
            }
            y += height + gap;
        }
        if shown < usage.cpus.len() {
            let said = format!("and {} CPUs more", usage.cpus.len() - shown);
            svg.label("quiet", (LEFT, y + 12.0), &said);
            y += 18.0;
        }
        y = curve(svg, scale, usage, run.seconds, y + 4.0);
    }
    finish_line(svg, report, measured, scale, first, y);
    y
}

/// Draws the end of the run, its time, and the speed-up.
fn finish_line(
    svg: &mut Svg,
    report: &Report,
    measured: &Measured,
    scale: &Scale,
    first: f64,
    last: f64,
) {
    let x = scale.x(measured.run.seconds);
    svg.path("stop", &format!("M{x:.1} {first:.1}V{last:.1}"));
    let seconds = measured.run.seconds;
    svg.label("strong", (x + 7.0, first + 16.0), &format!("{seconds:.1} s"));
    if let (true, Some(gain)) = (measured.run.mode != Mode::Under, report.speed_up(measured)) {
        svg.label("quiet", (x + 7.0, first + 33.0), &format!("{gain:.2} x"));
    }
}

/// Windows joined so that none is narrower than `least` seconds.
fn merge(windows: &[Window], least: f64) -> Vec<Window> {
    let mut bins: Vec<Window> = Vec::new();
    for window in windows {
        match bins.last_mut() {
            Some(bin) if bin.length() < least => {
                bin.end = window.end;
                for (sums, split) in bin.by_cpu.iter_mut().zip(&window.by_cpu) {
                    for (sum, seconds) in sums.iter_mut().zip(split) {
                        *sum += seconds;
                    }
                }
            }
            _ => bins.push(window.clone()),
        }
    }
    bins
}

/// One CPU: its work, stacked from the bottom of its track.
fn core(
    svg: &mut Svg,
    scale: &Scale,
    bins: &[Window],
    at: usize,
    seconds: f64,
    y: f64,
    height: f64,
) {
    svg.area("track", (LEFT, y), (scale.x(seconds) - LEFT, height));
    let level = |bin: &Window, uses: usize| {
        let split: &Split = &bin.by_cpu[at];
        let part = split[..uses].iter().sum::<f64>() / bin.length();
        y + height * (1.0 - part.min(1.0))
    };
    for (index, what) in Use::ALL.iter().enumerate() {
        if bins.iter().all(|bin| bin.by_cpu[at][index] / bin.length() < 0.01) {
            continue;
        }
        let mut path = String::new();
        // An area for each stretch of time in which there is any of it.
        let some = |bin: &Window| bin.by_cpu[at][index] / bin.length() >= 0.01;
        for stretch in bins.chunk_by(|a, b| some(a) == some(b)).filter(|bins| some(&bins[0])) {
            for (k, bin) in stretch.iter().enumerate() {
                let to = if k == 0 { 'M' } else { 'L' };
                let _ = write!(path, "{to}{:.1} {:.1}", scale.x(bin.start), level(bin, index + 1));
                let _ = write!(path, "H{:.1}", scale.x(bin.end));
            }
            for bin in stretch.iter().rev() {
                let _ = write!(path, "V{:.1}H{:.1}", level(bin, index), scale.x(bin.start));
            }
            path.push('Z');
        }
        svg.path(what.class(), &path);
    }
}

/// u(t): the useful part of all cores' time.
fn curve(svg: &mut Svg, scale: &Scale, usage: &Usage, seconds: f64, top: f64) -> f64 {
    let height = 34.0;
    let bottom = top + height;
    let bins = merge(&usage.windows, scale.seconds(2.5));
    let mut path = String::new();
    for bin in &bins {
        let level = bottom - height * bin.useful().min(1.0);
        let from = if path.is_empty() { 'M' } else { 'L' };
        let _ = write!(path, "{from}{:.1} {level:.1}H{:.1}", scale.x(bin.start), scale.x(bin.end));
    }
    let (shares, _) = usage.mean();
    let mean = shares[0] + shares[1];
    let level = bottom - height * mean.min(1.0);
    let (x0, x1) = (LEFT, scale.x(seconds));
    svg.label("quiet end", (LEFT - 8.0, top + height / 2.0 + 4.0), "u(t)");
    for (share, at) in [("1", top), ("0", bottom)] {
        svg.label("quiet end", (LEFT - 8.0, at + 4.0), share);
    }
    for at in [top, f64::midpoint(top, bottom)] {
        svg.path("grid", &format!("M{x0:.1} {at:.1}H{x1:.1}"));
    }
    let (begin, end) = (
        bins.first().map_or(x0, |bin| scale.x(bin.start)),
        bins.last().map_or(x1, |bin| scale.x(bin.end)),
    );
    svg.path("undercurve", &format!("{path}V{bottom:.1}H{begin:.1}Z"));
    svg.path("curve", &path);
    svg.path("line", &format!("M{x0:.1} {bottom:.1}H{x1:.1}"));
    svg.path("mean", &format!("M{begin:.1} {level:.1}H{end:.1}"));
    svg.label("", (x1 + 7.0, bottom - 4.0), &format!("mean {:.0} %", 100.0 * mean));
    bottom + 8.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joined_windows_keep_all_time() {
        let windows: Vec<Window> = (0..10)
            .map(|k| Window {
                start: f64::from(k),
                end: f64::from(k + 1),
                by_cpu: vec![[0.5, 0.25, 0.0, 0.0, 0.0]],
            })
            .collect();
        let bins = merge(&windows, 3.0);
        assert!(bins[..bins.len() - 1].iter().all(|bin| bin.length() >= 3.0));
        let flow: f64 = bins.iter().map(|bin| bin.by_cpu[0][0]).sum();
        assert_eq!(flow, 5.0);
        assert_eq!(bins.last().unwrap().end, 10.0);
    }
}
