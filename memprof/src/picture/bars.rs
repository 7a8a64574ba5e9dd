//! Bars of parts along an axis of time: one row for each rank, thinner where there are many.

use super::Style;
use super::palette::inks;
use super::scale::{row_step, time_axis};
use quo_svg::{Anchor, Svg, fit, number};
use std::fmt::Write;

const LEFT: f64 = 72.0;
const RIGHT: f64 = 30.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 42.0;
/// Rows are as high as they can be within this height, at most [`HIGHEST`] and at least [`LOWEST`].
const HEIGHT: f64 = 600.0;
const HIGHEST: f64 = 14.0;
const LOWEST: f64 = 1.0;
/// Rows up to which each says its numbers when it is pointed at.
const HINTS: usize = 256;

/// Parts of time by row.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    /// Text for readers who cannot see the picture.
    pub title: String,
    /// Colour of each part, from left to right.
    pub colours: Vec<&'static str>,
    /// The rows from the top down.
    pub rows: Vec<Bar>,
}

/// A row of [`Bars`].
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bar {
    /// Its name at the left.
    pub name: String,
    /// Its numbers in words.
    pub hint: String,
    /// Nanoseconds of each part.
    pub parts: Vec<u64>,
}

/// Draws bars side by side on one axis. The height depends on the number of rows.
pub fn bars(picture: &Bars, style: &Style) -> String {
    let inks = inks(style.theme);
    let sum = |bar: &Bar| bar.parts.iter().fold(0_u64, |sum, part| sum.saturating_add(*part));
    let longest = picture.rows.iter().map(sum).max().unwrap_or(0).max(1);
    let row_height = (HEIGHT / picture.rows.len().max(1) as f64).clamp(LOWEST, HIGHEST);
    let bottom = TOP + row_height * picture.rows.len() as f64;
    let width = (style.width - LEFT - RIGHT).max(60.0);
    let x = |time: f64| LEFT + time / longest as f64 * width;
    let mut svg = Svg::new(
        style.width,
        bottom + BOTTOM,
        &[("class", &"memprof-bars"), ("aria-label", &picture.title)],
    );
    let axis = time_axis(0, longest, ((width / 90.0) as usize).max(2));
    for (place, label) in &axis.ticks {
        svg.line((x(*place), TOP), (x(*place), bottom + 5.0), inks.grid, 1.0);
        svg.words((x(*place), bottom + 19.0), 11.5, Anchor::Middle, inks.muted, label);
    }
    let unit = format!("time, {}", axis.unit);
    svg.words((LEFT + width, bottom + 34.0), 11.5, Anchor::End, inks.muted, &unit);
    // One stroke for each part of a row, and one path for each colour: the picture of a thousand
    // ranks stays small.
    let mut paths = vec![String::new(); picture.colours.len()];
    for (row, bar) in picture.rows.iter().enumerate() {
        let y = number(TOP + (row as f64 + 0.5) * row_height);
        let mut before = 0_u64;
        for (path, part) in paths.iter_mut().zip(&bar.parts) {
            let (from, to) = (x(before as f64), x(before.saturating_add(*part) as f64));
            before = before.saturating_add(*part);
            if to - from >= 0.05 {
                let _ = write!(path, "M{} {y}H{}", number(from), number(to));
            }
        }
    }
    // Thin rows overlap a little, and are not blended with the ground where a browser makes the picture smaller.
    let thick = number(if row_height > 6.0 { row_height - 2.0 } else { row_height + 0.3 });
    svg.open("g", &[("shape-rendering", &"crispEdges")]);
    for (colour, path) in picture.colours.iter().zip(&paths).filter(|(_, path)| !path.is_empty()) {
        svg.element("path", &[("stroke", colour), ("stroke-width", &thick), ("d", path)]);
    }
    svg.close("g");
    let every = row_step(1, (14.0 / row_height).ceil().max(1.0) as usize);
    for (row, bar) in picture.rows.iter().enumerate().step_by(every) {
        let y = TOP + (row as f64 + 0.5) * row_height + 4.0;
        let name = fit(&bar.name, 11.0, LEFT - 12.0);
        svg.words((LEFT - 7.0, y), 11.0, Anchor::End, inks.muted, &name);
    }
    for (row, bar) in picture.rows.iter().enumerate().filter(|_| picture.rows.len() <= HINTS) {
        let (x, y) = (number(LEFT), number(TOP + row as f64 * row_height));
        let (width, height) = (number(width), number(row_height));
        svg.open(
            "rect",
            &[("x", &x), ("y", &y), ("width", &width), ("height", &height), ("class", &"hint")],
        );
        svg.around("title", &[], &bar.hint);
        svg.close("rect");
    }
    svg.finish()
}

#[cfg(test)]
mod tests {
    use super::super::Theme;
    use super::*;

    fn drawn(rows: usize) -> String {
        let bar = |row: usize| Bar {
            name: format!("rank {row}"),
            hint: format!("hint {row}"),
            parts: vec![2_000_000_000, 0, 500_000_000],
        };
        let picture = Bars {
            title: "a <b>".to_owned(),
            colours: vec!["#111111", "#222222", "#333333"],
            rows: (0..rows).map(bar).collect(),
        };
        bars(&picture, &Style { theme: Theme::Page, width: 1102.0, ..Style::default() })
    }

    #[test]
    fn part_is_as_long_as_its_time_beside_those_before() {
        let svg = drawn(1);
        assert!(svg.contains("stroke=\"#111111\" stroke-width=\"12\" d=\"M72 15H872\""), "{svg}");
        assert!(svg.contains("stroke=\"#333333\" stroke-width=\"12\" d=\"M872 15H1072\""), "{svg}");
        assert!(!svg.contains("#222222") && svg.contains("time, s") && svg.contains(">hint 0<"));
        assert!(svg.contains("aria-label=\"a &lt;b&gt;\""));
    }

    #[test]
    fn many_rows_stay_small_and_have_round_names() {
        let svg = drawn(1000);
        assert!(svg.len() < 64 << 10, "{} bytes", svg.len());
        assert!(
            svg.contains("viewBox=\"0 0 1102 1050\"") && !svg.contains("hint 0"),
            "{}",
            &svg[..300]
        );
        let named = |row: usize| svg.contains(&format!(">rank {row}<"));
        assert!(named(0) && named(20) && named(980) && !named(10) && !named(14));
    }

    #[test]
    fn picture_without_rows_or_time_is_drawn() {
        assert!(drawn(0).ends_with("</svg>\n"));
        let none = Bars { rows: vec![Bar::default()], ..Bars::default() };
        assert!(bars(&none, &Style::default()).ends_with("</svg>\n"));
    }
}
