//! Rows of the tables, made safe to use: numbers that refer to other rows are in range or stand for
//! nothing.

use super::Decoder;
use super::slots::newest;
use crate::layout::{
    ArenaRow, COMPONENTS_LIMIT, ComponentRow, FRAMES, HandleRow, LoopRow, MOMENTS, Moments, NONE,
    NONE_SHORT, NameRow, NoteRow, ObjectRow, PhasePeak, PhaseRow, SectionKind, SegmentRow, SiteRow,
    SlackRow, SummaryHead, SummaryRow, TimeRow, TouchRow, segment,
};
use crate::read::{Fault, PhasePeaks, Row, Segment, Summary, TraceError};

/// Maximum size of a granule, as a power of two.
const LARGEST_GRANULE_SHIFT: u32 = 40;

/// First version whose segment rows contain what is no longer in their bitmaps.
const SEGMENTS_WITH_HISTORY: u32 = 3;
/// Bytes of a segment row before that version.
const SEGMENT_OF_OLD: usize = 160;

/// Converts a row without the past of a segment to the present format.
fn lengthen_segment(payload: &mut Vec<u8>) {
    let Some(old) = payload.get(..SEGMENT_OF_OLD) else { return };
    let mut whole = [0; SegmentRow::SIZE];
    whole[..SEGMENT_OF_OLD].copy_from_slice(old);
    let Some(mut row) = SegmentRow::from_bytes(&whole) else { return };
    row.flags |= segment::REUSED;
    payload.splice(..SEGMENT_OF_OLD, row.to_bytes());
}

/// Returns the bytes of rows of a section, and their bytes in traces without the moments at the end.
fn with_moments(section: SectionKind) -> Option<(usize, usize)> {
    let whole = match section {
        SectionKind::Sites => SiteRow::SIZE,
        SectionKind::Loops => LoopRow::SIZE,
        SectionKind::Phases => PhaseRow::SIZE,
        _ => return None,
    };
    Some((whole, whole - Moments::SIZE))
}

/// A row that is read from a payload.
pub(super) trait Checked: Sized {
    /// Returns the row, and whether something had to be corrected. Returns `None` if the payload is
    /// too short.
    fn checked(payload: &[u8]) -> Option<(Self, bool)>;
}

/// Returns all rows of a table, by number.
pub(super) fn table<T: Checked>(
    decoder: &mut Decoder<'_>,
    section: SectionKind,
    count: Option<u32>,
) -> Result<Vec<Row<T>>, TraceError> {
    let found = newest(decoder, section, count)?;
    let mut nonsense = 0;
    let mut rows = Vec::with_capacity(found.rows.len());
    for (index, (_, mut payload)) in found.rows {
        if section == SectionKind::Segments && decoder.version < SEGMENTS_WITH_HISTORY {
            lengthen_segment(&mut payload);
        }
        if let Some((whole, old)) = with_moments(section)
            && payload.len() == old
        {
            payload.resize(whole, 0);
        }
        match T::checked(&payload) {
            Some((row, mended)) => {
                nonsense += u64::from(mended);
                rows.push(Row { index, row });
            }
            None => nonsense += 1,
        }
    }
    decoder.fault(found.damaged, |count| Fault::Damaged { section, count });
    decoder.fault(found.missing, |count| Fault::Missing { section, count });
    decoder.fault(nonsense, |count| Fault::Nonsense { section, count });
    Ok(rows)
}

/// Returns the newest valid summary.
pub(super) fn summary(decoder: &mut Decoder<'_>) -> Result<Option<Summary>, TraceError> {
    let rows: Vec<Row<Summary>> = table(decoder, SectionKind::Summary, None)?;
    Ok(rows.into_iter().next().map(|row| row.row))
}

/// Corrects `value` if `wrong` is true. Returns `wrong`.
fn mend<T>(value: &mut T, wrong: bool, right: T) -> bool {
    if wrong {
        *value = right;
    }
    wrong
}

/// Maximum amount of memory in one process, in bytes: more than any address space of 48 bits.
/// Larger numbers in a file are reduced to it, so that readers can add up many.
const MOST_BYTES: u64 = 1 << 48;
/// Maximum of times in nanoseconds, 36 years, and of things counted since the start.
const MOST_COUNTED: u64 = 1 << 60;

fn cut<const N: usize>(values: [&mut u64; N], most: u64) -> bool {
    values.into_iter().fold(false, |any, value| {
        let wrong = *value > most;
        mend(value, wrong, most) | any
    })
}

/// Reduces impossible amounts of memory.
pub(super) fn cut_bytes<const N: usize>(values: [&mut u64; N]) -> bool {
    cut(values, MOST_BYTES)
}

/// Reduces impossible times and counts.
pub(super) fn cut_counted<const N: usize>(values: [&mut u64; N]) -> bool {
    cut(values, MOST_COUNTED)
}

/// Corrects a component's number that is neither valid nor [`NONE`].
fn mend_component(component: &mut u32) -> bool {
    let wrong = *component != NONE && *component as usize >= COMPONENTS_LIMIT;
    mend(component, wrong, 0)
}

