//! Random histories, written, read, and compared with a model that simply stores everything.

use std::collections::BTreeMap;

use memprof_trace::Text;
use memprof_trace::layout::{
    BIN_SHIFT, COMPONENTS_LIMIT, ComponentRow, Geometry, Identity, Moments, NoteRow, ObjectRow,
    PhasePeak, PhaseRow, SegmentRow, SiteRow, SummaryHead, SummaryRow, sample,
};
use memprof_trace::read::{PhaseEdge, Row, Trace};
use memprof_trace::write::{Buffer, ComponentSample, SampleHead, Writer};
use proptest::prelude::*;

const GEOMETRY: Geometry = Geometry {
    components: 12,
    objects: 5,
    notes: 3,
    names: 3,
    phases: 4,
    bins: 6,
    segments: 3,
    bitmap_bytes: 24,
    sites: 4,
    touches: 3,
    times: 0,
    loops: 0,
    handles: 0,
};
const SIZE: usize = 10 * 4096;

#[derive(Clone, Debug)]
enum Act {
    Component(u16, String),
    Object(u32, u64),
    Note(u32, String),
    Intern(u8),
    Phase(u32, u64),
    Peaks(u32, Vec<(u64, u64)>),
    Edge(u32, bool),
    Sample { full: bool, rows: BTreeMap<u16, (u64, u64, u64)> },
    Quick(u64),
    Summary(Vec<u64>),
    Segment(u32, Vec<u8>),
    Site(u32, u64),
    Flags(u64, u64),
}

fn act() -> impl Strategy<Value = Act> {
    let amount = || prop_oneof![Just(0_u64), 0..1_u64 << 34, 0..1_u64 << 48];
    let sampled = (0..14_u16, (amount(), 0..1_u64 << 34, prop_oneof![Just(0), amount()]));
    prop_oneof![
        1 => (0..14_u16, "[a-z.é]{0,110}").prop_map(|(index, name)| Act::Component(index, name)),
        1 => (0..7_u32, any::<u64>()).prop_map(|(index, base)| Act::Object(index, base)),
        1 => (0..3_u32, "[ab]").prop_map(|(code, text)| Act::Note(code, text)),
        1 => (0..5_u8).prop_map(Act::Intern),
        1 => (0..6_u32, amount()).prop_map(|(index, entries)| Act::Phase(index, entries)),
        1 => (0..6_u32, prop::collection::vec((amount(), amount()), 0..20))
            .prop_map(|(index, peaks)| Act::Peaks(index, peaks)),
        2 => (any::<u32>(), any::<bool>()).prop_map(|(index, begins)| Act::Edge(index, begins)),
        12 => (any::<bool>(), prop::collection::btree_map(sampled.0, sampled.1, 0..12))
            .prop_map(|(full, rows)| Act::Sample { full, rows }),
        2 => amount().prop_map(Act::Quick),
        1 => prop::collection::vec(amount(), 0..14).prop_map(Act::Summary),
        1 => (0..4_u32, prop::collection::vec(any::<u8>(), 0..30))
            .prop_map(|(index, bitmap)| Act::Segment(index, bitmap)),
        1 => (0..5_u32, amount()).prop_map(|(index, live)| Act::Site(index, live)),
        1 => (any::<u64>(), any::<u64>()).prop_map(|(set, clear)| Act::Flags(set, clear)),
    ]
}

/// Model that stores everything.
#[derive(Default)]
struct Model {
    components: BTreeMap<u32, ComponentRow>,
    objects: BTreeMap<u32, ObjectRow>,
    notes: Vec<NoteRow>,
    names: Vec<Text<48>>,
    phases: BTreeMap<u32, PhaseRow>,
    peaks: BTreeMap<u32, Vec<PhasePeak>>,
    edges: Vec<PhaseEdge>,
    samples: Vec<(SampleHead, Vec<ComponentSample>)>,
    summary: Option<(SummaryHead, Vec<SummaryRow>)>,
    segments: BTreeMap<u32, Vec<u8>>,
    sites: BTreeMap<u32, SiteRow>,
    flags: u64,
    lost: u64,
}

