//! Checks that the public names of the crate `quo`, module by module, are those that
//! `xtask/surface.txt` lists: the public interface grows only on purpose.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Path of the list, below the checkout: one name a line, with its module.
const LIST: &str = "xtask/surface.txt";

/// Path of the crate, below the checkout.
const CRATE: &str = "quo/src";

/// Returns names that are public and not listed, and names that are listed and not public.
pub fn wrong(root: &Path) -> Vec<String> {
    let listed = fs::read_to_string(root.join(LIST)).unwrap_or_default();
    let listed: BTreeSet<String> = listed.lines().map(str::to_owned).collect();
    let shown = public(&root.join(CRATE));
    let unknown = shown.difference(&listed).map(|name| {
        format!("{CRATE}: `{name}` is public: hide it, or list it in {LIST} for programs")
    });
    let gone = listed
        .difference(&shown)
        .map(|name| format!("{LIST}: `{name}` is not public in {CRATE}: take it out of the list"));
    unknown.chain(gone).collect()
}

/// Returns the public names of a crate, from the files of its public modules.
fn public(sources: &Path) -> BTreeSet<String> {
    let read = |name: &str| fs::read_to_string(sources.join(name)).unwrap_or_default();
    let mut all = BTreeSet::new();
    for name in names(&read("lib.rs")) {
        let inside = read(&format!("{name}/mod.rs")) + &read(&format!("{name}.rs"));
        all.extend(names(&inside).into_iter().map(|inner| format!("{name}::{inner}")));
        all.insert(name);
    }
    all
}

/// Returns the public names at a file's top level, without those that the documentation hides.
fn names(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut is_hidden = false;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("#[doc(hidden)]") {
            is_hidden = true;
        }
        // Lines before an item belong to it.
        if line.starts_with("//") || line.starts_with("#[") {
            continue;
        }
        if let Some(item) = line.strip_prefix("pub ") {
            let mut item = item.to_owned();
            while item.starts_with("use ") && !item.ends_with(';') {
                let Some(more) = lines.next() else { break };
                item += more.trim();
            }
            if !is_hidden {
                names.extend(of_item(&item));
            }
        }
        is_hidden = false;
    }
    names
}

/// Returns the names of a public item, without the word `pub`.
fn of_item(item: &str) -> Vec<String> {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
    let first = |text: &str| text.chars().take_while(|&letter| is_part(letter)).collect::<String>();
    if let Some(used) = item.strip_prefix("use ") {
        let last = used.rsplit("::").next().unwrap_or_default();
        let list = last.trim_end_matches(';').trim_matches(['{', '}']);
        return list
            .split(',')
            .map(|name| first(name.trim()))
            .filter(|it| !it.is_empty())
            .collect();
    }
    let known = ["fn", "struct", "enum", "trait", "type", "const", "static", "mod", "unsafe"];
    let mut words = item.split_whitespace().skip_while(|word| known.contains(word));
    words.next().map(first).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn public_names_are_found_and_hidden_ones_not() {
        let text = "//! Text.\n\npub mod one;\n#[doc(hidden)]\npub mod two;\nmod three;\n\
                    pub(crate) use three::Inner;\npub use four::{Five,\n    six};\n\
                    #[doc(hidden)]\n/// Text.\n#[must_use]\npub fn hidden() {\n    pub fn inner() {}\n}\n\
                    pub const fn seven(x: u8) {}\npub struct Eight<T>(T);\npub use nine::Ten;\n";
        assert_eq!(names(text), ["one", "Five", "six", "seven", "Eight", "Ten"]);
    }
}
