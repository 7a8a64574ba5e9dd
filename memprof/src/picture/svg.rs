//! The text of an SVG, written element by element: every attribute and text is escaped.

use std::fmt::{Display, Write};

/// An SVG that grows.
pub(super) struct Svg {
    text: String,
}

/// Anchor of a text.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Anchor {
    Start,
    Middle,
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

/// Fonts by name for browsers; the PNG drawer brings the last but one.
pub(super) const FONTS: &str = "system-ui, 'Segoe UI', 'Helvetica Neue', Ubuntu, sans-serif";

impl Svg {
    /// A picture of that size; `attributes` go onto the root element.
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

    /// An element that `close` ends.
    pub fn open(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.head(name, attributes);
        self.text.push('>');
    }

    /// Ends the element that `open` began.
    pub fn close(&mut self, name: &str) {
        let _ = writeln!(self.text, "</{name}>");
    }

    /// An element without content.
    pub fn element(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        self.head(name, attributes);
        self.text.push_str("/>\n");
    }

    /// An element around text.
    pub fn around(&mut self, name: &str, attributes: &[(&str, &dyn Display)], text: &str) {
        self.head(name, attributes);
        self.text.push('>');
        escape(&mut self.text, text);
        self.close(name);
    }

    /// A line of text.
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

    /// Bold text.
    pub fn heading(&mut self, at: (f64, f64), size: f64, fill: &str, text: &str) {
        let (x, y) = (number(at.0), number(at.1));
        self.around(
            "text",
            &[("x", &x), ("y", &y), ("font-size", &size), ("font-weight", &"600"), ("fill", &fill)],
            text,
        );
    }

    /// A straight line.
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

    /// A filled rectangle.
    pub fn rectangle(&mut self, at: (f64, f64), size: (f64, f64), fill: &str) {
        let (x, y, width, height) =
            (number(at.0), number(at.1), number(size.0.max(0.0)), number(size.1.max(0.0)));
        self.element(
            "rect",
            &[("x", &x), ("y", &y), ("width", &width), ("height", &height), ("fill", &fill)],
        );
    }

    /// The whole text.
    pub fn finish(mut self) -> String {
        self.text.push_str("</svg>\n");
        self.text
    }

    fn head(&mut self, name: &str, attributes: &[(&str, &dyn Display)]) {
        let _ = write!(self.text, "<{name}");
        for (key, value) in attributes {
            let _ = write!(self.text, " {key}=\"");
            escape(&mut self.text, &value.to_string());
            self.text.push('"');
        }
    }
}

/// A coordinate: a tenth of a pixel is finer than anybody sees.
pub(super) fn number(value: f64) -> String {
    let value = if value.is_finite() { value } else { 0.0 };
    let text = format!("{value:.1}");
    let text = text.strip_suffix(".0").unwrap_or(&text);
    if text == "-0" { "0".into() } else { text.into() }
}

/// Text as XML wants it; characters that XML 1.0 cannot hold at all become replacement characters.
fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\r' | '\t' => out.push(' '),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => {
                out.push('\u{fffd}')
            }
            character => out.push(character),
        }
    }
}

/// About how wide text is drawn, rather too wide than too narrow: browsers choose the font.
pub(super) fn text_width(text: &str, size: f64) -> f64 {
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

/// Text cut to fit a width: the end goes first, since the class stands at the front.
pub(super) fn fit(text: &str, size: f64, width: f64) -> String {
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
    fn text_that_is_too_long_ends_in_dots_and_fits() {
        let cut = fit("mpi.dep:libopen-pal.so.40.30.2", 11.0, 80.0);
        assert!(cut.ends_with('…') && cut.starts_with("mpi.dep"), "{cut}");
        assert!(text_width(&cut, 11.0) <= 80.0);
        assert_eq!(fit("short", 11.0, 80.0), "short");
        assert_eq!(fit("none", 11.0, 2.0), "");
    }
}
