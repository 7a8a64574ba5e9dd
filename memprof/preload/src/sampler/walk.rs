//! The sampler: all that is kept from sample to sample, and the full sample.

use memprof_trace::layout::{NONE, SummaryHead, SummaryRow, sample};
use memprof_trace::write::{ComponentSample, SampleHead};

use super::agree::Agreement;
use super::attribute::{self, Backing, Mapping, Totals, Walker};
use super::duty::Duty;
use super::edges::{PHASES, Peaks};
use super::entry::{Copies, Entry, NO_ENTRY};
use super::list::{List, Visitor};
use super::maps;
use super::scan::{Run, Scanner};
use super::segments::Segments;
use super::world::Owners;
use super::{SEEN, SEEN_TIME, TOTAL};
use crate::component::{self, Component, LIMIT};
use crate::heap::{self, Ledger};
use crate::kept::Kept;
use crate::kernel;
use crate::losses::{self, Table};
use crate::note::{self, Code};
use crate::{boundary, memory, objects, phases, ranges, writer};
use core::sync::atomic::Ordering::Relaxed;

/// The mappings as they are told, for the entries of a sampler.
struct Listing<'s> {
    sampler: &'s mut Sampler,
    walk: ranges::Walk,
    system: Component,
    /// Entries that are not scanned yet.
    count: usize,
    /// Where the last mapping ended.
    before: usize,
    mappings: u64,
}

impl Visitor for Listing<'_> {
    fn knows(&self, device: u64, inode: u64) -> bool {
        self.sampler.segments.knows((device, inode))
    }

    fn mapping(&mut self, line: &mut maps::Line<'_>) {
        if line.start as u64 >= 1 << 63 || line.end <= self.before {
            return;
        }
        if line.start < self.before {
            // It has grown together with the one before since that was read.
            line.offset += (self.before - line.start) as u64;
            line.start = self.before;
        }
        if line.start > self.before {
            ranges::gone(self.before, line.start, self.walk);
        }
        self.before = line.end;
        self.mappings += 1;
        let entry = self.sampler.entry(line);
        let maker = maker(&entry.mapping);
        if self.walk.corrects || maker.is_some() {
            ranges::seen(line.start, line.end, maker, self.walk);
        }
        if let Some(before) = self.count.checked_sub(1) {
            let has_copies = self.sampler.copies.has(self.sampler.entries[before].mapping.start);
            self.sampler.entries[before].look_at_next(&entry, has_copies);
        }
        self.sampler.entries[self.count] = entry;
        self.count += 1;
        if self.count == BATCH {
            self.sampler.scan(self.count, self.system);
            self.count = 0;
        }
    }
}

/// Mappings walked together.
const BATCH: usize = 2048;
/// Runs asked for at once where there are few.
const FEW: usize = 64;
/// So often all pages are asked for if they are a file's.
const THOROUGH: u64 = 2_000_000_000;
/// Bytes of texts read at once.
const TEXT: usize = 8192;
/// Devices whose kind is remembered.
pub const DEVICES: usize = 16;

/// See the module.
pub struct Sampler {
    pub scanner: Option<Scanner>,
    statm: Option<Kept>,
    list: Option<List>,
    pub status: Option<Kept>,
    /// Room for text of the kernel; not on the stack, which may be a program's small one.
    pub text: Option<&'static mut [u8]>,
    pub runs: [Run; 512],
    entries: [Entry; BATCH],
    pub owners: Owners,
    pub totals: Totals,
    pub segments: Segments,
    /// Devices of files, and whether their pages are huge ones.
    pub devices: [(u64, bool); DEVICES],
    pub device_count: usize,
    /// Huge pages in use by the process, as of the last sample.
    pub has_hugetlb: bool,
    pub ledger: [Ledger; LIMIT],
    ranges: [(u64, u64); LIMIT],
    samples: [ComponentSample; LIMIT],
    pub rows: [SummaryRow; LIMIT],
    pub head: SummaryHead,
    pub phases: Peaks,
    pub duty: Option<Duty>,
    pub published: super::publish::Published,
    /// What the kernel said at the last full sample.
    pub resident_then: u64,
    /// What all owned then, in blocks and in mappings.
    pub owned_then: (u64, u64),
    /// What of each component had moved when the look at the tables began; and what was nobody's and the
    /// allocator's in the last sample.
    pub moved: [u64; LIMIT],
    /// What of each was on its way out then; what each owned, and had ever allocated.
    pub leaving: [u64; LIMIT],
    pub then: [(u64, u64); LIMIT],
    pub nobodys: u64,
    pub slacks: u64,
    pub agreement: Agreement,
    /// Bytes of the tool's in blocks.
    pub tags: u64,
    /// The sample that is taken asks this of each page of a file; and when one last did.
    is_thorough: bool,
    thorough: u64,
    /// Where it found copies that nobody could write to.
    copies: Copies,
    ready: bool,
    stopped: bool,
}

