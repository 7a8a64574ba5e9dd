//! Memory traces: files of any content, and forged ones with right checksums. Whatever a readable
//! trace contains, the reader's promises hold.

use memprof_trace::generate::reseal;
use memprof_trace::layout::COMPONENTS_LIMIT;
use memprof_trace::read::Trace;

/// The trace to start from.
pub const GOLDEN: &[u8] = include_bytes!("../../../../memprof/trace/tests/golden/trace.memprof");

pub fn bytes(input: &[u8]) {
    read(input);
}

/// Reads a forged trace. The input is a list of positions with eight bytes each; the first byte may
/// truncate the file.
pub fn forged(input: &[u8]) {
    if let Some(bytes) = forge(input) {
        read(&bytes);
    }
}

/// Returns the trace that an input of [`forged`] describes.
pub fn forge(input: &[u8]) -> Option<Vec<u8>> {
    let (cut, patches) = input.split_first()?;
    let mut bytes = GOLDEN.to_vec();
    let words = bytes.len() / 8;
    for patch in patches.chunks_exact(10) {
        let word = usize::from(u16::from_le_bytes([patch[0], patch[1]])) % words;
        bytes[word * 8..][..8].copy_from_slice(&patch[2..]);
    }
    reseal(&mut bytes);
    bytes.truncate(bytes.len() - usize::from(*cut) / 2 * 400);
    Some(bytes)
}

fn read(bytes: &[u8]) {
    match Trace::from_bytes(bytes) {
        Ok(trace) => use_all(&trace),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn use_all(trace: &Trace) {
    assert!(trace.columns() <= COMPONENTS_LIMIT);
    for component in 0..trace.columns() {
        assert!(trace.component_name(component).chars().all(|character| !character.is_control()));
    }
    assert!(trace.timeline.windows(2).all(|pair| pair[0].end() <= pair[1].start));
    for (_, rows) in trace.history.samples() {
        assert!(rows.iter().all(|row| usize::from(row.component) < COMPONENTS_LIMIT));
    }
    for segment in &trace.segments {
        assert_eq!(segment.row.row.bitmap_length as usize, segment.row.bitmap.len());
        assert!(segment.row.row.granule_shift < 64);
    }
    for site in &trace.sites {
        assert!(site.row.frames as usize <= site.row.offsets.len());
    }
    if let Some(summary) = &trace.summary {
        let _ = (trace.function(summary.head.peak_function), trace.phase(summary.head.peak_phase));
    }
    let _ = trace.last_time();
    assert!(trace.faults.iter().all(|fault| !fault.to_string().is_empty()));
}

/// Returns patches to start from: numbers of the header, a slot, a block.
pub fn patches() -> Vec<Vec<u8>> {
    let patch = |word: u16, value: u64| [&word.to_le_bytes()[..], &value.to_le_bytes()].concat();
    let lists = [
        vec![],
        vec![patch(2, u64::MAX), patch(3, 4096 | 16 << 32)],
        vec![patch(9, u64::MAX), patch(10, 4096), patch(11, 1 << 40)],
        vec![patch(512, 0xC0DE << 48 | 9), patch(513, 144 << 32)],
        vec![patch(0x1000, 0xC0DE << 48 | 1), patch(0x1002, 1 << 31 | 127)],
    ];
    lists.iter().map(|list| [vec![0], list.concat()].concat()).collect()
}
