//! The picture of cores: the work of each over time, mode below mode on one time axis.

use std::fmt::Write;

use super::style::{HATCH, PICTURE, legend};
use super::{Measured, Report, count, escape};
use crate::result::Mode;
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
    let mut body = String::new();
    let mut y = 34.0;
    let _ = write!(body, r#"<text class="title" x="16" y="{y:.0}">{}</text>"#, escape(title));
    y += 28.0;
    body += &legend(18.0, y);
    y += 20.0;
    for measured in &report.runs {
        y = panel(&mut body, report, measured, &scale, y + 12.0);
    }
    let top = 74.0;
    let grid = axis(&scale, top, y + 4.0);
    y += 34.0;
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0} {y:.0}" role="img" aria-label="{}"><style>{PICTURE}</style>{HATCH}<rect class="ground" x="0" y="0" width="{WIDTH:.0}" height="{y:.0}" rx="8"/>{grid}{body}</svg>"#,
        escape(title)
    )
}

fn panel(out: &mut String, report: &Report, measured: &Measured, scale: &Scale, top: f64) -> f64 {
    let run = &measured.run;
    let mut y = top + 14.0;
    let _ = write!(
        out,
        r#"<text class="strong" x="16" y="{y:.0}">{}</text><text class="quiet" x="{LEFT:.0}" y="{y:.0}">{}</text>"#,
        run.mode.name(),
        escape(&describe(measured))
    );
    y += 10.0;
    let usage = &measured.usage;
    let first = y;
    if usage.windows.is_empty() {
        let _ = write!(
            out,
            r#"<text class="quiet" x="{LEFT:.0}" y="{:.0}">not sampled: `coupled demo` measures what each core does</text>"#,
            y + 16.0
        );
        y += 26.0;
    } else {
        let shown = usage.cpus.len().min(MOST_CPUS);
        let height = (160.0 / shown as f64).clamp(5.0, 30.0);
        let gap = if height > 12.0 { 4.0 } else { 1.0 };
        let bins = merge(&usage.windows, scale.seconds(2.0));
        for (at, cpu) in usage.cpus.iter().take(shown).enumerate() {
            core(out, scale, &bins, at, run.seconds, y, height);
            if height > 9.0 {
                let _ = write!(
                    out,
                    r#"<text class="quiet end" x="{:.0}" y="{:.1}">CPU {cpu}</text>"#,
                    LEFT - 8.0,
                    y + height / 2.0 + 4.0
                );
            }
            y += height + gap;
        }
        if shown < usage.cpus.len() {
            let _ = write!(
                out,
                r#"<text class="quiet" x="{LEFT:.0}" y="{:.0}">and {} CPUs more</text>"#,
                y + 12.0,
                usage.cpus.len() - shown
            );
            y += 18.0;
        }
        y = curve(out, scale, usage, run.seconds, y + 4.0);
    }
    finish_line(out, report, measured, scale, first, y);
    y
}

/// Draws the end of the run, its time, and the speed-up.
fn finish_line(
    out: &mut String,
    report: &Report,
    measured: &Measured,
    scale: &Scale,
    first: f64,
    last: f64,
) {
    let x = scale.x(measured.run.seconds);
    let _ = write!(out, r#"<path class="stop" d="M{x:.1} {first:.1}V{last:.1}"/>"#);
    let seconds = measured.run.seconds;
    let _ = write!(
        out,
        r#"<text class="strong" x="{:.1}" y="{:.1}">{seconds:.1} s</text>"#,
        x + 7.0,
        first + 16.0
    );
    if let (true, Some(gain)) = (measured.run.mode != Mode::Under, report.speed_up(measured)) {
        let _ = write!(
            out,
            r#"<text class="quiet" x="{:.1}" y="{:.1}">{gain:.2} x</text>"#,
            x + 7.0,
            first + 33.0
        );
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
    out: &mut String,
    scale: &Scale,
    bins: &[Window],
    at: usize,
    seconds: f64,
    y: f64,
    height: f64,
) {
    let _ = write!(
        out,
        r#"<rect class="track" x="{LEFT:.1}" y="{y:.1}" width="{:.1}" height="{height:.1}"/>"#,
        scale.x(seconds) - LEFT
    );
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
        let _ = write!(out, r#"<path class="{}" d="{path}"/>"#, what.class());
    }
}

/// u(t): the useful part of all cores' time.
fn curve(out: &mut String, scale: &Scale, usage: &Usage, seconds: f64, top: f64) -> f64 {
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
    let _ = write!(
        out,
        r#"<text class="quiet end" x="{:.0}" y="{:.1}">u(t)</text>"#,
        LEFT - 8.0,
        top + height / 2.0 + 4.0
    );
    let _ = write!(out, r#"<path class="grid" d="M{x0:.1} {top:.1}H{x1:.1}"/>"#);
    let (begin, end) = (
        bins.first().map_or(x0, |bin| scale.x(bin.start)),
        bins.last().map_or(x1, |bin| scale.x(bin.end)),
    );
    let _ = write!(
        out,
        r#"<path class="undercurve" d="{path}V{bottom:.1}H{begin:.1}Z"/><path class="curve" d="{path}"/>"#
    );
    let _ = write!(out, r#"<path class="line" d="M{x0:.1} {bottom:.1}H{x1:.1}"/>"#);
    let _ = write!(out, r#"<path class="mean" d="M{begin:.1} {level:.1}H{end:.1}"/>"#);
    let _ = write!(
        out,
        r#"<text x="{:.1}" y="{:.1}">mean {:.0} %</text>"#,
        x1 + 7.0,
        bottom - 4.0,
        100.0 * mean
    );
    bottom + 8.0
}

/// A distance between marks that people like, about a tenth of `longest`.
pub fn round_step(longest: f64) -> f64 {
    let rough = longest / 10.0;
    let power = 10.0_f64.powf(rough.log10().floor());
    let nice = [1.0, 2.0, 5.0, 10.0];
    nice.iter().map(|n| n * power).find(|step| *step >= rough).unwrap_or(10.0 * power)
}

fn axis(scale: &Scale, top: f64, bottom: f64) -> String {
    let mut out = String::new();
    let step = round_step(scale.longest);
    let mut k = 0;
    while f64::from(k) * step <= scale.longest * 1.0001 {
        let seconds = f64::from(k) * step;
        let x = scale.x(seconds);
        let _ = write!(out, r#"<path class="grid" d="M{x:.1} {top:.1}V{bottom:.1}"/>"#);
        let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
        let unit = if k == 0 { " s" } else { "" };
        let _ = write!(
            out,
            r#"<text class="quiet middle" x="{x:.1}" y="{:.1}">{seconds:.decimals$}{unit}</text>"#,
            bottom + 16.0
        );
        k += 1;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_at_round_numbers_and_neither_few_nor_many() {
        for longest in [0.013, 0.5, 1.0, 7.7, 42.0, 99.0, 100.0, 1234.0] {
            let marks = longest / round_step(longest);
            assert!((4.9..=10.1).contains(&marks), "{marks} marks on {longest}");
        }
    }

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