impl Sampler {
    pub const fn new() -> Sampler {
        Sampler {
            scanner: None,
            statm: None,
            list: None,
            status: None,
            text: None,
            runs: [const { Run::EMPTY }; 512],
            entries: [NO_ENTRY; BATCH],
            owners: Owners::new(),
            totals: Totals::new(),
            segments: Segments::new(),
            devices: [(0, false); DEVICES],
            device_count: 0,
            has_hugetlb: false,
            ledger: [const { Ledger { owned: 0, peak: 0, allocations: 0, frees: 0, allocated_total: 0 } };
                LIMIT],
            ranges: [(0, 0); LIMIT],
            samples: [const { NO_SAMPLE }; LIMIT],
            rows: [const { NO_ROW }; LIMIT],
            head: NO_HEAD,
            phases: Peaks::new(),
            duty: None,
            published: super::publish::Published::new(),
            resident_then: 0,
            owned_then: (0, 0),
            moved: [0; LIMIT],
            leaving: [0; LIMIT],
            then: [(0, 0); LIMIT],
            nobodys: 0,
            slacks: 0,
            agreement: Agreement::new(),
            tags: 0,
            is_thorough: false,
            thorough: 0,
            copies: Copies::new(),
            ready: false,
            stopped: false,
        }
    }

    /// Opens what is read again and again.
    pub fn prepare(&mut self, duty: Duty, allocator: Option<Component>) {
        self.duty = Some(duty);
        self.owners.allocator_is(allocator);
        if self.text.is_none() {
            // SAFETY: all zero is text.
            #[allow(unsafe_code)]
            let text = unsafe { memory::slice(TEXT) };
            self.text = text;
        }
        self.statm = Kept::open(c"/proc/self/statm").ok();
        self.list = List::open();
        self.status = Kept::open(c"/proc/self/status").ok();
        match Scanner::open() {
            Ok(scanner) if self.list.is_some() => self.scanner = Some(scanner),
            _ => {
                note::say(
                    Code::NoResidency,
                    format_args!("the kernel does not tell which pages are resident"),
                );
                writer::flags(memprof_trace::layout::flags::NO_RESIDENCY, 0);
            }
        }
        self.head.peak_phase = NONE;
        self.thorough = kernel::monotonic();
        self.ready = true;
        self.stopped = false;
    }

    pub fn stop(&mut self) {
        self.stopped = true;
    }

    pub fn is_ready(&self) -> bool {
        self.ready && !self.stopped
    }

    /// In a forked child.
    pub fn forget(&mut self) {
        let files = [self.statm.take(), self.status.take()];
        files.into_iter().flatten().for_each(Kept::close);
        if let Some(list) = self.list.take() {
            list.close();
        }
        if let Some(scanner) = self.scanner.take() {
            scanner.close();
        }
        self.segments.forget();
        self.published = super::publish::Published::new();
        self.rows.fill(NO_ROW);
        self.head = NO_HEAD;
        self.phases.forget();
        self.agreement = Agreement::new();
        self.ready = false;
    }

    /// What the kernel says is resident, in bytes.
    pub fn kernel_resident(&mut self) -> u64 {
        let mut text = [0; 128];
        let length = self.statm.as_mut().and_then(|file| file.read_at(&mut text, 0).ok());
        let pages = length.and_then(|length| maps::statm_resident(&text[..length]));
        pages.unwrap_or(0) * kernel::page() as u64
    }

