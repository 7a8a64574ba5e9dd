//! One rank of a job that never ran.

use std::io;

use super::{JobShape, times};
use crate::Text;
use crate::layout::{
    Class, ComponentRow, Geometry, Identity, NONE, NONE_SHORT, ObjectRow, PhaseRow, SegmentRow,
    SiteRow, SummaryHead, SummaryRow, flags, phase, sample,
};
use crate::write::{Buffer, ComponentSample, SampleHead, Writer};

/// Minimum number of components: see [`FIXED`], and the first of [`LIBRARIES`].
pub(super) const FEWEST_COMPONENTS: u32 = 12;

const PAGE: u64 = 4096;
const MIB: u64 = 1 << 20;
/// Time between samples.
const INTERVAL: u64 = 250_000_000;
/// From this number on, components are numbered in the order of loading.
const FIRST_OBJECT: u16 = 16;
const SHARED: u16 = 4;
const SEGMENT_PAGES: u64 = 4096;
/// Pages that the MPI keeps in each rank for each of its peers; each library that it needs keeps a
/// quarter of this.
const PAGES_FOR_PEER: u64 = 4;

/// Components that every process has: number, class, MiB.
const FIXED: [(u16, Class, u64); 6] = [
    (1, Class::Tool, 3),
    (2, Class::Slack, 2),
    (3, Class::Kernel, 1),
    (5, Class::MpiForUser, 8),
    (6, Class::Stack, 1),
    (0, Class::Unattributed, 0),
];

/// Objects in the order of loading: class, file, MiB at the start.
const LIBRARIES: [(Class, &str, u64); 12] = [
    (Class::AppExecutable, "ocean", 96),
    (Class::MpiCore, "libmpi.so.40", 6),
    (Class::System, "libc.so.6", 3),
    (Class::MpiDependency, "libopen-pal.so.40", 4),
    (Class::MpiDependency, "libpmix.so.2", 2),
    (Class::AppLibrary, "libhdf5.so.310", 5),
    (Class::MpiDependency, "libucp.so.0", 6),
    (Class::MpiDependency, "libuct.so.0", 3),
    (Class::OpenMp, "libgomp.so.1", 1),
    (Class::Runtime, "libquo.so.0", 1),
    (Class::AppLibrary, "libpetsc.so.3.22", 24),
    (Class::AppLibrary, "libnetcdf.so.19", 2),
];

/// Name, kind, enclosing phase, first and last thousandth of the run.
const PHASES: [(&str, u32, u32, u64, u64); 6] = [
    ("init", phase::AUTOMATIC, NONE, 0, 40),
    ("main", phase::AUTOMATIC, NONE, 40, 960),
    ("finalize", phase::AUTOMATIC, NONE, 960, 1001),
    ("read mesh", phase::USER, 1, 60, 150),
    ("solve", phase::CONTROL, 1, 150, 800),
    ("quo push socket", phase::QUO, 4, 300, 400),
];

/// Course of a component's memory.
#[derive(Clone)]
struct Course {
    component: u16,
    row: ComponentRow,
    /// Pages after it is loaded.
    base: u64,
    /// Additional pages at the end of the run, for steady growth.
    growth: u64,
    /// Additional pages at the top of a wave.
    wave: u64,
    /// Samples from one wave to the next.
    period: u64,
    /// Thousandth of the run at which it appears.
    begin: u64,
}

impl Course {
    /// Returns the resident pages at a thousandth of the run.
    fn pages(&self, number: u64, part: u64) -> u64 {
        if part < self.begin {
            return 0;
        }
        let half = (self.period / 2).max(1);
        let inside = number % (2 * half);
        let rising = if inside < half { inside } else { 2 * half - inside };
        self.base + self.growth * part / 1000 + self.wave * rising / half
    }
}

/// SplitMix64: small, and sufficient to create variation.
pub(super) struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }
}

pub(super) struct Rank<'s> {
    shape: &'s JobShape,
    number: u32,
    node: u32,
    local: u32,
    courses: Vec<Course>,
    identity: Identity,
}