fn put<T>(rows: &mut BTreeMap<u32, T>, lost: &mut u64, capacity: u32, index: u32, row: T) {
    if index < capacity {
        rows.insert(index, row);
    } else {
        *lost += 1;
    }
}

impl Model {
    fn act(&mut self, writer: &mut Writer<'_>, time: u64, act: Act) {
        let lost = &mut self.lost;
        match act {
            Act::Component(index, name) => {
                let row = ComponentRow { name: Text::new(&name), ..ComponentRow::default() };
                writer.set_component(index, &row);
                put(&mut self.components, lost, GEOMETRY.components, index.into(), row);
            }
            Act::Object(index, base) => {
                let row = ObjectRow { base, ..ObjectRow::default() };
                writer.set_object(index, &row);
                put(&mut self.objects, lost, GEOMETRY.objects, index, row);
            }
            Act::Note(code, text) => {
                let text = Text::new(&text);
                let same = |row: &NoteRow| (row.code, row.text) == (code, text);
                let known = self.notes.iter().position(same);
                let room = known.is_some() || self.notes.len() < GEOMETRY.notes as usize;
                match known {
                    Some(place) => self.notes[place].count += 1,
                    None if room => self.notes.push(NoteRow { time, code, count: 1, text }),
                    None => self.lost += 1,
                }
                let index = writer.add_note(time, code, &text.to_string());
                assert_eq!(index.is_some(), room);
            }
            Act::Intern(which) => {
                let name = format!("MPI_{which}");
                let text = Text::new(&name);
                if !self.names.contains(&text) {
                    if self.names.len() < GEOMETRY.names as usize {
                        self.names.push(text);
                    } else {
                        self.lost += 1;
                    }
                }
                let place = self.names.iter().position(|known| *known == text);
                let number = place.map_or(0, |place| place as u32 + 1);
                assert_eq!(writer.intern(&name), number);
            }
            Act::Phase(index, entries) => {
                let row = PhaseRow { entries, ..PhaseRow::default() };
                writer.set_phase(time, index, &row);
                let row = PhaseRow {
                    moments: entered(self.phases.get(&index).map(|row| row.moments), time, entries),
                    ..row
                };
                put(&mut self.phases, lost, GEOMETRY.phases, index, row);
            }
            Act::Peaks(index, peaks) => {
                let (owned, resident): (Vec<u64>, Vec<u64>) = peaks.iter().copied().unzip();
                writer.set_phase_peaks(index, &owned, &resident);
                let row = peaks.into_iter().take(GEOMETRY.components as usize);
                let row = row.map(|(owned, resident)| PhasePeak { owned, resident }).collect();
                put(&mut self.peaks, lost, GEOMETRY.phases, index, row);
            }
            Act::Edge(phase, begins) => {
                writer.phase_edge(time, phase, begins);
                self.edges.push(PhaseEdge { time, phase, begins });
            }
            Act::Sample { full, rows } => {
                let sampled = |(component, (owned, resident, shared))| ComponentSample {
                    component,
                    owned,
                    resident,
                    shared,
                    ..ComponentSample::default()
                };
                let rows: Vec<_> = rows.into_iter().map(sampled).collect();
                let walked = rows.iter().map(|row| row.resident).sum();
                let flags = if full { sample::FULL } else { sample::RELEASE };
                let head = SampleHead { time, flags, kernel_resident: walked / 2, walked };
                writer.sample(&head, &rows);
                self.samples.push((head, rows));
            }
            Act::Quick(kernel_resident) => {
                let head = SampleHead { time, flags: sample::QUICK, kernel_resident, walked: 1 };
                writer.quick(&head);
                self.samples.push((head, Vec::new()));
            }
            Act::Summary(owned) => {
                let head = SummaryHead { time, ..SummaryHead::default() };
                let rows: Vec<_> = owned
                    .into_iter()
                    .map(|owned| SummaryRow { owned, ..SummaryRow::default() })
                    .collect();
                writer.publish_summary(&head, &rows);
                let kept = rows.into_iter().take(GEOMETRY.components as usize).collect();
                self.summary = Some((head, kept));
            }
            Act::Segment(index, mut bitmap) => {
                writer.set_segment(index, &SegmentRow::default(), &bitmap);
                bitmap.truncate(GEOMETRY.bitmap_bytes as usize);
                put(&mut self.segments, lost, GEOMETRY.segments, index, bitmap);
            }
            Act::Site(index, live) => {
                let row = SiteRow { live, ..SiteRow::default() };
                writer.set_site(time, index, &row);
                let row = SiteRow {
                    moments: entered(
                        self.sites.get(&index).map(|row| row.moments),
                        time,
                        live >> 10,
                    ),
                    ..row
                };
                put(&mut self.sites, lost, GEOMETRY.sites, index, row);
            }
            Act::Flags(set, clear) => {
                writer.set_flags(set, clear);
                self.flags = (self.flags & !clear) | set;
            }
        }
    }

