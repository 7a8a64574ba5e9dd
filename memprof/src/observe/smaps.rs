//! The text of `/proc/PID/smaps`.

/// One mapping of a process, and what of it is in memory. Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Addresses, from the first to behind the last.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// May be read, written, executed.
    pub rights: [bool; 3],
    /// Others see what is written.
    pub shared: bool,
    /// Of the file, where there is one.
    pub inode: u64,
    /// Path of the file, or the kernel's own name in brackets; empty where there is none.
    pub path: String,
    /// In memory, huge TLB pages included.
    pub resident: u64,
    /// Of `resident`, in pages that other processes map, too.
    pub in_common: u64,
    /// Bytes swapped out.
    pub swapped: u64,
}

impl Mapping {
    /// Returns true if it is memory of the process alone, without a file.
    pub fn is_anonymous(&self) -> bool {
        let is_unnamed = self.path.is_empty() || self.path.starts_with("[anon");
        is_unnamed && self.inode == 0 && !self.shared
    }

    /// Returns true if nothing of it may be touched.
    pub fn is_guard(&self) -> bool {
        self.rights == [false; 3]
    }

    /// Returns the number of addresses.
    pub fn size(&self) -> u64 {
        self.end - self.start
    }
}

/// Reads all mappings; lines that are none of the kernel's are left out.
pub fn parse(text: &str) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = Vec::new();
    for line in text.lines() {
        if let Some(mapping) = head(line) {
            mappings.push(mapping);
        } else if let (Some(mapping), Some((name, bytes))) = (mappings.last_mut(), amount(line)) {
            let sum = match name {
                "Rss" => &mut mapping.resident,
                "Shared_Clean" | "Shared_Dirty" => &mut mapping.in_common,
                "Swap" => &mut mapping.swapped,
                // Not in Rss.
                "Private_Hugetlb" => &mut mapping.resident,
                "Shared_Hugetlb" => {
                    mapping.resident = mapping.resident.saturating_add(bytes);
                    &mut mapping.in_common
                }
                _ => continue,
            };
            *sum = sum.saturating_add(bytes);
        }
    }
    mappings
}

/// Parses a line such as `7f00a000-7f00b000 r-xp 00021000 fe:0a 325843   /usr/lib/a b.so`.
fn head(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ');
    let (start, end) = words.next()?.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    let rights = words.next()?.as_bytes();
    let [read, write, execute, kind] = rights else { return None };
    let (_offset, _device) = (words.next()?, words.next()?);
    let inode = words.next()?.parse().ok()?;
    (start < end).then(|| Mapping {
        start,
        end,
        rights: [*read == b'r', *write == b'w', *execute == b'x'],
        shared: *kind == b's',
        inode,
        path: words.next().unwrap_or_default().trim_start().to_owned(),
        ..Mapping::default()
    })
}

/// Parses a line such as `Rss:                 132 kB`.
fn amount(line: &str) -> Option<(&str, u64)> {
    let (name, value) = line.split_once(':')?;
    let number: u64 = value.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some((name, number.saturating_mul(1024)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_have_their_amounts() {
        let text = "55e0-55f0 r-xp 00002000 fe:01 1234                       /usr/bin/a b\n\
             Size:                 64 kB\nRss:                  40 kB\nPss:                  10 kB\n\
             Shared_Clean:         30 kB\nShared_Dirty:          2 kB\nSwap:                  4 kB\n\
             VmFlags: rd ex mr\n\
             7f00-7f10 rw-s 00000000 00:0e 99 /anon_hugepage (deleted)\n\
             Rss:                   0 kB\nShared_Hugetlb:     2048 kB\nPrivate_Hugetlb:    4096 kB\n";
        let found = parse(text);
        assert_eq!(found.len(), 2);
        let first = &found[0];
        assert_eq!((first.start, first.end, &*first.path), (0x55e0, 0x55f0, "/usr/bin/a b"));
        assert_eq!((first.rights, first.shared, first.inode), ([true, false, true], false, 1234));
        let amounts = (first.resident, first.in_common, first.swapped);
        assert_eq!(amounts, (40 << 10, 32 << 10, 4 << 10));
        assert_eq!((found[1].resident, found[1].in_common), (6 << 20, 2 << 20));
    }

    #[test]
    fn lines_of_other_forms_are_left_out() {
        for text in ["", "x\n", "10-10 rw-p 0 0:0 0\n", "20-10 rw-p 0 0:0 0\n", "Rss: 4 kB\n"] {
            assert_eq!(parse(text), [], "{text:?}");
        }
        let found = parse("1000-2000 rw-p 0 0:0 0 \nRss: x kB\nRss: 18446744073709551615 kB\n");
        assert_eq!((found[0].resident, found[0].is_anonymous()), (u64::MAX, true));
    }
}
