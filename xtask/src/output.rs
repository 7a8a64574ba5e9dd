//! Output of the commands. A reader that has seen enough, such as `head`, is no error: the command goes on to its end and
//! prints no more.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};

/// Takes the place of the standard library's macro, which panics where nobody reads.
macro_rules! println {
    ($($part:tt)*) => { $crate::output::line(&mut std::io::stdout().lock(), format_args!($($part)*)) };
}

/// Takes the place of the standard library's macro, which panics where nobody reads.
macro_rules! print {
    ($($part:tt)*) => { $crate::output::text(&mut std::io::stdout().lock(), format_args!($($part)*)) };
}

/// Takes the place of the standard library's macro, which panics where nobody reads.
macro_rules! eprintln {
    ($($part:tt)*) => { $crate::output::line(&mut std::io::stderr().lock(), format_args!($($part)*)) };
}

/// Takes the place of the standard library's macro, which panics where nobody reads.
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

/// A full disk ends the command; a reader that has gone does not.
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

    /// Every write to it fails with this kind.
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
