//! Checks names of tests: they are short, and those in the checklists exist in the sources.

use std::collections::BTreeSet;

/// Pages that name the test of each row.
pub const CHECKLISTS: &[&str] = &["docs/elastic-checklist.md"];

/// Stands for the omitted part of a name.
const CUT: char = '…';

/// Adds the names by which a source may define tests: functions, and the words of tables of tests.
pub fn collect(source: &str, names: &mut BTreeSet<String>) {
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let functions = source.split("fn ").skip(1).filter_map(|rest| rest.split_once('('));
    let quoted = source.split('"').map(|word| (word, ""));
    let words = functions.chain(quoted).map(|(word, _)| word);
    names.extend(
        words.filter(|word| is_test(word) && word.chars().all(is_of_name)).map(str::to_owned),
    );
}

/// Maximum number of words of a test's name.
const MOST_WORDS: usize = 10;

/// Returns the tests of a source with too long names: functions with the attribute, and rows of
/// tables of tests.
pub fn too_long(source: &str) -> Vec<String> {
    let functions = source.split("#[test]").skip(1).filter_map(|rest| {
        let (_, rest) = rest.split_once("fn ")?;
        Some(rest.split_once('(')?.0)
    });
    let rows = source.split("\n    (\"").skip(1).filter_map(|rest| Some(rest.split_once('"')?.0));
    let names = functions.chain(rows);
    let long = names.filter(|name| is_test(name) && name.split('_').count() > MOST_WORDS);
    long.map(str::to_owned).collect()
}

/// Returns the tests in a page that no source defines, one line each.
pub fn unknown(page: &str, text: &str, names: &BTreeSet<String>) -> Vec<String> {
    let mut errors = Vec::new();
    for (number, line) in text.lines().enumerate() {
        for word in line.split(['*', '`', '"']).filter(|word| is_test(word)) {
            let part = word.trim_matches(CUT);
            let is_it = |name: &String| match (word.starts_with(CUT), word.ends_with(CUT)) {
                (false, false) => name == part,
                (false, true) => name.starts_with(part),
                (true, false) => name.ends_with(part),
                (true, true) => name.contains(part),
            };
            if !names.iter().any(is_it) {
                errors.push(format!("{page}:{}: {word}: there is no such test", number + 1));
            }
        }
    }
    errors
}

/// Returns true for at least four lower-case words, or fewer where others are omitted.
fn is_test(word: &str) -> bool {
    let part = word.trim_matches(CUT);
    let is_of_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let least = if part == word { 4 } else { 2 };
    !part.starts_with('_') && part.split('_').count() >= least && part.chars().all(is_of_name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_more_than_ten_words_are_found() {
        // Built here, so that this file does not match itself.
        let [ten, eleven, twelve] = [10, 11, 12].map(|words| vec!["w"; words].join("_"));
        let test = concat!("#[te", "st]");
        let right = format!("{test}\nfn {ten}() {{}}\n    (\"{ten}\", f),\nfn {eleven}() {{}}");
        assert_eq!(too_long(&right), Vec::<String>::new());
        let wrong = format!("{test}\n#[cfg(unix)]\nfn {eleven}() {{}}\n    (\"{twelve}\", f),\n");
        assert_eq!(too_long(&wrong), [eleven, twelve]);
    }

    #[test]
    fn tests_without_source_are_found_with_their_line() {
        let mut names = BTreeSet::new();
        collect("fn ids_are_never_used() {}\n(\"a_world_grows_and_shrinks\", f),", &mut names);
        let right = "*ids_are_never_used*, `a_world_grows…`, `…_and_shrinks`, `World::back_end`, `cargo test`, *not here*";
        assert_eq!(unknown("page.md", right, &names), Vec::<String>::new());
        let wrong = unknown(
            "page.md",
            "\n*ids_are_never*\n*ids_are_never_used_again*, `a_job_grows…`",
            &names,
        );
        let expected = [
            "page.md:3: ids_are_never_used_again: there is no such test",
            "page.md:3: a_job_grows…: there is no such test",
        ];
        assert_eq!(wrong, expected);
    }
}