impl<'s> Rank<'s> {
    pub(super) fn new(shape: &'s JobShape, number: u32) -> Self {
        let share = shape.ranks.div_ceil(shape.nodes);
        let (node, local) = (number / share, number % share);
        let mut random = Random(shape.seed ^ u64::from(number) << 32);
        let mut boot_id = [0; 16];
        let mut of_node = Random(shape.seed ^ u64::from(node) << 48 ^ 0xB007);
        boot_id[..8].copy_from_slice(&of_node.next().to_le_bytes());
        boot_id[8..].copy_from_slice(&of_node.next().to_le_bytes());
        let late = random.below(2_000_000);
        let identity = Identity {
            rank: i32::try_from(number).unwrap_or(i32::MAX),
            size: i32::try_from(shape.ranks).unwrap_or(i32::MAX),
            local_rank: i32::try_from(local).unwrap_or(i32::MAX),
            pid: 20_000 + local,
            parent_pid: 19_000,
            start_ticks: 800_000 + u64::from(local),
            realtime_ns: 1_780_000_000_000_000_000 + late,
            monotonic_ns: (1 + u64::from(node)) * 8_000_000_000_000 + late,
            page_size: 4096,
            boot_id,
            host: Text::new(&format!("node{node:04}")),
            job: Text::new(&format!("made-up-{}", shape.seed)),
            program: Text::new("/opt/ocean/bin/ocean"),
            ..Identity::default()
        };
        let courses = courses(shape, number, &mut random);
        Self { shape, number, node, local, courses, identity }
    }

    pub(super) fn file_name(&self) -> String {
        let Identity { host, pid, start_ticks, .. } = &self.identity;
        format!("{host}.{pid}.{start_ticks}.memprof")
    }

    pub(super) fn write(&self, buffer: &mut Buffer, geometry: &Geometry) -> io::Result<()> {
        let geometry = match self.shape.times {
            true => times::room(*geometry, PHASES.len() as u32),
            false => *geometry,
        };
        let mut writer = Writer::create(buffer.bytes_mut(), &self.identity, &geometry)
            .map_err(io::Error::other)?;
        writer.set_flags(flags::MPI_SEEN | flags::STACKS, 0);
        writer.set_mpi_library("libmpi.so.40");
        self.write_dictionary(&mut writer);
        let mut run = Run::new(self);
        let samples = u64::from(self.shape.samples.max(1));
        for number in 0..samples {
            run.step(&mut writer, number, number * 1000 / samples);
        }
        run.finish(&mut writer, samples * INTERVAL);
        Ok(())
    }

    fn write_dictionary(&self, writer: &mut Writer<'_>) {
        for course in &self.courses {
            writer.set_component(course.component, &course.row);
            if let Some(object) = course.component.checked_sub(FIRST_OBJECT) {
                let start = 0x7F00_0000_0000 + u64::from(object) * 64 * MIB;
                let path = match object {
                    0 => "/opt/ocean/bin/ocean".to_owned(),
                    _ => format!("/usr/lib/x86_64-linux-gnu/{}", course.row.name),
                };
                let row = ObjectRow {
                    base: start,
                    start,
                    size: 2 * MIB,
                    component: u32::from(course.component),
                    path: Text::new(&path),
                    ..ObjectRow::default()
                };
                writer.set_object(u32::from(object), &row);
                self.write_site(writer, course, u32::from(object));
            }
        }
        for number in 0..self.shape.segments {
            let (row, bitmap) = self.segment(number);
            writer.set_segment(number, &row, &bitmap);
        }
    }

    fn write_site(&self, writer: &mut Writer<'_>, course: &Course, object: u32) {
        let mut row = SiteRow {
            component: u32::from(course.component),
            frames: 3,
            live: course.base * PAGE / 2,
            peak: (course.base + course.wave) * PAGE / 2,
            total: (course.base + 9 * course.wave) * PAGE / 2,
            samples: 1 + course.base / 64,
            at_peak: course.base * PAGE / 2,
            objects: [NONE; 16],
            ..SiteRow::default()
        };
        for (depth, offset) in [0x2340_u64, 0x1200, 0x1100].into_iter().enumerate() {
            row.objects[depth] = if depth == 0 { object } else { 0 };
            row.offsets[depth] = offset + u64::from(object) * 0x40;
        }
        writer.set_site(0, object, &row);
    }

