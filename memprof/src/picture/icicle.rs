//! Calls within calls as nested bars: the outermost at the top, each as wide as its bytes.

use super::Style;
use super::palette::{Shades, inks, text_on};
use crate::units::{bytes, millionths, share};
use quo_svg::{Svg, fit, number};

const ROW: f64 = 21.0;
const FONT: f64 = 11.5;
/// Narrower bars have no name.
const NAMED: f64 = 28.0;
/// Narrower bars are not drawn.
const DRAWN: f64 = 0.5;

/// A call, with the calls within it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Call {
    /// Function and place.
    pub name: String,
    /// Bytes of the call and of those within it.
    pub bytes: u64,
    /// Component that owns most of them, and its group, one of [`GROUPS`](super::GROUPS): the
    /// colour.
    pub owner: (String, String),
    /// Calls within it, largest first; their bytes are at most its own.
    pub calls: Vec<Call>,
}

impl Call {
    /// Returns the number of calls from the outermost to the innermost.
    pub fn depth(&self) -> usize {
        1 + self.calls.iter().map(Call::depth).max().unwrap_or(0)
    }

    /// Returns name, bytes, part of `all` and owner.
    pub fn hint(&self, all: u64) -> String {
        let part = millionths(share(self.bytes, all));
        format!("{} · {} · {part} · {}", self.name, bytes(self.bytes), self.owner.0)
    }
}

/// Draws a call and all within it. The height depends on the number of calls within each other.
pub fn icicle(title: &str, all: &Call, style: &Style) -> String {
    let height = ROW * all.depth() as f64 + 1.0;
    let class = ("class", &"memprof-icicle" as &dyn std::fmt::Display);
    let mut svg = Svg::new(style.width, height, &[class, ("aria-label", &title)]);
    let mut drawing = Drawing { style, shades: Shades::default(), all: all.bytes.max(1) };
    drawing.call(&mut svg, all, 0.0, 0);
    svg.finish()
}

struct Drawing<'a> {
    style: &'a Style,
    shades: Shades,
    all: u64,
}

impl Drawing<'_> {
    fn call(&mut self, svg: &mut Svg, call: &Call, left: f64, row: usize) {
        let width = call.bytes as f64 / self.all as f64 * self.style.width;
        if width < DRAWN {
            return;
        }
        let inks = inks(self.style.theme);
        let fill = match row {
            0 => inks.strip.to_owned(),
            _ => self.shades.colour(&call.owner.0, &call.owner.1),
        };
        let ink = if row == 0 { inks.ink } else { text_on(&fill) };
        let (hint, top) = (call.hint(self.all), ROW * row as f64);
        svg.open("g", &[("class", &"call"), ("data-row", &row), ("aria-label", &hint)]);
        svg.around("title", &[], &hint);
        let (x, y, wide, high) = (number(left), number(top), number(width), number(ROW - 1.0));
        let shape: [(&str, &dyn std::fmt::Display); 7] = [
            ("x", &x),
            ("y", &y),
            ("width", &wide),
            ("height", &high),
            ("fill", &fill),
            ("stroke", &inks.paper),
            ("stroke-width", &"0.6"),
        ];
        svg.element("rect", &shape);
        let name = if width < NAMED { String::new() } else { fit(&call.name, FONT, width - 8.0) };
        let (x, y) = (number(left + 4.0), number(top + ROW - 6.5));
        let place: [(&str, &dyn std::fmt::Display); 4] =
            [("x", &x), ("y", &y), ("font-size", &FONT), ("fill", &ink)];
        svg.around("text", &place, &name);
        svg.close("g");
        let mut left = left;
        for within in &call.calls {
            self.call(svg, within, left, row + 1);
            left += within.bytes as f64 / self.all as f64 * self.style.width;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Theme;
    use super::*;

    fn call(name: &str, bytes: u64, calls: Vec<Call>) -> Call {
        let owner = ("app.exe:a".to_owned(), "application".to_owned());
        Call { name: name.to_owned(), bytes, owner, calls }
    }

    #[test]
    fn bars_lie_below_their_callers_side_by_side() {
        let inner = vec![call("f<T>", 500, Vec::new()), call("g", 250, Vec::new())];
        let all = call("all", 1000, vec![call("main", 1000, inner)]);
        let svg =
            icicle("a & b", &all, &Style { theme: Theme::Page, width: 1000.0, ..Style::default() });
        assert_eq!(svg.matches("class=\"call\"").count(), 4, "{svg}");
        for part in [
            "aria-label=\"a &amp; b\"",
            "height=\"64\"",
            "<rect x=\"0\" y=\"42\" width=\"500\"",
            "<rect x=\"500\" y=\"42\" width=\"250\"",
            ">f&lt;T&gt;<",
            "g · 250 B · 25.0",
        ] {
            assert!(svg.contains(part), "{part} not in {svg}");
        }
    }

    #[test]
    fn bars_too_narrow_to_see_are_not_drawn() {
        let small = (0..50).map(|_| call("small", 1, Vec::new())).collect();
        let all = call("all", 1_000_000, vec![call("main", 1000, small)]);
        let svg = icicle("", &all, &Style::default());
        assert!(svg.contains(">main ·") && !svg.contains("small"), "{svg}");
        assert!(icicle("", &Call::default(), &Style::default()).ends_with("</svg>\n"));
    }
}
