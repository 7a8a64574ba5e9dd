//! The doctor's report: text and JSON.

use std::path::Path;

use serde::Serialize;

use super::facts::{Facts, Process};
use super::knowledge::{self, Level};
use super::mpi::Mpi;
use super::rules::Recognised;

/// A recognised situation with what the table says about it.
#[derive(Serialize)]
pub struct Line {
    pub level: Level,
    pub situation: &'static str,
    pub value: String,
    /// Ranks that it concerns; empty for the node or all.
    pub ranks: Vec<u64>,
    pub what: &'static str,
    #[serde(rename = "do")]
    pub remedy: &'static str,
    pub source: String,
}

#[derive(Serialize)]
struct Report<'a> {
    situations: &'a [Line],
    missing: &'a Option<String>,
    /// Number of situations that would have been recognised.
    known: usize,
    facts: &'a Facts,
}

/// Adds the table's texts.
pub fn lines(recognised: Vec<Recognised>, facts: &Facts) -> Vec<Line> {
    let all = facts.ranks.len();
    let texts = recognised.into_iter().filter_map(|it| Some((knowledge::named(it.id)?, it)));
    texts
        .map(|(known, it)| Line {
            level: known.level,
            situation: it.id,
            value: it.value,
            ranks: if it.ranks.len() == all { Vec::new() } else { it.ranks },
            what: &known.what,
            remedy: &known.remedy,
            source: installed(known.source()),
        })
        .collect()
}

/// Returns the path of a page in this command's installation; its path in the sources if it has
/// none there.
fn installed(page: String) -> String {
    let command = std::env::current_exe().unwrap_or_default();
    let prefix = command.parent().and_then(Path::parent).unwrap_or(Path::new(""));
    let path = prefix.join("share/doc/quo").join(&page);
    let file = path.to_str().and_then(|path| path.split('#').next()).map(Path::new);
    if file.is_some_and(Path::is_file) { path.display().to_string() } else { page }
}

/// Returns true if something will not work.
pub fn has_errors(lines: &[Line], facts: &Facts) -> bool {
    facts.missing.is_some() || lines.iter().any(|line| line.level == Level::Error)
}

pub fn json(lines: &[Line], facts: &Facts) -> serde_json::Result<serde_json::Value> {
    let known = knowledge::all().len();
    serde_json::to_value(Report { situations: lines, missing: &facts.missing, known, facts })
}

pub fn text(lines: &[Line], facts: &Facts, width: usize) -> String {
    let mut text = subject(facts);
    if let Some(missing) = &facts.missing {
        text += &paragraph("error: ", missing, width);
    }
    for line in lines {
        text.push('\n');
        let level = match line.level {
            Level::Error => "error: ",
            Level::Warning => "warning: ",
            Level::Note => "note: ",
        };
        let ranks = ranks(&line.ranks);
        text += &paragraph(level, &format!("{}{ranks}", line.value), width);
        text += &paragraph("    ", line.what, width);
        text += &paragraph("    do: ", line.remedy, width);
        text += &format!("    see {}\n", line.source);
    }
    let count = |level| lines.iter().filter(|line| line.level == level).count();
    let (errors, warnings, notes) =
        (count(Level::Error), count(Level::Warning), count(Level::Note));
    let missing = usize::from(facts.missing.is_some());
    text + &format!(
        "\n{} situations checked; errors: {}, warnings: {warnings}, notes: {notes}\n",
        knowledge::all().len(),
        errors + missing
    )
}

/// Returns the lines on what was examined.
fn subject(facts: &Facts) -> String {
    let (machine, here) = (&facts.machine, &facts.here);
    let mut text =
        format!("{}: CPUs {}, the caller may use {}\n", here.host, machine.online, here.mask);
    if let Some(first) = facts.ranks.first() {
        let mpi = first.mpi.as_deref().map_or_else(
            || "no MPI".to_owned(),
            |text| Mpi::of(text).map_or_else(|| "an unknown MPI".to_owned(), |mpi| mpi.to_string()),
        );
        let count = match facts.ranks.len() {
            1 => "1 process".to_owned(),
            count => format!("{count} ranks"),
        };
        text += &format!("{count} of {}, {mpi}{}\n", first.program, openmp(first));
    }
    if let Some(built_for) = &facts.built_for {
        text += &format!("quo was built for {built_for}\n");
    }
    text
}

fn openmp(process: &Process) -> String {
    let runtimes = [("libgomp.so", "GNU's"), ("libomp.so", "LLVM's"), ("libiomp5.so", "Intel's")];
    let loaded = runtimes.iter().filter(|(start, _)| process.has_object(start));
    let names: Vec<&str> = loaded.map(|(_, name)| *name).collect();
    if names.is_empty() { String::new() } else { format!(", {} OpenMP", names.join(" and ")) }
}

/// Returns ` (ranks 0, 1, 4)`; nothing for all.
fn ranks(ranks: &[u64]) -> String {
    let numbers: Vec<String> = ranks.iter().map(ToString::to_string).collect();
    match numbers.len() {
        0 => String::new(),
        1 => format!(" (rank {})", numbers[0]),
        _ => format!(" (ranks {})", numbers.join(", ")),
    }
}

/// Breaks a text into lines, the second and further ones indented below the first.
fn paragraph(start: &str, text: &str, width: usize) -> String {
    let indent = start.len().min(8);
    let lines = crate::output::fold(text, width.saturating_sub(indent.max(start.len())).max(20));
    let mut out = String::new();
    for (at, line) in lines.iter().enumerate() {
        if at == 0 {
            out += &format!("{start}{line}\n");
        } else {
            out += &format!("{:1$}{line}\n", "", indent);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::super::rules::{examples, recognise};
    use super::*;

    #[test]
    fn report_names_value_consequence_remedy_and_source() {
        let mut facts = examples::healthy();
        examples::set(&mut facts, "QUO_WAIT", "mpi");
        facts.ranks[1].environment.insert("OMP_NUM_THREADS".to_owned(), "0".to_owned());
        let lines = lines(recognise(&facts), &facts);
        let text = text(&lines, &facts, 80);
        for part in [
            "error: OMP_NUM_THREADS=0 (rank 1)\n",
            "    see findings/openmp_zero_threads_is_all_or_one.sh\n",
            "warning: QUO_WAIT=mpi\n",
            "    do: unset it\n",
            " situations checked; errors: 1, warnings: 2, notes: 0\n",
        ] {
            assert!(text.contains(part), "{part}\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(has_errors(&lines, &facts));
        let json = json(&lines, &facts).unwrap();
        assert_eq!(json["situations"][0]["situation"], "openmp-zero-threads");
        assert_eq!(json["facts"]["ranks"][1]["rank"], 1);
    }

    #[test]
    fn missing_ranks_are_an_error() {
        let mut facts = examples::healthy();
        assert!(!has_errors(&[], &facts));
        facts.missing = Some("1 of 2 ranks were examined".to_owned());
        assert!(has_errors(&[], &facts));
        assert!(text(&[], &facts, 80).contains("error: 1 of 2 ranks"));
    }
}
