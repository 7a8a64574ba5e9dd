//! Parser of `/proc/self/maps`, line by line.

/// One mapping.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Line<'t> {
    pub start: usize,
    pub end: usize,
    pub readable: bool,
    pub writable: bool,
    pub executable: bool,
    pub shared: bool,
    pub offset: u64,
    /// Device number in the encoding of `makedev`.
    pub device: u64,
    pub inode: u64,
    /// Empty where there is none; names of the kernel are in brackets.
    pub path: &'t [u8],
}

fn number(text: &[u8], radix: u32) -> Option<u64> {
    if text.is_empty() || text.len() > 20 {
        return None;
    }
    text.iter().try_fold(0_u64, |sum, &byte| {
        let digit = char::from(byte).to_digit(radix)?;
        sum.checked_mul(u64::from(radix))?.checked_add(u64::from(digit))
    })
}

/// Parses one line without its end; `None` if it has not the kernel's format.
pub fn parse(line: &[u8]) -> Option<Line<'_>> {
    let mut words = line.splitn(6, |&byte| byte == b' ');
    let addresses = words.next()?;
    let dash = addresses.iter().position(|&byte| byte == b'-')?;
    let start = number(&addresses[..dash], 16)? as usize;
    let end = number(&addresses[dash + 1..], 16)? as usize;
    let rights = words.next()?;
    let offset = number(words.next()?, 16)?;
    let device = words.next()?;
    let colon = device.iter().position(|&byte| byte == b':')?;
    let major = number(&device[..colon], 16)?;
    let minor = number(&device[colon + 1..], 16)?;
    let inode = number(words.next()?, 10)?;
    if rights.len() != 4 || start >= end || !start.is_multiple_of(4096) || !end.is_multiple_of(4096)
    {
        return None;
    }
    Some(Line {
        start,
        end,
        readable: rights[0] == b'r',
        writable: rights[1] == b'w',
        executable: rights[2] == b'x',
        shared: rights[3] == b's',
        offset,
        device: libc::makedev(major as u32, minor as u32),
        inode,
        path: words.next().unwrap_or(b"").trim_ascii_start(),
    })
}

/// Splits a text that is read in pieces into its lines.
pub struct Lines<'b> {
    buffer: &'b mut [u8],
    filled: usize,
    taken: usize,
}

