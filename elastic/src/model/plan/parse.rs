//! Parser of plans.

use std::str::FromStr;
use std::time::Duration;

use super::{LONGEST_TEXT, LONGEST_TIME, MOST_HOSTS, MOST_RANKS, MOST_STEPS, Plan, Step, When};
use crate::model::change::{Request, RequestKind};

/// Position of the error in an invalid plan, and the cause.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("plan, line {line}, column {column}: {cause}")]
pub struct PlanError {
    /// Counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The error there.
    pub cause: String,
}

impl FromStr for Plan {
    type Err = PlanError;

    fn from_str(text: &str) -> Result<Plan, PlanError> {
        if text.len() > LONGEST_TEXT {
            let cause = format!("a plan has at most {LONGEST_TEXT} bytes");
            return Err(PlanError { line: 1, column: 1, cause });
        }
        let mut steps = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let mut words = Words::of(line, index + 1);
            if words.words.is_empty() {
                continue;
            }
            if steps.len() == MOST_STEPS {
                return Err(words.wrong(format!("a plan has at most {MOST_STEPS} steps")));
            }
            let step = step(&mut words).map_err(|error| match path(text) {
                Some(path) => PlanError {
                    cause: format!(
                        "the text of a plan is expected, not the path of its file, {path:?}"
                    ),
                    ..error
                },
                None => error,
            });
            steps.push(step?);
        }
        Ok(Plan { steps })
    }
}

/// Returns a text that is no plan, but the path of a file: one line that begins with a word with a
/// slash, or has one word only, with an extension.
fn path(text: &str) -> Option<&str> {
    let text = text.trim();
    let first = text.split_whitespace().next()?;
    let extension = first.rsplit_once('.').map_or("", |(_, extension)| extension);
    let has_extension = first == text && extension.starts_with(|c: char| c.is_ascii_alphabetic());
    (!text.contains('\n') && (has_extension || first.contains('/'))).then_some(text)
}

fn step(words: &mut Words<'_>) -> Result<Step, PlanError> {
    let when = when(words)?;
    const ACTIONS: &str = "size, grow, shrink, leave or move is expected";
    let action = words.take(ACTIONS)?;
    let mut request = Request::new(RequestKind::Move, "plan");
    match action {
        "size" => request.kind = RequestKind::Size(ranks(words)?),
        "grow" => request.kind = RequestKind::Grow(ranks(words)?),
        "shrink" => request.kind = RequestKind::Shrink(ranks(words)?),
        "leave" => {
            request.kind = RequestKind::Leave;
            request.from = hosts(words)?;
        }
        "move" => {
            request.from = hosts(words)?;
            words.keyword("to")?;
            let at = words.next;
            request.on = hosts(words)?;
            if let Some(both) = request.on.iter().find(|host| request.from.contains(host)) {
                let cause = format!("host {both:?} cannot be left and moved to");
                words.next = at;
                return Err(words.wrong(cause));
            }
        }
        _ => return Err(words.unexpected(ACTIONS)),
    }
    if matches!(action, "size" | "grow") && words.skip("on") {
        request.on = hosts(words)?;
    }
    if action == "shrink" && words.skip("from") {
        request.from = hosts(words)?;
    }
    if words.skip("grace") {
        request.grace = Some(words.parse("a time like 30s is expected", duration)?);
    }
    match words.peek() {
        None => Ok(Step { when, request }),
        Some(_) => {
            let expected = match action {
                "size" | "grow" if request.on.is_empty() => "on, grace or the end of the line",
                "shrink" if request.from.is_empty() => "from, grace or the end of the line",
                _ if request.grace.is_none() => "grace or the end of the line",
                _ => "the end of the line",
            };
            words.next += 1;
            Err(words.unexpected(&format!("{expected} is expected")))
        }
    }
}

fn when(words: &mut Words<'_>) -> Result<When, PlanError> {
    const BEGIN: &str = "a line begins with at or after";
    let when = match words.take(BEGIN)? {
        "at" => {
            words.skip("iteration");
            let number = |word: &str| word.parse().ok();
            let expected = "the number of an iteration is expected";
            When::Iteration(words.parse_before_colon(expected, number)?)
        }
        "after" => When::After(
            words.parse_before_colon("a time like 90s or 2.5min is expected", duration)?,
        ),
        _ => return Err(words.unexpected(BEGIN)),
    };
    words.skip(":");
    Ok(when)
}

fn ranks(words: &mut Words<'_>) -> Result<u32, PlanError> {
    let ranks: u64 = words.parse("a number of ranks is expected", |word| word.parse().ok())?;
    match u32::try_from(ranks) {
        Ok(0) => Err(words.at_last("0 ranks are none".to_owned())),
        Ok(ranks) if ranks <= MOST_RANKS => Ok(ranks),
        _ => Err(words.at_last(format!("there are at most {MOST_RANKS} ranks"))),
    }
}

