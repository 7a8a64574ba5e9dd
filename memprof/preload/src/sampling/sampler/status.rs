//! Numbers that only some other text of the kernel tells: huge pages, page tables, the kernel's own
//! peak.

use super::maps;
use super::walk::{DEVICES, Sampler};
use crate::base::component::Component;
use crate::base::kernel;

impl Sampler {
    /// Returns true if the pages of a mapping are of a kind that the kernel does not count as resident. The page size
    /// of a file system is asked once, since the answer is slow.
    pub fn is_huge(&mut self, line: &maps::Line<'_>) -> bool {
        let known = self.walked.devices[..self.walked.device_count]
            .iter()
            .find(|entry| entry.0 == line.device);
        if let Some(&(_, huge)) = known {
            return huge;
        }
        let Some(text) = &mut self.sources.text else { return false };
        let huge = is_huge_in_smaps(line.start, text);
        if self.walked.device_count < DEVICES {
            self.walked.devices[self.walked.device_count] = (line.device, huge);
            self.walked.device_count += 1;
        }
        huge
    }

    /// Reads the numbers that only the status tells: page tables, huge pages, the kernel's own
    /// peak.
    pub fn ask_status(&mut self) {
        let (Some(file), Some(text)) = (&mut self.sources.status, self.sources.text.take()) else {
            return;
        };
        let length = file.read_at(text, 0).unwrap_or(0);
        let status = &text[..length];
        self.record.head.page_tables = maps::status_bytes(status, b"VmPTE");
        self.record.head.kernel_peak = maps::status_bytes(status, b"VmHWM");
        self.record.head.threads = maps::status_bytes(status, b"Threads");
        self.walked.totals.components[usize::from(Component::KERNEL.0)].resident =
            self.record.head.page_tables;
        // From the next sample on devices are asked for.
        self.walked.has_hugetlb = maps::status_bytes(status, b"HugetlbPages") > 0;
        self.sources.text = Some(text);
    }
}

/// Returns true if `/proc/self/smaps` has huge pages in the mapping that starts there.
fn is_huge_in_smaps(start: usize, text: &mut [u8]) -> bool {
    let Ok(file) = kernel::open(c"/proc/self/smaps") else { return false };
    let mut offset = 0;
    let huge = maps::is_huge(start, text, &mut |into| {
        let count = kernel::read_at(file, into, offset).unwrap_or(0);
        offset += count as u64;
        count
    });
    kernel::close(file);
    huge
}
