//! Counts turns of phrase in comments and pages that a reader of English stumbles over. Some of them
//! are right in their place, so the rule is a count that may only shrink.

/// Number of turns that the checkout may have. Lower it when there are fewer.
const MOST: usize = 555;
/// Number of turns by which [`MOST`] may be too high.
const LAG: usize = 20;

/// Phrases, each a sequence of words in lower case.
const TURNS: &[&[&str]] = &[
    &["tell"],
    &["tells"],
    &["told"],
    &["telling"],
    &["who"],
    &["whose"],
    &["whoever"],
    &["whom"],
    &["nobody"],
    &["somebody"],
    &["everybody"],
    &["anybody"],
    &["those", "that"],
    &["those", "who"],
    &["those", "of"],
    &["come"],
    &["comes"],
    &["go", "on"],
    &["goes", "on"],
    &["of", "its", "own"],
    &["of", "their", "own"],
    &["beside"],
    &["as", "far", "as"],
    &["all", "the", "same"],
    &["be", "it"],
    &["for", "ever"],
    &["at", "hand"],
    &["mend"],
    &["mends"],
    &["mended"],
    &["believes"],
];

/// Counts the turns in the comments of a Rust file or in the text of a page; 0 for other files.
pub fn turns(name: &str, text: &str) -> usize {
    let prose = match name.rsplit_once('.') {
        Some((_, "rs")) => comments(text),
        Some((_, "md")) if !name.ends_with("CHANGELOG.md") => outside_fences(text),
        _ => return 0,
    };
    let words: Vec<String> = prose
        .split(|letter: char| !letter.is_alphanumeric() && letter != '\'' && letter != '_')
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .collect();
    let begins = |at: usize, turn: &[&str]| {
        turn.iter().enumerate().all(|(next, word)| words.get(at + next).is_some_and(|w| w == word))
    };
    (0..words.len()).map(|at| TURNS.iter().filter(|turn| begins(at, turn)).count()).sum()
}

fn comments(text: &str) -> String {
    let comment = |line: &'_ str| line.split_once("//").map(|(_, rest)| format!("{rest}\n"));
    text.lines().filter_map(comment).collect()
}

fn outside_fences(text: &str) -> String {
    let mut inside = false;
    let mut prose = String::new();
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        inside ^= is_fence;
        if !inside && !is_fence {
            prose.push_str(line);
            prose.push('\n');
        }
    }
    prose
}

/// Returns an error if the count exceeds the limit, or the limit is outdated.
pub fn wrong(count: usize) -> Option<String> {
    judged(count, MOST)
}

fn judged(count: usize, most: usize) -> Option<String> {
    let (page, file) = ("docs/glossary.md", "xtask/src/rules/english.rs");
    if count > most {
        let more = count - most;
        return Some(format!(
            "comments and pages: {more} more turns such as `who`, `tells` or `those that` than the \
             {most} before: name the thing, in the terms of {page}"
        ));
    }
    (count + LAG < most).then(|| format!("{file}: only {count} turns are left: lower MOST"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_counted_in_comments_alone() {
        let source = "// Those that go on, for ever.\nlet who = \"nobody\"; // tells\n";
        assert_eq!(turns("a.rs", source), 4);
        assert_eq!(turns("a.toml", source), 0);
    }

    #[test]
    fn code_blocks_of_pages_do_not_count() {
        assert_eq!(turns("a.md", "It comes.\n```sh\nwho\n```\nNobody's.\n"), 1);
    }

    #[test]
    fn count_may_shrink_and_not_grow() {
        assert_eq!(judged(5, 5), None);
        assert!(judged(6, 5).is_some_and(|error| error.contains("1 more turns")));
        assert!(judged(5, 6 + LAG).is_some_and(|error| error.contains("lower MOST")));
    }
}
