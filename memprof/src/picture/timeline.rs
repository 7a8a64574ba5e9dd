//! Stacked components over time, with phases, the peak and a legend.

use std::fmt::Write;

use super::areas::{Area, areas, shades, totals, value};
use super::legend::legend;
use super::palette::{Inks, Shades, group_of, inks, text_on};
use super::phases::{self, PHASE_ROWS};
use super::scale::{Axis, byte_axis, span, time_axis};
use super::{Series, Style, Theme, Timeline};
use crate::units::{bytes, time};
use quo_svg::{Anchor, Svg, fit, number, text_width};

/// Room around the areas.
const LEFT: f64 = 64.0;
const BOTTOM: f64 = 40.0;
const RIGHT: f64 = 18.0;
pub(super) const LEGEND: f64 = 262.0;
pub(super) const ROW: f64 = 17.0;
/// Name of the line of possible memory, in the legend and for the page's script.
pub(super) const POSSIBLE: &str = "possible between samples";
/// Name of the marks on the axis.
pub(super) const SAMPLES: &str = "samples were taken";
/// Factor by which the line of owned memory may increase the height; beyond that it is cut off at
/// the top.
const OWNED_ROOM: f64 = 1.3;
/// Distance of the columns in which positions for labels are searched.
const COLUMN: f64 = 4.0;

/// Draws stacked components over time.
pub fn timeline(picture: &Timeline, style: &Style) -> String {
    let inks = inks(style.theme);
    let rows =
        picture.phases.iter().map(|phase| phase.depth + 1).max().unwrap_or(0).min(PHASE_ROWS);
    let plot = Plot::of(picture, style, rows);
    let areas = areas(picture);
    let mut svg = Svg::new(
        style.width,
        style.height,
        &[
            ("class", &"memprof-timeline"),
            ("aria-label", &picture.title),
            ("data-plot", &format!("{} {} {} {}", plot.left, plot.top, plot.width, plot.height)),
            ("data-time", &format!("{} {}", plot.from, plot.to)),
            ("data-bytes", &format!("{:.0}", plot.axis.end)),
        ],
    );
    svg.rectangle((0.0, 0.0), (style.width, style.height), inks.paper);
    svg.heading((12.0, 20.0), 14.0, inks.ink, &fit(&picture.title, 14.5, style.width - 24.0));
    if picture.times.is_empty() || areas.is_empty() {
        svg.words(
            (style.width / 2.0, style.height / 2.0),
            13.0,
            Anchor::Middle,
            inks.muted,
            "nothing was recorded",
        );
        return svg.finish();
    }
    phases::lanes(&mut svg, &plot, &picture.phases, rows, &inks);
    plot.grid(&mut svg, &inks);
    let shades = shades(&areas);
    plot.stack(&mut svg, picture, &areas, &shades, &inks);
    phases::unseen(&mut svg, &plot, &picture.phases, &inks);
    plot.samples(&mut svg, &picture.samples, &inks);
    if style.theme == Theme::Page {
        plot.possible(&mut svg, picture, &inks);
    }
    plot.outline(&mut svg, picture, &inks);
    plot.peak(&mut svg, picture, &inks);
    if style.legend {
        legend(&mut svg, picture, style, &areas, &shades, &inks);
    }
    svg.finish()
}

/// The rectangle of the areas and the scale of its sides.
pub(super) struct Plot {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
    pub(super) from: u64,
    pub(super) to: u64,
    axis: Axis,
}

impl Plot {
    fn of(picture: &Timeline, style: &Style, rows: usize) -> Self {
        let top = 34.0 + rows as f64 * ROW + if rows > 0 { 4.0 } else { 0.0 };
        let right = if style.legend { LEGEND } else { RIGHT };
        let outline =
            picture.outline.as_ref().and_then(|outline| outline.values.iter().copied().max());
        let most = totals(picture).into_iter().max().unwrap_or(0);
        let most = most.max(picture.peak.as_ref().map_or(0, |peak| peak.bytes));
        let most = most.max(outline.unwrap_or(0).min((most as f64 * OWNED_ROOM) as u64));
        // The label of the peak needs room above it.
        let room = most.saturating_add(most / 16);
        let height = (style.height - top - BOTTOM).max(40.0);
        let (from, to) = span(&picture.times);
        Self {
            left: LEFT,
            top,
            width: (style.width - LEFT - right).max(60.0),
            height,
            from,
            to,
            axis: byte_axis(room, ((height / 46.0) as usize).clamp(2, 8)),
        }
    }

