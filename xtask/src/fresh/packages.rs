//! The packages that a Debian has installed.

use std::collections::BTreeSet;

/// The names of the installed packages, from the text of dpkg's status file.
pub fn installed(status: &str) -> BTreeSet<&str> {
    status
        .split("\n\n")
        .filter(|paragraph| field(paragraph, "Status").is_some_and(|it| it.ends_with(" installed")))
        .filter_map(|paragraph| field(paragraph, "Package"))
        .collect()
}

fn field<'a>(paragraph: &'a str, name: &str) -> Option<&'a str> {
    paragraph.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

/// The packages that came since.
pub fn added<'a>(before: &BTreeSet<&str>, after: &BTreeSet<&'a str>) -> Vec<&'a str> {
    after.iter().copied().filter(|name| !before.contains(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "Package: git\nStatus: install ok installed\nVersion: 1\n\n\
        Package: gone\nStatus: deinstall ok config-files\n";

    #[test]
    fn what_was_removed_is_not_installed() {
        assert_eq!(installed(BEFORE).into_iter().collect::<Vec<_>>(), ["git"]);
        assert!(installed("").is_empty());
    }

    #[test]
    fn only_what_came_since_is_added() {
        let after = format!("{BEFORE}\nPackage: hwloc\nStatus: install ok installed\n");
        assert_eq!(added(&installed(BEFORE), &installed(&after)), ["hwloc"]);
    }
}
