//! A machine as an SVG picture: nested boxes, complete in one file.

use std::fmt::Display;

use quo::CpuSet;
use quo::topology::{Object, ObjectType, Topology};
use quo_svg::{Svg, number};

use crate::parts::{Part, heading, label, name, summary};
use crate::{Drawing, place, wrap};

/// All lengths are in pixels.
const GAP: f64 = 6.0;
const BAR: f64 = 16.0;
const TITLE: f64 = 18.0;
const PU_WIDTH: f64 = 32.0;
const PU_HEIGHT: f64 = 22.0;
const MARK: f64 = 15.0;
const MARGIN: f64 = 20.0;
const NARROWEST_CORE: f64 = 58.0;
const PUS_IN_A_ROW: usize = 4;

/// Colours that most colour-blind readers can distinguish, with the text colour for each.
const COLOURS: [(&str, &str); 10] = [
    ("#3f72af", "#fff"),
    ("#f28e2b", "#1f2933"),
    ("#2f9e6e", "#fff"),
    ("#d64550", "#fff"),
    ("#8460a8", "#fff"),
    ("#e9c440", "#1f2933"),
    ("#5bb8c4", "#1f2933"),
    ("#a0623a", "#fff"),
    ("#f29ca3", "#1f2933"),
    ("#6b7480", "#fff"),
];

const STYLE: &str = "\
text{font-family:'Inter','Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;fill:#1f2933}\
.h{font-size:15px;font-weight:600}.s{font-size:11px;fill:#52606d}.t{font-size:11.5px;font-weight:600}\
.b{font-size:10px;fill:#33415c}.m{font-size:10px;fill:#1e5631}.c{font-size:9px;fill:#7b8794}\
.p{font-size:11px;text-anchor:middle}.o{font-size:11px;text-anchor:middle;fill:#9aa5b1}\
.k{font-size:9px;font-weight:600;text-anchor:middle}.l{font-size:11px}";

/// Pattern of PUs that the job may not use.
const HATCH: &str = "<defs><pattern id=\"no\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
    patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" fill=\"#e9ecef\"/>\
    <rect width=\"2\" height=\"6\" fill=\"#d5dae0\"/></pattern></defs>\n";

impl Drawing<'_> {
    /// Returns the picture as a self-contained SVG document: packages, dies, NUMA nodes, caches,
    /// cores and PUs by their physical numbers. PUs that the job may not use are hatched; every
    /// binding that does not cover the whole machine marks its PUs in a separate colour.
    #[must_use]
    pub fn to_svg(&self) -> String {
        Picture::new(self.topology, self.bindings).document()
    }
}

struct Picture<'a> {
    topology: &'a Topology,
    bindings: &'a [(String, CpuSet)],
    /// Space in each PU for marks; none without bindings.
    marks: f64,
}

#[derive(Copy, Clone)]
struct Size {
    width: f64,
    height: f64,
}

impl<'a> Picture<'a> {
    fn new(topology: &'a Topology, bindings: &'a [(String, CpuSet)]) -> Self {
        let mut picture = Self { topology, bindings, marks: 0.0 };
        if bindings.iter().any(|(_, cpus)| picture.is_narrow(cpus)) {
            picture.marks = MARK + 2.0;
        }
        picture
    }

    /// Returns true if a binding is narrower than "anywhere".
    fn is_narrow(&self, cpus: &CpuSet) -> bool {
        !self.topology.allowed().is_subset(cpus) && !cpus.is_empty()
    }

