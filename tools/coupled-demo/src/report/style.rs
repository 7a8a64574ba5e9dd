//! Colours, light and dark, and the parts that pictures share.

use quo_svg::{Svg, round_step, text_width};

/// Style of every picture. No custom properties: not every renderer of SVG knows them.
const PICTURE: &str = "
.ground { fill: #ffffff; }
text { font-family: system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; fill: #1f2430; font-size: 12px; }
.strong { font-weight: 600; font-size: 14px; }
.title { font-weight: 700; font-size: 18px; }
.quiet { fill: #667085; }
.end { text-anchor: end; }
.middle { text-anchor: middle; }
.track { fill: #e1e6ed; }
.line { stroke: #c9ced8; stroke-width: 1; fill: none; }
.grid { stroke: #dfe3ea; stroke-width: 1; fill: none; }
.stop { stroke: #1f2430; stroke-width: 1.5; fill: none; }
.flow { fill: #2f6fdb; }
.diffusion { fill: #ee8a2f; }
.remap { fill: #7d4fc4; }
.spin { fill: url(#hatch); }
.spinground { fill: #f7cdd3; }
.spinline { stroke: #cf3651; stroke-width: 1.6; }
.other { fill: #a3aab6; }
.sleep { fill: #dbe7dc; }
.curve { stroke: #1c8a5a; stroke-width: 1.5; fill: none; }
.undercurve { fill: #1c8a5a; fill-opacity: 0.18; }
.mean { stroke: #1c8a5a; stroke-width: 1; stroke-dasharray: 4 3; fill: none; }
@media (prefers-color-scheme: dark) {
  .ground { fill: #14171c; }
  text { fill: #e6e9ef; }
  .quiet { fill: #98a2b3; }
  .track { fill: #2b313a; }
  .line { stroke: #454c57; }
  .grid { stroke: #2e343d; }
  .stop { stroke: #e6e9ef; }
  .flow { fill: #5b93f5; }
  .diffusion { fill: #f29a4a; }
  .remap { fill: #a57ff0; }
  .spinground { fill: #4a2129; }
  .spinline { stroke: #f06a80; }
  .other { fill: #6b7280; }
  .sleep { fill: #26352b; }
  .curve { stroke: #4cc38a; }
  .undercurve { fill: #4cc38a; }
  .mean { stroke: #4cc38a; }
}
";

/// The hatching that stands for work that is none.
const HATCH: &str = r#"<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="spinground" width="5" height="5"/><line class="spinline" x1="0" y1="0" x2="0" y2="5"/></pattern></defs>"#;

/// One line of coloured squares with their meaning; each is `spare` pixels from the next.
pub fn legend<'a>(
    svg: &mut Svg,
    y: f64,
    spare: f64,
    entries: impl Iterator<Item = (&'a str, &'a str)>,
) {
    let mut at = 18.0;
    for (class, title) in entries {
        svg.area(class, (at, y - 11.0), (13.0, 13.0));
        svg.label("", (at + 18.0, y), title);
        at += 18.0 + text_width(title, 12.0) + spare;
    }
}

/// The picture of these elements on a ground, which needs nothing else.
pub fn document(body: Svg, width: f64, height: f64, title: &str, style: &str) -> String {
    let mut whole = Svg::default();
    whole.around("style", &[], &format!("{PICTURE}{style}"));
    whole.verbatim(HATCH);
    whole.area("ground", (0.0, 0.0), (width, height));
    whole.append(body);
    whole.document(width, height, &[("aria-label", &title)])
}

/// Marks of seconds across a picture, each at the place that `x` gives it.
pub fn axis(svg: &mut Svg, longest: f64, (top, bottom): (f64, f64), x: impl Fn(f64) -> f64) {
    let step = round_step(longest / 10.0);
    let decimals = if step < 0.1 { 2 } else { usize::from(step < 1.0) };
    for mark in 0..=(longest * 1.0001 / step) as usize {
        let seconds = mark as f64 * step;
        let (at, unit) = (x(seconds), if mark == 0 { " s" } else { "" });
        svg.path("grid", &format!("M{at:.1} {top:.1}V{bottom:.1}"));
        svg.label("quiet middle", (at, bottom + 16.0), &format!("{seconds:.decimals$}{unit}"));
    }
}
