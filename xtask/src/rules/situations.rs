//! The table in `docs/limitations.md` of what `quo-info doctor` recognises, written from its data.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result};
use serde::Deserialize;

/// The doctor's table, below the checkout.
const DATA: &str = "quo/info/src/doctor/knowledge.toml";
/// Page with the written table.
const PAGE: &str = "docs/limitations.md";
const BEGIN: &str = "<!-- written by `cargo xtask test --index` -->\n";
const END: &str = "<!-- end -->\n";

#[derive(Deserialize)]
struct Table {
    situation: Vec<Situation>,
}

#[derive(Deserialize)]
struct Situation {
    id: String,
    level: String,
    from: Option<String>,
    before: Option<String>,
    what: String,
    #[serde(rename = "do")]
    remedy: String,
    finding: Option<String>,
    page: Option<String>,
}

/// Writes the table into the page.
///
/// # Errors
/// If the data are not readable, or the page has no place for the table.
pub fn write(root: &Path) -> Result<()> {
    let (path, page) = (root.join(PAGE), current(root)?);
    fs::write(&path, page).with_context(|| format!("writing {}", path.display()))
}

/// Returns the difference between the page and the data.
pub fn wrong(root: &Path) -> Vec<String> {
    let page = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    match current(root) {
        Ok(wanted) if wanted == page => Vec::new(),
        Ok(_) => vec![format!("{PAGE}: differs from {DATA}: cargo xtask test --index")],
        Err(error) => vec![format!("{error:#}")],
    }
}

/// Returns the page with the table of the present data.
fn current(root: &Path) -> Result<String> {
    let read =
        |name: &str| fs::read_to_string(root.join(name)).with_context(|| format!("reading {name}"));
    let page = read(PAGE)?;
    let (before, rest) =
        page.split_once(BEGIN).with_context(|| format!("{PAGE} has no {BEGIN:?}"))?;
    let (_, after) = rest.split_once(END).with_context(|| format!("{PAGE} has no {END:?}"))?;
    Ok(format!("{before}{BEGIN}{}{END}{after}", table(&read(DATA)?)?))
}

fn table(data: &str) -> Result<String> {
    let table: Table = toml::from_str(data).with_context(|| format!("reading {DATA}"))?;
    let mut text =
        "\n| situation | what happens | what to do | more |\n|---|---|---|---|\n".to_owned();
    for it in &table.situation {
        let versions = match (&it.from, &it.before) {
            (Some(from), Some(before)) => format!(", {from} up to before {before}"),
            _ => String::new(),
        };
        let more = match (&it.finding, &it.page) {
            (Some(finding), _) => format!("[shown](../findings/{finding}.sh)"),
            (None, page) => format!(
                "[page]({})",
                page.as_deref().unwrap_or_default().trim_start_matches("limitations.md")
            ),
        };
        writeln!(
            text,
            "| `{}` ({}{versions}) | {} | {} | {more} |",
            it.id, it.level, it.what, it.remedy
        )?;
    }
    text.push('\n');
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_has_level_versions_texts_and_source() {
        let data = "[[situation]]\nid = \"a\"\nlevel = \"error\"\nfrom = \"5.0.0\"\nbefore = \"5.0.8\"\n\
                    what = \"it fails\"\ndo = \"another one\"\npage = \"limitations.md#x\"\n";
        let text = table(data).unwrap();
        let row =
            "| `a` (error, 5.0.0 up to before 5.0.8) | it fails | another one | [page](#x) |\n";
        assert!(text.contains(row), "{text}");
    }
}
