//! Untrusted text made safe to show: names of hosts, jobs, objects and files must not control a
//! terminal, break out of a page or picture, or be a formula in a table.
//!
//! [`child`] has the signals of a command that waits for another one.
//!
//! Every command passes all its output through one of these functions, at the single place where it
//! prints; a command that prints colours passes each name.

pub mod child;

use std::io::Write;

/// Replaces control characters, including line breaks, and characters that change the writing
/// direction.
#[must_use]
pub fn clean(text: &str) -> String {
    text.chars()
        .map(|letter| if steers(letter) { char::REPLACEMENT_CHARACTER } else { letter })
        .collect()
}

/// Cleans each line of a text, which keeps its line breaks.
#[must_use]
pub fn clean_lines(text: &str) -> String {
    text.split('\n').map(clean).collect::<Vec<_>>().join("\n")
}

/// Returns text for use between tags or in a quoted attribute, of HTML and of XML:
/// [cleaned](clean), with blanks for other white space, and escaped.
#[must_use]
pub fn markup(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            '\n' | '\r' | '\t' => safe.push(' '),
            // Not allowed in XML 1.0.
            '\u{fffe}' | '\u{ffff}' => safe.push(char::REPLACEMENT_CHARACTER),
            letter if steers(letter) => safe.push(char::REPLACEMENT_CHARACTER),
            letter => safe.push(letter),
        }
    }
    safe
}

/// Returns a name for use in a line of CSV: [cleaned](clean), with an apostrophe before anything a
/// spreadsheet would take for a formula, and quoted if necessary.
#[must_use]
pub fn csv(text: &str) -> String {
    let mut safe = clean(text);
    if safe
        .trim_start()
        .starts_with(['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'])
    {
        safe.insert(0, '\'');
    }
    if safe.contains([',', '"', ';']) { format!("\"{}\"", safe.replace('"', "\"\"")) } else { safe }
}

/// Writes the characters of a JSON text that [`clean`] would replace as escapes, so that its strings do not change.
#[must_use]
pub fn clean_json(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        // Line breaks and other white space are between strings; all control characters have at
        // most 16 bits.
        if steers(letter) && !letter.is_ascii_whitespace() {
            safe.push_str(&format!("\\u{:04x}", u32::from(letter)));
        } else {
            safe.push(letter);
        }
    }
    safe
}

/// Writes a line to standard error, starting with the name of the program. A reader that has gone
/// is no error.
pub fn complain(program: &str, text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{program}: {}", clean(text));
}

fn steers(letter: char) -> bool {
    letter.is_control() || matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOSTILE: &str = "a\x1b[2Jb\x7f\u{9b}1m\u{202e}c\u{2066}\td\r\ne-µ";

    #[test]
    fn hostile_text_cannot_steer_the_terminal() {
        let (mark, clean) = ('\u{fffd}', clean(HOSTILE));
        assert_eq!(clean, format!("a{mark}[2Jb{mark}{mark}1m{mark}c{mark}{mark}d{mark}{mark}e-µ"));
        let lines = clean_lines(HOSTILE);
        assert_eq!(
            lines.lines().collect::<Vec<_>>().concat(),
            clean.replacen("d\u{fffd}\u{fffd}e", "d\u{fffd}e", 1)
        );
        assert_eq!(lines.lines().count(), 2);
    }

    #[test]
    fn hostile_text_stays_in_its_place_of_a_page() {
        let expected = "a\u{fffd}[2Jb\u{fffd}\u{fffd}1m\u{fffd}c\u{fffd} d  e-µ";
        assert_eq!(markup(HOSTILE), expected);
        assert_eq!(markup("<a b='\"'>&\u{ffff}"), "&lt;a b=&#39;&quot;&#39;&gt;&amp;\u{fffd}");
    }

    #[test]
    fn name_in_a_table_is_no_formula() {
        for (name, expected) in [
            ("12_3", "12_3"),
            ("=cmd|A", "'=cmd|A"),
            (" +1", "' +1"),
            ("-1", "'-1"),
            ("@x,y", "\"'@x,y\""),
            ("a,\"b\"", "\"a,\"\"b\"\"\""),
            ("a\nb\u{1b}", "a\u{fffd}b\u{fffd}"),
            ("\t=1", "\u{fffd}=1"),
        ] {
            assert_eq!(csv(name), expected, "{name:?}");
        }
    }

    #[test]
    fn cleaned_json_has_the_same_strings() {
        let line = "{\n  \"host\": \"\\u001b[31m\u{7f}\u{9b}\u{202e}µ\"\n}\n";
        let expected = "{\n  \"host\": \"\\u001b[31m\\u007f\\u009b\\u202eµ\"\n}\n";
        assert_eq!(clean_json(line), expected);
    }
}
