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
    #[should_panic(expected = "cannot write output")]
    fn full_disk_ends_the_command() {
        line(&mut Failing(ErrorKind::StorageFull), format_args!("a"));
    }
}