    fn document(&self) -> String {
        let root = Part::of(self.topology);
        let size = self.contents(&root);
        let width = size.width.max(360.0);
        let mut body = Svg::default();
        let mut y = MARGIN;
        for line in lines(&heading(self.topology), width, 8.0) {
            body.label("h", (MARGIN, y + 13.0), &line);
            y += 19.0;
        }
        for line in lines(&summary(self.topology), width, 5.6) {
            body.label("s", (MARGIN, y + 10.0), &line);
            y += 15.0;
        }
        y += GAP;
        self.draw_contents(&mut body, &root, MARGIN, y, Size { width, ..size });
        y += size.height + GAP;
        let mut x = MARGIN;
        for node in self.topology.objects(ObjectType::NumaNode) {
            if node.cpuset.is_empty() {
                let title = format!("{}, no CPUs", label(node));
                let wide = 6.0 * title.chars().count() as f64 + 16.0;
                if x > MARGIN && x + wide > MARGIN + width {
                    x = MARGIN;
                    y += BAR + GAP;
                }
                bar(&mut body, node, &title, x, y, wide);
                x += wide + GAP;
            }
        }
        y += if x > MARGIN { BAR + GAP } else { 0.0 };
        y = self.legend(&mut body, y + GAP, width);
        let (width, height) = ((width + 2.0 * MARGIN).round(), (y + MARGIN - GAP).round());
        let mut whole = Svg::default();
        whole.around("title", &[], &heading(self.topology));
        whole.around("style", &[], STYLE);
        whole.verbatim(HATCH);
        whole.rectangle((0.0, 0.0), (width, height), "#fff");
        whole.append(body);
        whole.document(width, height, &[])
    }

    /// Returns the size of a part's inside, without its frame.
    fn contents(&self, part: &Part<'_>) -> Size {
        let mut size = Size { width: 0.0, height: 0.0 };
        for run in runs(&part.children) {
            let grid = self.grid(run);
            size.width = size.width.max(grid.width());
            size.height += grid.height() + if size.height > 0.0 { GAP } else { 0.0 };
        }
        size
    }

    fn draw_contents(&self, out: &mut Svg, part: &Part<'_>, x: f64, y: f64, size: Size) {
        let mut top = y;
        for run in runs(&part.children) {
            let grid = self.grid(run);
            // Parts fill the width, so that frames line up.
            let columns = grid.columns as f64;
            let wide = (size.width + GAP) / columns - GAP;
            for (at, child) in run.iter().enumerate() {
                let left = x + (at % grid.columns) as f64 * (wide + GAP);
                let above = top + (at / grid.columns) as f64 * (grid.cell.height + GAP);
                let cell = Size { width: wide, height: grid.cell.height };
                self.draw(out, child, left, above, cell);
            }
            top += grid.height() + GAP;
        }
    }

