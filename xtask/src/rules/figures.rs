//! Checks that each row of figures in the README is on the page of figures, which a command writes.

use std::fs;
use std::path::Path;

/// Path of the page, from the root of the checkout.
const PAGE: &str = "docs/benchmarks.md";

/// Returns the rows of the README that are missing from the page, one line each.
pub fn wrong(root: &Path) -> Vec<String> {
    let text = |name: &str| fs::read_to_string(root.join(name)).unwrap_or_default();
    let rows = rows_of_its_own(&text("README.md"), &text(PAGE));
    rows.iter().map(|row| format!("README.md: {PAGE} has no such row: {row}")).collect()
}

/// Returns the rows of tables in the README's part on performance that are not on the page
/// verbatim.
fn rows_of_its_own(readme: &str, page: &str) -> Vec<String> {
    let part = readme.split("\n## ").find(|part| part.starts_with("Performance\n"));
    let rows = part.unwrap_or_default().lines().filter(|line| line.starts_with("| "));
    // The first row is the heading, which may differ.
    rows.skip(1).filter(|row| !page.lines().any(|line| line == *row)).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readme_rows_missing_on_the_page_are_found() {
        let readme = "# x\n\n## Performance\n\n| what | a |\n|---|---|\n| push | 1 |\n| pop | 2 |\n\n## More\n\n| z | 9 |\n";
        let page = "| operation | ours |\n|---|---|\n| push | 1 |\n";
        assert_eq!(rows_of_its_own(readme, page), ["| pop | 2 |"]);
        assert!(rows_of_its_own("no such part", page).is_empty());
    }
}
