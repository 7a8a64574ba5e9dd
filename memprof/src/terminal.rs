//! Output for users: colour only where it helps; a reader that goes away is not an error.

use anyhow::Context;
use std::ffi::OsString;
use std::io::{IsTerminal, Write};
use std::os::fd::AsFd;

use quo_terminal::clean_lines;
pub use quo_terminal::{clean, markup};

/// Look of text.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Look {
    colour: bool,
    /// Characters of a line, where that is a limit.
    width: Option<usize>,
}

impl Look {
    /// Returns the look for standard output.
    pub fn stdout() -> Look {
        let out = std::io::stdout();
        Look::of(out.is_terminal(), width(&out))
    }

    /// Returns the look for standard error.
    pub fn stderr() -> Look {
        let out = std::io::stderr();
        Look::of(out.is_terminal(), width(&out))
    }

    /// Returns the look without colour, for lines of any length.
    pub fn plain() -> Look {
        Look { colour: false, width: None }
    }

    /// Returns the look for lines of at most `width` characters.
    pub fn narrow(self, width: usize) -> Look {
        Look { width: Some(width), ..self }
    }

    /// Returns the maximum number of characters of a line, if there is a limit.
    pub fn width(self) -> Option<usize> {
        self.width
    }

    /// Breaks lines between words where they are longer than there is room; further lines are indented as the first, by
    /// two spaces at least.
    pub fn wrap(self, text: &str) -> String {
        let Some(room) = self.width else { return text.to_owned() };
        let mut out = String::new();
        for line in text.split_inclusive('\n') {
            let mut used = 0;
            let indent = (line.len() - line.trim_start_matches(' ').len()).max(2);
            for word in line.split_inclusive(' ') {
                let length = columns(word.trim_end());
                if used > indent && used + length > room {
                    out.truncate(out.trim_end_matches(' ').len());
                    out.push('\n');
                    out.extend(std::iter::repeat_n(' ', indent));
                    used = indent;
                }
                out.push_str(word);
                used += columns(word.trim_end_matches('\n'));
            }
        }
        out
    }

    fn of(terminal: bool, width: Option<usize>) -> Look {
        let value = |name: &str| std::env::var_os(name);
        Look { colour: is_colour_wanted(terminal, value), width }
    }

    /// Headings and sums.
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    /// Formats text that matters less.
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    /// Formats text that needs attention.
    pub fn warn(self, text: &str) -> String {
        self.paint("33", text)
    }

    /// Formats text for a good state.
    pub fn good(self, text: &str) -> String {
        self.paint("32", text)
    }

    fn paint(self, code: &str, text: &str) -> String {
        match self.colour && !text.is_empty() {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text.to_owned(),
        }
    }
}

/// Columns of a terminal that text takes: two for the letters of East Asia and pictures, none for marks over letters.
pub fn columns(text: &str) -> usize {
    let of = |letter: char| match u32::from(letter) {
        0x20..=0x7e => 1,
        0x300..=0x36f | 0x200b..=0x200f | 0xfe00..=0xfe0f => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => {
            2
        }
        0xfe30..=0xfe6f
        | 0xff00..=0xff60
        | 0xffe0..=0xffe6
        | 0x1f300..=0x1f9ff
        | 0x20000..=0x3fffd => 2,
        _ => 1,
    };
    text.chars().map(of).sum()
}

/// Returns the number of lines of the terminal at standard output; `None` if it is not known.
pub fn height() -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok()?;
    (size.ws_row > 0).then_some(usize::from(size.ws_row))
}

/// Returns true if the reader of standard output is gone.
pub fn is_abandoned() -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let out = std::io::stdout();
    let mut asked = [PollFd::new(&out, PollFlags::empty())];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let gone = PollFlags::ERR | PollFlags::HUP;
    poll(&mut asked, Some(&now)).is_ok_and(|count| count > 0) && asked[0].revents().intersects(gone)
}

/// The second screen of a terminal, on which each frame takes the place of the one before. Dropping it brings the first
/// one back.
#[derive(Debug)]
pub struct Screen(());

impl Screen {
    /// Switches to the alternate screen, without a cursor, and has long lines cut. Returns `None`
    /// if the reader of standard output is gone.
    ///
    /// # Errors
    /// If standard output cannot be written for another reason.
    pub fn open() -> anyhow::Result<Option<Screen>> {
        Ok(print("\x1b[?1049h\x1b[?25l\x1b[?7l")?.then_some(Screen(())))
    }