    /// A full sample: walks all mappings, gives every page an owner, and writes it down. Nothing
    /// before [`Self::prepare`] or after [`Self::stop`].
    pub fn full(&mut self, flags: u8) {
        if !self.is_ready() || phases::paused() && flags & sample::LAST == 0 {
            return;
        }
        let (began, cpu) = (kernel::monotonic(), kernel::thread_time());
        let replaced = if self.scanner.is_some() {
            self.walk_well()
        } else {
            self.totals.clear();
            self.owners.look();
            self.published.objects();
            0
        };
        self.ask_status();
        self.head.kernel_resident = self.kernel_resident();
        self.resident_then = self.head.kernel_resident;
        let mapped = ranges::total();
        self.owned_then = (heap::all().0.saturating_sub(mapped), mapped);
        self.head.time = writer::now();
        self.phases.outdated = false;
        self.sum();
        self.head.releases_skipped = super::release::skipped();
        self.head.samples_full += 1;
        self.head.samples_release += u64::from(flags & sample::RELEASE != 0);
        self.head.longest_sample_ns = self.head.longest_sample_ns.max(kernel::monotonic() - began);
        self.write(flags);
        let cost = kernel::thread_time() - cpu;
        self.head.cpu_ns += cost;
        if let Some(duty) = &mut self.duty {
            // What is seldom necessary is no reason to sample less often from now on.
            duty.charge(replaced);
            duty.sampled(cost - replaced, self.resident_then);
            self.head.interval_ns = duty.interval();
        }
    }

    /// Sampling took that much of a processor's time, beside what full samples say themselves.
    pub fn charge(&mut self, cost: u64) {
        self.head.cpu_ns += cost;
        if let Some(duty) = &mut self.duty {
            duty.charge(cost);
        }
    }

    /// As [`Self::charge`], of a look between full samples.
    pub fn looked(&mut self, cost: u64) {
        self.head.cpu_ns += cost;
        if let Some(duty) = &mut self.duty {
            duty.looked(cost);
        }
    }

    /// Whether there is time for a full sample now, of so many resident bytes.
    pub fn affordable(&self, resident: u64) -> bool {
        self.duty.is_some_and(|duty| duty.affordable(kernel::monotonic(), resident))
    }

    /// As [`Self::affordable`], also before it is earned.
    pub fn affordable_ahead(&self, resident: u64) -> bool {
        self.affordable(resident) || self.duty.is_some_and(|duty| duty.affordable_ahead(resident))
    }

    /// Whether there is time for one that would come too late if it waited.
    pub fn may_overdraw(&self) -> bool {
        self.may_overdraw_by(0)
    }

    /// As [`Self::may_overdraw`], where so much has been spent that is not charged yet.
    pub fn may_overdraw_by(&self, more: u64) -> bool {
        let now = kernel::monotonic();
        self.duty.is_some_and(|mut duty| {
            duty.charge(more);
            duty.may_overdraw(now)
        })
    }

    /// Goes through the mappings, batch by batch.
    pub fn walk(&mut self) {
        let Some(mut list) = self.list.take() else { return };
        let walk = ranges::walk();
        let now = kernel::monotonic();
        let knows = self.scanner.as_ref().is_some_and(Scanner::crosses_holes);
        self.is_thorough = !knows || now.saturating_sub(self.thorough) >= THOROUGH;
        if self.is_thorough {
            self.thorough = now;
            self.copies.clear();
        }
        let mut listing =
            Listing { walk, system: system(), count: 0, before: 0, mappings: 0, sampler: self };
        let whole = list.each(&mut listing);
        let Listing { system, count, before, mappings, .. } = listing;
        // No line at all: the file is no longer what it was.
        if whole && mappings > 0 {
            ranges::gone(before, usize::MAX >> 1, walk);
        }
        ranges::walked();
        self.scan(count, system);
        losses::at_least(Table::Ranges, ranges::lost());
        losses::at_least(Table::Segments, self.segments.refused());
        self.head.mappings = mappings;
        self.list = Some(list);
    }

    fn entry(&mut self, line: &maps::Line<'_>) -> Entry {
        let backing = attribute::backing(line.path, line.inode, line.shared);
        let length = line.end - line.start;
        let hugetlb = self.has_hugetlb && line.inode != 0 && self.is_huge(line);
        let mapping = Mapping { start: line.start, end: line.end, backing, hugetlb };
        let mut segment = None;
        if line.inode != 0 && (line.shared || backing == Backing::File) {
            let (file, end) = ((line.device, line.inode), line.offset + length as u64);
            segment = self.segments.find(file, end, line.path, line.shared);
        }
        Entry {
            mapping,
            segment: segment.map(|index| index as u16),
            offset: line.offset,
            shared: line.shared,
            writable: line.writable,
            is_plain: !line.writable && line.executable && !self.copies.has(line.start),
        }
    }

