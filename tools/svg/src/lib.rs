//! Primitives of the project's pictures: writes the text of an SVG, element by element. Every
//! attribute and text is escaped.

use std::fmt::{Display, Write};

pub use quo_terminal::markup;

/// A growing SVG: a whole document from [`Svg::new`], or elements that are put into a document at
/// the end.
#[derive(Default)]
pub struct Svg {
    text: String,
}

/// Anchor of a text.
#[derive(Clone, Copy, PartialEq)]
pub enum Anchor {
    /// The text begins there.
    Start,
    /// The text is centred there.
    Middle,
    /// The text ends there.
    End,
}

impl Anchor {
    fn word(self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Middle => "middle",
            Self::End => "end",
        }
    }
}

/// Font names for browsers.
pub const FONTS: &str = "system-ui, 'Segoe UI', 'Helvetica Neue', Ubuntu, sans-serif";

impl Svg {
    /// Begins a picture of that size; `attributes` are put on the root element.
    #[must_use]
    pub fn new(width: f64, height: f64, attributes: &[(&str, &dyn Display)]) -> Self {
        let mut svg = Self { text: String::with_capacity(1 << 14) };
        let (width, height) = (number(width), number(height));
        let view = format!("0 0 {width} {height}");
        let mut all: Vec<(&str, &dyn Display)> = vec![
            ("xmlns", &"http://www.w3.org/2000/svg"),
            ("width", &width),
            ("height", &height),
            ("viewBox", &view),
            ("font-family", &FONTS),
            ("role", &"img"),
        ];
        all.extend_from_slice(attributes);
        svg.open("svg", &all);
        svg
    }

    /// Returns the elements as a document of that size; `attributes` are put on the root element.
    #[must_use]
    pub fn document(self, width: f64, height: f64, attributes: &[(&str, &dyn Display)]) -> String {
        let mut whole = Svg::new(width, height, attributes);
        whole.append(self);
        whole.finish()
    }

    /// Appends the elements of another SVG.
    pub fn append(&mut self, other: Svg) {
        self.text += &other.text;
    }

    /// Appends SVG text verbatim, not escaped.
    pub fn verbatim(&mut self, text: &str) {
        self.text += text;
    }

    /// Appends a line of text with a class of the style.
    pub fn label(&mut self, class: &str, at: (f64, f64), text: &str) {
        self.around("text", &[("class", &class), ("x", &number(at.0)), ("y", &number(at.1))], text);
    }

    /// Appends a rectangle with a class of the style.
    pub fn area(&mut self, class: &str, at: (f64, f64), size: (f64, f64)) {
        let (x, y, width, height) = rectangle(at, size);
        self.element(
            "rect",
            &[("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)],
        );
    }

    /// Appends a rectangle with a class of the style, and a tooltip.
    pub fn area_with_hint(&mut self, class: &str, at: (f64, f64), size: (f64, f64), hint: &str) {
        let (x, y, width, height) = rectangle(at, size);
        self.open(
            "rect",
            &[("class", &class), ("x", &x), ("y", &y), ("width", &width), ("height", &height)],
        );
        self.around("title", &[], hint);
        self.close("rect");
    }

    /// Appends a path with a class of the style.
    pub fn path(&mut self, class: &str, path: &str) {
        self.element("path", &[("class", &class), ("d", &path)]);
    }

    /// Begins an element, which `close` ends.
    pub fn open(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.head(name, attributes);
        self.text.push('>');
    }

    /// Ends the element that `open` began.
    pub fn close(&mut self, name: &str) {
        let _ = writeln!(self.text, "</{name}>");
    }

    /// Appends an element without content.
    pub fn element(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.head(name, attributes);
        self.text.push_str("/>\n");
    }

    /// Appends an element around text.
    pub fn around(&mut self, name: &str, attributes: &[(&str, &dyn Display)], text: &str) {
        self.head(name, attributes);
        self.text.push('>');
        self.text += &markup(text);
        self.close(name);
    }

    /// Appends a line of text.
    pub fn words(&mut self, at: (f64, f64), size: f64, anchor: Anchor, fill: &str, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        self.around(
            "text",
            &[
                ("x", &x),
                ("y", &y),
                ("font-size", &size),
                ("text-anchor", &anchor.word()),
                ("fill", &fill),
            ],
            text,
        );
    }

    /// Appends bold text.
    pub fn heading(&mut self, at: (f64, f64), size: f64, fill: &str, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        self.around(
            "text",
            &[("x", &x), ("y", &y), ("font-size", &size), ("font-weight", &"600"), ("fill", &fill)],
            text,
        );
    }

    /// Appends a straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        let (x1, y1, x2, y2) = (number(from.0), number(from.1), number(to.0), number(to.1));
        self.element(
            "line",
            &[
                ("x1", &x1),
                ("y1", &y1),
                ("x2", &x2),
                ("y2", &y2),
                ("stroke", &stroke),
                ("stroke-width", &width),
            ],
        );
    }

    /// Appends a filled rectangle.
    pub fn rectangle(&mut self, at: (f64, f64), size: (f64, f64), fill: &str) {
        let (x, y, width, height) = rectangle(at, size);
        self.element(
            "rect",
            &[("x", &x), ("y", &y), ("width", &width), ("height", &height), ("fill", &fill)],
        );
    }

    /// Appends a filled rectangle with round corners, with or without an outline.
    pub fn rounded(
        &mut self,
        at: (f64, f64),
        size: (f64, f64),
        round: f64,
        fill: &str,
        line: Option<&str>,
    ) {
        let (x, y, width, height) = rectangle(at, size);
        let mut shape: Vec<(&str, &dyn Display)> = vec![
            ("x", &x),
            ("y", &y),
            ("width", &width),
            ("height", &height),
            ("rx", &round),
            ("fill", &fill),
        ];
        shape.extend(line.as_ref().map(|line| ("stroke", line as &dyn Display)));
        self.element("rect", &shape);
    }

    /// Returns the text of the elements.
    #[must_use]
    pub fn text(self) -> String {
        self.text
    }

    /// Returns the complete text of a document.
    #[must_use]
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn head(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        let _ = write!(self.text, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.text, " {key}=\"");
            self.text += &markup(&value.to_string());
            self.text.push('"');
        }
    }
}