    fn compare(&self, trace: &Trace) {
        fn by_index<T: Clone>(rows: &[Row<T>]) -> BTreeMap<u32, T> {
            rows.iter().map(|row| (row.index, row.row.clone())).collect()
        }
        assert_eq!(by_index(&trace.components), self.components);
        assert_eq!(by_index(&trace.objects), self.objects);
        assert_eq!(by_index(&trace.notes).into_values().collect::<Vec<_>>(), self.notes);
        assert!(
            by_index(&trace.names).into_values().map(|row| row.name).eq(self.names.iter().copied())
        );
        assert_eq!(by_index(&trace.phases), self.phases);
        assert_eq!(by_index(&trace.phase_peaks), self.peaks);
        let summary = trace.summary.as_ref().map(|summary| (summary.head, summary.rows.clone()));
        assert_eq!(summary, self.summary);
        let bitmaps: BTreeMap<_, _> =
            trace.segments.iter().map(|row| (row.index, row.row.bitmap.clone())).collect();
        assert_eq!(bitmaps, self.segments);
        assert_eq!(by_index(&trace.sites), self.sites);
        assert_eq!(trace.state.flags, self.flags);
        assert_eq!(trace.state.rows_lost, self.lost);
        assert_eq!(trace.faults.len(), usize::from(self.lost > 0), "{:?}", trace.faults);
        self.compare_history(trace);
        self.compare_timeline(trace);
    }

    /// Checks that the ring has the last samples and edges, and all of them if it was never full.
    fn compare_history(&self, trace: &Trace) {
        let held: Vec<_> = trace
            .history
            .samples()
            .map(|(head, rows)| {
                let (time, flags) = (head.time, head.flags);
                let (kernel_resident, walked) = (head.kernel_resident, head.walked);
                (SampleHead { time, flags, kernel_resident, walked }, rows.to_vec())
            })
            .collect();
        let expected: Vec<_> = self
            .samples
            .iter()
            .map(|(head, rows)| {
                let kept = rows.iter().filter(|row| {
                    head.flags & sample::FULL == 0 || row.owned | row.resident | row.shared != 0
                });
                (*head, kept.copied().collect::<Vec<_>>())
            })
            .collect();
        assert!(expected.ends_with(&held), "{held:?} is not the end of {expected:?}");
        assert!(self.edges.ends_with(trace.history.phase_edges()));
        let blocks = GEOMETRY.place(SIZE).expect("room for a trace");
        let blocks = blocks.section(memprof_trace::layout::SectionKind::Ring).slots;
        // The state counts blocks at samples; an edge may have begun one more since.
        if trace.state.blocks < u64::from(blocks) {
            assert_eq!(
                (held.len(), trace.history.phase_edges()),
                (expected.len(), &self.edges[..])
            );
        }
    }

