//! The selection of tests, for test programs with their own runner.

/// The names on the command line of a test program, parsed like the standard runner's: filters,
/// `--exact`, `--skip NAME` and `--list`; other options are ignored.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    filters: Vec<String>,
    skipped: Vec<String>,
    exact: bool,
    list: bool,
}

impl Selection {
    /// Returns the selection of this program's arguments.
    #[must_use]
    pub fn of_this_program() -> Selection {
        Selection::of(std::env::args().skip(1))
    }

    /// Returns the selection of these arguments.
    pub fn of(arguments: impl IntoIterator<Item = impl Into<String>>) -> Selection {
        let mut selection = Selection::default();
        let mut words = arguments.into_iter().map(Into::into);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--exact" => selection.exact = true,
                "--list" => selection.list = true,
                "--skip" => selection.skipped.extend(words.next()),
                "--test-threads" | "--format" | "--color" | "--logfile" => drop(words.next()),
                option if option.starts_with('-') => {}
                _ => selection.filters.push(word),
            }
        }
        selection
    }

    /// Returns true if the tests should be listed and not run.
    #[must_use]
    pub fn is_listing(&self) -> bool {
        self.list
    }

    /// Returns true if a test is selected.
    #[must_use]
    pub fn wants(&self, name: &str) -> bool {
        let matches = |text: &String| match self.exact {
            true => name == text,
            false => name.contains(text.as_str()),
        };
        (self.filters.is_empty() || self.filters.iter().any(matches))
            && !self.skipped.iter().any(matches)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_chosen_as_with_the_usual_runner() {
        let wanted =
            |name: &str, arguments: &[&str]| Selection::of(arguments.iter().copied()).wants(name);
        assert!(wanted("two_jobs", &[]));
        assert!(wanted("two_jobs", &["--test-threads", "1", "jobs"]));
        assert!(wanted("two_jobs", &["one", "two"]));
        assert!(!wanted("two_jobs", &["one"]));
        assert!(!wanted("two_jobs", &["--exact", "jobs"]));
        assert!(wanted("two_jobs", &["--exact", "two_jobs"]));
        assert!(!wanted("two_jobs", &["--skip", "two"]));
        assert!(Selection::of(["--list"]).is_listing());
        assert!(!Selection::of(["list"]).is_listing());
    }
}
