//! Rows of the tables, made safe to use: numbers that lead elsewhere are in range or stand for nothing.

use super::Decoder;
use super::slots::newest;
use crate::layout::{
    COMPONENTS_LIMIT, ComponentRow, FRAMES, NONE, NONE_SHORT, NameRow, NoteRow, ObjectRow,
    PhasePeak, PhaseRow, SectionKind, SegmentRow, SiteRow, SummaryHead, SummaryRow,
};
use crate::read::{Fault, PhasePeaks, Row, Segment, Summary, TraceError};

/// Granules larger than this are no granules.
const LARGEST_GRANULE_SHIFT: u32 = 40;

/// A row that comes from a payload.
pub(super) trait Checked: Sized {
    /// The row, and whether something had to be put right. Nothing if the payload is too short.
    fn checked(payload: &[u8]) -> Option<(Self, bool)>;
}

/// All rows of a table, by number.
pub(super) fn table<T: Checked>(
    decoder: &mut Decoder<'_>,
    section: SectionKind,
    count: Option<u32>,
) -> Result<Vec<Row<T>>, TraceError> {
    let found = newest(decoder, section, count)?;
    let mut nonsense = 0;
    let mut rows = Vec::with_capacity(found.rows.len());
    for (index, (_, payload)) in found.rows {
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

/// The newest whole summary.
pub(super) fn summary(decoder: &mut Decoder<'_>) -> Result<Option<Summary>, TraceError> {
    let rows: Vec<Row<Summary>> = table(decoder, SectionKind::Summary, None)?;
    Ok(rows.into_iter().next().map(|row| row.row))
}

/// Puts `value` right if `wrong`, and says so.
fn mend<T>(value: &mut T, wrong: bool, right: T) -> bool {
    if wrong {
        *value = right;
    }
    wrong
}

/// A component's number, or [`NONE`].
fn mend_component(component: &mut u32) -> bool {
    let wrong = *component != NONE && *component as usize >= COMPONENTS_LIMIT;
    mend(component, wrong, 0)
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
        Some((Self::from_bytes(payload)?, false))
    }
}

impl Checked for NameRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        Some((Self::from_bytes(payload)?, false))
    }
}

impl Checked for PhaseRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        Some((Self::from_bytes(payload)?, false))
    }
}

impl Checked for PhasePeaks {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let peaks: Vec<_> =
            payload.chunks_exact(PhasePeak::SIZE).filter_map(PhasePeak::from_bytes).collect();
        Some(at_most_components(peaks))
    }
}

impl Checked for Summary {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let head = SummaryHead::from_bytes(payload)?;
        let rows = payload[SummaryHead::SIZE..].chunks_exact(SummaryRow::SIZE);
        let (rows, mended) =
            at_most_components(rows.filter_map(SummaryRow::from_bytes).collect::<Vec<_>>());
        Some((Summary { head, rows }, mended))
    }
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
        let bitmap = rest[..row.bitmap_length as usize].to_vec();
        Some((Segment { row, bitmap }, mended))
    }
}

impl Checked for SiteRow {
    fn checked(payload: &[u8]) -> Option<(Self, bool)> {
        let mut row = Self::from_bytes(payload)?;
        let wrong = row.frames as usize > FRAMES;
        let mended =
            mend(&mut row.frames, wrong, FRAMES as u32) | mend_component(&mut row.component);
        Some((row, mended))
    }
}

/// Tables by component have no more columns than there can be components.
fn at_most_components<T>(mut rows: Vec<T>) -> (Vec<T>, bool) {
    let wrong = rows.len() > COMPONENTS_LIMIT;
    rows.truncate(COMPONENTS_LIMIT);
    (rows, wrong)
}