    /// Returns a segment, of which each rank has a separate part and all ranks have the first
    /// pages.
    fn segment(&self, number: u32) -> (SegmentRow, Vec<u8>) {
        let pages = SEGMENT_PAGES;
        let mut bitmap = vec![0_u8; (pages / 8) as usize];
        let share = u64::from(self.shape.ranks.div_ceil(self.shape.nodes));
        let own = pages * u64::from(self.local) / share..pages * u64::from(self.local + 1) / share;
        for page in (0..16).chain(own) {
            bitmap[(page / 8) as usize] |= 1 << (page % 8);
        }
        let present: u64 = bitmap.iter().map(|byte| u64::from(byte.count_ones())).sum();
        let row = SegmentRow {
            device: 26,
            inode: 1000 + u64::from(number),
            size: pages * PAGE,
            component: u32::from(SHARED),
            granule_shift: 12,
            present: present * PAGE,
            path: Text::new(&format!("/dev/shm/vader_segment.{}.{number}", self.node)),
            ..SegmentRow::default()
        };
        (row, bitmap)
    }

    fn segment_bytes(&self) -> u64 {
        (0..self.shape.segments).map(|number| self.segment(number).0.present).sum()
    }
}

fn component_row(class: Class, name: &str, object: u16) -> ComponentRow {
    ComponentRow {
        class: class as u8,
        object,
        parent: NONE_SHORT,
        name: Text::new(name),
        ..ComponentRow::default()
    }
}

fn courses(shape: &JobShape, number: u32, random: &mut Random) -> Vec<Course> {
    let mut courses = Vec::new();
    let mebi = MIB / PAGE;
    // Kept pages take no part in waves.
    let mut add = |component, row: ComponentRow, base: u64, kept: u64, random: &mut Random| {
        courses.push(Course {
            component,
            row,
            base: base + kept,
            growth: 0,
            wave: base / 8 + random.below(8),
            period: 8 + random.below(40),
            begin: 0,
        });
    };
    for (component, class, size) in FIXED {
        add(component, component_row(class, "", NONE_SHORT), size * mebi, 0, random);
    }
    add(SHARED, component_row(Class::MpiShared, "", NONE_SHORT), 0, 0, random);
    let objects = shape.components - FIXED.len() as u32 - 1;
    for object in 0..u16::try_from(objects).unwrap_or(0) {
        let known = LIBRARIES.get(usize::from(object)).copied();
        let own_name = format!("libocean{object}.so");
        let (class, name, size) = known.unwrap_or((Class::AppLibrary, &own_name, 1));
        let for_peer = match class {
            Class::MpiCore => PAGES_FOR_PEER,
            Class::MpiDependency => PAGES_FOR_PEER / 4,
            _ => 0,
        };
        let kept = for_peer * u64::from(shape.ranks - 1);
        let base = size * mebi + random.below(size * mebi / 16 + 1);
        add(FIRST_OBJECT + object, component_row(class, name, object), base, kept, random);
    }
    for course in &mut courses {
        match course.component {
            0 => course.wave = 4,
            1 | 3 | SHARED => course.wave = 0,
            // The first rank reads for all others, and one rank leaks memory.
            16 if number == 0 => course.base *= 2,
            16 if u64::from(number) == shape.seed % u64::from(shape.ranks) => {
                course.growth = course.base;
            }
            17.. => course.begin = random.below(30),
            _ => {}
        }
    }
    courses
}

/// State of the run so far.
struct Run<'r> {
    rank: &'r Rank<'r>,
    random: Random,
    shared: u64,
    rows: Vec<ComponentSample>,
    head: SummaryHead,
    summary: Vec<SummaryRow>,
    phases: [(PhaseRow, Vec<u64>, Vec<u64>); PHASES.len()],
}

