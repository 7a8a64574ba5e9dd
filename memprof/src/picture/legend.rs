//! The legend at the right of a timeline: the areas by size at the peak, and the lines over them.

use super::areas::Area;
use super::palette::{Inks, Shades};
use super::phases::{UNSEEN, hatch};
use super::timeline::{LEGEND, POSSIBLE, ROW, SAMPLES, nearest};
use super::{Style, Theme, Timeline};
use crate::units::bytes;
use quo_svg::{Anchor, Svg, fit, number, text_width};

pub(super) fn legend(
    svg: &mut Svg,
    picture: &Timeline,
    style: &Style,
    areas: &[Area],
    shades: &Shades,
    inks: &Inks,
) {
    let at_peak = picture.peak.as_ref().map(|peak| nearest(&picture.times, peak.time));
    let size = |area: &Area| at_peak.map_or(area.most, |index| area.values[index]);
    let mut entries: Vec<&Area> = areas.iter().collect();
    entries.sort_by(|one, other| size(other).cmp(&size(one)).then(other.most.cmp(&one.most)));
    let (left, right) = (style.width - LEGEND + 18.0, style.width - 12.0);
    let mut y = 44.0;
    svg.words(
        (right, y),
        11.0,
        Anchor::End,
        inks.muted,
        // Means over the time that contains the peak: for sums, and for a rank with few samples,
        // nothing better is known.
        if at_peak.is_some() { "around the peak" } else { "at most" },
    );
    // Lines are explained below the areas.
    let possible = picture.possible.is_some() && style.theme == Theme::Page;
    let unseen = picture.phases.iter().any(|phase| phase.is_unseen);
    let sampled = !picture.samples.is_empty();
    let below = [picture.outline.is_some(), possible, unseen, sampled];
    let below = below.into_iter().filter(|is_there| *is_there).count();
    let room = (((style.height - y - 26.0) / ROW) as usize).saturating_sub(below);
    let kept = if entries.len() > room { room.saturating_sub(1) } else { entries.len() };
    for area in &entries[..kept] {
        y += ROW;
        svg.open(
            "g",
            &[("class", &"entry"), ("data-series", &area.name), ("data-group", &area.group)],
        );
        swatch(svg, (left, y), &area.colour(shades));
        let amount = bytes(size(area));
        let room = right - left - 18.0 - text_width(&amount, 11.5) - 8.0;
        svg.words((left + 17.0, y), 11.5, Anchor::Start, inks.ink, &fit(&area.name, 11.5, room));
        svg.words((right, y), 11.5, Anchor::End, inks.ink, &amount);
        svg.around("title", &[], &area.name);
        svg.close("g");
    }
    if kept < entries.len() {
        y += ROW;
        let rest = entries[kept..].iter().fold(0u64, |sum, area| sum.saturating_add(size(area)));
        svg.words(
            (left + 17.0, y),
            11.5,
            Anchor::Start,
            inks.muted,
            &format!("{} more", entries.len() - kept),
        );
        svg.words((right, y), 11.5, Anchor::End, inks.muted, &bytes(rest));
    }
    if let Some(outline) = &picture.outline {
        y += ROW + 4.0;
        svg.element(
            "line",
            &[
                ("x1", &number(left - 2.0)),
                ("y1", &number(y - 4.0)),
                ("x2", &number(left + 13.0)),
                ("y2", &number(y - 4.0)),
                ("stroke", &inks.ink),
                ("stroke-width", &1.2),
                ("stroke-dasharray", &"4 3"),
            ],
        );
        // It may be beyond the top.
        let most = bytes(outline.values.iter().copied().max().unwrap_or(0));
        let room = right - left - 18.0 - text_width(&most, 11.5) - 8.0;
        svg.words((left + 17.0, y), 11.5, Anchor::Start, inks.ink, &fit(&outline.name, 11.5, room));
        svg.words((right, y), 11.5, Anchor::End, inks.ink, &most);
    }
    if sampled {
        y += ROW;
        for mark in [0.0, 4.0, 11.0] {
            svg.rectangle((left + mark, y - 6.0), (1.2, 3.5), inks.ink);
        }
        svg.words((left + 17.0, y), 11.5, Anchor::Start, inks.ink, SAMPLES);
    }
    if unseen {
        y += ROW;
        hatch(svg, (left, y - 9.5), (11.0, 11.0), inks);
        svg.words((left + 17.0, y), 11.5, Anchor::Start, inks.ink, UNSEEN);
    }
    if possible {
        y += ROW;
        svg.open("g", &[("class", &"entry off"), ("data-line", &"possible")]);
        svg.line((left - 2.0, y - 4.0), (left + 13.0, y - 4.0), inks.muted, 0.8);
        svg.words((left + 17.0, y), 11.5, Anchor::Start, inks.ink, POSSIBLE);
        svg.around(
            "title",
            &[],
            "Shows or hides the most that can have been there between samples",
        );
        svg.close("g");
    }
}

/// Draws the square before a name with this base line.
fn swatch(svg: &mut Svg, (left, y): (f64, f64), colour: &str) {
    svg.element(
        "rect",
        &[
            ("x", &number(left)),
            ("y", &number(y - 9.5)),
            ("width", &11),
            ("height", &11),
            ("rx", &2),
            ("fill", &colour),
        ],
    );
}
