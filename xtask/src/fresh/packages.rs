//! The packages that a Debian has installed.

use std::collections::{BTreeMap, BTreeSet};

/// Returns the names of the installed packages, from the text of dpkg's status file.
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

/// Returns the versions of packages, by the names under which they are shown. Packages that are not
/// installed are left out.
pub fn versions(status: &str, shown: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let of_package = |package: &str| {
        let is_it = |paragraph: &&str| field(paragraph, "Package") == Some(package);
        let version = status.split("\n\n").find(is_it).and_then(|it| field(it, "Version"))?;
        let version = version.split_once(':').map_or(version, |(_epoch, version)| version);
        Some(version.to_owned())
    };
    let known = |(name, package): (&String, &String)| Some((name.clone(), of_package(package)?));
    shown.iter().filter_map(known).collect()
}

/// Returns the packages that were added.
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
    fn versions_are_shown_without_the_epoch() {
        let status = "Package: mpich\nVersion: 1:4.2.1-3\n\nPackage: gcc\nVersion: 14.2\n";
        let shown = [("MPICH", "mpich"), ("C", "gcc"), ("Go", "golang")];
        let shown = shown.map(|(name, package)| (name.to_owned(), package.to_owned()));
        let versions = versions(status, &shown.into());
        let expected = [("C", "14.2"), ("MPICH", "4.2.1-3")];
        let expected = expected.map(|(name, it)| (name.to_owned(), it.to_owned()));
        assert_eq!(versions, BTreeMap::from(expected));
    }

    #[test]
    fn only_what_came_since_is_added() {
        let after = format!("{BEFORE}\nPackage: hwloc\nStatus: install ok installed\n");
        assert_eq!(added(&installed(BEFORE), &installed(&after)), ["hwloc"]);
    }
}