    pub(super) fn x(&self, time: u64) -> f64 {
        let time = time.clamp(self.from, self.to);
        self.left + (time - self.from) as f64 / (self.to - self.from) as f64 * self.width
    }

    fn y(&self, bytes: f64) -> f64 {
        self.top + self.height * (1.0 - bytes / self.axis.end)
    }

    fn bottom(&self) -> f64 {
        self.top + self.height
    }

    fn grid(&self, svg: &mut Svg, inks: &Inks) {
        for (place, label) in &self.axis.ticks {
            let y = self.y(*place);
            svg.line((self.left, y), (self.left + self.width, y), inks.grid, 1.0);
            svg.words((self.left - 7.0, y + 4.0), 11.5, Anchor::End, inks.muted, label);
        }
        svg.words((self.left - 7.0, self.top - 9.0), 11.5, Anchor::End, inks.muted, self.axis.unit);
        let axis = time_axis(self.from, self.to, ((self.width / 90.0) as usize).max(2));
        for (place, label) in &axis.ticks {
            let x = self.x(*place as u64);
            svg.line((x, self.bottom()), (x, self.bottom() + 5.0), inks.muted, 1.0);
            svg.words((x, self.bottom() + 19.0), 11.5, Anchor::Middle, inks.muted, label);
        }
        let end = (self.left + self.width, self.bottom() + 34.0);
        svg.words(end, 11.5, Anchor::End, inks.muted, &format!("time, {}", axis.unit));
    }

    fn stack(
        &self,
        svg: &mut Svg,
        picture: &Timeline,
        areas: &[Area],
        shades: &Shades,
        inks: &Inks,
    ) {
        let points = self.points(picture);
        let mut below = vec![0f64; picture.times.len()];
        let mut labels = Vec::new();
        let mut edges = Vec::new();
        for area in areas {
            let above: Vec<f64> = below
                .iter()
                .enumerate()
                .map(|(index, base)| base + area.values[index] as f64)
                .collect();
            let colour = area.colour(shades);
            svg.open(
                "path",
                &[
                    ("class", &"series"),
                    ("data-series", &area.name),
                    ("data-group", &area.group),
                    ("d", &self.outline_of(&points, &below, &above)),
                    ("fill", &colour),
                    // Closes the seam that smoothing leaves between neighbours.
                    ("stroke", &colour),
                    ("stroke-width", &0.5),
                    ("stroke-linejoin", &"round"),
                ],
            );
            svg.around("title", &[], &format!("{}: at most {}", area.name, bytes(area.most)));
            svg.close("path");
            edges.push((self.edge(&points, &below, &above), &area.name));
            labels.extend(
                self.label(&points, &below, &above, &area.name)
                    .map(|(at, text)| (at, text, text_on(&colour))),
            );
            below = above;
        }
        svg.line(
            (self.left, self.bottom()),
            (self.left + self.width, self.bottom()),
            inks.muted,
            1.0,
        );
        for (path, name) in edges.iter().filter(|(path, _)| !path.is_empty()) {
            svg.element(
                "path",
                &[
                    ("class", &"edge"),
                    ("data-series", name),
                    ("d", path),
                    ("fill", &"none"),
                    ("stroke", &inks.paper),
                    ("stroke-width", &0.7),
                    ("pointer-events", &"none"),
                ],
            );
        }
        for (at, text, ink) in labels {
            svg.words(at, 11.0, Anchor::Middle, ink, &text);
        }
    }

    /// Returns the positions of the points and the index of each: at most about two for each pixel,
    /// the highest of the points that share a position. A single time is drawn over the whole
    /// width.
    fn points(&self, picture: &Timeline) -> Vec<(f64, usize)> {
        let totals = totals(picture);
        if let [_] = totals[..] {
            return vec![(self.left, 0), (self.left + self.width, 0)];
        }
        let mut points: Vec<(f64, usize)> = Vec::new();
        for (index, time) in picture.times.iter().enumerate() {
            let x = self.x(*time);
            match points.last_mut() {
                Some((place, kept))
                    if x - *place < 0.4 && index + 1 < totals.len() && *kept > 0 =>
                {
                    if totals[index] > totals[*kept] {
                        *kept = index;
                    }
                }
                _ => points.push((x, index)),
            }
        }
        points
    }

