//! The page that describes the format agrees with the code.

use std::collections::BTreeMap;

use memprof_trace::layout::{self, Class, SectionKind};

const PAGE: &str = include_str!("../../docs/trace-format.md");

/// Returns the rows of all tables whose header is `columns`, each with the last heading above it.
fn rows(columns: &str) -> Vec<(&'static str, Vec<&'static str>)> {
    let (mut heading, mut inside, mut rows) = ("", false, Vec::new());
    for line in PAGE.lines() {
        if let Some(text) =
            line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#'))
        {
            heading = text;
        }
        if line == columns {
            inside = true;
        } else if !line.starts_with('|') {
            inside = false;
        } else if inside && !line.starts_with("|---") {
            let cells = line.trim_matches('|').split('|').map(|cell| cell.trim().trim_matches('`'));
            rows.push((heading, cells.collect()));
        }
    }
    rows
}

/// Returns a type of this many bytes in the page's words: `u32 × 16` for an array, `text` for text
/// of any length.
fn in_words(declared: &str, bytes: usize) -> String {
    let Some(inner) = declared.strip_prefix('[') else {
        return if declared.starts_with("Text") { "text".to_owned() } else { declared.to_owned() };
    };
    let element = inner.split(';').next().expect("a type").trim();
    let bits: usize = element[1..].parse().expect("bits");
    format!("{element} × {}", bytes * 8 / bits)
}

#[test]
fn every_field_has_the_place_and_type_on_the_page() {
    let mut described: BTreeMap<&str, Vec<(&str, usize, usize, String)>> = BTreeMap::new();
    for (heading, cells) in rows("| at | bytes | type | field | meaning |") {
        assert!(!cells[4].is_empty(), "{heading}: {} has no meaning", cells[3]);
        let (at, bytes) = (cells[0].parse().unwrap(), cells[1].parse().unwrap());
        described.entry(heading).or_default().push((cells[3], at, bytes, cells[2].to_owned()));
    }
    macro_rules! compare {
        ($($name:ident),* $(,)?) => {$(
            let heading = format!("`{}`: {} bytes", stringify!($name), layout::$name::SIZE);
            let declared = layout::$name::FIELDS.iter().zip(layout::$name::TYPES);
            let declared = declared.map(|(&(field, at, bytes), r#type)| (field, at, bytes, in_words(r#type, bytes)));
            assert_eq!(described.remove(&*heading), Some(declared.collect()), "{heading}");
        )*};
    }
    compare!(
        HeaderStart,
        SectionEntry,
        Identity,
        SlotHead,
        StateRow,
        ComponentRow,
        ObjectRow,
        NoteRow,
        NameRow,
        PhaseRow,
        PhasePeak,
        SummaryHead,
        SummaryRow,
        SlackRow,
        ArenaRow,
        BinHead,
        Cell,
        BlockHead,
        Record,
        SegmentRow,
        SiteRow,
        TouchRow,
        TimeRow,
        LoopRow,
        HandleRow,
        Moments,
    );
    assert!(described.is_empty(), "{described:?}");
}

#[test]
fn every_constant_has_the_value_the_page_says() {
    let mut described: BTreeMap<&str, u64> = BTreeMap::new();
    for (_, cells) in rows("| name | value | meaning |") {
        assert!(described.insert(cells[0], cells[1].parse().unwrap()).is_none(), "{}", cells[0]);
    }
    macro_rules! compare {
        ($($($name:ident)::+),* $(,)?) => {$(
            let name = stringify!($($name)::+).replace(' ', "");
            assert_eq!(described.remove(&*name), Some(layout::$($name)::+ as u64), "{name}");
        )*};
    }
    compare!(
        VERSION,
        OLDEST_VERSION,
        HEADER_SIZE,
        HEADER_CHECKSUM,
        SECTION_TABLE,
        SECTIONS_LIMIT,
        IDENTITY,
        COMPONENTS_LIMIT,
        BIN_SHIFT,
        BLOCK_SIZE,
        BLOCK_RECORDS,
        FRAMES,
        MOMENTS,
        MOMENT_SHIFT,
        NONE,
        NONE_SHORT,
        SEQUENCE_MARK,
        COMMITTED,
        flags::MPI_SEEN,
        flags::INITIALIZED,
        flags::FINALIZED,
        flags::CLOSED,
        flags::STATIC,
        flags::OWN_ALLOCATOR,
        flags::DETACHED,
        flags::STACKS,
        flags::EXACT_PEAKS,
        flags::PAUSED,
        flags::NO_BOUNDARY,
        flags::NO_RESIDENCY,
        flags::REPLACED,
        flags::FAULTS,
        flags::ALL_PROCESSES,
        phase::AUTOMATIC,
        phase::CONTROL,
        phase::USER,
        phase::QUO,
        handle::GPU,
        record::SAMPLE,
        record::COMPONENT,
        record::EXTRA,
        record::PHASE,
        record::NOTE,
        sample::FULL,
        sample::QUICK,
        sample::RELEASE,
        sample::PHASE,
        sample::ASKED,
        sample::LAST,
        edge::BEGIN,
        edge::END,
        lost::OBJECTS,
        lost::SEGMENTS,
        lost::SITES,
        lost::BLOCKS,
        lost::GRANULES,
        lost::RANGES,
        lost::THREADS,
        lost::HANDLES,
        segment::HUGETLB,
        segment::GONE,
        segment::MOVED,
        segment::REUSED,
    );
    assert!(described.is_empty(), "{described:?}");
}

#[test]
fn sections_and_classes_have_the_numbers_the_page_says() {
    let sections = rows("| kind | section | rows | payload of a slot |");
    let described: Vec<_> =
        sections.iter().map(|(_, cells)| (cells[0].parse().unwrap(), cells[1])).collect();
    let kinds: Vec<_> = SectionKind::ALL.map(|kind| (kind as u32, kind.name())).to_vec();
    assert_eq!(described, kinds);

    let mut classes = Vec::new();
    for (_, cells) in rows("| class | name | class | name | class | name |") {
        classes.extend(cells.chunks(2).map(|pair| (pair[0].parse::<u8>().unwrap(), pair[1])));
    }
    classes.sort_unstable();
    assert_eq!(classes, Class::ALL.map(|class| (class as u8, class.name())));
}
