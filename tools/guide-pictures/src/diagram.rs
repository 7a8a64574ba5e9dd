//! A diagram of boxes and arrows.

use quo_svg::Svg;

use crate::style;

/// A box: its place, its class of the style, and its lines, the first one strong.
pub struct Shape {
    pub at: (f64, f64),
    pub size: (f64, f64),
    pub class: &'static str,
    pub lines: &'static [&'static str],
}

/// An arrow along points, with a text near the middle of its first leg.
pub struct Arrow {
    pub along: &'static [(f64, f64)],
    pub text: &'static str,
    /// Place of the text, relative to the middle of the first leg.
    pub shift: (f64, f64),
}

/// A diagram.
pub struct Diagram {
    pub name: &'static str,
    pub title: &'static str,
    /// Alternative text.
    pub label: &'static str,
    pub height: f64,
    pub shapes: &'static [Shape],
    pub arrows: &'static [Arrow],
}

impl Diagram {
    pub fn draw(&self) -> String {
        let mut svg = Svg::default();
        svg.label("title", (20.0, 30.0), self.title);
        self.arrows.iter().for_each(|arrow| arrow.draw(&mut svg));
        self.shapes.iter().for_each(|shape| shape.draw(&mut svg));
        style::document(svg, self.height, self.label)
    }

    /// Returns what does not fit: shapes outside of the picture, texts wider than their shape.
    #[cfg(test)]
    pub fn misfits(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for shape in self.shapes {
            let (right, bottom) = (shape.at.0 + shape.size.0, shape.at.1 + shape.size.1);
            if right > style::WIDTH || bottom > self.height {
                wrong.push(format!("{}: {:?} is outside", self.name, shape.lines));
            }
            for line in shape.lines {
                if quo_svg::text_width(line, 15.5) + 6.0 > shape.size.0 {
                    wrong.push(format!("{}: {line:?} is too wide", self.name));
                }
            }
        }
        wrong
    }
}

impl Shape {
    fn draw(&self, svg: &mut Svg) {
        if !self.class.is_empty() {
            svg.area(self.class, self.at, self.size);
        }
        let filled = ["work", "other", "own"].contains(&self.class);
        let top = self.at.1 + self.size.1 / 2.0 - 9.0 * (self.lines.len() as f64 - 1.0) + 5.0;
        for (at, line) in self.lines.iter().enumerate() {
            let class = match (filled, at) {
                (true, _) => "onmiddle",
                (false, 0) => "middle strong",
                (false, _) => "quietmiddle",
            };
            svg.label(class, (self.at.0 + self.size.0 / 2.0, top + 18.0 * at as f64), line);
        }
    }
}

impl Arrow {
    fn draw(&self, svg: &mut Svg) {
        let [.., before, end] = self.along else { return };
        let points: Vec<String> = self.along.iter().map(|(x, y)| format!("{x} {y}")).collect();
        svg.path("arrow", &format!("M{}", points.join("L")));
        let (dx, dy) = (end.0 - before.0, end.1 - before.1);
        let length = dx.hypot(dy).max(1.0);
        let (ux, uy) = (dx / length, dy / length);
        let wing =
            |side: f64| (end.0 - 9.0 * ux - side * 4.5 * uy, end.1 - 9.0 * uy + side * 4.5 * ux);
        let ((ax, ay), (bx, by)) = (wing(1.0), wing(-1.0));
        svg.path("head", &format!("M{} {}L{ax:.1} {ay:.1}L{bx:.1} {by:.1}Z", end.0, end.1));
        let (first, second) = (self.along[0], self.along[1]);
        let middle = (f64::midpoint(first.0, second.0), f64::midpoint(first.1, second.1));
        svg.label("quietmiddle", (middle.0 + self.shift.0, middle.1 + self.shift.1), self.text);
    }
}
