//! Colours and letters of all pictures, in light and dark.

use quo_svg::Svg;

/// Width of a picture.
pub const WIDTH: f64 = 800.0;

const STYLE: &str = "
.ground { fill: #ffffff; }
text { fill: #1f2430; font-size: 14px; }
.title { font-weight: 700; font-size: 17px; }
.strong { font-weight: 600; }
.quiet { fill: #5b6472; font-size: 13px; }
.on { fill: #ffffff; font-weight: 600; }
.middle { text-anchor: middle; }
.onmiddle { text-anchor: middle; fill: #ffffff; font-weight: 600; }
.quietmiddle { text-anchor: middle; fill: #5b6472; font-size: 13px; }
.box { fill: #eef1f6; stroke: #8b95a5; }
.work { fill: #2f6fdb; }
.other { fill: #b4622a; }
.own { fill: #1c8a5a; }
.sleep { fill: #e1e6ed; }
.line { stroke: #8b95a5; stroke-width: 1.5; fill: none; }
.arrow { stroke: #5b6472; stroke-width: 1.6; fill: none; }
.head { fill: #5b6472; }
@media (prefers-color-scheme: dark) {
.ground { fill: #171a20; }
text { fill: #e8ebf0; }
.quiet, .quietmiddle { fill: #a9b2c0; }
.box { fill: #262b34; stroke: #667085; }
.work { fill: #2f6fdb; }
.other { fill: #b4622a; }
.own { fill: #1c8a5a; }
.sleep { fill: #39404c; }
.line { stroke: #667085; }
.arrow { stroke: #a9b2c0; }
.head { fill: #a9b2c0; }
}
";

/// Draws an axis of time at the height `y`, from 0 to `end` between two places.
pub fn time_axis(svg: &mut Svg, y: f64, (left, right): (f64, f64), end: f64, unit: &str) {
    let step = quo_svg::round_step(end / 6.0);
    let digits = if step < 1.0 { 1 } else { 0 };
    let mut time = 0.0;
    while time <= end {
        let x = left + (right - left) * time / end;
        svg.path("line", &format!("M{x:.1} {y}v5"));
        svg.label("quietmiddle", (x, y + 20.0), &format!("{time:.digits$} {unit}"));
        time += step;
    }
    svg.path("line", &format!("M{left} {y}H{right:.1}"));
}

/// Draws the meaning of classes, side by side.
pub fn legend(svg: &mut Svg, (left, y): (f64, f64), entries: &[(&str, String)]) {
    let mut at = left;
    for (class, text) in entries {
        svg.area(class, (at, y - 12.0), (14.0, 14.0));
        svg.label("quiet", (at + 20.0, y), text);
        at += 44.0 + quo_svg::text_width(text, 13.0);
    }
}

/// Returns the document of a picture with its alternative text.
pub fn document(drawn: Svg, height: f64, label: &str) -> String {
    let mut all = Svg::default();
    all.around("style", &[], STYLE);
    all.area("ground", (0.0, 0.0), (WIDTH, height));
    all.append(drawn);
    all.document(WIDTH, height, &[("aria-label", &label)])
}