    fn grid(&self, run: &[Part<'_>]) -> Grid {
        let sizes = run.iter().map(|part| self.size(part));
        let cell = sizes.fold(Size { width: 0.0, height: 0.0 }, |a, b| Size {
            width: a.width.max(b.width),
            height: a.height.max(b.height),
        });
        // A shape wider than high reads well on a screen; holes in the last row do not.
        let badness = |columns: usize| {
            let grid = Grid { cell, columns, rows: run.len().div_ceil(columns) };
            let holes = (grid.rows * columns - run.len()) as f64 / run.len() as f64;
            (grid.width() / grid.height() / 1.7).ln().abs() + 6.0 * holes
        };
        let columns = (1..=run.len()).min_by(|&a, &b| badness(a).total_cmp(&badness(b)));
        let columns = columns.unwrap_or(1);
        Grid { cell, columns, rows: run.len().div_ceil(columns) }
    }

    fn size(&self, part: &Part<'_>) -> Size {
        let bars = bars(part).len() as f64 * (BAR + 3.0);
        if part.is_unit() {
            let pus = part.pus().len();
            let row = pus.min(PUS_IN_A_ROW) as f64;
            let rows = pus.div_ceil(PUS_IN_A_ROW) as f64;
            return Size {
                width: (row * (PU_WIDTH + 4.0) - 4.0 + 2.0 * GAP).max(NARROWEST_CORE),
                height: 14.0 + bars + rows * (PU_HEIGHT + self.marks + 4.0),
            };
        }
        let inside = self.contents(part);
        let named = title(part).chars().count() as f64 * 7.0;
        let named = if named > 0.0 { named + 2.0 * GAP } else { 0.0 };
        let labels = bars_width(part);
        Size {
            width: (inside.width + 2.0 * GAP).max(named).max(labels),
            height: inside.height + bars + 2.0 * GAP + if named > 0.0 { TITLE } else { 0.0 },
        }
    }

    fn draw(&self, out: &mut Svg, part: &Part<'_>, x: f64, y: f64, size: Size) {
        if part.is_unit() {
            return self.draw_unit(out, part, x, y, size);
        }
        let outer = part.objects.first().map(|object| object.kind);
        let (fill, line) = match outer {
            Some(ObjectType::Package) => ("#f5f7fa", "#9aa5b1"),
            Some(ObjectType::Die) => ("#eaeff5", "#aab7c6"),
            Some(ObjectType::NumaNode) => ("#f0f7f1", "#a9cfb3"),
            _ => ("#f8fafd", "#c3cfe2"),
        };
        frame(out, x, y, size, 5.0, fill, line);
        let mut top = y + GAP;
        let title = title(part);
        if !title.is_empty() {
            out.label("t", (x + GAP + 2.0, top + 11.0), &title);
            top += TITLE;
        }
        for object in bars(part) {
            bar(out, object, &label(object), x + GAP, top, size.width - 2.0 * GAP);
            top += BAR + 3.0;
        }
        let inside = self.contents(part);
        let room = Size { width: size.width - 2.0 * GAP, ..inside };
        self.draw_contents(out, part, x + GAP, top, room);
    }

    fn draw_unit(&self, out: &mut Svg, part: &Part<'_>, x: f64, y: f64, size: Size) {
        frame(out, x, y, size, 3.0, "#fff", "#cbd2d9");
        let core = part.objects.iter().find(|object| object.kind == ObjectType::Core);
        if let Some(core) = core {
            out.label("c", (x + GAP - 1.0, y + 10.5), &name(core));
        }
        let mut top = y + 14.0;
        for object in bars(part) {
            bar(out, object, &label(object), x + GAP - 2.0, top, size.width - 2.0 * GAP + 4.0);
            top += BAR + 3.0;
        }
        let pus = part.pus();
        let in_row = pus.len().min(PUS_IN_A_ROW);
        let room = size.width - 2.0 * GAP + 4.0;
        let wide = (room + 4.0) / in_row.max(1) as f64 - 4.0;
        for (at, cpu) in pus.into_iter().enumerate() {
            let left = x + GAP - 2.0 + (at % in_row) as f64 * (wide + 4.0);
            let above = top + (at / in_row) as f64 * (PU_HEIGHT + self.marks + 4.0);
            self.draw_pu(out, cpu, left, above, wide);
        }
    }

    fn draw_pu(&self, out: &mut Svg, cpu: usize, x: f64, y: f64, wide: f64) {
        let allowed = self.topology.allowed().contains(cpu);
        let (fill, class) = if allowed { ("#f4f6f8", "p") } else { ("url(#no)", "o") };
        let size = Size { width: wide, height: PU_HEIGHT + self.marks };
        frame(out, x, y, size, 2.5, fill, "#cbd2d9");
        out.label(class, (x + wide / 2.0, y + 15.0), &cpu.to_string());
        let bound = self.bindings.iter().enumerate();
        let bound: Vec<_> = bound
            .filter(|(_, (_, cpus))| cpus.contains(cpu) && self.is_narrow(cpus))
            .map(|(at, (label, _))| (at, label.split(' ').next_back().unwrap_or_default()))
            .collect();
        let each = (wide - 4.0) / bound.len().max(1) as f64;
        for (place, (at, label)) in bound.into_iter().enumerate() {
            let left = x + 2.0 + place as f64 * each;
            let (colour, ink) = colour(at);
            let inset = if each > 6.0 { 1.0 } else { 0.0 };
            let (at, size) = ((left + inset / 2.0, y + PU_HEIGHT - 0.5), (each - inset, MARK));
            out.rounded(at, size, 2.0 * inset, &colour, None);
            if label.chars().count() as f64 * 5.6 + 1.0 <= each {
                let (x, y) = (number(left + each / 2.0), number(y + PU_HEIGHT + 10.3));
                let style = format!("fill:{ink}");
                let shown: [(&str, &dyn Display); 4] =
                    [("class", &"k"), ("x", &x), ("y", &y), ("style", &style)];
                out.around("text", &shown, label);
            }
        }
    }

    /// Draws the binding of each rank, in columns; returns the lower end.
    fn legend(&self, out: &mut Svg, y: f64, width: f64) -> f64 {
        let entry =
            |(label, cpus): &(String, CpuSet)| format!("{label}: {}", place(self.topology, cpus));
        let entries: Vec<String> = self.bindings.iter().map(entry).collect();
        let longest = entries.iter().map(|entry| entry.chars().count()).max().unwrap_or(0);
        let wide = (longest as f64 * 6.2 + 30.0).min(width);
        let columns = ((width / wide) as usize).max(1);
        let rows = entries.len().div_ceil(columns);
        for (at, entry) in entries.iter().enumerate() {
            let (x, y) = (MARGIN + (at / rows) as f64 * wide, y + (at % rows) as f64 * 17.0);
            let fitting = ((wide - 24.0) / 6.2) as usize;
            let entry = match entry.chars().count() > fitting {
                true => entry.chars().take(fitting.max(1) - 1).chain("…".chars()).collect(),
                false => entry.clone(),
            };
            let fill =
                if self.is_narrow(&self.bindings[at].1) { colour(at).0 } else { "#fff".into() };
            let line = if fill == "#fff" { "#9aa5b1" } else { fill.as_str() };
            frame(out, x, y, Size { width: 11.0, height: 11.0 }, 2.0, &fill, line);
            out.label("l", (x + 17.0, y + 9.5), &entry);
        }
        let barred = self.topology.allowed().len() < self.topology.machine_cpuset().len();
        let mut y = y + rows as f64 * 17.0;
        if barred {
            let square = Size { width: 11.0, height: 11.0 };
            frame(out, MARGIN, y, square, 2.0, "url(#no)", "#cbd2d9");
            out.label("l", (MARGIN + 17.0, y + 9.5), "may not be used by this job");
            y += 17.0;
        }
        y
    }
}

struct Grid {
    cell: Size,
    columns: usize,
    rows: usize,
}

impl Grid {
    fn width(&self) -> f64 {
        self.columns as f64 * (self.cell.width + GAP) - GAP
    }

