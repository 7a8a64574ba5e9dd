//! Colours, light and dark, and the legend.

use super::escape;
use crate::sample::usage::Use;

/// Style of every picture. No custom properties: not every renderer of SVG knows them.
pub const PICTURE: &str = "
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
.onphase { fill: #ffffff; font-size: 11px; text-anchor: middle; }
.onsleep { fill: #44604b; font-size: 11px; text-anchor: middle; }
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
  .onphase { fill: #10131a; }
  .onsleep { fill: #9fc3a9; }
}
";

/// The hatching that stands for work that is none.
pub const HATCH: &str = r#"<defs><pattern id="hatch" width="5" height="5" patternUnits="userSpaceOnUse" patternTransform="rotate(45)"><rect class="spinground" width="5" height="5"/><line class="spinline" x1="0" y1="0" x2="0" y2="5"/></pattern></defs>"#;

/// One line of coloured squares with their meaning, and its width. Idle is the track's colour.
pub fn legend(x: f64, y: f64) -> String {
    let mut out = String::new();
    let mut at = x;
    let entries =
        Use::ALL.iter().map(|what| (what.class(), what.title())).chain([("track", "idle")]);
    for (class, title) in entries {
        out += &format!(
            r#"<rect class="{class}" x="{at:.0}" y="{:.0}" width="13" height="13" rx="2"/>"#,
            y - 11.0
        );
        out += &format!(r#"<text x="{:.0}" y="{y:.0}">{}</text>"#, at + 18.0, escape(title));
        at += 18.0 + 6.15 * title.len() as f64 + 16.0;
    }
    out
}