impl<'b> Lines<'b> {
    /// Creates a splitter. Lines longer than the buffer are skipped.
    pub fn new(buffer: &'b mut [u8]) -> Lines<'b> {
        Lines { buffer, filled: 0, taken: 0 }
    }

    /// Returns the next line; `read` fills a buffer, and returns 0 at the end.
    pub fn next(&mut self, read: &mut dyn FnMut(&mut [u8]) -> usize) -> Option<&[u8]> {
        loop {
            let rest = &self.buffer[self.taken..self.filled];
            if let Some(length) = rest.iter().position(|&byte| byte == b'\n') {
                let start = self.taken;
                self.taken += length + 1;
                return Some(&self.buffer[start..start + length]);
            }
            if self.taken == 0 && self.filled == self.buffer.len() {
                self.filled = 0;
            } else {
                self.buffer.copy_within(self.taken..self.filled, 0);
                self.filled -= self.taken;
                self.taken = 0;
            }
            let more = read(&mut self.buffer[self.filled..]);
            if more == 0 {
                return None;
            }
            self.filled += more.min(self.buffer.len() - self.filled);
        }
    }
}

/// Returns the number after `name:` in `/proc/self/status`, in bytes where the kernel gives kB.
pub fn status_bytes(status: &[u8], name: &[u8]) -> u64 {
    let mut lines = status.split(|&byte| byte == b'\n');
    let line = lines.find(|line| line.starts_with(name) && line.get(name.len()) == Some(&b':'));
    let Some(line) = line else { return 0 };
    let text = line[name.len() + 1..].trim_ascii();
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let scale = if text.ends_with(b"kB") { 1024 } else { 1 };
    number(&text[..digits], 10).unwrap_or(0).saturating_mul(scale)
}

/// Returns the number of resident pages in `/proc/self/statm`.
pub fn statm_resident(statm: &[u8]) -> Option<u64> {
    number(statm.split(|&byte| byte == b' ').nth(1)?, 10)
}

/// Returns true if the text of `/proc/self/smaps` shows huge pages in the mapping that starts at
/// `start`.
pub fn is_huge(start: usize, text: &mut [u8], read: &mut dyn FnMut(&mut [u8]) -> usize) -> bool {
    let mut lines = Lines::new(text);
    let mut here = false;
    while let Some(line) = lines.next(&mut *read) {
        if let Some(mapping) = parse(line) {
            here = mapping.start == start;
        } else if here && let Some(flags) = line.strip_prefix(b"VmFlags:") {
            return flags.split(|&byte| byte == b' ').any(|flag| flag == b"ht");
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lines_of_every_kind_are_read() {
        let file = b"7f00a000-7f00b000 r-xp 00021000 fe:0a 325843                     /usr/lib/a b.so (deleted)";
        let line = parse(file).unwrap();
        assert_eq!((line.start, line.end, line.offset), (0x7f00_a000, 0x7f00_b000, 0x21000));
        assert!(line.readable && !line.writable && line.executable && !line.shared);
        assert_eq!((line.device, line.inode), (libc::makedev(0xfe, 10), 325_843));
        assert_eq!(line.path, b"/usr/lib/a b.so (deleted)");
        let shared = parse(b"1000-3000 rw-s 00000000 00:01 2    /dev/zero (deleted)").unwrap();
        assert!(shared.writable && shared.shared);
        assert_eq!(parse(b"1000-3000 rw-p 00000000 00:00 0 ").unwrap().path, b"");
        assert_eq!(parse(b"1000-3000 rw-p 00000000 00:00 0").unwrap().path, b"");
    }

    #[test]
    fn what_is_no_line_is_refused() {
        for line in [
            "",
            "x",
            "1000-1000 rw-p 0 00:00 0",
            "3000-1000 rw-p 0 00:00 0",
            "1000-3001 rw-p 0 00:00 0",
            "1000-3000 rw 0 00:00 0",
            "1000-3000 rw-p 0 0000 0",
            "1000-3000 rw-p 0 00:00",
            "fffffffffffffffffffff000-3000 rw-p 0 00:00 0",
        ] {
            assert_eq!(parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn numbers_of_the_status_are_bytes() {
        let status =
            b"VmPTE:\t      52 kB\nVmPTEx:\t1 kB\nThreads:\t3\nHugetlbPages:\t       0 kB\n";
        assert_eq!(status_bytes(status, b"VmPTE"), 52 * 1024);
        assert_eq!(status_bytes(status, b"Threads"), 3);
        assert_eq!(status_bytes(status, b"VmSwap"), 0);
        assert_eq!(statm_resident(b"100 23 4 5 0 6 0\n"), Some(23));
        assert_eq!(statm_resident(b"100"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&bytes);
            let _ = status_bytes(&bytes, b"VmPTE");
            let _ = statm_resident(&bytes);
        }

        #[test]
        fn lines_are_whole_however_they_come(
            lines in proptest::collection::vec("[a-z]{0,30}", 0..30),
            pieces in proptest::collection::vec(1_usize..20, 1..8),
        ) {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            let (mut at, mut turn) = (0, 0);
            let mut read = |into: &mut [u8]| {
                let count = pieces[turn % pieces.len()].min(into.len()).min(text.len() - at);
                turn += 1;
                into[..count].copy_from_slice(&text.as_bytes()[at..at + count]);
                at += count;
                count
            };
            let mut buffer = [0; 40];
            let mut split = Lines::new(&mut buffer);
            let mut found = Vec::new();
            while let Some(line) = split.next(&mut read) {
                found.push(String::from_utf8(line.to_vec()).unwrap());
            }
            prop_assert_eq!(found, lines);
        }
    }
}
