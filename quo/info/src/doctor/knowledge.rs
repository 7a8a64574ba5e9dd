//! The table of situations: consequence, remedy and source of each, as data.

use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

const TABLE: &str = include_str!("knowledge.toml");

/// How much a situation matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// Something will not work.
    Error,
    /// Something works differently from what most expect.
    Warning,
    /// Worth knowing.
    Note,
}

/// One situation.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Situation {
    pub id: String,
    pub level: Level,
    /// The first version that behaves so.
    pub from: Option<String>,
    /// The first version that does not.
    pub before: Option<String>,
    /// Consequence.
    pub what: String,
    /// Remedy.
    #[serde(rename = "do")]
    pub remedy: String,
    /// Name of the script in `findings/` that shows it.
    pub finding: Option<String>,
    /// Page in `docs/` that explains it.
    pub page: Option<String>,
}

#[derive(Deserialize)]
struct Table {
    situation: Vec<Situation>,
}

/// Returns all situations.
///
/// # Panics
/// If the table of this program is not valid, which a test excludes.
pub fn all() -> &'static [Situation] {
    static ALL: OnceLock<Vec<Situation>> = OnceLock::new();
    #[allow(clippy::expect_used)] // The table is part of the program, and tested.
    ALL.get_or_init(|| toml::from_str::<Table>(TABLE).expect("the table is valid").situation)
}

/// Returns a situation by its name.
pub fn named(id: &str) -> Option<&'static Situation> {
    all().iter().find(|situation| situation.id == id)
}

impl Situation {
    /// Returns true if the situation exists in this version; an unknown version may have it.
    pub fn concerns(&self, version: Option<&str>) -> bool {
        let Some(version) = version.map(numbers) else { return true };
        let is_later =
            |bound: &Option<String>| bound.as_deref().is_none_or(|it| version >= numbers(it));
        let is_earlier =
            |bound: &Option<String>| bound.as_deref().is_none_or(|it| version < numbers(it));
        is_later(&self.from) && is_earlier(&self.before)
    }

    /// Returns where the situation is shown or explained, from the root of the project.
    pub fn source(&self) -> String {
        match (&self.finding, &self.page) {
            (Some(finding), _) => format!("findings/{finding}.sh"),
            (None, page) => format!("docs/{}", page.as_deref().unwrap_or_default()),
        }
    }
}

/// Returns the numbers of a version: `5.0.11rc1` is 5, 0, 11.
fn numbers(version: &str) -> [u64; 3] {
    let mut parts = version.split('.').map(|part| {
        let digits: String = part.chars().take_while(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    });
    std::array::from_fn(|_| parts.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_situation_has_a_text_and_a_source() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        for it in all() {
            assert!(!it.what.ends_with('.') && !it.remedy.ends_with('.'), "{}", it.id);
            assert!(it.finding.is_some() != it.page.is_some(), "{}: one source", it.id);
            let source = it.source();
            let (path, anchor) = source.split_once('#').unwrap_or((&source, ""));
            let text = std::fs::read_to_string(root.join(path)).expect(&source);
            assert!(anchor.is_empty() || headings(&text).any(|it| it == anchor), "{source}");
        }
    }

    /// Returns the anchors of a page's headings.
    fn headings(text: &str) -> impl Iterator<Item = String> {
        text.lines().filter(|line| line.starts_with('#')).map(|line| {
            let heading = line.trim_start_matches('#').trim().to_lowercase();
            let kept = |letter: &char| letter.is_alphanumeric() || [' ', '-', '_'].contains(letter);
            heading.chars().filter(kept).collect::<String>().replace(' ', "-")
        })
    }

    #[test]
    fn names_of_situations_are_unique() {
        let mut names: Vec<_> = all().iter().map(|it| &it.id).collect();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), all().len());
    }

    #[test]
    fn versions_limit_a_situation_by_number() {
        let it = named("openmpi5-ipv6").unwrap();
        for (version, expected) in [
            ("5.0.0", true),
            ("5.0.7", true),
            ("5.0.8", false),
            ("5.0.11", false),
            ("4.1.4", false),
        ] {
            assert_eq!(it.concerns(Some(version)), expected, "{version}");
        }
        assert!(it.concerns(None), "an unknown version may have it");
        assert_eq!(numbers("22.05.8"), [22, 5, 8]);
        assert_eq!(numbers("4.1.7rc1"), [4, 1, 7]);
    }
}
