//! Pictures of a machine: nested boxes, as text for a terminal and as SVG.

mod parts;
mod picture;

use std::fmt;

use quo::CpuSet;
use quo::topology::{CoreKind, ObjectType, Topology};

use parts::{Part, heading, label, name, summary};

/// A picture of a machine: text by [`Display`](fmt::Display), or [`to_svg`](Self::to_svg).
///
/// ```
/// let machine = quo::Topology::from_synthetic("package:2 core:4 pu:2")?;
/// let text = quo_machine_picture::draw(&machine).width(60).to_string();
/// assert!(text.contains("package 1"));
/// assert!(text.lines().all(|line| line.chars().count() <= 60));
/// # Ok::<(), quo::topology::TopologyError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Drawing<'a> {
    topology: &'a Topology,
    bindings: &'a [(String, CpuSet)],
    width: usize,
    height: usize,
}

/// Returns a picture of the machine.
pub fn draw(topology: &Topology) -> Drawing<'_> {
    Drawing { topology, bindings: &[], width: 100, height: 60 }
}

impl<'a> Drawing<'a> {
    /// Sets the columns of text, at least 40; the default is 100.
    pub fn width(mut self, columns: usize) -> Self {
        self.width = columns.max(40);
        self
    }

    /// Sets the lines of text above which repeated parts are folded; the default is 60.
    pub fn height(mut self, lines: usize) -> Self {
        self.height = lines;
        self
    }

    /// Marks bindings: a label, such as a rank, and its CPUs.
    pub fn bindings(mut self, bindings: &'a [(String, CpuSet)]) -> Self {
        self.bindings = bindings;
        self
    }
}

impl fmt::Display for Drawing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let root = Part::of(self.topology);
        let mut canvas = Canvas { topology: self.topology, fold: false };
        let mut lines = canvas.inside(&root, self.width);
        if lines.len() > self.height {
            canvas.fold = true;
            lines = canvas.inside(&root, self.width);
        }
        for line in wrap(&heading(self.topology), self.width) {
            writeln!(out, "{line}")?;
        }
        for line in wrap(&summary(self.topology), self.width) {
            writeln!(out, "{line}")?;
        }
        for line in lines {
            writeln!(out, "{}", line.trim_end())?;
        }
        for node in self.topology.objects(ObjectType::NumaNode) {
            if node.cpuset.is_empty() {
                writeln!(out, "{}, memory without CPUs", label(node))?;
            }
        }
        for line in core_kinds(self.topology) {
            for line in wrap(&line, self.width) {
                writeln!(out, "{line}")?;
            }
        }
        for device in self.topology.devices() {
            for line in wrap(&device.to_string(), self.width) {
                writeln!(out, "{line}")?;
            }
        }
        if self.topology.allowed().len() < self.topology.machine_cpuset().len() {
            writeln!(out, "× may not be used by this job")?;
        }
        let longest = self.bindings.iter().map(|(label, _)| label.chars().count()).max();
        for (label, cpus) in self.bindings {
            let place =
                format!("{label:<0$}  {1}", longest.unwrap_or(0), place(self.topology, cpus));
            for line in wrap(&place, self.width) {
                writeln!(out, "{line}")?;
            }
        }
        Ok(())
    }
}

/// Returns lines such as `core kind 1: CPUs 0-11 (IntelCore, speed 4700)`, one for each kind if
/// there are several.
fn core_kinds(topology: &Topology) -> Vec<String> {
    let kinds = topology.core_kinds();
    if kinds.len() < 2 {
        return Vec::new();
    }
    let line = |(index, kind): (usize, &CoreKind)| {
        let speed = if kind.speed == 0 { String::new() } else { format!("speed {}", kind.speed) };
        let told = [kind.name.clone(), speed].into_iter().filter(|text| !text.is_empty());
        let told = told.collect::<Vec<_>>().join(", ");
        let told = if told.is_empty() { "of unknown speed".to_owned() } else { told };
        format!("core kind {index}: CPUs {} ({told})", kind.cpuset)
    };
    kinds.iter().enumerate().map(line).collect()
}

/// Returns the CPUs and the smallest object that contains them: `8-15 (package 1)` or `8-9 (in
/// package 1)`.
pub(crate) fn place(topology: &Topology, cpus: &CpuSet) -> String {
    const NAMED: [ObjectType; 8] = [
        ObjectType::Machine,
        ObjectType::Core,
        ObjectType::Package,
        ObjectType::NumaNode,
        ObjectType::Die,
        ObjectType::L3Cache,
        ObjectType::L2Cache,
        ObjectType::L1Cache,
    ];
    if cpus.is_empty() {
        return "no CPU".to_owned();
    }
    let around = NAMED.iter().filter_map(|&kind| topology.enclosing(kind, cpus));
    match around.min_by_key(|object| object.cpuset.len()) {
        Some(object) if object.kind == ObjectType::Machine && cpus == &object.cpuset => {
            format!("{cpus} (everywhere)")
        }
        Some(object) if object.kind == ObjectType::Machine => cpus.to_string(),
        Some(object) if cpus == &object.cpuset => format!("{cpus} ({})", name(object)),
        Some(object) => format!("{cpus} (in {})", name(object)),
        None => format!("{cpus} (not of this machine)"),
    }
}