    /// Each bin covers the samples of its time and the state at its beginning; every sample has a
    /// bin, and so has every time from the first full sample on.
    fn compare_timeline(&self, trace: &Trace) {
        let is_full = |head: &SampleHead| head.flags & sample::FULL != 0;
        let begun = self.samples.iter().map(|(head, _)| head).find(|head| is_full(head));
        let begun = begun.map_or(u64::MAX, |head| head.time);
        let mut told = 0;
        for pair in trace.timeline.windows(2) {
            assert!(pair[0].end() == pair[1].start || pair[0].end() <= begun);
        }
        for (place, bin) in trace.timeline.iter().enumerate() {
            let inside = |head: &SampleHead| (bin.start..bin.end()).contains(&head.time);
            let samples: Vec<_> = self.samples.iter().filter(|(head, _)| inside(head)).collect();
            told += samples.len();
            let earlier = || self.samples.iter().rev().filter(|(head, _)| head.time < bin.start);
            let before = earlier().find(|(head, _)| is_full(head));
            let full: Vec<_> = before
                .into_iter()
                .chain(samples.iter().copied().filter(|(head, _)| is_full(head)))
                .collect();
            let counted = full.len() - before.iter().len();
            assert_eq!(bin.head.samples as usize, counted);
            assert_eq!(bin.head.others as usize, samples.len() - counted);
            let walked = || full.iter().map(|(head, _)| head.walked);
            assert_eq!(bin.head.total_min, walked().min().unwrap_or(0));
            assert_eq!(bin.head.total_max, walked().max().unwrap_or(0));
            let held = earlier().next().filter(|_| before.is_some());
            let kernel = samples.iter().copied().chain(held).map(|(head, _)| head.kernel_resident);
            assert_eq!(Some(bin.head.kernel_max), kernel.max());

            // The bin being filled reaches to its last sample.
            let end = match place + 1 == trace.timeline.len() {
                true => samples.last().map_or(bin.end(), |(head, _)| head.time),
                false => bin.end(),
            };
            let times: Vec<u64> =
                full.iter().map(|(head, _)| head.time.max(bin.start)).chain([end]).collect();
            let mean = |values: &[u64]| {
                let lengths = times.windows(2).map(|pair| pair[1].saturating_sub(pair[0]));
                let length: u64 = lengths.clone().sum();
                let sum: f64 = (values.iter().zip(lengths))
                    .map(|(value, length)| *value as f64 * length as f64)
                    .sum();
                match length {
                    0 => values.last().map_or(0.0, |last| *last as f64),
                    length => sum / length as f64,
                }
            };
            // Time is counted in millionth parts of a bin, and means are rounded up each time bins are folded.
            let near = |found: f64, values: &[u64], unit: f64| {
                let most = values.iter().copied().max().unwrap_or(0) as f64;
                let error = found - mean(values);
                let known = end.saturating_sub(bin.start.max(begun));
                let parts = (known as f64 / (bin.width >> 20) as f64).max(1.0);
                let allowed = unit * f64::from(bin.head.level + 2)
                    + most * (values.len() as f64 + 2.0) * 2.0 / parts;
                assert!(error.abs() <= allowed, "{error} of {allowed}");
            };
            near(bin.head.total_mean as f64, &walked().collect::<Vec<_>>(), 1.0);
            for component in 0..GEOMETRY.components as usize {
                let kib = |bytes: u64| u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
                let of = |rows: &[ComponentSample]| {
                    rows.iter()
                        .find(|row| usize::from(row.component) == component)
                        .copied()
                        .unwrap_or_default()
                };
                let resident = || full.iter().map(|(_, rows)| kib(of(rows).resident));
                let cell = bin.cell(component);
                assert_eq!(cell.resident_min, resident().min().unwrap_or(0));
                let any = || samples.iter().copied().chain(before).map(|(_, rows)| of(rows));
                assert_eq!(Some(cell.resident_max), any().map(|row| kib(row.resident)).max());
                assert_eq!(Some(cell.owned_max), any().map(|row| kib(row.owned)).max());
                near(
                    cell.resident_mean.into(),
                    &resident().map(u64::from).collect::<Vec<_>>(),
                    1.0,
                );
            }
        }
        assert_eq!(told, self.samples.len());
    }
}

