//! Bars of components: what a rank, a node or a whole job held at its peak.

use super::Style;
use super::palette::{Shades, group_of, inks, place_of, text_on};
use super::scale::{byte_axis, bytes};
use super::svg::{Anchor, Svg, fit, number, text_width};

const LEFT: f64 = 128.0;
const RIGHT: f64 = 92.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;
const MOST_BAR: f64 = 26.0;

/// Several bars on one scale.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bars {
    /// One line above the picture.
    pub title: String,
    /// The bars, from the top down.
    pub bars: Vec<Bar>,
}

/// One bar.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Bar {
    /// What stands at its left, as `rank 3`.
    pub name: String,
    /// What it is made of; the order does not matter.
    pub parts: Vec<Part>,
}

/// One component of a bar.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Part {
    /// The component.
    pub name: String,
    /// Its group; empty for the one that follows from the name.
    pub group: String,
    /// How much.
    pub bytes: u64,
}

impl Part {
    fn group(&self) -> &str {
        if self.group.is_empty() { group_of(&self.name) } else { &self.group }
    }
}

/// Draws bars of components on one scale, with a legend below.
pub fn bars(picture: &Bars, style: &Style) -> String {
    let inks = inks(style.theme);
    let width = (style.width - LEFT - RIGHT).max(60.0);
    let total = |bar: &Bar| bar.parts.iter().fold(0u64, |sum, part| sum.saturating_add(part.bytes));
    let most = picture.bars.iter().map(total).max().unwrap_or(0);
    let mut sums: Vec<(u64, &str, &str)> = Vec::new();
    for part in picture.bars.iter().flat_map(|bar| &bar.parts) {
        match sums.iter_mut().find(|sum| sum.1 == part.name) {
            Some(sum) => sum.0 = sum.0.saturating_add(part.bytes),
            None => sums.push((part.bytes, &part.name, part.group())),
        }
    }
    sums.sort_by(|one, other| other.0.cmp(&one.0).then(one.1.cmp(other.1)));
    let shades = Shades::of(sums.iter().map(|(_, name, group)| (*name, *group)));
    let (legend, legend_rows) = place_legend(&sums, style.width - 24.0);
    let step = ((style.height - TOP - BOTTOM) / picture.bars.len().max(1) as f64)
        .clamp(7.0, MOST_BAR + 8.0);
    let bottom = TOP + step * picture.bars.len() as f64;
    let height = bottom + BOTTOM + legend_rows as f64 * 17.0 + 4.0;
    let mut svg = Svg::new(
        style.width,
        height,
        &[("class", &"memprof-bars"), ("aria-label", &picture.title)],
    );
    svg.rectangle((0.0, 0.0), (style.width, height), inks.paper);
    svg.heading((12.0, 20.0), 14.0, inks.ink, &fit(&picture.title, 14.5, style.width - 24.0));
    let axis = byte_axis(most, 6);
    for (place, label) in &axis.ticks {
        let x = LEFT + place / axis.end * width;
        svg.line((x, TOP), (x, bottom), inks.grid, 1.0);
        svg.words((x, bottom + 16.0), 11.5, Anchor::Middle, inks.muted, label);
    }
    svg.words((LEFT + width + 18.0, bottom + 16.0), 11.5, Anchor::Start, inks.muted, axis.unit);
    let thick = (step - if step > 12.0 { 8.0 } else { 1.0 }).max(3.0);
    let name_every = (13.0 / step).ceil() as usize;
    for (index, bar) in picture.bars.iter().enumerate() {
        let y = TOP + step * index as f64 + (step - thick) / 2.0;
        let mut x = LEFT;
        let mut parts: Vec<&Part> = bar.parts.iter().filter(|part| part.bytes > 0).collect();
        parts.sort_by(|one, other| {
            place_of(one.group()).cmp(&place_of(other.group())).then(other.bytes.cmp(&one.bytes))
        });
        for part in parts {
            let wide = part.bytes as f64 / axis.end * width;
            let colour = shades.colour(&part.name, part.group());
            svg.open(
                "g",
                &[("class", &"part"), ("data-name", &part.name), ("data-group", &part.group())],
            );
            svg.rectangle((x, y), (if wide > 2.0 { wide - 0.7 } else { wide }, thick), &colour);
            if thick >= 14.0 && text_width(&part.name, 10.5) + 6.0 <= wide {
                svg.words(
                    (x + wide / 2.0, y + thick / 2.0 + 4.0),
                    10.5,
                    Anchor::Middle,
                    text_on(&colour),
                    &part.name,
                );
            }
            svg.around("title", &[], &format!("{}: {}", part.name, bytes(part.bytes)));
            svg.close("g");
            x += wide;
        }
        if index % name_every == 0 {
            let middle = y + thick / 2.0 + 4.0;
            svg.words(
                (LEFT - 8.0, middle),
                11.5,
                Anchor::End,
                inks.ink,
                &fit(&bar.name, 11.5, LEFT - 14.0),
            );
            svg.words((x + 6.0, middle), 11.5, Anchor::Start, inks.muted, &bytes(total(bar)));
        }
    }
    for (x, row, (_, name, group)) in legend {
        let y = bottom + BOTTOM + row as f64 * 17.0;
        svg.element(
            "rect",
            &[
                ("x", &number(12.0 + x)),
                ("y", &number(y - 9.5)),
                ("width", &11),
                ("height", &11),
                ("rx", &2),
                ("fill", &shades.colour(name, group)),
            ],
        );
        svg.words((12.0 + x + 16.0, y), 11.5, Anchor::Start, inks.ink, name);
    }
    svg.finish()
}

type Entry<'a> = (u64, &'a str, &'a str);

/// Places the legend in rows, the largest first: x, row and entry, and how many rows there are.
fn place_legend<'a>(sums: &[Entry<'a>], width: f64) -> (Vec<(f64, usize, Entry<'a>)>, usize) {
    let (mut x, mut row) = (0.0, 0);
    let mut placed = Vec::new();
    for entry in sums.iter().filter(|entry| entry.0 > 0).take(24) {
        let wide = text_width(entry.1, 11.5) + 30.0;
        if x > 0.0 && x + wide > width {
            x = 0.0;
            row += 1;
        }
        placed.push((x, row, *entry));
        x += wide;
    }
    (placed, if sums.is_empty() { 0 } else { row + 1 })
}