    fn outline_of(&self, points: &[(f64, usize)], below: &[f64], above: &[f64]) -> String {
        let mut path = String::with_capacity(points.len() * 22);
        for (order, (x, index)) in points.iter().enumerate() {
            let _ = write!(
                path,
                "{}{} {}",
                if order == 0 { "M" } else { "L" },
                number(*x),
                number(self.y(above[*index]))
            );
        }
        for (x, index) in points.iter().rev() {
            let _ = write!(path, "L{} {}", number(*x), number(self.y(below[*index])));
        }
        path.push('Z');
        path
    }

    /// Returns the line that separates an area from the next. It is omitted where all areas rise
    /// together, since many such lines would look like a gap, and over areas that are hardly
    /// thicker than a line.
    fn edge(&self, points: &[(f64, usize)], below: &[f64], above: &[f64]) -> String {
        let mut path = String::new();
        let thick = |index: usize| self.y(below[index]) - self.y(above[index]) > 1.5;
        let mut drawn = false;
        for pair in points.windows(2) {
            let ((left, one), (right, other)) = (pair[0], pair[1]);
            let (from, to) = (self.y(above[one]), self.y(above[other]));
            if (to - from).abs() > 2.0 * (right - left) || !thick(one) || !thick(other) {
                drawn = false;
                continue;
            }
            if !drawn {
                let _ = write!(path, "M{} {}", number(left), number(from));
            }
            let _ = write!(path, "L{} {}", number(right), number(to));
            drawn = true;
        }
        path
    }

    /// Returns the place in an area where its name has most room; `None` if it does not fit
    /// anywhere.
    fn label(
        &self,
        points: &[(f64, usize)],
        below: &[f64],
        above: &[f64],
        name: &str,
    ) -> Option<((f64, f64), String)> {
        let columns = (self.width / COLUMN) as usize;
        let edges: Vec<(f64, f64)> = (0..=columns)
            .map(|column| {
                let x = self.left + column as f64 * COLUMN;
                (self.y(between(points, above, x)), self.y(between(points, below, x)))
            })
            .collect();
        let short = name.split_once(':').map(|(_, object)| object);
        for text in std::iter::once(name).chain(short) {
            let half = (text_width(text, 11.0) / 2.0 / COLUMN).ceil() as usize + 1;
            let best = (half..edges.len().saturating_sub(half))
                .map(|middle| {
                    let around = &edges[middle - half..=middle + half];
                    let top = around.iter().map(|edge| edge.0).fold(f64::MIN, f64::max);
                    let bottom = around.iter().map(|edge| edge.1).fold(f64::MAX, f64::min);
                    (bottom - top, middle, (top + bottom) / 2.0)
                })
                .max_by(|one, other| one.0.total_cmp(&other.0));
            if let Some((room, middle, y)) = best.filter(|best| best.0 >= 14.0) {
                debug_assert!(room >= 14.0);
                return Some(((self.left + middle as f64 * COLUMN, y + 4.0), text.to_owned()));
            }
        }
        None
    }

    /// Draws a mark on the axis at each sample time; adjacent marks are merged.
    fn samples(&self, svg: &mut Svg, samples: &[u64], inks: &Inks) {
        const WIDTH: f64 = 1.2;
        let mut runs: Vec<(f64, f64)> = Vec::new();
        for time in samples.iter().filter(|time| (self.from..=self.to).contains(time)) {
            let x = self.x(*time) - WIDTH / 2.0;
            match runs.last_mut() {
                Some((_, end)) if x <= *end => *end = x + WIDTH,
                _ => runs.push((x, x + WIDTH)),
            }
        }
        if runs.is_empty() {
            return;
        }
        let mut path = String::new();
        for (begin, end) in runs {
            let (x, y) = (number(begin), number(self.bottom() + 1.0));
            let _ = write!(path, "M{x} {y}h{}v3.5h-{0}Z", number(end - begin));
        }
        svg.open("path", &[("class", &"samples"), ("d", &path), ("fill", &inks.ink)]);
        svg.around("title", &[], SAMPLES);
        svg.close("path");
    }