fn rectangle(at: (f64, f64), size: (f64, f64)) -> (String, String, String, String) {
    (number(at.0), number(at.1), number(size.0.max(0.0)), number(size.1.max(0.0)))
}

/// Formats a coordinate: a tenth of a pixel is invisibly small.
#[must_use]
pub fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

/// Returns the smallest of 1, 2, 5, 10 times a power of ten that is at least `least`, which is
/// positive.
#[must_use]
pub fn round_step(least: f64) -> f64 {
    let least = if least > 0.0 { least } else { 1.0 };
    let power = 10_f64.powf(least.log10().floor());
    let round = [1.0, 2.0, 5.0].map(|step| step * power);
    round.into_iter().find(|step| *step >= least * 0.999).unwrap_or(10.0 * power)
}

/// Estimates the drawn width of a text, rather too wide than too narrow: browsers choose the font.
#[must_use]
pub fn text_width(text: &str, size: f64) -> f64 {
    let em: f64 = text
        .chars()
        .map(|character| match character {
            'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.3,
            'f' | 't' | 'r' | '(' | ')' | '-' | '/' => 0.4,
            'm' | 'w' | 'M' | 'W' | '%' | '@' => 0.9,
            'A'..='Z' | '_' => 0.68,
            character if character.is_ascii() => 0.57,
            '…' | '×' | '·' | 'µ' | '±' => 0.65,
            _ => 1.0,
        })
        .sum();
    em * size
}

/// Returns a text cut at its end to fit a width, since the class is at the front.
#[must_use]
pub fn fit(text: &str, size: f64, width: f64) -> String {
    if text_width(text, size) <= width {
        return text.into();
    }
    let mut kept = String::new();
    let room = width - text_width("…", size);
    for character in text.chars() {
        kept.push(character);
        if text_width(&kept, size) > room {
            kept.pop();
            break;
        }
    }
    if kept.is_empty() { String::new() } else { format!("{}…", kept.trim_end()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_out_of_their_place() {
        let mut svg = Svg::new(10.0, 10.0, &[]);
        svg.words((1.0, 2.0), 3.0, Anchor::Start, "red\" onload=\"x", "</text><script>&\u{1}\"");
        let text = svg.finish();
        assert!(!text.contains("<script"));
        assert!(text.contains("&lt;/text&gt;&lt;script&gt;&amp;\u{fffd}&quot;"));
        assert!(text.contains("fill=\"red&quot; onload=&quot;x\""));
    }

    #[test]
    fn document_around_elements_has_them_once() {
        let mut body = Svg::default();
        body.area_with_hint("<a>", (1.0, 2.0), (3.0, -4.0), "a & b");
        body.path("line", "M0 0H1");
        let text = body.document(10.0, 20.0, &[("aria-label", &"x")]);
        assert!(text.starts_with("<svg ") && text.ends_with("</svg>\n"));
        assert!(text.contains("viewBox=\"0 0 10 20\"") && text.contains("aria-label=\"x\""));
        assert!(text.contains("class=\"&lt;a&gt;\" x=\"1\" y=\"2\" width=\"3\" height=\"0\""));
        assert_eq!(text.matches("<title>a &amp; b</title>").count(), 1);
    }

    #[test]
    fn steps_of_scales_are_round() {
        assert_eq!([0.3, 1.0, 3.0, 70.0, 0.0].map(round_step), [0.5, 1.0, 5.0, 100.0, 1.0]);
    }

    #[test]
    fn text_that_is_too_long_ends_in_dots_and_fits() {
        let cut = fit("mpi.dep:libopen-pal.so.40.30.2", 11.0, 80.0);
        assert!(cut.ends_with('…') && cut.starts_with("mpi.dep"), "{cut}");
        assert!(text_width(&cut, 11.0) <= 80.0);
        assert_eq!(fit("short", 11.0, 80.0), "short");
        assert_eq!(fit("none", 11.0, 2.0), "");
    }
}
