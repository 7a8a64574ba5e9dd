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

/// Returns the document of a picture with its alternative text.
pub fn document(drawn: Svg, height: f64, label: &str) -> String {
    let mut all = Svg::default();
    all.around("style", &[], STYLE);
    all.area("ground", (0.0, 0.0), (WIDTH, height));
    all.append(drawn);
    all.document(WIDTH, height, &[("aria-label", &label)])
}
