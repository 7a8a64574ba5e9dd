//! Checks a synthetic string before hwloc gets it.
//!
//! hwloc understands the language; the checks here concern texts that hwloc does not check (sizes
//! that exhaust the memory, types and numberings on which it ends the process) or does not explain
//! (the most common mistakes).

use crate::CpuSet;

use super::{MAX_CPU, MAX_PUS};

/// Length of the longest text; explicit PU numbers of the largest machine fit.
const MAX_BYTES: usize = 1 << 17;

/// Maximum number of words that hwloc may have to compare: it compares each new object with its
/// siblings, word by word of their sets. This many words take about two seconds; the largest
/// machine ever built takes a tenth of that.
const MOST_COMPARED: usize = 1 << 30;

/// Names of levels, which hwloc accepts shortened to two letters or more.
const TYPES: [&str; 8] = ["package", "socket", "numanode", "node", "die", "core", "group", "pu"];

/// The text of one level: `core:4(indexes=…)` or `[numa(memory=…)]`.
struct Part<'a> {
    level: &'a str,
    attributes: &'a str,
}

/// Names the fault of a text that must not reach hwloc.
pub(super) fn look_over(text: &str) -> Result<(), String> {
    if text.trim().is_empty() {
        return Err("it is empty".to_owned());
    }
    if text.len() > MAX_BYTES {
        return Err(format!("it is {} bytes long", text.len()));
    }
    if let Some(odd) = text.chars().find(|c| !(c.is_ascii_graphic() || *c == ' ')) {
        return Err(format!("it has the character {odd:?}"));
    }
    let mut pus = 1_usize;
    let mut siblings = 0_usize;
    let mut above: Vec<&str> = Vec::new();
    let mut last = "";
    for part in parts(text)? {
        if !part.level.is_empty() && !part.level.starts_with('[') {
            let (kind, count) = level(part.level)?;
            pus = pus.saturating_mul(count);
            if pus > MAX_PUS {
                return Err(format!("it has more than {MAX_PUS} PUs"));
            }
            siblings += count;
            above.push(kind);
            last = kind;
        }
        numbering(part.attributes, &above)?;
    }
    if pus * siblings * pus.div_ceil(64) > MOST_COMPARED {
        return Err(format!(
            "its {pus} PUs are in too few levels for hwloc to put them in order in reasonable time"
        ));
    }
    // A level without a type, as in `2 4 2`, gets one from hwloc; the last becomes the PUs.
    if !last.is_empty() && !last.eq_ignore_ascii_case("pu") {
        return Err("its last level must be the PUs of a core, as in `core:4 pu:1`".to_owned());
    }
    Ok(())
}

/// Parses the type of a level, empty if none is given, and its count.
fn level(text: &str) -> Result<(&str, usize), String> {
    let (kind, count) = match text.split_once(':') {
        Some(("", _)) => return Err(format!("`{text}` has no type")),
        Some(parts) => parts,
        None if text.starts_with(|c: char| c.is_ascii_digit()) => ("", text),
        None => return Err(format!("`{text}` has no count, as in `{text}:2`")),
    };
    if !kind.is_empty() && !is_type(kind) {
        return Err(format!("`{kind}` is not one of {}, l1 to l5", TYPES.join(", ")));
    }
    match count.parse::<usize>() {
        Ok(0) => Err(format!("`{text}` has a count of zero")),
        Ok(count) => Ok((kind, count)),
        Err(_) if !count.is_empty() && count.bytes().all(|byte| byte.is_ascii_digit()) => {
            Ok((kind, usize::MAX))
        }
        Err(_) => Err(format!("the count of `{text}` is not a number")),
    }
}

fn is_type(kind: &str) -> bool {
    let kind = kind.to_ascii_lowercase();
    let kind = kind.as_str();
    let cache = kind.strip_prefix('l').and_then(|rest| rest.chars().next());
    // Also written with a suffix: `l1d`, `l2cache`, `numanode`.
    cache.is_some_and(|level| ('1'..='5').contains(&level))
        || matches!(kind, "numanode" | "l1icache")
        || kind.len() >= 2 && TYPES.iter().any(|name| name.starts_with(kind))
}

/// Checks a numbering. Numbers may be listed, interleaved by steps (`2*4:1*2`), or given by the
/// types of levels at or above the numbered one; hwloc ends the process on a level below.
fn numbering(attributes: &str, above: &[&str]) -> Result<(), String> {
    for indexes in attributes.split("indexes=").skip(1) {
        let end = indexes.find([' ', ')']).unwrap_or(indexes.len());
        let indexes = &indexes[..end];
        let mut listed = CpuSet::new();
        for word in indexes.split(|c: char| !c.is_ascii_alphanumeric()) {
            match word.parse::<usize>() {
                Ok(number) if number <= MAX_CPU && indexes.contains(['*', ':']) => {}
                Ok(number) if number <= MAX_CPU && listed.contains(number) => {
                    return Err(format!("`indexes={indexes}` has {number} twice"));
                }
                Ok(number) if number <= MAX_CPU => listed.insert(number),
                Err(_) if word.is_empty() => {}
                Err(_) if above.iter().any(|kind| kind.eq_ignore_ascii_case(word)) => {}
                Err(_) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    return Err(format!("there is no level `{word}` above `indexes={indexes}`"));
                }
                _ => return Err(format!("the index {word} is larger than {MAX_CPU}")),
            }
        }
    }
    Ok(())
}

/// Cuts the text into levels with their attributes; a part in square brackets is one level.
fn parts(text: &str) -> Result<Vec<Part<'_>>, String> {
    let mut parts = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let memory = rest.starts_with('[');
        let end = if memory {
            1 + rest.find(']').ok_or("a `]` is missing")?
        } else {
            rest.find([' ', '(', '[']).unwrap_or(rest.len())
        };
        let (level, after) = rest.split_at(end);
        if let Some(stray) = level.find([')', ']']).filter(|_| !memory) {
            return Err(format!("a `{}` closes nothing", &level[stray..=stray]));
        }
        let (attributes, after) = match after.strip_prefix('(') {
            Some(inside) => {
                let end = inside.find(')').ok_or("a `)` is missing")?;
                (&inside[..end], &inside[end + 1..])
            }
            None => ("", after),
        };
        if memory {
            let open = level.matches('(').count();
            if open != level.matches(')').count() || open > 1 {
                return Err(format!("the brackets of `{level}` do not match"));
            }
            parts.push(Part { level, attributes: level });
        }
        parts.push(Part { level: if memory { "" } else { level }, attributes });
        rest = after.trim_start();
    }
    Ok(parts)
}