/// Corrects moments that cannot be.
fn mend_moments(moments: &mut Moments) -> bool {
    let wrong = moments.used as usize > MOMENTS || moments.shift > 63;
    mend(moments, wrong, Moments::default())
}

impl Checked for ComponentRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let wrong = row.parent != NONE_SHORT && usize::from(row.parent) >= COMPONENTS_LIMIT;
        let mended = mend(&mut row.parent, wrong, NONE_SHORT);
        Some((row, mended))
    }
}

impl Checked for ObjectRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let wrong = row.build_id_length as usize > row.build_id.len();
        let mended = mend(&mut row.build_id_length, wrong, 0) | mend_component(&mut row.component);
        Some((row, mended))
    }
}

impl Checked for NoteRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let mended = cut_counted([&mut row.time]);
        Some((row, mended))
    }
}

impl Checked for NameRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        Some((Self::from_bytes(payload)?, false))
    }
}

impl Checked for PhaseRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let PhaseRow { entries, total_ns, first_time, last_time, .. } = &mut row;
        let mended = cut_counted([entries, total_ns, first_time, last_time]);
        let mended = mended | mend_moments(&mut row.moments);
        Some((row, mended))
    }
}

impl Checked for TimeRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let TimeRow { elapsed_ns, lent_ns, lent_calls, others_ns, others_calls, .. } = &mut row;
        let mut mended = cut_counted([elapsed_ns, lent_ns, lent_calls, others_ns, others_calls]);
        let TimeRow { openmp_ns, openmp_regions, time, .. } = &mut row;
        mended |= cut_counted([openmp_ns, openmp_regions, time]);
        for value in row.mpi_ns.iter_mut().chain(&mut row.calls) {
            mended |= cut_counted([value]);
        }
        Some((row, mended))
    }
}

impl Checked for LoopRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let LoopRow { calls, spent_ns, turns, time_ns, mpi_ns, .. } = &mut row;
        let mut mended = cut_counted([calls, spent_ns, turns, time_ns, mpi_ns]);
        let LoopRow { recent_time_ns, recent_mpi_ns, lost, time, .. } = &mut row;
        mended |= cut_counted([recent_time_ns, recent_mpi_ns, lost, time]);
        mended |= mend_moments(&mut row.moments);
        Some((row, mended))
    }
}

impl Checked for HandleRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let HandleRow { made, freed, peak, time, blocks, .. } = &mut row;
        let mut mended = cut_counted([made, freed, peak, time, blocks]);
        let (wrong, made) = (row.freed > row.made, row.made);
        mended |= mend(&mut row.freed, wrong, made);
        Some((row, mended))
    }
}

impl Checked for PhasePeaks {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let rows = payload.chunks_exact(PhasePeak::SIZE).filter_map(PhasePeak::from_bytes);
        let (mut peaks, mut mended) = at_most_components(rows.collect::<Vec<_>>());
        for peak in &mut peaks {
            mended |= cut_bytes([&mut peak.owned, &mut peak.resident]);
        }
        Some((peaks, mended))
    }
}

impl Checked for Summary {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut head = SummaryHead::from_bytes(payload)?;
        let chunks = payload[SummaryHead::SIZE..].chunks_exact(SummaryRow::SIZE);
        let mut slack = SlackRow::from_bytes(chunks.remainder());
        let arenas = slack.map_or(0, |slack| slack.rows as usize);
        let (wrong, arenas) = (arenas > chunks.len(), arenas.min(chunks.len()));
        let components = chunks.len() - arenas;
        let mut arenas: Vec<_> =
            chunks.clone().skip(components).filter_map(ArenaRow::from_bytes).collect();
        let rows = chunks.take(components).filter_map(SummaryRow::from_bytes);
        let (mut rows, mut mended) = at_most_components(rows.collect::<Vec<_>>());
        mended |= wrong;
        mended |= cut_head(&mut head);
        for row in &mut rows {
            mended |= cut_row(row);
        }
        mended |= slack.as_mut().is_some_and(cut_slack);
        for arena in &mut arenas {
            mended |= cut_arena(arena);
        }
        Some((Summary { head, rows, slack, arenas }, mended))
    }
}

fn cut_slack(row: &mut SlackRow) -> bool {
    let mut mended = mend_component(&mut row.allocator);
    for component in &mut row.holder {
        mended |= mend_component(component);
    }
    for moment in 0..2 {
        let SlackRow { main, main_top, arenas, arenas_top, uncertain, .. } = row;
        let all = [main, main_top, arenas, arenas_top, uncertain];
        mended |= cut_bytes(all.map(|values| &mut values[moment]));
        let (main, arenas) = (row.main[moment], row.arenas[moment]);
        let (wrong, wrong_too) = (row.main_top[moment] > main, row.arenas_top[moment] > arenas);
        mended |= mend(&mut row.main_top[moment], wrong, main);
        mended |= mend(&mut row.arenas_top[moment], wrong_too, arenas);
    }
    mended
}

