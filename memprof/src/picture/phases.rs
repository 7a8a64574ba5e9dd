//! Phases of a timeline: a lane of names for each depth above the areas, and shades behind the areas.

use std::fmt::{Display, Write};

use super::Phase;
use super::palette::Inks;
use super::timeline::{Plot, ROW};
use quo_svg::{Anchor, Svg, fit, number, text_width};

/// Deeper phases than these rows are left to the tables.
pub(super) const PHASE_ROWS: usize = 3;
/// What hatching says.
pub(super) const UNSEEN: &str = "no sample was taken in it";
/// Size of names.
const SIZE: f64 = 11.0;

/// Draws the lanes, and a shade behind every second of the outermost phases.
pub(super) fn lanes(svg: &mut Svg, plot: &Plot, phases: &[Phase], rows: usize, inks: &Inks) {
    let outermost = merged(plot, phases, 0);
    for (index, (begin, end, _)) in outermost.iter().enumerate() {
        if index % 2 == 0 {
            svg.rectangle((*begin, plot.top), (end - begin, plot.height), inks.shade);
        }
    }
    for depth in 0..rows {
        let y = 32.0 + depth as f64 * ROW;
        let spans = merged(plot, phases, depth);
        let prefix = common_prefix(&spans);
        for (index, (begin, end, name)) in spans.iter().enumerate() {
            svg.open("g", &[("class", &"phase"), ("data-name", &name.unwrap_or("several"))]);
            svg.rectangle((*begin, y), ((end - begin - 1.0).max(1.0), ROW - 2.0), inks.strip);
            let Some(name) = name else {
                svg.close("g");
                continue;
            };
            // A name extends into the free room behind its phase.
            let next = spans.get(index + 1).map_or(plot.left + plot.width, |(next, _, _)| *next);
            let text = label(name, prefix, next - begin - 7.0);
            if !text.is_empty() {
                svg.words((begin + 4.0, y + 11.5), SIZE, Anchor::Start, inks.ink, &text);
            }
            svg.around("title", &[], name);
            svg.close("g");
        }
    }
}

/// Hides what is drawn behind phases of which nothing is known, and hatches them, in their lanes too.
pub(super) fn unseen(svg: &mut Svg, plot: &Plot, phases: &[Phase], inks: &Inks) {
    let holds_seen = |phase: &&Phase| {
        let within = |other: &Phase| other.begin < phase.end && other.end > phase.begin;
        phases.iter().any(|one| !one.is_unseen && one.depth > phase.depth && within(one))
    };
    let unseen = phases.iter().filter(|phase| phase.is_unseen && phase.depth < PHASE_ROWS);
    for phase in unseen.filter(|phase| !holds_seen(phase)) {
        let (begin, end) = (plot.x(phase.begin), plot.x(phase.end));
        if phase.end <= plot.from || phase.begin >= plot.to || end - begin < 0.8 {
            continue;
        }
        svg.open("g", &[("class", &"unseen"), ("data-name", &phase.name)]);
        hatch(svg, (begin, plot.top), (end - begin, plot.height), inks);
        name_upright(svg, plot, (begin, end), &phase.name, inks);
        svg.around("title", &[], &format!("{}: {UNSEEN}", phase.name));
        svg.close("g");
        let lane = 32.0 + phase.depth as f64 * ROW;
        svg.rectangle((begin, lane + ROW - 4.0), ((end - begin - 1.0).max(1.0), 2.0), inks.muted);
    }
}

/// Writes the name of a hatched phase upright where the phase is too narrow for it, and wide enough for a line.
fn name_upright(svg: &mut Svg, plot: &Plot, (begin, end): (f64, f64), name: &str, inks: &Inks) {
    const LINE: f64 = SIZE + 4.0;
    let width = end - begin;
    if width < LINE || text_width(name, SIZE) <= width - 7.0 {
        return;
    }
    let text = fit(name, SIZE, plot.height - 16.0);
    let (middle, foot) = (begin + width / 2.0, plot.top + plot.height - 6.0);
    let length = text_width(&text, SIZE) + 4.0;
    svg.rectangle((middle - LINE / 2.0, foot + 2.0 - length), (LINE, length), inks.paper);
    let place = format!("translate({} {}) rotate(-90)", number(middle + 4.0), number(foot));
    let attributes: [(&str, &dyn Display); 3] =
        [("transform", &place), ("font-size", &SIZE), ("fill", &inks.ink)];
    svg.around("text", &attributes, &text);
}