    /// Looks at the pages of the first entries.
    fn scan(&mut self, count: usize, system: Component) {
        let Some(mut scanner) = self.scanner.take() else { return };
        let file = scanner.file();
        let mut walker = Walker::new(&self.owners, system, &mut self.totals);
        let entries = &self.entries[..count];
        for entry in entries {
            if let Some(segment) = entry.segment {
                let owner = walker.owner(&entry.mapping);
                self.segments.owner(usize::from(segment), owner, entry.mapping.hugetlb);
            }
        }
        let mut first = 0;
        while first < count {
            // Where holes do not matter, many at once.
            let asks = |entry: &Entry| {
                let is_plain = entry.is_plain && !self.is_thorough;
                entry.mapping.backing == Backing::File && !is_plain
            };
            let files = asks(&entries[first]);
            let same = |entry: &&Entry| asks(entry) == files;
            let more = entries[first + 1..].iter().take_while(same).count();
            let last = if scanner.crosses_holes() { first + more } else { first };
            let (mut at, end) = (entries[first].mapping.start, entries[last].mapping.end);
            // The kernel makes room for as many first.
            let room = if files { FEW } else { self.runs.len() };
            let mut current = first;
            while at < end {
                let began = kernel::monotonic();
                let runs = &mut self.runs[..room];
                let Ok((found, to)) = scanner.next_of(file, at, end, files, runs) else { break };
                let hold = kernel::monotonic() - began;
                self.head.longest_hold_ns = self.head.longest_hold_ns.max(hold);
                for run in &self.runs[..found] {
                    let mut run = *run;
                    while run.start < run.end && current <= last {
                        let entry = &entries[current];
                        if entry.mapping.end as u64 <= run.start {
                            walker.end(&entry.mapping);
                            current += 1;
                            continue;
                        }
                        // A mapping made since the list was read: of the next sample.
                        run.start = run.start.max(entry.mapping.start as u64);
                        let mut part = run.until(entry.mapping.end as u64);
                        if files && entry.is_plain && part.is_present() && !part.is_shared() {
                            self.copies.add(entry.mapping.start);
                        }
                        if entry.shared || entry.is_plain && !files {
                            part.set_shared();
                        }
                        if part.start >= part.end {
                            break;
                        }
                        walker.run(&entry.mapping, &part);
                        if let Some(segment) = entry.segment
                            && part.is_present()
                            && (part.is_shared() || entry.mapping.hugetlb)
                        {
                            let place =
                                |address: u64| address - entry.mapping.start as u64 + entry.offset;
                            let (start, end) = (place(part.start), place(part.end));
                            self.segments.present(usize::from(segment), start, end);
                        }
                        run.start = part.end;
                    }
                }
                at = to;
            }
            while current <= last {
                walker.end(&entries[current].mapping);
                current += 1;
            }
            first = last + 1;
        }
        self.scanner = Some(scanner);
    }

