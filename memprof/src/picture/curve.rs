//! Measured points and a fitted curve: how a number of bytes grows with the number of ranks.

use super::Style;
use super::palette::{Shades, inks};
use super::scale::byte_axis;
use quo_svg::{Anchor, Svg, fit, number};

const LEFT: f64 = 64.0;
const RIGHT: f64 = 300.0;
const TOP: f64 = 52.0;
const BOTTOM: f64 = 44.0;

/// Several fitted quantities over one variable.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Curve {
    /// One line above the picture.
    pub title: String,
    /// Label below the horizontal axis.
    pub variable: String,
    /// The quantities.
    pub fits: Vec<Fitted>,
}

/// One quantity: the measured points, and the curve through them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Fitted {
    /// Its name, as a component.
    pub name: String,
    /// Its group, which decides the colour.
    pub group: String,
    /// The formula, as it stands in the legend.
    pub formula: String,
    /// The measured points.
    pub points: Vec<Point>,
    /// The curve, only over the range of the points: it promises nothing outside.
    pub line: Vec<Point>,
}

/// A point of a [`Curve`].
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Point {
    /// The variable.
    pub at: f64,
    /// Bytes.
    pub bytes: f64,
}

/// Draws measured points and fitted curves on a horizontal axis of powers of two.
pub fn curve(picture: &Curve, style: &Style) -> String {
    let inks = inks(style.theme);
    let mut svg = Svg::new(
        style.width,
        style.height,
        &[("class", &"memprof-curve"), ("aria-label", &picture.title)],
    );
    svg.rectangle((0.0, 0.0), (style.width, style.height), inks.paper);
    svg.heading((12.0, 20.0), 14.0, inks.ink, &fit(&picture.title, 14.5, style.width - 24.0));
    let every = || picture.fits.iter().flat_map(|fitted| fitted.points.iter().chain(&fitted.line));
    let measured = || picture.fits.iter().flat_map(|fitted| &fitted.points);
    if measured().next().is_none() {
        svg.words(
            (style.width / 2.0, style.height / 2.0),
            13.0,
            Anchor::Middle,
            inks.muted,
            "nothing was measured",
        );
        return svg.finish();
    }
    let (width, height) =
        ((style.width - LEFT - RIGHT).max(60.0), (style.height - TOP - BOTTOM).max(40.0));
    let axis = byte_axis(
        every().map(|point| point.bytes).fold(0.0, f64::max) as u64,
        ((height / 58.0) as usize).max(2),
    );
    let logarithm = |at: f64| at.max(1.0).log2();
    let from = measured().map(|point| logarithm(point.at)).fold(f64::MAX, f64::min);
    let to = measured().map(|point| logarithm(point.at)).fold(from, f64::max);
    let margin = ((to - from) * 0.04).max(0.1);
    let x = |at: f64| LEFT + (logarithm(at) - from + margin) / (to - from + 2.0 * margin) * width;
    let y = |bytes: f64| TOP + height * (1.0 - bytes.max(0.0) / axis.end);
    for (place, label) in &axis.ticks {
        svg.line((LEFT, y(*place)), (LEFT + width, y(*place)), inks.grid, 1.0);
        svg.words((LEFT - 7.0, y(*place) + 4.0), 11.5, Anchor::End, inks.muted, label);
    }
    svg.words((LEFT - 7.0, TOP - 9.0), 11.5, Anchor::End, inks.muted, axis.unit);
    let mut marks: Vec<u64> = measured().map(|point| point.at as u64).collect();
    marks.sort_unstable();
    marks.dedup();
    let mut last = f64::MIN;
    for mark in marks {
        let place = x(mark as f64);
        svg.line((place, TOP + height), (place, TOP + height + 5.0), inks.muted, 1.0);
        if place - last > 26.0 {
            svg.words(
                (place, TOP + height + 19.0),
                11.5,
                Anchor::Middle,
                inks.muted,
                &mark.to_string(),
            );
            last = place;
        }
    }
    svg.words(
        (LEFT + width, TOP + height + 35.0),
        11.5,
        Anchor::End,
        inks.muted,
        &picture.variable,
    );
    let shades =
        Shades::of(picture.fits.iter().map(|fitted| (fitted.name.as_str(), fitted.group.as_str())));
    let mut row = TOP;
    for fitted in &picture.fits {
        let colour = shades.colour(&fitted.name, &fitted.group);
        let path: Vec<String> = fitted
            .line
            .iter()
            .map(|point| format!("{} {}", number(x(point.at)), number(y(point.bytes))))
            .collect();
        if path.len() > 1 {
            let path = format!("M{}", path.join("L"));
            svg.element(
                "path",
                &[
                    ("class", &"line"),
                    ("d", &path),
                    ("fill", &"none"),
                    ("stroke", &colour),
                    ("stroke-width", &2),
                ],
            );
        }
        for point in &fitted.points {
            let (cx, cy) = (number(x(point.at)), number(y(point.bytes)));
            svg.element(
                "circle",
                &[
                    ("cx", &cx),
                    ("cy", &cy),
                    ("r", &3.6),
                    ("fill", &colour),
                    ("stroke", &inks.paper),
                    ("stroke-width", &1),
                ],
            );
        }
        if row + 34.0 < style.height {
            let left = style.width - RIGHT + 20.0;
            svg.element(
                "circle",
                &[
                    ("cx", &number(left + 4.0)),
                    ("cy", &number(row - 4.0)),
                    ("r", &4.5),
                    ("fill", &colour),
                ],
            );
            svg.words(
                (left + 15.0, row),
                11.5,
                Anchor::Start,
                inks.ink,
                &fit(&fitted.name, 11.5, RIGHT - 48.0),
            );
            svg.words(
                (left + 15.0, row + 14.0),
                11.0,
                Anchor::Start,
                inks.muted,
                &fit(&fitted.formula, 11.0, RIGHT - 48.0),
            );
            row += 34.0;
        }
    }
    svg.finish()
}