/// Returns the moments of a row after an entry.
fn entered(before: Option<Moments>, time: u64, value: u64) -> Moments {
    let mut moments = before.unwrap_or_default();
    moments.enter(time, value);
    moments
}

/// Writes a full sample of one component.
fn sample_of(writer: &mut Writer<'_>, time: u64, resident: u64) {
    let row = ComponentSample { component: 0, resident, ..ComponentSample::default() };
    let head =
        SampleHead { time, flags: sample::FULL, kernel_resident: resident, walked: resident };
    writer.sample(&head, &[row]);
}

/// Samples are taken when something changes: many in a second of changes, one in an idle minute.
#[test]
fn mean_of_a_bin_is_over_time_not_samples() {
    const GIB: u64 = 1 << 30;
    let second = 1_000_000_000;
    let mut memory = Buffer::new(SIZE);
    let mut writer = Writer::create(memory.bytes_mut(), &Identity::default(), &GEOMETRY).unwrap();
    sample_of(&mut writer, 0, 10 * GIB);
    // Bins are long by now.
    for minute in 1..=10 {
        sample_of(&mut writer, minute * 60 * second, 10 * GIB);
    }
    let busy = 659 * second;
    for step in 0..40 {
        sample_of(&mut writer, busy + step * second / 40, GIB);
    }
    sample_of(&mut writer, 660 * second, 10 * GIB);
    sample_of(&mut writer, 1500 * second, 10 * GIB);
    let trace = Trace::from_bytes(memory.bytes()).unwrap();
    let bin = trace.timeline.iter().find(|bin| (bin.start..bin.end()).contains(&busy)).unwrap();
    assert!(bin.width > 60 * second && bin.head.samples >= 40, "{:?}", bin.head);
    let whole = 10.0 - 9.0 * second as f64 / bin.width as f64;
    let mean = bin.head.total_mean as f64 / GIB as f64;
    assert!((mean - whole).abs() < 0.01, "{mean} instead of {whole}");
    let mean = f64::from(bin.cell(0).resident_mean) * 1024.0 / GIB as f64;
    assert!((mean - whole).abs() < 0.01, "{mean} instead of {whole}");
    assert_eq!((bin.head.total_min, bin.head.total_max), (GIB, 10 * GIB));
}

/// After a release in the middle of a bin, later bins without samples have the lower amount.
#[test]
fn a_bin_without_a_sample_tells_what_held() {
    let width = 1 << BIN_SHIFT;
    let mut memory = Buffer::new(SIZE);
    let mut writer = Writer::create(memory.bytes_mut(), &Identity::default(), &GEOMETRY).unwrap();
    sample_of(&mut writer, 0, 200 << 20);
    sample_of(&mut writer, width / 2, 100 << 20);
    writer.quick(&SampleHead { time: 4 * width, flags: 0, kernel_resident: 1, walked: 1 });
    let trace = Trace::from_bytes(memory.bytes()).unwrap();
    let means: Vec<u32> =
        trace.timeline.iter().map(|bin| bin.cell(0).resident_mean >> 10).collect();
    assert_eq!(means, [150, 100, 100, 100, 100]);
    let samples: Vec<u32> = trace.timeline.iter().map(|bin| bin.head.samples).collect();
    assert_eq!(samples, [2, 0, 0, 0, 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(300) })]

    #[test]
    fn what_a_history_leaves_is_what_a_model_remembers(
        acts in prop::collection::vec((act(), 0..20_u32), 0..250),
    ) {
        prop_assert!(GEOMETRY.components as usize <= COMPONENTS_LIMIT);
        let mut memory = Buffer::new(SIZE);
        let mut writer = Writer::create(memory.bytes_mut(), &Identity::default(), &GEOMETRY).unwrap();
        let mut model = Model::default();
        let mut time = 0_u64;
        for (act, step) in acts {
            // Mostly small steps; sometimes a long time passes.
            time += 1 << if step == 19 { BIN_SHIFT + 6 } else { step };
            model.act(&mut writer, time, act);
        }
        model.compare(&Trace::from_bytes(memory.bytes()).unwrap());
    }
}
