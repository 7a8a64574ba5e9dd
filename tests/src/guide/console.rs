//! Commands with their expected output. Pure functions.

use anyhow::{Result, ensure};

/// Stands for any text, or alone on its line for any lines.
const ANYTHING: &str = "...";

/// A command and its expected output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Step {
    pub command: String,
    pub expected: Vec<String>,
}

/// Returns the steps of a console block. A line that ends in `\` continues on the next.
pub(super) fn steps(text: &str) -> Result<Vec<Step>> {
    let mut steps: Vec<Step> = Vec::new();
    let mut goes_on = false;
    for line in text.lines() {
        if goes_on {
            let step = steps.last_mut().expect("a command goes on only after it began");
            step.command.push('\n');
            step.command.push_str(line);
        } else if let Some(command) = line.strip_prefix("$ ") {
            steps.push(Step { command: command.to_owned(), expected: Vec::new() });
        } else {
            ensure!(!steps.is_empty(), "output before the first command: {line}");
            let step = steps.last_mut().expect("there is a step");
            step.expected.push(line.trim_end().to_owned());
            continue;
        }
        goes_on = line.ends_with('\\');
    }
    ensure!(!steps.is_empty(), "a console block without a command");
    Ok(steps)
}

/// Returns true if an output is the expected one.
#[must_use]
pub fn matches(expected: &[String], actual: &str, unordered: bool) -> bool {
    let actual: Vec<&str> = actual.trim_end().lines().map(str::trim_end).collect();
    if unordered { any_order(expected, &actual) } else { in_order(expected, &actual) }
}

fn in_order(expected: &[String], actual: &[&str]) -> bool {
    match expected.split_first() {
        None => actual.is_empty(),
        Some((first, rest)) if first == ANYTHING => {
            (0..=actual.len()).any(|skipped| in_order(rest, &actual[skipped..]))
        }
        Some((first, rest)) => actual
            .split_first()
            .is_some_and(|(line, others)| line_matches(first, line) && in_order(rest, others)),
    }
}

fn any_order(expected: &[String], actual: &[&str]) -> bool {
    let more_may_come = expected.iter().any(|line| line == ANYTHING);
    let mut left: Vec<&str> = actual.to_vec();
    for line in expected.iter().filter(|line| *line != ANYTHING) {
        match left.iter().position(|candidate| line_matches(line, candidate)) {
            Some(index) => drop(left.remove(index)),
            None => return false,
        }
    }
    more_may_come || left.is_empty()
}

fn line_matches(pattern: &str, line: &str) -> bool {
    let mut parts = pattern.split(ANYTHING);
    let Some(mut rest) = line.strip_prefix(parts.next().unwrap_or_default()) else { return false };
    let parts: Vec<&str> = parts.collect();
    let Some((last, between)) = parts.split_last() else { return rest.is_empty() };
    for part in between {
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn commands_and_their_outputs_are_told_apart() {
        let found = steps("$ a \\\n    b\none\ntwo\n$ c\n").unwrap();
        assert_eq!(
            found[0],
            Step { command: "a \\\n    b".to_owned(), expected: lines("one\ntwo") }
        );
        assert_eq!(found[1], Step { command: "c".to_owned(), expected: Vec::new() });
        assert!(steps("one\n$ a\n").is_err());
        assert!(steps("").is_err());
    }

    #[test]
    fn the_output_must_be_the_expected_one() {
        assert!(matches(&lines("one\ntwo"), "one\ntwo  \n", false));
        for wrong in ["one", "two\none", "one\ntwo\nthree", ""] {
            assert!(!matches(&lines("one\ntwo"), wrong, false), "{wrong}");
        }
        assert!(matches(&[], "", false));
        assert!(!matches(&[], "one", false));
    }

    #[test]
    fn dots_stand_for_what_varies() {
        assert!(matches(&lines("process ... on ..."), "process 12 on host\n", false));
        assert!(!matches(&lines("process ... on host"), "process 12 on hosts\n", false));
        assert!(!matches(&lines("process ..."), "a process 12\n", false));
        assert!(matches(&lines("first\n...\nlast"), "first\na\nb\nlast\n", false));
        assert!(matches(&lines("first\n..."), "first\n", false));
        assert!(!matches(&lines("first\n...\nlast"), "first\na\nb\n", false));
        // The whole line is matched, even with dots near its end.
        assert!(!matches(&lines("...a"), "ab", false));
    }

    #[test]
    fn ranks_may_speak_in_any_order_but_each_once() {
        assert!(matches(&lines("one\ntwo"), "two\none\n", true));
        assert!(!matches(&lines("one\none"), "one\n", true));
        assert!(!matches(&lines("one"), "one\none\n", true));
        assert!(matches(&lines("one\n..."), "zero\none\n", true));
    }
}