/// Wraps a text between words; a word longer than a line is cut.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let length = lines.last().map_or(0, |line| line.chars().count());
        let mut word: Vec<char> = word.chars().collect();
        if length > 0 && length + 1 + word.len() <= width {
            lines.last_mut().into_iter().for_each(|line| line.push(' '));
        } else if length > 0 {
            lines.push(String::new());
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.last_mut().into_iter().for_each(|line| line.extend(&word));
            lines.push(String::new());
            word = rest;
        }
        lines.last_mut().into_iter().for_each(|line| line.extend(&word));
    }
    lines
}

struct Canvas<'a> {
    topology: &'a Topology,
    fold: bool,
}

impl Canvas<'_> {
    /// Draws the inside of a part: lines of exactly `width` columns.
    fn inside(&mut self, part: &Part<'_>, width: usize) -> Vec<String> {
        let mut lines = Vec::new();
        let mut rest = &part.children[..];
        while let Some(first) = rest.first() {
            let run = rest.iter().take_while(|child| child.is_unit() == first.is_unit()).count();
            let (now, later) = rest.split_at(run);
            if first.is_unit() {
                self.units(now, width, &mut lines);
            } else {
                self.boxes(now, width, &mut lines);
            }
            rest = later;
        }
        lines
    }

    /// Draws cores in rows, each as the numbers of its PUs.
    fn units(&self, units: &[Part<'_>], width: usize, lines: &mut Vec<String>) {
        let cells: Vec<String> = units.iter().map(|unit| self.cell(unit)).collect();
        let widest = cells.iter().map(|cell| cell.chars().count()).max().unwrap_or(0);
        let fitting = ((width - 2 + 2) / (widest + 2)).max(1);
        // Rows of equal length, of 8 or 16 where they fit, are easier to count.
        let rows = cells.len().div_ceil(fitting);
        let even =
            [32, 16, 8, 4].into_iter().find(|&n| n <= fitting && cells.len().is_multiple_of(n));
        let row = match even.filter(|&n| cells.len() / n <= rows + rows / 2) {
            Some(even) if cells.len() > fitting => even,
            _ => cells.len().div_ceil(rows),
        };
        for row in cells.chunks(row) {
            let text: Vec<String> = row.iter().map(|cell| format!("{cell:>widest$}")).collect();
            lines.push(fit(&format!(" {}", text.join("  ")), width));
        }
    }

    fn cell(&self, unit: &Part<'_>) -> String {
        let allowed = self.topology.allowed();
        let number = |cpu: usize| match allowed.contains(cpu) {
            true => cpu.to_string(),
            false => format!("×{cpu}"),
        };
        unit.pus().into_iter().map(number).collect::<Vec<_>>().join("·")
    }

    /// Draws boxes side by side where they fit.
    fn boxes(&mut self, boxes: &[Part<'_>], width: usize, lines: &mut Vec<String>) {
        let (shown, hidden) = self.folding(boxes);
        let needed = shown.iter().map(|part| self.needs(part)).max().unwrap_or(0);
        let fitting = ((width + 1) / (needed + 1)).clamp(1, shown.len().max(1));
        let rows = shown.len().div_ceil(fitting);
        let columns = shown.len().div_ceil(rows.max(1)).max(1);
        let each = (width + 1) / columns - 1;
        for row in shown.chunks(columns) {
            let drawn: Vec<Vec<String>> = row.iter().map(|part| self.framed(part, each)).collect();
            let height = drawn.iter().map(Vec::len).max().unwrap_or(0);
            for line in 0..height {
                let blank = " ".repeat(each);
                let cells: Vec<&str> = drawn
                    .iter()
                    .map(|lines| lines.get(line).map_or(blank.as_str(), String::as_str))
                    .collect();
                lines.push(fit(&cells.join(" "), width));
            }
        }
        if let Some(hidden) = hidden {
            for line in wrap(&hidden, width - 1) {
                lines.push(fit(&format!(" {line}"), width));
            }
        }
    }

    /// Folds parts: of three or more parts of one shape the first is drawn and the others are
    /// summarised.
    fn folding<'b, 'c>(&mut self, parts: &'b [Part<'c>]) -> (Vec<&'b Part<'c>>, Option<String>) {
        let allowed = self.topology.allowed();
        let (Some(first), Some(last)) = (parts.first(), parts.last()) else {
            return (Vec::new(), None);
        };
        let shape = first.shape(allowed);
        let alike = || parts.iter().all(|part| part.shape(allowed) == shape);
        if !self.fold || parts.len() < 3 || !alike() {
            return (parts.iter().collect(), None);
        }
        let called =
            |part: &Part<'_>| part.objects.first().map_or(String::new(), |object| name(object));
        let (second, others) = (&parts[1], parts.len() - 1);
        let cpus = parts[1..].iter().fold(CpuSet::new(), |set, part| set.union(part.cpus));
        let text = format!(
            "and {others} more like it, {} to {}: PUs {cpus}",
            called(second),
            called(last)
        );
        (vec![first], Some(text))
    }

    /// Returns the width below which a part is hard to read.
    fn needs(&self, part: &Part<'_>) -> usize {
        let title = part.title().chars().count().min(44) + 5;
        let inside = part.children.iter().map(|child| match child.is_unit() {
            true => {
                let beside = part.children.iter().filter(|child| child.is_unit()).count().min(4);
                (self.cell(child).chars().count() + 2) * beside + 2
            }
            false => self.needs(child) + 2,
        });
        inside.max().unwrap_or(0).max(title)
    }

    fn framed(&mut self, part: &Part<'_>, width: usize) -> Vec<String> {
        let title = part.title();
        let room = width - 5;
        let title = match title.chars().count() > room {
            true => title.chars().take(room - 1).chain("…".chars()).collect(),
            false => title,
        };
        let dashes = "─".repeat(width - 5 - title.chars().count());
        let mut lines = vec![format!("┌─ {title} {dashes}┐")];
        let inside = self.inside(part, width - 2);
        lines.extend(inside.into_iter().map(|line| format!("│{line}│")));
        lines.push(format!("└{}┘", "─".repeat(width - 2)));
        lines
    }
}

