//! Ranks over time as a heat map: one row for each rank, or for several where there are many.

use super::Style;
use super::palette::{heat_colour, inks};
use super::scale::{row_step, span, time_axis};
use crate::units::bytes;
use quo_svg::{Anchor, Svg, fit, number};
use std::fmt::Write;

const LEFT: f64 = 92.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 42.0;
/// More rows than these are drawn as the largest of neighbours.
const MOST_ROWS: usize = 250;
const MOST_COLUMNS: usize = 300;
/// Colours are rounded to these steps, so that runs of equal cells become one rectangle.
const STEPS: f64 = 64.0;

/// Bytes of rows over time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Heat {
    /// One line above the picture.
    pub title: String,
    /// Nanoseconds, ascending; one column begins at each.
    pub times: Vec<u64>,
    /// Names of the rows.
    pub rows: Vec<String>,
    /// Bytes of each row, one for each time. Zeros and missing ones are drawn empty: nothing that runs holds nothing.
    pub values: Vec<Vec<u64>>,
}

/// Draws rows over time; lighter means more.
pub fn heat(picture: &Heat, style: &Style) -> String {
    let inks = inks(style.theme);
    let per_row = picture.values.len().div_ceil(MOST_ROWS).max(1);
    let rows = picture.values.len().div_ceil(per_row);
    let row_height = ((style.height - TOP - BOTTOM) / rows.max(1) as f64).clamp(2.0, 26.0);
    let height =
        if rows == 0 { style.height } else { TOP + BOTTOM + row_height * rows as f64 }.max(130.0);
    let width = (style.width - LEFT - RIGHT).max(60.0);
    let mut svg = Svg::new(
        style.width,
        height,
        &[("class", &"memprof-heat"), ("aria-label", &picture.title)],
    );
    svg.rectangle((0.0, 0.0), (style.width, height), inks.paper);
    svg.heading((12.0, 20.0), 14.0, inks.ink, &fit(&picture.title, 14.5, style.width - 24.0));
    if rows == 0 || picture.times.is_empty() {
        svg.words(
            (style.width / 2.0, height / 2.0),
            13.0,
            Anchor::Middle,
            inks.muted,
            "nothing was recorded",
        );
        return svg.finish();
    }
    let per_column = picture.times.len().div_ceil(MOST_COLUMNS).max(1);
    let columns = picture.times.len().div_ceil(per_column);
    let most = picture.values.iter().flatten().copied().max().unwrap_or(0).max(1);
    // One stroke for each run of equal cells, and one path for each colour, in units of cells: the
    // picture of a thousand ranks stays small.
    let mut strokes = vec![String::new(); STEPS as usize + 1];
    for row in 0..rows {
        let members =
            &picture.values[row * per_row..((row + 1) * per_row).min(picture.values.len())];
        let shade = |column: usize| {
            let range = column * per_column..(column + 1) * per_column;
            let cells = |values: &[u64]| {
                let values = values.iter().take(range.end).skip(range.start).copied();
                values.max().filter(|bytes| *bytes > 0)
            };
            let largest = members.iter().filter_map(|values| cells(values)).max();
            largest.map(|bytes| (bytes as f64 / most as f64 * STEPS).round() as usize)
        };
        let mut column = 0;
        while column < columns {
            let (first, here) = (column, shade(column));
            while column < columns && shade(column) == here {
                column += 1;
            }
            if let Some(path) = here.and_then(|step| strokes.get_mut(step)) {
                let _ = write!(path, "M{first} {row}.5h{}", column - first);
            }
        }
    }
    let place =
        format!("translate({LEFT} {TOP}) scale({:.4} {:.4})", width / columns as f64, row_height);
    let thick = if row_height > 8.0 { 1.0 - 1.0 / row_height } else { 1.0 };
    svg.open(
        "g",
        &[
            ("class", &"cells"),
            ("transform", &place),
            ("stroke-width", &format!("{thick:.3}")),
            ("shape-rendering", &"crispEdges"),
        ],
    );
    for (step, path) in strokes.iter().enumerate().filter(|(_, path)| !path.is_empty()) {
        svg.element("path", &[("stroke", &heat_colour(step as f64 / STEPS)), ("d", path)]);
    }
    svg.close("g");
    row_names(&mut svg, picture, per_row, rows, row_height, inks.muted);
    let bottom = TOP + row_height * rows as f64;
    let (from, to) = span(&picture.times);
    let axis = time_axis(from, to, ((width / 90.0) as usize).max(2));
    for (place, label) in &axis.ticks {
        let x = LEFT + (place - from as f64) / (to - from) as f64 * width;
        svg.line((x, bottom), (x, bottom + 5.0), inks.muted, 1.0);
        svg.words((x, bottom + 19.0), 11.5, Anchor::Middle, inks.muted, label);
    }
    svg.words(
        (LEFT + width, bottom + 34.0),
        11.5,
        Anchor::End,
        inks.muted,
        &format!("time, {}", axis.unit),
    );
    scale(
        &mut svg,
        style.width - RIGHT + 18.0,
        (bottom - TOP).clamp(60.0, 220.0),
        most,
        inks.muted,
    );
    svg.finish()
}

fn row_names(
    svg: &mut Svg,
    picture: &Heat,
    per_row: usize,
    rows: usize,
    row_height: f64,
    ink: &str,
) {
    // As many names as have room; the first and every n-th.
    let every = row_step(per_row, (14.0 / row_height).ceil().max(1.0) as usize);
    for row in (0..rows).step_by(every) {
        if let Some(name) = picture.rows.get(row * per_row) {
            let y = TOP + (row as f64 + 0.5) * row_height + 4.0;
            svg.words((LEFT - 7.0, y), 11.0, Anchor::End, ink, &fit(name, 11.0, LEFT - 12.0));
        }
    }
}

/// Draws the meaning of the colours, at the right.
fn scale(svg: &mut Svg, left: f64, height: f64, most: u64, ink: &str) {
    const PARTS: usize = 32;
    for part in 0..PARTS {
        let y = TOP + height * part as f64 / PARTS as f64;
        let share = 1.0 - part as f64 / (PARTS - 1) as f64;
        svg.rectangle((left, y), (12.0, height / PARTS as f64 + 0.4), &heat_colour(share));
    }
    let labels = if height < 90.0 { 2 } else { 4 };
    for label in 0..=labels {
        let share = f64::from(label) / f64::from(labels);
        let y = TOP + height * (1.0 - share);
        let text = bytes((most as f64 * share) as u64);
        svg.around(
            "text",
            &[
                ("x", &number(left + 16.0)),
                ("y", &number(y + 4.0)),
                ("font-size", &10.5),
                ("fill", &ink),
            ],
            &text,
        );
    }
}
