//! Grammar of files that assign objects to components: lines `PATTERN CLASS[:NAME]`, with comments
//! after `#`. A pattern with a slash is compared with the path of an object, any other with its
//! file name.

use crate::layout::Class;

/// Class and name of the objects that a line is for.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Override<'a> {
    /// Class of the objects.
    pub class: Class,
    /// Name of the objects, if the line has one.
    pub name: Option<&'a str>,
}

/// Mistake in a line.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The line has a pattern and nothing after it, or more than two words.
    Words,
    /// No class has this name, or objects cannot have it.
    Class,
}

impl Fault {
    /// Returns the description of the mistake.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Fault::Words => "a line is PATTERN CLASS[:NAME]",
            Fault::Class => "no such class for objects",
        }
    }
}

/// Calls `each` with the number of every invalid line, and its mistake.
pub fn each_fault(text: &str, mut each: impl FnMut(usize, Fault)) {
    for (index, text) in text.lines().enumerate() {
        if let Err(fault) = line(text) {
            each(index + 1, fault);
        }
    }
}

/// Parses a line: `None`, or a pattern and the component of its objects.
///
/// # Errors
///
/// The mistake in the line.
pub fn line(line: &str) -> Result<Option<(&str, Override<'_>)>, Fault> {
    let line = line.split('#').next().unwrap_or_default();
    let mut words = line.split_whitespace();
    let Some(pattern) = words.next() else {
        return Ok(None);
    };
    let (Some(what), None) = (words.next(), words.next()) else {
        return Err(Fault::Words);
    };
    let (class, name) = what
        .split_once(':')
        .map_or((what, None), |(class, name)| (class, Some(name).filter(|name| !name.is_empty())));
    let class = Class::from_name(class)
        .filter(|class| {
            matches!(
                class,
                Class::AppExecutable
                    | Class::AppLibrary
                    | Class::MpiCore
                    | Class::MpiDependency
                    | Class::Runtime
                    | Class::OpenMp
                    | Class::System
                    | Class::Tool
            )
        })
        .ok_or(Fault::Class)?;
    Ok(Some((pattern, Override { class, name })))
}

/// Finds the first line that matches an object, by its path.
#[must_use]
pub fn find<'a>(text: &'a str, path: &str) -> Option<Override<'a>> {
    let file = path.rsplit('/').next().unwrap_or(path);
    text.lines().filter_map(|text| line(text).ok().flatten()).find_map(|(pattern, what)| {
        let subject = if pattern.contains('/') { path } else { file };
        fits(pattern.as_bytes(), subject.as_bytes()).then_some(what)
    })
}

/// Matches a pattern, in which `*` is any text and `?` one character (byte).
fn fits(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut position) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while position < text.len() {
        if pattern.get(at) == Some(&b'*') {
            star = Some((at, position));
            at += 1;
        } else if pattern.get(at).is_some_and(|&byte| byte == b'?' || byte == text[position]) {
            at += 1;
            position += 1;
        } else if let Some((star_at, from)) = star {
            star = Some((star_at, from + 1));
            at = star_at + 1;
            position = from + 1;
        } else {
            return false;
        }
    }
    pattern[at..].iter().all(|&byte| byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood_or_refused() {
        assert_eq!(line("  # only words"), Ok(None));
        assert_eq!(line(""), Ok(None));
        assert_eq!(
            line("libhdf5*.so* app.lib:hdf5 # ours"),
            Ok(Some(("libhdf5*.so*", Override { class: Class::AppLibrary, name: Some("hdf5") })))
        );
        assert_eq!(
            line("a system"),
            Ok(Some(("a", Override { class: Class::System, name: None })))
        );
        assert_eq!(line("a"), Err(Fault::Words));
        assert_eq!(line("a b c"), Err(Fault::Words));
        assert_eq!(line("a mpi"), Err(Fault::Class));
        assert_eq!(line("a kernel"), Err(Fault::Class));
    }

    #[test]
    fn the_first_line_that_fits_wins() {
        let text = "nonsense\n/opt/*/libx.so runtime\nlib?.so app.lib:letters\n*.so system\n";
        let class = |path| find(text, path).map(|found| (found.class, found.name));
        assert_eq!(class("/opt/deep/er/libx.so"), Some((Class::Runtime, None)));
        assert_eq!(class("/usr/lib/libx.so"), Some((Class::AppLibrary, Some("letters"))));
        assert_eq!(class("/usr/lib/libxy.so"), Some((Class::System, None)));
        assert_eq!(class("/usr/lib/libxy.so.1"), None);
    }

    #[test]
    fn stars_meet_every_length() {
        for (pattern, text, expected) in [
            ("*", "", true),
            ("", "", true),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("**a", "bba", true),
            ("?", "", false),
        ] {
            assert_eq!(fits(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }
}