    fn height(&self) -> f64 {
        self.rows as f64 * (self.cell.height + GAP) - GAP
    }
}

/// Splits parts into runs of only cores, or only boxes.
fn runs<'b, 'c>(parts: &'b [Part<'c>]) -> impl Iterator<Item = &'b [Part<'c>]> {
    parts.chunk_by(|a, b| a.is_unit() == b.is_unit())
}

/// Returns objects with a capacity, which are drawn as bars across the box.
fn bars<'b>(part: &'b Part<'_>) -> Vec<&'b Object> {
    use ObjectType::{L1Cache, L2Cache, L3Cache, NumaNode};
    let is_bar = |kind| matches!(kind, NumaNode | L3Cache | L2Cache | L1Cache);
    part.objects.iter().copied().filter(|object| is_bar(object.kind)).collect()
}

fn bars_width(part: &Part<'_>) -> f64 {
    let widths = bars(part).into_iter().map(|object| label(object).chars().count() as f64 * 6.0);
    widths.fold(0.0, f64::max) + 2.0 * GAP + 12.0
}

/// Returns the names of the objects that are only boxes.
fn title(part: &Part<'_>) -> String {
    let boxes = part
        .objects
        .iter()
        .filter(|object| matches!(object.kind, ObjectType::Package | ObjectType::Die));
    boxes.map(|object| name(object)).collect::<Vec<_>>().join(" · ")
}

fn colour(at: usize) -> (String, &'static str) {
    match COLOURS.get(at) {
        Some((fill, ink)) => ((*fill).to_owned(), ink),
        // The golden angle separates neighbours, whatever their number.
        None => (format!("hsl({},52%,{}%)", at * 137 % 360, 38 + at % 3 * 7), "#fff"),
    }
}

fn frame(out: &mut Svg, x: f64, y: f64, size: Size, round: f64, fill: &str, line: &str) {
    out.rounded((x, y), (size.width, size.height), round, fill, Some(line));
}

fn bar(out: &mut Svg, object: &Object, label: &str, x: f64, y: f64, width: f64) {
    let (fill, line, class) = match object.kind {
        ObjectType::NumaNode => ("#cfe8d5", "#8cc39b", "m"),
        ObjectType::L3Cache => ("#d5e0f2", "#a3b7d9", "b"),
        ObjectType::L2Cache => ("#e2eaf6", "#b9c8e1", "b"),
        _ => ("#eef3fa", "#cbd6e8", "b"),
    };
    frame(out, x, y, Size { width, height: BAR }, 2.5, fill, line);
    // Narrow bars in cores only have the size.
    let fits = label.chars().count() as f64 * 5.3 + 6.0 <= width;
    let label = if fits { label } else { label.split(' ').next().unwrap_or_default() };
    out.label(class, (x + 5.0, y + 11.5), label);
}

