//! Checks `docs/SUMMARY.md`, the table of contents of the site: it has each page of the guide once,
//! and each page to which one of its pages links.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::links;

/// Path of the table of contents, below the checkout.
pub const PAGE: &str = "docs/SUMMARY.md";

/// Returns the pages in the table of contents, in order, as paths below the checkout.
pub fn listed(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join(PAGE)).unwrap_or_default();
    targets(Path::new(PAGE), &text)
}

/// Returns the files that a page links to, as paths below the checkout.
pub fn targets(page: &Path, text: &str) -> Vec<PathBuf> {
    let folder = page.parent().unwrap_or(Path::new(""));
    let files = links::of_text(text).into_iter().filter_map(|link| {
        let file = link.split('#').next().unwrap_or_default().to_owned();
        (!file.is_empty()).then(|| plain(&folder.join(file)))
    });
    files.collect()
}

/// Resolves `..` in a path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// Returns the pages that the table of contents lacks or has twice, and links to folders, which are
/// broken on the site.
pub fn wrong(root: &Path) -> Vec<String> {
    let mut errors = Vec::new();
    let mut wanted = pages_below(root, Path::new("docs"));
    let mut listed_once = BTreeSet::new();
    for page in listed(root) {
        let text = fs::read_to_string(root.join(&page)).unwrap_or_default();
        for target in targets(&page, &text) {
            if root.join(&target).is_dir() {
                let (page, target) = (page.display(), target.display());
                errors.push(format!("{page}: {target} is a folder: link to a file in it"));
            } else if is_page(&target) {
                wanted.insert(target);
            }
        }
        if !listed_once.insert(page.clone()) {
            errors.push(format!("{PAGE}: {} is there twice", page.display()));
        }
    }
    let missing = wanted.difference(&listed_once);
    errors.extend(missing.map(|page| format!("{PAGE}: {} is missing", page.display())));
    errors
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md") && path != Path::new(PAGE)
}

fn pages_below(root: &Path, folder: &Path) -> BTreeSet<PathBuf> {
    let mut pages = BTreeSet::new();
    for entry in fs::read_dir(root.join(folder)).into_iter().flatten().flatten() {
        let path = folder.join(entry.file_name());
        if root.join(&path).is_dir() {
            pages.append(&mut pages_below(root, &path));
        } else if is_page(&path) {
            pages.insert(path);
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_missing_from_the_summary_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        fs::create_dir_all(root.join("docs/more")).unwrap();
        let write = |name: &str, text: &str| fs::write(root.join(name), text).unwrap();
        write("README.md", "[a](docs/a.md) [the folder](docs/more) [other](OTHER.md#there)");
        write("OTHER.md", "");
        write("docs/a.md", "");
        write("docs/more/b.md", "");
        write(PAGE, "[quo](../README.md)\n- [a](a.md)\n- [again](a.md)\n");
        let expected = [
            "README.md: docs/more is a folder: link to a file in it",
            "docs/SUMMARY.md: docs/a.md is there twice",
            "docs/SUMMARY.md: OTHER.md is missing",
            "docs/SUMMARY.md: docs/more/b.md is missing",
        ];
        assert_eq!(wrong(root), expected);
        write("README.md", "[a](docs/a.md)");
        write(PAGE, "[quo](../README.md)\n- [a](a.md)\n- [b](more/b.md)\n");
        assert_eq!(wrong(root), Vec::<String>::new());
    }
}
