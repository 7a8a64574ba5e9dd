//! Checks links in the README, the guide and the other pages: their files and their headings exist.

use std::fs;
use std::path::{Path, PathBuf};

use super::summary;

/// Returns every broken local link of a page, one line each.
pub fn broken(root: &Path) -> Vec<String> {
    let mut errors = Vec::new();
    for page in pages(root) {
        let text = fs::read_to_string(&page).unwrap_or_default();
        let name = page.strip_prefix(root).unwrap_or(&page).display();
        for link in of_text(&text) {
            if let Some(problem) = problem(&page, &link) {
                errors.push(format!("{name}: {link}: {problem}"));
            }
        }
    }
    errors
}

/// Returns the pages of the site, its table of contents, and the pages at the top.
fn pages(root: &Path) -> Vec<PathBuf> {
    let mut pages = vec![root.join(summary::PAGE)];
    pages.extend(summary::listed(root).into_iter().map(|page| root.join(page)));
    for entry in fs::read_dir(root).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path);
        }
    }
    pages.retain(|page| page.is_file());
    pages.sort();
    pages.dedup();
    pages
}

/// Returns the local links of a page's text, without those in its code.
pub fn of_text(markdown: &str) -> Vec<String> {
    local_links(&prose(markdown))
}

fn problem(page: &Path, link: &str) -> Option<&'static str> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let target = match file {
        "" => page.to_path_buf(),
        file => page.parent()?.join(file),
    };
    if !target.exists() {
        return Some("does not exist");
    }
    if anchor.is_empty() || target.extension().is_none_or(|extension| extension != "md") {
        return None;
    }
    let text = fs::read_to_string(&target).unwrap_or_default();
    let prose = prose(&text);
    let mut headings = prose.lines().filter(|line| line.starts_with('#'));
    let found = headings.any(|line| slug(line.trim_start_matches('#').trim()) == anchor);
    (!found).then_some("has no such heading")
}

/// Returns the page without its code.
fn prose(markdown: &str) -> String {
    let (mut in_block, mut in_quotes) = (false, false);
    let mut text = String::new();
    for line in markdown.lines() {
        if line.trim_start().starts_with("```") {
            in_block = !in_block;
        } else if !in_block {
            // A code span may end on another line of the paragraph; links do not begin inside one.
            in_quotes &= !line.trim().is_empty();
            for (index, part) in line.split('`').enumerate() {
                if index > 0 {
                    in_quotes = !in_quotes;
                    text.push('`');
                }
                let quoted = in_quotes.then(|| part.replace("](", "] ("));
                text.push_str(quoted.as_deref().unwrap_or(part));
            }
            text.push('\n');
        }
    }
    text
}

fn local_links(prose: &str) -> Vec<String> {
    let links = prose.split("](").skip(1).filter_map(|rest| Some(rest.split_once(')')?.0));
    links.filter(|link| !link.contains("://")).map(str::to_owned).collect()
}

/// Returns the anchor that viewers derive from a heading.
fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_within_the_checkout_are_told_from_others() {
        let text = "![a](docs/a.svg) [b](https://example.org/) [c](#c) [d](D.md#e), plain (text)";
        assert_eq!(local_links(text), ["docs/a.svg", "#c", "D.md#e"]);
    }

    #[test]
    fn code_is_not_searched_for_links() {
        let text = "[a](b)\n```cpp\n[this](int) {}\n```\nor `[this](int)`\n";
        assert_eq!(local_links(&prose(text)), ["b"]);
        assert_eq!(of_text("`one\ntwo` and [a](b)\n[c](d) `e\n\n[f](g)"), ["b", "d", "g"]);
    }

    #[test]
    fn anchors_are_those_of_viewers() {
        assert_eq!(slug("`bound` says no, why?"), "bound-says-no-why");
        assert_eq!(slug("OMP_PROC_BIND pins"), "omp_proc_bind-pins");
    }

    #[test]
    fn what_is_not_there_is_named_with_its_page() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("docs")).unwrap();
        fs::write(root.join("README.md"), "[a](docs/a.md#there) [b](docs/a.md#not) [c](gone)")
            .unwrap();
        fs::write(root.join(summary::PAGE), "[a](a.md)").unwrap();
        fs::write(root.join("docs/a.md"), "# There\n[up](../README.md) [x](../docs)\n").unwrap();
        assert_eq!(
            broken(root),
            ["README.md: docs/a.md#not: has no such heading", "README.md: gone: does not exist"]
        );
    }
}