impl<'r> Run<'r> {
    fn new(rank: &'r Rank<'r>) -> Self {
        let columns =
            rank.courses.iter().map(|course| course.component).max().unwrap_or(0) as usize;
        let columns = columns + 1;
        Self {
            rank,
            random: Random(rank.shape.seed ^ u64::from(rank.number)),
            shared: rank.segment_bytes(),
            rows: Vec::new(),
            head: SummaryHead { peak_phase: NONE, ..SummaryHead::default() },
            summary: vec![SummaryRow::default(); columns],
            phases: PHASES.map(|(name, kind, parent, ..)| {
                let row = PhaseRow { name: Text::new(name), kind, parent, ..PhaseRow::default() };
                (row, vec![0; columns], vec![0; columns])
            }),
        }
    }

    fn step(&mut self, writer: &mut Writer<'_>, number: u64, part: u64) {
        let time = number * INTERVAL + self.random.below(INTERVAL / 4);
        let edges = self.edges(writer, time, part);
        self.rows.clear();
        for course in &self.rank.courses {
            let pages = course.pages(number, part) + self.more_pages(course.component, part);
            let shared = if course.component == SHARED { self.shared } else { 0 };
            let resident = pages * PAGE + shared;
            let untouched = if pages > 0 { 3 * PAGE + self.random.below(PAGE) } else { 0 };
            let (component, owned) = (course.component, resident + untouched);
            let into = &self.summary[usize::from(component)];
            let (allocated, owned_peak) = (into.allocated + owned, into.owned_peak.max(owned));
            self.rows.push(ComponentSample {
                component,
                owned,
                resident,
                shared,
                allocated,
                owned_peak,
                ..ComponentSample::default()
            });
        }
        let walked = self.rows.iter().map(|row| row.resident).sum();
        let flags = sample::FULL | if edges { sample::PHASE } else { 0 };
        let head = SampleHead { time, flags, kernel_resident: walked, walked };
        writer.sample(&head, &self.rows);
        if number % 4 == 1 {
            writer.quick(&SampleHead { time: time + INTERVAL / 4, flags: 0, ..head });
            self.head.samples_quick += 1;
        }
        let innermost = self.phase_peaks();
        self.summarise(writer, &head, innermost);
    }

    /// Returns the pages that a component has in addition to other jobs of this shape.
    fn more_pages(&self, component: u16, part: u64) -> u64 {
        let Some(more) = &self.rank.shape.more else { return 0 };
        let open =
            PHASES.get(more.phase).is_some_and(|(.., begin, end)| (*begin..*end).contains(&part));
        let here = (more.component, more.node) == (component, self.rank.node);
        if open && here { more.bytes / PAGE } else { 0 }
    }

    /// Begins or ends the phases at this part of the run.
    fn edges(&mut self, writer: &mut Writer<'_>, time: u64, part: u64) -> bool {
        let mut any = false;
        for (index, (.., begin, end)) in PHASES.into_iter().enumerate() {
            let row = &mut self.phases[index].0;
            let inside = (begin..end).contains(&part);
            if inside == (row.open > 0) {
                continue;
            }
            any = true;
            if inside {
                (row.open, row.entries, row.first_time) = (1, row.entries + 1, time);
            } else {
                (row.open, row.last_time) = (0, time);
                row.total_ns += time - row.first_time;
            }
            let index = u32::try_from(index).unwrap_or(NONE);
            writer.set_phase(time, index, row);
            writer.phase_edge(time, index, inside);
        }
        if part >= PHASES[2].3 {
            writer.set_flags(flags::FINALIZED, 0);
        } else if part >= PHASES[1].3 {
            writer.set_flags(flags::INITIALIZED, 0);
        }
        any
    }