fn cut_arena(row: &mut ArenaRow) -> bool {
    let mut mended = false;
    for component in row.holder.iter_mut().chain(&mut row.left_by) {
        mended |= mend_component(component);
    }
    for moment in 0..2 {
        let ArenaRow { resident, in_use, free_pages, kept, uncertain, left, .. } = row;
        let all = [resident, in_use, free_pages, kept, uncertain, left];
        mended |= cut_bytes(all.map(|values| &mut values[moment]));
        let (resident, free) = (row.resident[moment], row.free_pages[moment]);
        let limits =
            [(&mut row.in_use, resident), (&mut row.free_pages, resident), (&mut row.kept, free)];
        for (values, most) in limits.into_iter().chain([(&mut row.left, resident)]) {
            let wrong = values[moment] > most;
            mended |= mend(&mut values[moment], wrong, most);
        }
    }
    mended
}

fn cut_head(head: &mut SummaryHead) -> bool {
    let SummaryHead { kernel_resident, walked, unattributed, page_tables, .. } = head;
    let mut mended = cut_bytes([kernel_resident, walked, unattributed, page_tables]);
    let SummaryHead { hugetlb, swapped, shared, huge, peak, kernel_peak, .. } = head;
    mended |= cut_bytes([hugetlb, swapped, shared, huge, peak, kernel_peak]);
    let SummaryHead { owned, owned_peak, mixed, tool, .. } = head;
    mended |= cut_bytes([owned, owned_peak, mixed, tool]);
    let SummaryHead { time, peak_time, owned_peak_time, samples_full, samples_quick, .. } = head;
    mended |= cut_counted([time, peak_time, owned_peak_time, samples_full, samples_quick]);
    let SummaryHead { samples_release, releases_skipped, cpu_ns, interval_ns, .. } = head;
    mended |= cut_counted([samples_release, releases_skipped, cpu_ns, interval_ns]);
    let SummaryHead { longest_hold_ns, longest_sample_ns, mpi_calls, .. } = head;
    mended |= cut_counted([longest_hold_ns, longest_sample_ns, mpi_calls]);
    let SummaryHead { mappings, threads, faults, faults_lost, .. } = head;
    mended | cut_counted([mappings, threads, faults, faults_lost])
}

fn cut_row(row: &mut SummaryRow) -> bool {
    let SummaryRow { owned, owned_peak, resident, resident_peak, shared, huge, swapped, .. } = row;
    let mut mended = cut_bytes([owned, owned_peak, resident, resident_peak, shared, huge, swapped]);
    let SummaryRow {
        resident_at_peak, owned_at_peak, slack_at_peak, blocks, ranges, error, ..
    } = row;
    mended |= cut_bytes([resident_at_peak, owned_at_peak, slack_at_peak, blocks, ranges, error]);
    let SummaryRow { owned_peak_time, resident_peak_time, allocations, frees, allocated, .. } = row;
    mended | cut_counted([owned_peak_time, resident_peak_time, allocations, frees, allocated])
}

impl Checked for Segment {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = SegmentRow::from_bytes(payload)?;
        let rest = &payload[SegmentRow::SIZE..];
        let wrong = row.bitmap_length as usize > rest.len();
        let length = u32::try_from(rest.len()).unwrap_or(0);
        let mut mended = mend(&mut row.bitmap_length, wrong, length);
        let wrong = row.granule_shift > LARGEST_GRANULE_SHIFT;
        mended |= mend(&mut row.granule_shift, wrong, LARGEST_GRANULE_SHIFT);
        mended |= mend_component(&mut row.component);
        // A file may be sparse, and larger than memory.
        mended |= cut_counted([&mut row.size, &mut row.time]);
        let SegmentRow { present, counted, dropped, doubled, .. } = &mut row;
        mended |= cut_bytes([present, counted, dropped, doubled]);
        let bitmap = rest[..row.bitmap_length as usize].to_vec();
        Some((Segment { row, bitmap }, mended))
    }
}

impl Checked for SiteRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let wrong = row.frames as usize > FRAMES;
        let mut mended =
            mend(&mut row.frames, wrong, FRAMES as u32) | mend_component(&mut row.component);
        mended |= cut_bytes([&mut row.live, &mut row.peak, &mut row.at_peak]);
        mended |= cut_counted([&mut row.total, &mut row.samples]);
        mended |= mend_moments(&mut row.moments);
        Some((row, mended))
    }
}

impl Checked for TouchRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let component = |number: u16| usize::from(number) < COMPONENTS_LIMIT;
        let wrong = row.toucher != NONE_SHORT && !component(row.toucher);
        let mut mended = mend(&mut row.toucher, wrong, NONE_SHORT);
        let wrong = !component(row.owner);
        mended |= mend(&mut row.owner, wrong, 0);
        mended |= cut_counted([&mut row.faults, &mut row.bytes]);
        Some((row, mended))
    }
}

/// Limits tables by component to as many columns as there can be components.
fn at_most_components<T>(mut rows: Vec<T>) -> (Vec<T>, bool) {
    let wrong = rows.len() > COMPONENTS_LIMIT;
    rows.truncate(COMPONENTS_LIMIT);
    (rows, wrong)
}
