//! Output of the commands. A reader that closes the pipe early, such as `head`, is no error: the
//! command runs to its end and prints no more.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Replaces the standard library's macro, which panics without a reader.
macro_rules! println {
    ($($part:tt)*) => { $crate::output::line(&mut std::io::stdout().lock(), format_args!($($part)*)) };
}

/// Replaces the standard library's macro, which panics without a reader.
macro_rules! print {
    ($($part:tt)*) => { $crate::output::text(&mut std::io::stdout().lock(), format_args!($($part)*)) };
}

/// Replaces the standard library's macro, which panics without a reader.
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::output::line(&mut std::io::stderr().lock(), format_args!($($part)*)) };
}

/// Replaces the standard library's macro, which panics without a reader.
macro_rules! eprint {
    ($($part:tt)*) => { $crate::output::text(&mut std::io::stderr().lock(), format_args!($($part)*)) };
}

/// Steps of a long command, which are announced with their numbers.
pub struct Steps {
    done: usize,
    of: usize,
}

impl Steps {
    /// Returns the steps of a command that has `of` of them.
    pub fn new(of: usize) -> Steps {
        Steps { done: 0, of }
    }

    /// Announces the next step.
    pub fn next(&mut self, what: &str) {
        let line = self.line(what);
        println!("{line}");
    }

    fn line(&mut self, what: &str) -> String {
        self.done += 1;
        debug_assert!(self.done <= self.of, "{what} is step {} of {}", self.done, self.of);
        format!("step {} of {}: {what}", self.done, self.of)
    }
}

/// Writes a line.
pub fn line(out: &mut dyn Write, text: Arguments<'_>) {
    judge(out.write_fmt(format_args!("{text}\n")));
}

/// Writes text.
pub fn text(out: &mut dyn Write, text: Arguments<'_>) {
    judge(out.write_fmt(text));
}

/// Ends the command on a full disk, but not on a closed pipe.
fn judge(written: io::Result<()>) {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            panic!("cannot write output: {error}")
        }
        _ => (),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A writer whose every write fails with this kind.
    struct Failing(ErrorKind);

    impl Write for Failing {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn reader_that_has_gone_ends_nothing() {
        line(&mut Failing(ErrorKind::BrokenPipe), format_args!("a"));
        text(&mut Failing(ErrorKind::BrokenPipe), format_args!("a"));
    }

    #[test]
    fn steps_are_counted_from_one() {
        let mut steps = Steps::new(2);
        assert_eq!(steps.line("building"), "step 1 of 2: building");
        assert_eq!(steps.line("linking"), "step 2 of 2: linking");
    }

    #[test]
    #[should_panic(expected = "cannot write output")]
    fn full_disk_ends_the_command() {
        line(&mut Failing(ErrorKind::StorageFull), format_args!("a"));
    }
}
