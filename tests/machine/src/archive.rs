//! The initial file archive of a kernel: cpio's "newc" format, written without cpio.

/// An archive being filled. It does not depend on the user or the time, so equal files give equal
/// archives.
#[derive(Debug, Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    pub(crate) fn folder(&mut self, name: &str) {
        self.entry(name, 0o040_755, (0, 0), &[]);
    }

    pub(crate) fn file(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entry(name, 0o100_000 | mode, (0, 0), content);
    }

    /// Adds a character device, which takes no privileges in an archive.
    pub(crate) fn device(&mut self, name: &str, number: (u32, u32)) {
        self.entry(name, 0o020_600, number, &[]);
    }

    pub(crate) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, (0, 0), &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, device: (u32, u32), content: &[u8]) {
        self.entries += 1;
        let length = content.len() as u32;
        let name_length = name.len() as u32 + 1;
        // Number, mode, user, group, links, time, length, device, device file, name, checksum.
        let (major, minor) = device;
        let fields = [self.entries, mode, 0, 0, 1, 0, length, 0, 0, major, minor, name_length, 0];
        self.bytes.extend(b"070701");
        for field in fields {
            self.bytes.extend(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend(name.as_bytes());
        self.bytes.push(0);
        self.align();
        self.bytes.extend(content);
        self.align();
    }

    fn align(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_aligned_and_the_trailer_ends_them() {
        let mut archive = Archive::default();
        archive.folder("dev");
        archive.device("dev/console", (5, 1));
        archive.file("init", 0o755, b"12345");
        let bytes = archive.finish();
        let text = String::from_utf8_lossy(&bytes);
        let starts: Vec<usize> = text.match_indices("070701").map(|(start, _)| start).collect();
        assert_eq!(starts.len(), 4);
        assert!(starts.iter().all(|start| start % 4 == 0));
        assert!(text.contains("000081ed") && text.contains("12345\0\0\0"));
        assert!(text.trim_end_matches('\0').ends_with("TRAILER!!!"));
    }
}
