//! The full sample: a walk over all mappings.

mod listing;

use memprof_trace::layout::{NONE, sample};
use memprof_trace::write::{ComponentSample, SampleHead};

use super::attribute::{self, Backing, Mapping, Walker, World};
use super::entry::Entry;
use super::free_pages::{Holder, LastLive, WORTH_A_HOLDER};
use super::maps;
use super::peaks::PHASES;
use super::state::{BATCH, Sampler};
use super::status::beyond_share;
use super::world::Owners;
use super::{SEEN, SEEN_TIME, TOTAL};
use crate::base::component::{Component, LIMIT};
use crate::base::dictionary;
use crate::base::kernel;
use crate::base::memory;
use crate::base::overflow_counters::{self, Table};
use crate::base::pagemap::Scanner;
use crate::ledger::call_stacks;
use crate::ledger::heap;
use crate::ledger::ranges;
use crate::owners;
use crate::recording::{mpi_position, phases, writer};
use core::sync::atomic::Ordering::Relaxed;
use listing::Listing;

/// Number of runs requested at once where few are expected.
const FEW: usize = 64;
/// Interval between full scans of file mappings, in nanoseconds.
const THOROUGH: u64 = 2_000_000_000;
impl Sampler {
    /// Takes a full sample: walks all mappings, assigns every page to an owner, and writes the
    /// result. Does nothing before [`Self::prepare`] or after [`Self::stop`].
    pub fn full(&mut self, flags: u8) {
        if !self.is_ready() || phases::paused() && flags & sample::LAST == 0 {
            return;
        }
        let (began, cpu) = (kernel::monotonic(), kernel::thread_time());
        let replaced = if self.sources.scanner.is_some() {
            self.walk_well()
        } else {
            self.walked.totals.clear();
            self.walked.owners.refresh();
            self.published.objects();
            self.phases.outdated = false;
            0
        };
        self.walked.totals.asked[usize::from(Component::SLACK.0)] = 0;
        ranges::own_asked(&self.walked.totals.asked);
        self.ask_status();
        self.record.head.kernel_resident = self.kernel_resident();
        self.last.resident = self.record.head.kernel_resident;
        let mapped = ranges::total();
        self.last.owned = (heap::all().0.saturating_sub(mapped), mapped);
        self.record.head.time = writer::now();
        self.sum();
        self.record.head.releases_skipped = super::release::skipped();
        self.record.head.samples_full += 1;
        self.record.head.samples_release += u64::from(flags & sample::RELEASE != 0);
        self.record.head.longest_sample_ns =
            self.record.head.longest_sample_ns.max(kernel::monotonic() - began);
        self.write(flags);
        let cost = kernel::thread_time() - cpu;
        self.record.head.cpu_ns += cost;
        if let Some(duty) = &mut self.duty {
            // Repeated walks are rare, so their cost must not reduce the rate from now on.
            duty.charge(replaced);
            duty.sampled(cost - replaced, self.last.resident);
            self.record.head.interval_ns = duty.interval();
        }
    }

    /// Charges processor time of sampling that full samples do not charge themselves.
    pub fn charge(&mut self, cost: u64) {
        self.record.head.cpu_ns += cost;
        if let Some(duty) = &mut self.duty {
            duty.charge(cost);
        }
    }

    /// Does what [`Self::charge`] does, for a tick between full samples.
    pub fn looked(&mut self, cost: u64) {
        self.record.head.cpu_ns += cost;
        if let Some(duty) = &mut self.duty {
            duty.looked(cost);
        }
    }

    /// Returns true if there is budget for a full sample of `resident` bytes now.
    pub fn affordable(&self, resident: u64) -> bool {
        self.duty.is_some_and(|duty| duty.affordable(kernel::monotonic(), resident))
    }

    /// Does what [`Self::affordable`] does, also before the budget is earned.
    pub fn affordable_ahead(&self, resident: u64) -> bool {
        self.affordable(resident) || self.duty.is_some_and(|duty| duty.affordable_ahead(resident))
    }

    /// Returns true if a full sample that would be too late if it waited is allowed.
    pub fn may_overdraw(&self) -> bool {
        self.may_overdraw_by(0)
    }

    /// Does what [`Self::may_overdraw`] does if `more` has been spent that is not charged yet.
    pub fn may_overdraw_by(&self, more: u64) -> bool {
        let now = kernel::monotonic();
        self.duty.is_some_and(|mut duty| {
            duty.charge(more);
            duty.may_overdraw(now)
        })
    }

    /// Walks through the mappings, batch by batch.
    pub fn walk(&mut self) {
        let Some(mut list) = self.sources.list.take() else { return };
        let walk = ranges::walk();
        let now = kernel::monotonic();
        let knows = self.sources.scanner.as_ref().is_some_and(Scanner::crosses_holes);
        self.walked.is_thorough = !knows || now.saturating_sub(self.walked.thorough) >= THOROUGH;
        if self.walked.is_thorough {
            self.walked.thorough = now;
            self.walked.copies.clear();
        }
        let mut listing =
            Listing { walk, system: system(), count: 0, before: 0, mappings: 0, sampler: self };
        let whole = list.each(&mut listing);
        let Listing { system, count, before, mappings, .. } = listing;
        // There was no line at all: the file is no longer valid.
        if whole && mappings > 0 {
            ranges::gone(before, usize::MAX >> 1, walk);
        }
        ranges::walked();
        self.scan(count, system);
        overflow_counters::at_least(Table::Ranges, ranges::lost());
        overflow_counters::at_least(Table::Segments, self.walked.segments.refused());
        self.record.head.mappings = mappings;
        self.sources.list = Some(list);
    }

