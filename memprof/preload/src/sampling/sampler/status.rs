//! Numbers that only other kernel files contain: huge pages, page tables, the kernel's own peak.

use core::sync::atomic::{AtomicBool, Ordering};

use super::maps;
use super::state::{DEVICES, Sampler};
use crate::base::component::Component;
use crate::base::kernel;

impl Sampler {
    /// Returns true if the kernel does not count pages of this mapping's kind as resident. The page
    /// size of a file system is queried once, since the query is slow.
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

    /// Reads the numbers that only `/proc/self/status` contains: page tables, huge pages, the
    /// kernel's own peak.
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
        // From the next sample on, devices are queried.
        self.walked.has_hugetlb = maps::status_bytes(status, b"HugetlbPages") > 0;
        self.sources.text = Some(text);
    }
}

/// Set if the process has forked or was forked and relatives are recorded too; and if all of them
/// are.
static HAS_RELATIVES: AtomicBool = AtomicBool::new(false);
static HAS_ALL: AtomicBool = AtomicBool::new(false);

/// Records that the process shares pages with others from now on, as after a fork. `all` of them
/// are recorded, or some.
pub fn has_relatives(all: bool) {
    HAS_ALL.store(all, Ordering::Relaxed);
    HAS_RELATIVES.store(true, Ordering::Relaxed);
}

/// Returns the bytes by which the anonymous pages of the process exceed its share of them, if all
/// processes that share them are recorded, and the bytes of the pages that others share. The kernel
/// walks through all pages for this.
pub fn beyond_share() -> (u64, u64) {
    if !HAS_RELATIVES.load(Ordering::Relaxed) {
        return (0, 0);
    }
    let Ok(file) = kernel::open(c"/proc/self/smaps_rollup") else { return (0, 0) };
    let mut text = [0; 2048];
    let length = kernel::read_at(file, &mut text, 0).unwrap_or(0);
    kernel::close(file);
    let bytes = |name: &[u8]| maps::status_bytes(&text[..length], name);
    // Older kernels report only the sum over all kinds of pages.
    if !text[..length].windows(9).any(|word| word == b"Pss_Anon:") {
        return (0, 0);
    }
    let beyond = bytes(b"Anonymous").saturating_sub(bytes(b"Pss_Anon"));
    // Dirty pages of files and of shared memory are not anonymous.
    let files = bytes(b"Pss_File") + bytes(b"Pss_Shmem");
    let private = bytes(b"Private_Dirty").saturating_sub(files);
    // Of pages shared by two processes, each has half.
    let common = bytes(b"Anonymous").saturating_sub(private).min(2 * beyond);
    (if HAS_ALL.load(Ordering::Relaxed) { beyond } else { 0 }, common)
}

/// Returns true if `/proc/self/smaps` shows huge pages in the mapping that starts at `start`.
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