fn hosts(words: &mut Words<'_>) -> Result<Vec<String>, PlanError> {
    let list = words.take("hosts with commas between them are expected")?;
    let mut hosts: Vec<String> = Vec::new();
    let mut column = 0;
    for host in list.split(',') {
        let wrong = |cause| {
            let mut error = words.at_last(cause);
            error.column += column;
            Err(error)
        };
        if host.is_empty() {
            return wrong("the name of a host is missing".to_owned());
        }
        if host.len() > 255 {
            return wrong("the name of a host has at most 255 letters".to_owned());
        }
        if let Some(at) = host.chars().position(|letter| !may_be_in_a_host(letter)) {
            column += at;
            let mut error = words.at_last(format!("{host:?} is no name of a host"));
            error.column += column;
            return Err(error);
        }
        if hosts.iter().any(|listed| listed == host) {
            return wrong(format!("host {host:?} is named twice"));
        }
        if hosts.len() == MOST_HOSTS {
            return wrong(format!("a step names at most {MOST_HOSTS} hosts"));
        }
        hosts.push(host.to_owned());
        column += host.chars().count() + 1;
    }
    Ok(hosts)
}

/// Returns true for characters of names and addresses, which do not end a word, a list or a line.
fn may_be_in_a_host(letter: char) -> bool {
    letter.is_ascii_alphanumeric() || matches!(letter, '.' | '-' | '_' | ':' | '[' | ']' | '%')
}

/// Parses a duration like `30s` or `2.5min`: a number with no more decimal places than whole
/// milliseconds need, and a unit. `None` for other words.
pub fn duration(word: &str) -> Option<Duration> {
    let unit = word.find(|letter: char| !letter.is_ascii_digit() && letter != '.')?;
    let (number, unit) = word.split_at(unit);
    let unit_ms: u64 = match unit {
        "ms" => 1,
        "s" => 1000,
        "min" => 60_000,
        "h" => 3_600_000,
        _ => return None,
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10u64.pow(fraction.len() as u32);
    let fraction_ms = fraction.parse::<u64>().ok()? * unit_ms;
    let whole_ms = whole.parse::<u64>().ok()?.checked_mul(unit_ms)?;
    if !fraction_ms.is_multiple_of(scale) {
        return None;
    }
    let time = Duration::from_millis(whole_ms.checked_add(fraction_ms / scale)?);
    (time <= LONGEST_TIME).then_some(time)
}

/// The words of a line and their positions.
struct Words<'a> {
    words: Vec<(usize, &'a str)>,
    next: usize,
    line: usize,
    /// Position after the last character before a comment.
    end: usize,
}

impl<'a> Words<'a> {
    fn of(line: &'a str, number: usize) -> Words<'a> {
        let mut words: Vec<(usize, &str)> = Vec::new();
        let mut start: Option<(usize, usize)> = None;
        let mut end = 1;
        for (column, (byte, letter)) in line.char_indices().enumerate() {
            if start.is_none() && letter == '#' {
                break;
            }
            match (start, letter.is_whitespace()) {
                (None, false) => start = Some((column + 1, byte)),
                (Some((column, from)), true) => {
                    words.push((column, &line[from..byte]));
                    start = None;
                }
                _ => {}
            }
            end = if letter.is_whitespace() { end } else { column + 2 };
        }
        if let Some((column, from)) = start {
            words.push((column, &line[from..]));
        }
        Words { words, next: 0, line: number, end }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.next).map(|(_, word)| *word)
    }

    fn take(&mut self, expected: &str) -> Result<&'a str, PlanError> {
        let word = self.peek().ok_or_else(|| self.wrong(format!("{expected}, not the end")))?;
        self.next += 1;
        Ok(word)
    }

    fn skip(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.next += usize::from(there);
        there
    }

    fn keyword(&mut self, word: &str) -> Result<(), PlanError> {
        let expected = format!("{word} is expected");
        match self.take(&expected)? == word {
            true => Ok(()),
            false => Err(self.unexpected(&expected)),
        }
    }

    fn parse<T>(
        &mut self,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, PlanError> {
        let word = self.take(expected)?;
        read(word).ok_or_else(|| self.unexpected(expected))
    }

    /// Reads a word that may be followed by a colon.
    fn parse_before_colon<T>(
        &mut self,
        expected: &str,
        read: impl Fn(&str) -> Option<T>,
    ) -> Result<T, PlanError> {
        self.parse(expected, |word| read(word.strip_suffix(':').unwrap_or(word)))
    }

    /// Returns an error for the word that was taken last.
    fn unexpected(&self, expected: &str) -> PlanError {
        let found: String = self
            .words
            .get(self.next.saturating_sub(1))
            .map_or(String::new(), |(_, word)| word.chars().take(40).collect());
        self.at_last(format!("{expected}, not {found:?}"))
    }

    /// Returns an error at the word that was taken last.
    fn at_last(&self, cause: String) -> PlanError {
        let column = self.words.get(self.next.saturating_sub(1)).map_or(1, |(column, _)| *column);
        PlanError { line: self.line, column, cause }
    }

    /// Returns an error at the next word, or at the end.
    fn wrong(&self, cause: String) -> PlanError {
        let column = self.words.get(self.next).map_or(self.end, |(column, _)| *column);
        PlanError { line: self.line, column, cause }
    }
}