    fn entry(&mut self, line: &maps::Line<'_>) -> Entry {
        let backing = attribute::backing(line.path, line.inode, line.shared);
        let length = line.end - line.start;
        let hugetlb = self.walked.has_hugetlb && line.inode != 0 && self.is_huge(line);
        let mapping = Mapping { start: line.start, end: line.end, backing, hugetlb };
        let mut segment = None;
        if line.inode != 0 && (line.shared || backing == Backing::File) {
            let (file, end) = ((line.device, line.inode), line.offset + length as u64);
            segment = self.walked.segments.find(file, end, line.path, line.shared);
        }
        Entry {
            mapping,
            segment: segment.map(|index| index as u16),
            offset: line.offset,
            shared: line.shared,
            writable: line.writable,
            is_plain: !line.writable && line.executable && !self.walked.copies.has(line.start),
        }
    }

    /// Scans the pages of the first entries.
    fn scan(&mut self, count: usize, system: Component) {
        let Some(mut scanner) = self.sources.scanner.take() else { return };
        let file = scanner.file();
        let mut walker = Walker::new(&self.walked.owners, system, &mut self.walked.totals);
        let entries = &self.walked.entries[..count];
        for entry in entries {
            if let Some(segment) = entry.segment {
                let owner = walker.owner(&entry.mapping);
                self.walked.segments.owner(usize::from(segment), owner, entry.mapping.hugetlb);
            }
        }
        let mut first = 0;
        while first < count {
            // Where the scan can cross holes, many entries are scanned at once.
            let asks = |entry: &Entry| {
                let is_plain = entry.is_plain && !self.walked.is_thorough;
                entry.mapping.backing == Backing::File && !is_plain
            };
            let files = asks(&entries[first]);
            let same = |entry: &&Entry| asks(entry) == files;
            let more = entries[first + 1..].iter().take_while(same).count();
            let last = if scanner.crosses_holes() { first + more } else { first };
            let (mut at, end) = (entries[first].mapping.start, entries[last].mapping.end);
            // The kernel first allocates room for as many runs.
            let room = if files { FEW } else { self.sources.runs.len() };
            let mut current = first;
            while at < end {
                let began = kernel::monotonic();
                let runs = &mut self.sources.runs[..room];
                let Ok((found, to)) = scanner.next_of(file, at, end, files, runs) else { break };
                let hold = kernel::monotonic() - began;
                self.record.head.longest_hold_ns = self.record.head.longest_hold_ns.max(hold);
                for run in &self.sources.runs[..found] {
                    let mut run = *run;
                    while run.start < run.end && current <= last {
                        let entry = &entries[current];
                        if entry.mapping.end as u64 <= run.start {
                            walker.end(&entry.mapping);
                            current += 1;
                            continue;
                        }
                        // A mapping made after the list was read belongs to the next sample.
                        run.start = run.start.max(entry.mapping.start as u64);
                        let mut part = run.until(entry.mapping.end as u64);
                        if files && entry.is_plain && part.is_present() && !part.is_shared() {
                            self.walked.copies.add(entry.mapping.start);
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
                            self.walked.segments.present(usize::from(segment), start, end);
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
        self.sources.scanner = Some(scanner);
    }

    /// Computes the sums, and updates the peaks.
    fn sum(&mut self) {
        heap::snapshot(&mut self.record.ledger);
        ranges::owned_all(&mut self.record.ranges);
        self.take_what_was_freed();
        self.take_tags();
        let time = self.record.head.time;
        let phase = match phases::current() {
            u16::MAX => NONE,
            phase => u32::from(phase),
        };
        let function = function();
        let head = &mut self.record.head;
        head.walked = self.walked.totals.resident();
        head.hugetlb = self.walked.totals.hugetlb;
        head.unattributed = self.walked.totals.components[0].resident;
        (head.shared, head.huge, head.swapped, head.mixed, head.owned) = (0, 0, 0, 0, 0);
        let at_peak = head.walked > head.peak;
        if at_peak {
            crate::ledger::call_stacks::at_peak();
            head.peak = head.walked;
            head.peak_time = time;
            head.peak_phase = phase;
            head.peak_function = function;
        }
        self.record_free_pages(at_peak);
        let head = &mut self.record.head;
        #[allow(clippy::needless_range_loop)] // Several arrays have the same index.
        for index in 0..dictionary::count().min(LIMIT) {
            let component = Component(index as u16);
            let share = &self.walked.totals.components[index];
            let (ledger, ranges) = (&self.record.ledger[index], self.record.ranges[index]);
            let row = &mut self.record.rows[index];
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
                // Part of the memory that ended up as the allocator's.
                let slack = self.walked.totals.components[usize::from(Component::SLACK.0)].resident;
                row.slack_at_peak = self.walked.totals.left[index].min(slack);
            }
            head.shared += share.shared;
            head.huge += share.huge;
            head.swapped += share.swapped;
            head.mixed = head.mixed.max(share.error);
            head.owned += row.owned;
            self.record.samples[index] = ComponentSample {
                component: index as u16,
                owned: row.owned,
                resident: row.resident,
                shared: row.shared,
                swapped: row.swapped,
                allocated: row.allocated + ranges.1,
                owned_peak: row.owned_peak,
                image: self.walked.owners.image(component),
            };
            SEEN[index].resident.store(row.resident, Relaxed);
            SEEN[index].peak.store(row.resident_peak, Relaxed);
        }
        // The current phase and the phases around it.
        let mut phase = phases::current();
        for _ in 0..PHASES {
            self.saw(phase);
            phase = super::parent(phase);
        }
        self.look_back();
        let head = &mut self.record.head;
        let peak = head.owned.max(heap::all().1 + self.record.tags);
        if peak > head.owned_peak {
            head.owned_peak = peak;
            head.owned_peak_time = time;
        }
        head.tool = self.record.rows[usize::from(Component::TOOL.0)].resident;
        TOTAL.resident.store(head.walked, Relaxed);
        TOTAL.peak.store(head.peak, Relaxed);
        SEEN_TIME.store(time, Relaxed);
        self.tell_known();
    }

    /// Records the pages of the C library's heaps without a live block.
    fn record_free_pages(&mut self, at_peak: bool) {
        if self.record.slack.allocator != NONE {
            return;
        }
        let (pages, owners) = (&mut self.walked.totals.free_pages, &self.walked.owners);
        let found = pages.finish();
        let is_worth = found.main - found.main_top >= WORTH_A_HOLDER;
        let main = if is_worth { holder(owners, found.last_live) } else { None };
        found.enter(&mut self.record.slack, main, at_peak);
        pages.enter_arenas(&mut self.record.arenas, |last| holder(owners, last), at_peak);
    }

    fn write(&mut self, flags: u8) {
        let head = SampleHead {
            time: self.record.head.time,
            flags: flags | sample::FULL,
            kernel_resident: self.record.head.kernel_resident,
            walked: self.record.head.walked,
        };
        let samples = &self.record.samples[..dictionary::count().min(LIMIT)];
        let (least, most) = beyond_share();
        self.last.beyond = most;
        writer::with(|writer, _| {
            writer.beyond_share(least, most);
            writer.sample(&head, samples);
        });
        self.publish();
    }

    /// Records the kernel's total alone.
    pub fn quick(&mut self) {
        self.record.head.kernel_resident = self.kernel_resident();
        self.record.head.samples_quick += 1;
        let (kernel_resident, walked) = (self.record.head.kernel_resident, self.record.head.walked);
        writer::with(|writer, time| {
            writer.quick(&SampleHead { time, flags: sample::QUICK, kernel_resident, walked });
        });
    }

    /// Returns true if `bytes` resident bytes of a component would be more than ever, or than in
    /// the current phase.
    pub fn would_be_peak(&self, index: usize, bytes: u64, margin: u64) -> bool {
        bytes > self.least_peak(index) + margin
    }

    /// Returns the highest resident bytes of a component, ever or in the current phase, whichever
    /// is less.
    pub fn least_peak(&self, index: usize) -> u64 {
        let ever = self.record.rows[index].resident_peak;
        let phase = self.phases.of(phases::current());
        phase.map_or(ever, |phase| ever.min(phase[index]))
    }
}

/// Returns the component with most bytes in the last page of an arena with a live block, and the
/// call stack of a sampled block there, or [`NONE`].
fn holder(owners: &Owners, LastLive { start, end }: LastLive) -> Holder {
    let large = owners.block(start).filter(|block| block.start < end);
    let mut most = large.map(|block| (block.owner, u64::MAX));
    if most.is_none() {
        heap::share(start, end, &mut |component, bytes| {
            if most.is_none_or(|(_, most)| bytes > most) {
                most = Some((component, bytes));
            }
        });
    }
    let site = call_stacks::last_between(start, end).map_or(NONE, u32::from);
    most.map(|(component, _)| (component.0.into(), site))
}

/// Returns the owner of a mapping by its kind, if no maker is known.
fn maker(mapping: &Mapping) -> Option<Component> {
    let tools = memory::next(mapping.start).is_some_and(|(start, _)| start <= mapping.start);
    attribute::maker(mapping.backing).filter(|_| !tools)
}

/// Returns the component of the C library, whose functions map files for their own use.
fn system() -> Component {
    owners::component_at(libc::getpid as *const () as usize).unwrap_or(Component::UNATTRIBUTED)
}

/// Returns the MPI position of the main thread, as a number in the trace.
fn function() -> u32 {
    let word = mpi_position::main_thread();
    if word == 0 {
        return 0;
    }
    let name = mpi_position::function_name(word);
    writer::with(|writer, _| writer.intern(name)).unwrap_or(0)
}