    /// Returns a line through these values; values beyond the axis are drawn at the top.
    fn line_of(&self, picture: &Timeline, values: &[u64]) -> String {
        let mut path = String::new();
        for (order, (x, index)) in self.points(picture).into_iter().enumerate() {
            let y = self.y((value(values, index) as f64).min(self.axis.end));
            let _ =
                write!(path, "{}{} {}", if order == 0 { "M" } else { "L" }, number(x), number(y));
        }
        path
    }

    /// Draws the upper bound between samples: a thin line, hidden until it is selected in the
    /// legend.
    fn possible(&self, svg: &mut Svg, picture: &Timeline, inks: &Inks) {
        let Some(values) = &picture.possible else { return };
        svg.element(
            "path",
            &[
                ("class", &"possible"),
                ("d", &self.line_of(picture, values)),
                ("fill", &"none"),
                ("stroke", &inks.muted),
                ("stroke-width", &0.8),
                ("pointer-events", &"none"),
            ],
        );
    }

    fn outline(&self, svg: &mut Svg, picture: &Timeline, inks: &Inks) {
        let Some(outline) = &picture.outline else { return };
        svg.open(
            "path",
            &[
                ("class", &"outline"),
                ("d", &self.line_of(picture, &outline.values)),
                ("fill", &"none"),
                ("stroke", &inks.ink),
                ("stroke-width", &1.2),
                ("stroke-dasharray", &"4 3"),
            ],
        );
        svg.around("title", &[], &outline.name);
        svg.close("path");
    }

    fn peak(&self, svg: &mut Svg, picture: &Timeline, inks: &Inks) {
        let Some(peak) = &picture.peak else { return };
        let (x, y) = (self.x(peak.time), self.y(peak.bytes as f64).max(self.top));
        let label = match peak.label.as_str() {
            "" => format!("peak {} at {}", bytes(peak.bytes), time(peak.time)),
            label => label.to_owned(),
        };
        let label = fit(&label, 12.0, self.width - 8.0);
        let width = text_width(&label, 12.0) + 8.0;
        let start = (x - width / 2.0)
            .clamp(self.left + 1.0, (self.left + self.width - width - 1.0).max(self.left + 1.0));
        // Also above the dashed line, if both are close.
        let over = picture.outline.as_ref().map(|outline| {
            let owned = value(&outline.values, nearest(&picture.times, peak.time)) as f64;
            self.y(owned.min(self.axis.end))
        });
        let y_label = over.filter(|over| *over < y && y - *over < 24.0).unwrap_or(y);
        let base = (y_label - 9.0).max(self.top + 13.0);
        svg.open("g", &[("class", &"peak")]);
        svg.line((x, y), (x, self.bottom()), inks.ink, 0.8);
        svg.element(
            "circle",
            &[
                ("cx", &number(x)),
                ("cy", &number(y)),
                ("r", &3.6),
                ("fill", &inks.ink),
                ("stroke", &inks.paper),
                ("stroke-width", &1.4),
            ],
        );
        svg.element(
            "rect",
            &[
                ("x", &number(start)),
                ("y", &number(base - 12.0)),
                ("width", &number(width)),
                ("height", &16),
                ("rx", &3),
                ("fill", &inks.paper),
                ("fill-opacity", &0.82),
            ],
        );
        svg.words((start + width / 2.0, base), 12.0, Anchor::Middle, inks.ink, &label);
        svg.close("g");
    }
}

/// Returns the value at a position between points.
fn between(points: &[(f64, usize)], values: &[f64], x: f64) -> f64 {
    let next = points.partition_point(|point| point.0 < x).clamp(1, points.len() - 1);
    let ((left, one), (right, other)) = (points[next - 1], points[next]);
    let part = if right > left { ((x - left) / (right - left)).clamp(0.0, 1.0) } else { 1.0 };
    values[one] + (values[other] - values[one]) * part
}

/// Returns the index of the nearest time.
pub(super) fn nearest(times: &[u64], time: u64) -> usize {
    (0..times.len()).min_by_key(|index| times[*index].abs_diff(time)).unwrap_or(0)
}

impl Series {
    /// Creates a series whose group follows from its name.
    pub fn named(name: impl Into<String>, values: Vec<u64>) -> Self {
        let name = name.into();
        let group = group_of(&name).to_owned();
        Self { name, group, values }
    }
}
