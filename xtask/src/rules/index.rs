//! `tests/README.md`: an index from promise to suite, built from the first sentence of each suite.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Path of the index, below the checkout.
pub const PAGE: &str = "tests/README.md";

/// Folders of suites with their headings, in the order of the page; other folders follow by name.
const HEADINGS: &[(&str, &str)] = &[
    ("tests/tests", "End to end, under a real launcher"),
    ("tests/hosts/tests", "Over several hosts and under Slurm"),
    ("tests/machine/tests", "On emulated machines"),
    ("tests/faults/tests", "Seeded faults"),
    ("tests/fuzz/tests", "Hostile input and sanitizers"),
];

const HEAD: &str = "# Tests: which suite shows what

Each row is a promise and the suite that shows it. The promises are the first sentences of the
suites; `cargo xtask test --index` writes this page, and the house rules compare it. Unit and
property tests are beside the code. The barrier under a model checker is `tests/model`.
[CONTRIBUTING](../CONTRIBUTING.md) tells how to run suites.
";

/// Returns true for the file of a test program: in a folder `tests`, or the `main.rs` of a folder
/// below one.
pub fn is_suite(name: &str) -> bool {
    let parts: Vec<&str> = name.split('/').collect();
    let is_below_tests = match parts[..] {
        [.., "tests", _, "main.rs"] => true,
        [.., "tests", file] => file.ends_with(".rs"),
        _ => false,
    };
    is_below_tests && !parts.contains(&"src")
}

/// Returns the first sentence of a source's documentation.
pub fn promise(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    let paragraph = lines.map(str::trim).take_while(|line| !line.is_empty());
    let text = paragraph.collect::<Vec<_>>().join(" ");
    text.split_once(". ").map_or(text.trim_end_matches('.'), |(first, _)| first).to_owned()
}

/// A suite: its short name, its path and its promise.
type Row<'a> = (&'a str, &'a str, &'a str);

/// Returns the page of the suites' names and promises.
pub fn page(promises: &BTreeMap<String, String>) -> String {
    let mut folders: BTreeMap<(usize, &str), Vec<Row<'_>>> = BTreeMap::new();
    for (name, promise) in promises {
        let (folder, suite) = parts(name);
        let place = HEADINGS.iter().position(|(known, _)| *known == folder);
        let key = (place.unwrap_or(HEADINGS.len()), folder);
        folders.entry(key).or_default().push((suite, name, promise));
    }
    let mut page = HEAD.to_owned();
    for ((place, folder), suites) in folders {
        let heading = HEADINGS.get(place).map_or(folder, |(_, heading)| heading);
        let _infallible = write!(page, "\n## {heading}\n\n| promise | suite |\n|---|---|\n");
        for (suite, name, promise) in suites {
            let link = name.strip_prefix("tests/").map_or(format!("../{name}"), str::to_owned);
            let promise = promise.replace('|', "\\|");
            let _infallible = writeln!(page, "| {promise} | [{suite}]({link}) |");
        }
    }
    page
}

/// Splits the name of a suite's file into its folder `tests` and the name of the suite.
fn parts(name: &str) -> (&str, &str) {
    let file = name.strip_suffix("/main.rs").or_else(|| name.strip_suffix(".rs")).unwrap_or(name);
    file.rsplit_once('/').unwrap_or(("", file))
}

/// Returns the differences between the page and the suites.
pub fn wrong(root: &Path, promises: &BTreeMap<String, String>) -> Vec<String> {
    let without = promises.iter().filter(|(_, promise)| promise.is_empty());
    let mut errors: Vec<String> =
        without.map(|(name, _)| format!("{name}: the first line says no promise")).collect();
    if fs::read_to_string(root.join(PAGE)).unwrap_or_default() != page(promises) {
        errors.push(format!("{PAGE}: differs from the suites: cargo xtask test --index"));
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_are_test_programs_only() {
        for name in ["tests/tests/a.rs", "quo/tests/a.rs", "tests/machine/tests/a/main.rs"] {
            assert!(is_suite(name), "{name}");
        }
        for name in ["elastic/layout/src/tests/maps.rs", "tests/src/lib.rs", "tests/README.md"] {
            assert!(!is_suite(name), "{name}");
        }
    }

    #[test]
    fn promise_is_the_first_sentence() {
        assert_eq!(
            promise("//! One thing,\n//! and more. Another.\n\n//! C\n"),
            "One thing, and more"
        );
        assert_eq!(promise("//! One thing.\n//!\n//! More.\nfn a() {}\n"), "One thing");
        assert_eq!(promise("fn a() {}\n"), "");
    }

    #[test]
    fn index_that_differs_from_the_suites_is_named() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tests")).unwrap();
        let mut promises = BTreeMap::new();
        promises.insert("quo/tests/a.rs".to_owned(), "A holds".to_owned());
        promises.insert("tests/tests/t1_b.rs".to_owned(), "B | c".to_owned());
        let page = page(&promises);
        let end = "## End to end, under a real launcher\n\n| promise | suite |\n|---|---|\n\
            | B \\| c | [t1_b](tests/t1_b.rs) |\n\n## quo/tests\n\n| promise | suite |\n|---|---|\n\
            | A holds | [a](../quo/tests/a.rs) |\n";
        assert!(page.ends_with(end), "{page}");
        let differs = "tests/README.md: differs from the suites: cargo xtask test --index";
        assert_eq!(wrong(folder.path(), &promises), [differs]);
        fs::write(folder.path().join(PAGE), page).unwrap();
        assert_eq!(wrong(folder.path(), &promises), Vec::<String>::new());
        promises.insert("quo/tests/c.rs".to_owned(), String::new());
        let silent = "quo/tests/c.rs: the first line says no promise";
        assert_eq!(wrong(folder.path(), &promises), [silent, differs]);
    }
}