/// Breaks a text that would be wider than the picture; `letter` is the mean width of a letter.
fn lines(text: &str, width: f64, letter: f64) -> Vec<String> {
    wrap(text, ((width / letter) as usize).max(20))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quo::topology::Origin;

    use crate::draw;

    fn machine(text: &str) -> Topology {
        Topology::from_synthetic(text).unwrap()
    }

    /// Checks that every element is closed and nothing is drawn outside the picture.
    fn check(svg: &str) -> usize {
        let document = roxmltree::Document::parse(svg).unwrap();
        let number = |element: roxmltree::Node<'_, '_>, name| {
            element.attribute(name).map(|text| text.parse::<f64>().unwrap())
        };
        let root = document.root_element();
        let (width, height) = (number(root, "width").unwrap(), number(root, "height").unwrap());
        let named = |name| root.descendants().filter(move |it| it.tag_name().name() == name);
        for rect in named("rect") {
            let (wide, high) = (number(rect, "width").unwrap(), number(rect, "height").unwrap());
            let (x, y) = (number(rect, "x").unwrap_or(0.0), number(rect, "y").unwrap_or(0.0));
            assert!(x >= 0.0 && y >= 0.0 && wide >= 0.0, "{x} {y} {wide}");
            assert!(x + wide <= width && y + high <= height, "{x}+{wide} {y}+{high}");
        }
        named("text").count()
    }

    #[test]
    fn every_shape_gives_a_well_formed_picture_within_its_bounds() {
        for text in [
            "1",
            "4",
            "package:2 [numa] l3:2 l2:2 l1:1 core:1 pu:2",
            "package:2 die:4 numa:1 core:3 pu:8",
            "[numa] package:2 [numa] [numa] core:2 pu:1",
            "package:8 core:72 pu:2",
        ] {
            let machine = machine(text);
            let texts = check(&draw(&machine).to_svg());
            assert!(texts >= machine.count(ObjectType::Pu), "{text}: {texts}");
        }
    }

    #[test]
    fn bindings_are_marked_on_their_pus_and_listed() {
        let machine = machine("package:2 core:2 pu:2");
        let bind = |label: &str, cpus: &str| (label.to_owned(), cpus.parse().unwrap());
        let bindings = [bind("rank 0", "0-1"), bind("rank 1", "4-7"), bind("rank 2", "0-7")];
        let svg = draw(&machine).bindings(&bindings).to_svg();
        check(&svg);
        assert_eq!(svg.matches("fill=\"#3f72af\"").count(), 2 + 1);
        assert_eq!(svg.matches("fill=\"#f28e2b\"").count(), 4 + 1);
        assert!(svg.contains("rank 1: 4-7 (package 1)"));
        assert!(svg.contains("rank 2: 0-7 (everywhere)"));
        let many: Vec<_> = (0..64).map(|rank| bind(&format!("rank {rank}"), "0-3")).collect();
        check(&draw(&machine).bindings(&many).to_svg());
    }

    #[test]
    fn disallowed_pus_are_hatched() {
        let machine = machine("core:4 pu:1").with_allowed(&"0-2".parse().unwrap()).unwrap();
        let svg = draw(&machine).to_svg();
        assert_eq!(svg.matches("url(#no)").count(), 1 + 1);
    }

    #[test]
    fn names_cannot_break_out_of_their_text() {
        let pu = Object::new(ObjectType::Pu, CpuSet::single(0));
        let whole = Object::new(ObjectType::Machine, CpuSet::single(0));
        let objects = [pu, whole.with_name("</text><script>\u{1}\"&")];
        let machine = Topology::from_objects(objects, &CpuSet::single(0), Origin::Built).unwrap();
        let svg = draw(&machine).to_svg();
        check(&svg);
        assert!(!svg.contains("<script"));
    }
}