    /// Shows as many lines as fit. Returns false, and no error, if the reader of standard output is
    /// gone.
    ///
    /// # Errors
    /// If standard output cannot be written for another reason.
    pub fn show(&self, text: &str) -> anyhow::Result<bool> {
        let lines = text.lines().take(height().unwrap_or(usize::MAX));
        let lines: Vec<&str> = lines.collect();
        // Home, then each line to its end, then the rest; no line end behind the last, which would scroll.
        print(&format!("\x1b[H{}\x1b[K\x1b[J", lines.join("\x1b[K\r\n")))
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = print("\x1b[?7h\x1b[?25h\x1b[?1049l");
    }
}

/// Returns the width of a terminal that reports it.
fn width(out: &impl AsFd) -> Option<usize> {
    let size = rustix::termios::tcgetwinsize(out).ok()?;
    (size.ws_col > 0).then_some(usize::from(size.ws_col))
}

/// Writes to standard output. Returns false, and no error, if the reader of standard output is
/// gone.
///
/// # Errors
/// If standard output cannot be written for another reason.
pub fn print(text: &str) -> anyhow::Result<bool> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(false),
        result => result.map(|()| true).context("cannot write to standard output"),
    }
}

/// Writes one line to standard error, beginning with the name of the program; several lines for an
/// error with several. Names in it may be from a trace, and file names from anywhere.
pub fn say(text: &str) {
    let _ = writeln!(std::io::stderr().lock(), "memprof: {}", clean_lines(text));
}

/// A line on standard error that shows the progress of long work, on a terminal only.
#[derive(Debug)]
pub struct Progress {
    what: String,
    shown: bool,
    last: usize,
    begun: std::time::Instant,
}

impl Progress {
    /// Creates the progress of work with this name.
    pub fn new(what: &str) -> Progress {
        Progress {
            what: what.to_owned(),
            shown: std::io::stderr().is_terminal(),
            last: usize::MAX,
            begun: std::time::Instant::now(),
        }
    }

    /// Begins the next part of the same work, which has a separate name.
    pub fn part(&mut self, what: &str) {
        self.what = what.to_owned();
        if self.is_there() {
            // The line before may have been longer.
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
        self.last = usize::MAX;
    }

    /// Shows that `done` of `total` is done; nothing within the first half second.
    pub fn at(&mut self, done: usize, total: usize) {
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        if !self.shown || percent == self.last || self.begun.elapsed().as_millis() < 500 {
            return;
        }
        self.last = percent;
        let bar = "█".repeat(percent / 5);
        let mut out = std::io::stderr().lock();
        let _ = write!(out, "\r{} {bar:<20} {done}/{total}", self.what);
        let _ = out.flush();
    }

    fn is_there(&self) -> bool {
        self.shown && self.last != usize::MAX
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_there() {
            let _ = write!(std::io::stderr().lock(), "\r\x1b[K");
        }
    }
}

/// Returns true for a terminal that supports colours and whose user has not disabled them
/// (<https://no-color.org>).
fn is_colour_wanted(terminal: bool, value: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_dumb = value("TERM").is_some_and(|term| term == "dumb");
    let is_forbidden = value("NO_COLOR").is_some_and(|text| !text.is_empty());
    terminal && !is_dumb && !is_forbidden
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_need_a_terminal_and_no_objection() {
        let with = |terminal, name: &'static str, text: &'static str| {
            is_colour_wanted(terminal, |asked: &str| (asked == name).then(|| text.into()))
        };
        assert!(with(true, "TERM", "xterm") && with(true, "NO_COLOR", ""));
        assert!(!with(false, "TERM", "xterm"));
        assert!(!with(true, "TERM", "dumb") && !with(true, "NO_COLOR", "1"));
    }

    #[test]
    fn without_colour_text_stays_as_it_is() {
        assert_eq!(Look::plain().bold("x"), "x");
        assert_eq!(Look { colour: true, width: None }.warn("x"), "\x1b[33mx\x1b[0m");
        assert_eq!(Look { colour: true, width: None }.dim(""), "");
    }

    #[test]
    fn lines_break_between_words_where_a_terminal_is_narrow() {
        let text = "one two three four\nfive\n";
        assert_eq!(Look::plain().wrap(text), text);
        assert_eq!(Look::plain().narrow(9).wrap(text), "one two\n  three\n  four\nfive\n");
        assert_eq!(Look::plain().narrow(4).wrap("alpha beta"), "alpha\n  beta");
        assert_eq!(Look::plain().narrow(9).wrap("    a bc def"), "    a bc\n    def");
        assert_eq!(Look::plain().narrow(80).wrap("  kept  as is "), "  kept  as is ");
    }

    #[test]
    fn wide_letters_take_two_columns_and_marks_none() {
        assert_eq!([columns("ab·µ"), columns("日本"), columns("e\u{301}")], [4, 4, 1]);
    }
}
