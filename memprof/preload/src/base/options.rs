//! Settings from the environment, read once.

use core::str;

/// Maximum length of the path of a directory or file.
pub const PATH: usize = 1024;

/// Text of bounded length; empty if not set.
#[derive(Copy, Clone, Debug)]
pub struct Text<const LIMIT: usize> {
    bytes: [u8; LIMIT],
    length: usize,
}

impl<const LIMIT: usize> Text<LIMIT> {
    pub const fn empty() -> Text<LIMIT> {
        Text { bytes: [0; LIMIT], length: 0 }
    }

    /// Creates a text from the part that fits.
    pub fn cut(from: &[u8]) -> Text<LIMIT> {
        let mut text = Text::empty();
        text.push(from);
        text
    }

    /// Appends the part that fits.
    pub fn push(&mut self, more: &[u8]) {
        let count = more.len().min(LIMIT - self.length);
        self.bytes[self.length..self.length + count].copy_from_slice(&more[..count]);
        self.length += count;
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl<const LIMIT: usize> core::fmt::Write for Text<LIMIT> {
    /// Drops the part that does not fit.
    fn write_str(&mut self, text: &str) -> core::fmt::Result {
        self.push(text.as_bytes());
        Ok(())
    }
}

/// Which processes have a trace file.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Record {
    /// Processes that are ranks of an MPI job.
    Ranks,
    /// As `Ranks`; if no launcher started ranks, also the command of this `memprof run` process,
    /// and its descendants that hold much memory.
    Command {
        of: u32,
    },
    All,
}

/// Settings; see `MEMPROF_...` in the guide.
#[derive(Copy, Clone)]
pub struct Options {
    /// Absolute path; empty if nothing is recorded.
    pub directory: Text<PATH>,
    pub record: Record,
    /// Minimum time between two samples, in nanoseconds.
    pub interval: u64,
    /// Share of one processor's time that sampling may use.
    pub duty: f64,
    pub exact: bool,
    /// Measure the time inside and outside of MPI.
    pub time: bool,
    /// Minimum interval in nanoseconds between two reports of the loops that call MPI; 0 for no
    /// loops. Needs `time`.
    pub loops: u64,
    /// Have the kernel report every page fault.
    pub faults: bool,
    /// Path of the override file; empty for none.
    pub components: Text<PATH>,
    /// Mean bytes between two sampled stacks; 0 for none.
    pub stacks: u64,
    pub quiet: bool,
    pub file_size: u64,
    /// Nanoseconds between two writes of the trace to its disk; 0 to leave them to the system.
    pub flush: u64,
}

impl Options {
    pub const fn new() -> Options {
        Options {
            directory: Text::empty(),
            record: Record::Ranks,
            interval: 20_000_000,
            duty: 0.003,
            exact: false,
            time: false,
            loops: 0,
            faults: false,
            components: Text::empty(),
            stacks: 512 * 1024,
            quiet: false,
            file_size: 4 << 20,
            flush: 0,
        }
    }
}

fn number<T: str::FromStr>(value: &[u8]) -> Option<T> {
    str::from_utf8(value).ok()?.trim().parse().ok()
}

fn flag(value: &[u8]) -> Option<bool> {
    match value {
        b"1" => Some(true),
        b"0" | b"" => Some(false),
        _ => None,
    }
}

fn path(value: &[u8]) -> Option<Text<PATH>> {
    (value.first() == Some(&b'/') && value.len() < PATH).then(|| Text::cut(value))
}

/// Reads all settings. Calls `refuse` with the name of each setting that has an invalid value and
/// the required form; such a setting keeps its default.
pub fn parse<'v>(
    value: &dyn Fn(&str) -> Option<&'v [u8]>,
    refuse: &mut dyn FnMut(&'static str, &'static str),
) -> Options {
    let mut options = Options::new();
    let mut set = |name: &'static str, wanted, apply: &mut dyn FnMut(&[u8]) -> Option<()>| {
        if let Some(value) = value(name)
            && apply(value).is_none()
        {
            refuse(name, wanted);
        }
    };
    set("MEMPROF_DIR", "the absolute path of a folder, shorter than 1024 bytes", &mut |value| {
        // An empty value counts as not set.
        if value.is_empty() {
            return Some(());
        }
        options.directory = path(value)?;
        Some(())
    });
    set("MEMPROF_RECORD", "ranks, all, or command:PID", &mut |value| {
        options.record = match value {
            b"ranks" => Record::Ranks,
            b"all" => Record::All,
            _ => Record::Command { of: number(value.strip_prefix(b"command:")?)? },
        };
        Some(())
    });
    set("MEMPROF_INTERVAL_MS", "milliseconds from 0.1 to 60000", &mut |value| {
        let milliseconds: f64 = number(value)?;
        if !(0.1..=60_000.0).contains(&milliseconds) {
            return None;
        }
        options.interval = (milliseconds * 1e6) as u64;
        Some(())
    });
    set("MEMPROF_MAX_OVERHEAD", "a percentage from 0.001 to 100", &mut |value| {
        let percent: f64 = number(value)?;
        if !(0.001..=100.0).contains(&percent) {
            return None;
        }
        options.duty = percent / 100.0;
        Some(())
    });
    set("MEMPROF_EXACT", "0 or 1", &mut |value| {
        options.exact = flag(value)?;
        Some(())
    });
    set("MEMPROF_MPI_TIME", "0 or 1", &mut |value| {
        options.time = flag(value)?;
        Some(())
    });
    set("MEMPROF_LOOP_INTERVAL", "seconds from 0.01 to 3600, or 0", &mut |value| {
        let seconds: f64 = if value.is_empty() { 0.0 } else { number(value)? };
        if seconds != 0.0 && !(0.01..=3_600.0).contains(&seconds) {
            return None;
        }
        options.loops = (seconds * 1e9) as u64;
        Some(())
    });
    set("MEMPROF_FAULTS", "0 or 1", &mut |value| {
        options.faults = flag(value)?;
        Some(())
    });
    set(
        "MEMPROF_COMPONENTS",
        "the absolute path of a file, shorter than 1024 bytes",
        &mut |value| {
            if value.is_empty() {
                return Some(());
            }
            options.components = path(value)?;
            Some(())
        },
    );
    set("MEMPROF_STACKS", "a number of bytes", &mut |value| {
        options.stacks = number(value)?;
        Some(())
    });
    set("MEMPROF_QUIET", "0 or 1", &mut |value| {
        options.quiet = flag(value)?;
        Some(())
    });
    set("MEMPROF_FILE_SIZE", "bytes from 1048576 to 1073741824", &mut |value| {
        let size: u64 = number(value)?;
        if !((1 << 20)..=(1 << 30)).contains(&size) {
            return None;
        }
        options.file_size = size;
        Some(())
    });
    set("MEMPROF_SYNC_INTERVAL", "seconds from 0.1 to 86400, or 0", &mut |value| {
        let seconds: f64 = number(value)?;
        if seconds != 0.0 && !(0.1..=86_400.0).contains(&seconds) {
            return None;
        }
        options.flush = (seconds * 1e9) as u64;
        Some(())
    });
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &'static str)]) -> (Options, Vec<&'static str>) {
        let mut refused = Vec::new();
        let options = parse(
            &|name| pairs.iter().find(|pair| pair.0 == name).map(|pair| pair.1.as_bytes()),
            &mut |name, _| refused.push(name),
        );
        (options, refused)
    }

    #[test]
    fn nothing_set_is_the_default_and_records_nothing() {
        let (empty, refused) = read(&[("MEMPROF_DIR", ""), ("MEMPROF_COMPONENTS", "")]);
        assert!(empty.directory.as_bytes().is_empty() && refused.is_empty());
        let (options, refused) = read(&[]);
        assert!(options.directory.as_bytes().is_empty());
        assert_eq!(options.interval, 20_000_000);
        assert_eq!(options.record, Record::Ranks);
        assert!(refused.is_empty());
    }

    #[test]
    fn good_values_are_used() {
        let (options, refused) = read(&[
            ("MEMPROF_DIR", "/tmp/x"),
            ("MEMPROF_RECORD", "all"),
            ("MEMPROF_INTERVAL_MS", "2.5"),
            ("MEMPROF_MAX_OVERHEAD", "1"),
            ("MEMPROF_EXACT", "1"),
            ("MEMPROF_MPI_TIME", "1"),
            ("MEMPROF_LOOP_INTERVAL", "0.25"),
            ("MEMPROF_COMPONENTS", "/tmp/names"),
            ("MEMPROF_STACKS", "0"),
            ("MEMPROF_QUIET", "1"),
            ("MEMPROF_FILE_SIZE", "8388608"),
            ("MEMPROF_SYNC_INTERVAL", "2.5"),
        ]);
        assert_eq!(refused, Vec::<&str>::new());
        assert_eq!(options.directory.as_bytes(), b"/tmp/x");
        assert_eq!(options.record, Record::All);
        assert_eq!(options.interval, 2_500_000);
        assert!((options.duty - 0.01).abs() < 1e-12);
        assert!(options.exact && options.quiet && options.time);
        assert_eq!(options.loops, 250_000_000);
        assert_eq!(options.components.as_bytes(), b"/tmp/names");
        assert_eq!(options.stacks, 0);
        assert_eq!(options.file_size, 8 << 20);
        assert_eq!(options.flush, 2_500_000_000);
    }

    #[test]
    fn command_is_recorded_for_the_process_that_runs_it() {
        let (options, refused) = read(&[("MEMPROF_RECORD", "command:4711")]);
        assert_eq!((options.record, refused.len()), (Record::Command { of: 4711 }, 0));
    }

    #[test]
    fn bad_values_are_named_and_the_default_is_used() {
        let long: &'static str = Box::leak(format!("/{}", "x".repeat(PATH)).into_boxed_str());
        for (name, value) in [
            ("MEMPROF_DIR", "relative"),
            ("MEMPROF_DIR", long),
            ("MEMPROF_RECORD", "some"),
            ("MEMPROF_RECORD", "command:"),
            ("MEMPROF_RECORD", "command:-1"),
            ("MEMPROF_INTERVAL_MS", "0"),
            ("MEMPROF_INTERVAL_MS", "-1"),
            ("MEMPROF_INTERVAL_MS", "NaN"),
            ("MEMPROF_INTERVAL_MS", "inf"),
            ("MEMPROF_INTERVAL_MS", "20ms"),
            ("MEMPROF_MAX_OVERHEAD", "0"),
            ("MEMPROF_MAX_OVERHEAD", "101"),
            ("MEMPROF_EXACT", "yes"),
            ("MEMPROF_MPI_TIME", "yes"),
            ("MEMPROF_LOOP_INTERVAL", "yes"),
            ("MEMPROF_LOOP_INTERVAL", "-1"),
            ("MEMPROF_LOOP_INTERVAL", "0.001"),
            ("MEMPROF_LOOP_INTERVAL", "3601"),
            ("MEMPROF_COMPONENTS", "names"),
            ("MEMPROF_STACKS", "-5"),
            ("MEMPROF_STACKS", "99999999999999999999"),
            ("MEMPROF_QUIET", "2"),
            ("MEMPROF_FILE_SIZE", "4096"),
            ("MEMPROF_FILE_SIZE", "4 MiB"),
            ("MEMPROF_SYNC_INTERVAL", "0.01"),
            ("MEMPROF_SYNC_INTERVAL", "-1"),
            ("MEMPROF_SYNC_INTERVAL", "often"),
        ] {
            let (options, refused) = read(&[(name, value)]);
            assert_eq!(refused, [name], "{value}");
            assert!(options.directory.as_bytes().is_empty());
            assert_eq!(options.interval, 20_000_000);
            assert_eq!(options.file_size, 4 << 20);
            assert_eq!(options.stacks, 512 * 1024);
            assert_eq!((options.flush, options.loops), (0, 0));
        }
    }
}