    /// Sums up, and keeps what was greatest.
    fn sum(&mut self) {
        heap::snapshot(&mut self.ledger);
        ranges::owned_all(&mut self.ranges);
        self.take_what_was_freed();
        self.take_tags();
        let time = self.head.time;
        let phase = match phases::current() {
            u16::MAX => NONE,
            phase => u32::from(phase),
        };
        let function = function();
        let head = &mut self.head;
        head.walked = self.totals.resident();
        head.hugetlb = self.totals.hugetlb;
        head.unattributed = self.totals.components[0].resident;
        (head.shared, head.huge, head.swapped, head.mixed, head.owned) = (0, 0, 0, 0, 0);
        let at_peak = head.walked > head.peak;
        if at_peak {
            crate::sites::at_peak();
            head.peak = head.walked;
            head.peak_time = time;
            head.peak_phase = phase;
            head.peak_function = function;
        }
        #[allow(clippy::needless_range_loop)] // Several arrays have the same index.
        for index in 0..component::count().min(LIMIT) {
            let component = Component(index as u16);
            let share = &self.totals.components[index];
            let (ledger, ranges) = (&self.ledger[index], self.ranges[index]);
            let row = &mut self.rows[index];
            row.ranges = ranges.0;
            row.owned = ledger.owned;
            row.blocks = row.owned.saturating_sub(row.ranges);
            let peak = row.owned.max(ledger.peak);
            if peak > row.owned_peak {
                row.owned_peak = peak;
                row.owned_peak_time = time;
                row.owned_peak_phase = phase;
                row.owned_peak_function = function;
            }
            row.allocations = ledger.allocations;
            row.frees = ledger.frees;
            row.allocated = ledger.allocated_total;
            row.resident = share.resident;
            row.shared = share.shared;
            row.huge = share.huge;
            row.swapped = share.swapped;
            row.error = share.error + share.moved;
            if row.resident > row.resident_peak {
                row.resident_peak = row.resident;
                row.resident_peak_time = time;
                row.resident_peak_phase = phase;
                row.resident_peak_function = function;
            }
            if at_peak {
                row.resident_at_peak = row.resident;
                row.owned_at_peak = row.owned;
            }
            head.shared += share.shared;
            head.huge += share.huge;
            head.swapped += share.swapped;
            head.mixed = head.mixed.max(share.error);
            head.owned += row.owned;
            self.samples[index] = ComponentSample {
                component: index as u16,
                owned: row.owned,
                resident: row.resident,
                shared: row.shared,
                swapped: row.swapped,
                allocated: row.allocated + ranges.1,
                owned_peak: row.owned_peak,
                image: self.owners.image(component),
            };
            SEEN[index].resident.store(row.resident, Relaxed);
            SEEN[index].peak.store(row.resident_peak, Relaxed);
        }
        // The phase and those around it.
        let mut phase = phases::current();
        for _ in 0..PHASES {
            self.saw(phase);
            phase = super::parent(phase);
        }
        self.look_back();
        let head = &mut self.head;
        let peak = head.owned.max(heap::all().1 + self.tags);
        if peak > head.owned_peak {
            head.owned_peak = peak;
            head.owned_peak_time = time;
        }
        head.tool = self.rows[usize::from(Component::TOOL.0)].resident;
        TOTAL.resident.store(head.walked, Relaxed);
        TOTAL.peak.store(head.peak, Relaxed);
        SEEN_TIME.store(time, Relaxed);
        self.tell_known();
    }

    fn write(&mut self, flags: u8) {
        let head = SampleHead {
            time: self.head.time,
            flags: flags | sample::FULL,
            kernel_resident: self.head.kernel_resident,
            walked: self.head.walked,
        };
        let samples = &self.samples[..component::count().min(LIMIT)];
        writer::with(|writer, _| writer.sample(&head, samples));
        self.publish();
    }

    /// The kernel's total alone.
    pub fn quick(&mut self) {
        self.head.kernel_resident = self.kernel_resident();
        self.head.samples_quick += 1;
        let (kernel_resident, walked) = (self.head.kernel_resident, self.head.walked);
        writer::with(|writer, time| {
            writer.quick(&SampleHead { time, flags: sample::QUICK, kernel_resident, walked });
        });
    }

    /// Whether a component's resident bytes, if they were these, would be more than ever, or than in
    /// the current phase.
    pub fn would_be_peak(&self, index: usize, bytes: u64, margin: u64) -> bool {
        bytes > self.least_peak(index) + margin
    }

    /// What a component had resident at most, ever or in the current phase: the less of both.
    pub fn least_peak(&self, index: usize) -> u64 {
        let ever = self.rows[index].resident_peak;
        let phase = self.phases.of(phases::current());
        phase.map_or(ever, |phase| ever.min(phase[index]))
    }
}

/// Whose a mapping is by what it is, if nobody is known to have made it.
fn maker(mapping: &Mapping) -> Option<Component> {
    let tools = memory::next(mapping.start).is_some_and(|(start, _)| start <= mapping.start);
    attribute::maker(mapping.backing).filter(|_| !tools)
}

/// The component of the C library, whose functions map files for themselves.
fn system() -> Component {
    objects::component_at(libc::getpid as *const () as usize).unwrap_or(Component::UNATTRIBUTED)
}

/// Where the main thread is, as a number in the trace.
fn function() -> u32 {
    let word = boundary::main_thread();
    if word == 0 {
        return 0;
    }
    let name = boundary::function_name(word);
    writer::with(|writer, _| writer.intern(name)).unwrap_or(0)
}

const NO_SAMPLE: ComponentSample = ComponentSample {
    component: 0,
    owned: 0,
    resident: 0,
    shared: 0,
    swapped: 0,
    allocated: 0,
    owned_peak: 0,
    image: 0,
};

// SAFETY: plain numbers.
#[allow(unsafe_code)]
const NO_ROW: SummaryRow = unsafe { core::mem::zeroed() };
// SAFETY: plain numbers.
#[allow(unsafe_code)]
const NO_HEAD: SummaryHead = unsafe { core::mem::zeroed() };