    fn phase_peaks(&mut self) -> u32 {
        let mut innermost = NONE;
        let total: u64 = self.rows.iter().map(|row| row.resident).sum();
        for (index, (row, owned, resident)) in self.phases.iter_mut().enumerate() {
            if row.open == 0 {
                continue;
            }
            innermost = u32::try_from(index).unwrap_or(NONE);
            row.resident_kib = row.resident_kib.max((total >> 10) as u32);
            for sample in &self.rows {
                let column = usize::from(sample.component);
                owned[column] = owned[column].max(sample.owned);
                resident[column] = resident[column].max(sample.resident);
            }
        }
        innermost
    }

    fn summarise(&mut self, writer: &mut Writer<'_>, sample: &SampleHead, phase: u32) {
        let function =
            writer.intern(["", "MPI_Allreduce", "MPI_Waitall"][self.random.below(3) as usize]);
        let head = &mut self.head;
        (head.time, head.kernel_resident, head.walked) =
            (sample.time, sample.kernel_resident, sample.walked);
        head.shared = self.shared;
        head.owned = self.rows.iter().map(|row| row.owned).sum();
        if head.owned > head.owned_peak {
            (head.owned_peak, head.owned_peak_time) = (head.owned, sample.time);
        }
        let at_peak = sample.walked > head.peak;
        if at_peak {
            (head.peak, head.peak_time) = (sample.walked, sample.time);
            (head.peak_phase, head.peak_function) = (phase, function);
            head.kernel_peak = sample.kernel_resident;
        }
        head.samples_full += 1;
        head.cpu_ns += 900_000;
        (head.interval_ns, head.longest_hold_ns) = (INTERVAL, 80_000);
        for row in &self.rows {
            let into = &mut self.summary[usize::from(row.component)];
            (into.owned, into.resident, into.shared) = (row.owned, row.resident, row.shared);
            if row.owned > into.owned_peak {
                (into.owned_peak, into.owned_peak_time) = (row.owned, sample.time);
                (into.owned_peak_phase, into.owned_peak_function) = (phase, function);
            }
            if row.resident > into.resident_peak {
                (into.resident_peak, into.resident_peak_time) = (row.resident, sample.time);
                (into.resident_peak_phase, into.resident_peak_function) = (phase, function);
            }
            if at_peak {
                (into.resident_at_peak, into.owned_at_peak) = (row.resident, row.owned);
            }
            into.blocks = row.owned / 2;
            into.ranges = row.owned - into.blocks;
            into.allocations += row.owned / 65_536;
            into.frees = into.allocations.saturating_sub(into.blocks / 512);
            into.allocated = row.allocated;
        }
        head.unattributed = self.summary[0].resident;
        head.tool = self.summary[1].resident;
        head.page_tables = self.summary[3].resident;
        writer.publish_summary(head, &self.summary);
    }

    fn finish(mut self, writer: &mut Writer<'_>, time: u64) {
        self.edges(writer, time, u64::MAX);
        for (index, (_, owned, resident)) in self.phases.iter().enumerate() {
            writer.set_phase_peaks(u32::try_from(index).unwrap_or(NONE), owned, resident);
        }
        if self.rank.shape.times {
            self.write_times(writer);
        }
        writer.set_flags(flags::FINALIZED, 0);
        writer.close(time);
    }

    /// Writes the times. The whole is as long as the phase between the beginning and the end of
    /// MPI.
    fn write_times(&mut self, writer: &mut Writer<'_>) {
        let number = self.rank.number;
        let lengths: Vec<u64> = self.phases.iter().map(|(row, ..)| row.total_ns).collect();
        let main = times::of(times::Region::Work, number, lengths[1], &mut self.random);
        writer.set_time(0, &main);
        for ((index, length), (_, kind, ..)) in (1..).zip(lengths).zip(PHASES) {
            let region = match (kind, index) {
                (phase::AUTOMATIC, 1 | 3) => times::Region::Edge,
                (phase::QUO, _) => times::Region::Lent,
                _ => times::Region::Work,
            };
            writer.set_time(index, &times::of(region, number, length, &mut self.random));
        }
        times::write_loops(writer, number, &main);
    }
}