fn fit(line: &str, width: usize) -> String {
    let length = line.chars().count();
    match length > width {
        true => line.chars().take(width).collect(),
        false => format!("{line}{}", " ".repeat(width - length)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn machine(text: &str) -> Topology {
        Topology::from_synthetic(text).unwrap()
    }

    #[test]
    fn a_small_machine_is_drawn_whole() {
        let machine = machine("package:2 [numa(memory=8GiB)] core:2 pu:2");
        let machine = machine.with_allowed(&"0-6".parse().unwrap()).unwrap();
        let bindings = [("rank 0".to_owned(), "0-3".parse().unwrap())];
        let text = draw(&machine).width(60).bindings(&bindings).to_string();
        assert_eq!(
            text,
            "\
simulated: package:2 [numa(memory=8GiB)] core:2 pu:2
2 NUMA nodes 16 GiB · 2 packages · 4 cores · 8 PUs · 7
allowed
┌─ package 0 · NUMA 0 8 GiB ┐ ┌─ package 1 · NUMA 1 8 GiB ┐
│ 0·1  2·3                  │ │  4·5  6·×7                │
└───────────────────────────┘ └───────────────────────────┘
× may not be used by this job
rank 0  0-3 (package 0)
"
        );
    }

    #[test]
    fn a_large_machine_is_folded_and_no_pu_is_lost() {
        let machine = machine("package:16 core:60 pu:2");
        let text = draw(&machine).to_string();
        assert!(text.lines().count() < 30, "{text}");
        assert!(text.contains("and 15 more like it, package 1 to package 15: PUs 120-1919"));
        let unfolded = draw(&machine).height(usize::MAX).to_string();
        assert!(unfolded.contains("1918·1919"));
    }

    #[test]
    fn places_are_named_by_the_smallest_object() {
        let machine = machine("package:2 core:2 pu:2");
        for (cpus, text) in [
            ("", "no CPU"),
            ("0-3", "0-3 (package 0)"),
            ("1-2", "1-2 (in package 0)"),
            ("7", "7 (in core 3)"),
            ("3-4", "3-4"),
            ("0-7", "0-7 (everywhere)"),
            ("9", "9 (not of this machine)"),
        ] {
            assert_eq!(place(&machine, &cpus.parse().unwrap()), text);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn no_line_is_wider_than_asked(
            packages in 1..5_usize, dies in 1..4_usize, cores in 1..40_usize, pus in 1..5_usize,
            width in 40..200_usize, height in 5..80_usize,
        ) {
            let machine = machine(&format!("package:{packages} numa:{dies} l3:1 core:{cores} pu:{pus}"));
            let text = draw(&machine).width(width).height(height).to_string();
            for line in text.lines() {
                prop_assert!(line.chars().count() <= width, "{line}");
                prop_assert!(!line.starts_with('│') || line.ends_with('│') || line.contains("more like"), "{line}");
            }
        }
    }
}