/// Fills a rectangle with lines at 45 degrees on paper.
pub(super) fn hatch(svg: &mut Svg, (x, y): (f64, f64), (width, height): (f64, f64), inks: &Inks) {
    const APART: f64 = 7.0;
    svg.rectangle((x, y), (width, height), inks.paper);
    let mut path = String::new();
    // Lines of points with a constant sum of distances from the left and from the top.
    let mut sum = APART / 2.0;
    while sum < width + height {
        let (right, down) = (sum.min(width), sum.min(height));
        let from = (number(x + right), number(y + sum - right));
        let to = (number(x + sum - down), number(y + down));
        let _ = write!(path, "M{} {}L{} {}", from.0, from.1, to.0, to.1);
        sum += APART;
    }
    svg.element("path", &[("d", &path), ("stroke", &inks.muted), ("stroke-width", &0.8)]);
}

/// Returns the name as it fits into `room`: whole, otherwise without the words shared with others,
/// otherwise cut.
fn label(name: &str, prefix: &str, room: f64) -> String {
    if text_width(name, SIZE) <= room {
        return name.to_owned();
    }
    let cut = fit(name.strip_prefix(prefix).unwrap_or(name), SIZE, room);
    // One or two letters and dots mean nothing to a reader.
    if cut.ends_with('…') && cut.chars().count() < 4 { String::new() } else { cut }
}

/// Returns the words that all names in a lane without enough room begin with; empty if there is
/// only one such span.
fn common_prefix<'a>(spans: &[(f64, f64, Option<&'a str>)]) -> &'a str {
    let narrow = spans.iter().filter_map(|(begin, end, name)| {
        name.filter(|name| text_width(name, SIZE) > end - begin - 7.0)
    });
    let narrow: Vec<&str> = narrow.collect();
    let [first, others @ ..] = narrow.as_slice() else { return "" };
    let ends = first.match_indices(' ').map(|(at, _)| at + 1);
    let shared = |end: &usize| others.iter().all(|other| other.starts_with(&first[..*end]));
    match others.is_empty() {
        true => "",
        false => ends.take_while(shared).last().map_or("", |end| &first[..end]),
    }
}

/// Phases of one depth as begin, end and name; neighbours too narrow to be seen become one without a name.
fn merged<'a>(plot: &Plot, phases: &'a [Phase], depth: usize) -> Vec<(f64, f64, Option<&'a str>)> {
    let mut chosen: Vec<&Phase> = phases
        .iter()
        .filter(|phase| {
            phase.depth == depth
                && phase.end > plot.from
                && phase.begin < plot.to
                && phase.begin < phase.end
        })
        .collect();
    chosen.sort_by_key(|phase| phase.begin);
    let mut merged: Vec<(f64, f64, Option<&str>)> = Vec::new();
    for phase in chosen {
        let (begin, end) = (plot.x(phase.begin), plot.x(phase.end));
        match merged.last_mut() {
            Some((first, last, name))
                if begin - *last < 1.5 && (end - begin < 2.0 || *last - *first < 2.0) =>
            {
                if *name != Some(phase.name.as_str()) {
                    // A narrow phase next to a wide one does not remove its name.
                    *name = if *last - *first > end - begin {
                        *name
                    } else {
                        Some(phase.name.as_str())
                    };
                    if (*last - *first).max(end - begin) < 2.0 {
                        *name = None;
                    }
                }
                *last = last.max(end);
            }
            _ => merged.push((begin, end, Some(&phase.name))),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_all_narrow_names_begin_with_are_left_out() {
        let narrow = |name| (0.0, 50.0, Some(name));
        let spans =
            [narrow("quo push socket"), (50.0, 400.0, Some("solve")), narrow("quo phase halo")];
        let prefix = common_prefix(&spans);
        assert_eq!(prefix, "quo ");
        assert_eq!(label("quo push socket", prefix, 43.0), "push s…");
        assert_eq!(label("quo push socket", prefix, 150.0), "quo push socket");
        // A phase that repeats keeps the part that distinguishes it from others.
        assert_eq!(common_prefix(&[narrow("quo push socket"); 18]), "quo push ");
        assert_eq!(label("quo push socket", "quo push ", 43.0), "socket");
        assert_eq!(common_prefix(&[narrow("quo push socket")]), "");
        assert_eq!(common_prefix(&[narrow("read the mesh"), narrow("write results")]), "");
        assert_eq!(label("finalize", "", 14.0), "");
    }
}
