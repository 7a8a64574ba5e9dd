//! Outputs made from forged memory traces: tables, pages, pictures, comparisons, laws and files for
//! other programs.

use std::ffi::OsStr;
use std::fmt::Display;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use memprof::diff::compare::compare;
use memprof::diff::{self, Floors};
use memprof::export::{self, Format};
use memprof::model::Job;
use memprof::report::{self, html, json, pictures, rank, sites, table};
use memprof::terminal::Look;
use memprof::{live, picture};
use memprof_sweep::{self as sweep, Metric};
use memprof_trace::layout::IDENTITY;

use super::traces::{self, GOLDEN};

/// Any change counts.
const NONE: Floors = Floors { least: 0, noise: 0 };

/// Number of traces of a job.
const RANKS: usize = 3;
/// Position of the program's path in an identity.
const PROGRAM: usize = 200;

/// Metrics to which a law is fitted.
const METRICS: [Metric; 4] =
    [Metric::Resident, Metric::Owned, Metric::ResidentMax, Metric::OwnedMax];

/// Runs all outputs. The input has as many lists of patches as it says, each for another rank, as
/// of a forged trace. The last rank is unchanged. The first byte also selects whether processes
/// left marker files instead of traces, and the metric of the laws.
pub fn job(input: &[u8]) {
    let Some((how, lists)) = input.split_first() else { return };
    let how = usize::from(*how);
    let (parts, words, metric) = (how % RANKS, how / RANKS % 2 == 1, how / RANKS / 2);
    let Ok(place) = tempfile::tempdir() else { return };
    let (whole, folder) = (place.path().join("whole"), place.path().join("forged"));
    let length = lists.len().div_ceil(parts.max(1)).max(1);
    let mut forged = lists.chunks(length).map(traces::forge).collect::<Vec<_>>();
    let last = Some(GOLDEN.to_vec());
    forged.push(last.clone());
    if !write(&whole, &[last]) || !write(&folder, &forged) {
        return;
    }
    if words {
        leave_words(&folder, lists);
    }
    show(&whole, &folder, METRICS[metric % METRICS.len()]);
}

/// Writes a folder of traces; returns true if all were written.
fn write(folder: &Path, traces: &[Option<Vec<u8>>]) -> bool {
    let file = |number| folder.join(format!("host.{number}.1.memprof"));
    let mut traces = traces.iter().flatten().enumerate();
    fs::create_dir(folder).is_ok()
        && traces.all(|(number, bytes)| fs::write(file(number), bytes).is_ok())
}

/// Writes marker files of processes that cannot write a trace: names of empty files, some of which
/// the system refuses.
fn leave_words(folder: &Path, bytes: &[u8]) {
    let numbers: Vec<String> = bytes
        .chunks(8)
        .map(|part| part.iter().fold(0_i64, |sum, byte| sum << 8 | i64::from(*byte)).to_string())
        .collect();
    for four in numbers.chunks(4).take(4) {
        let _ = fs::write(folder.join(format!("node.{}.missing", four.join("."))), "");
    }
    let any: Vec<u8> = bytes.iter().copied().filter(|byte| !b"\0/".contains(byte)).collect();
    for name in any.chunks(40).take(4) {
        let name = [name, b".4711.99.3.28.missing"].concat();
        let _ = fs::write(folder.join(OsStr::from_bytes(&name)), "");
    }
}

fn load(folder: &Path) -> Option<Job> {
    Job::load(folder, None, &mut |_, _| {}).inspect_err(|error| is_said(error)).ok()
}

fn show(whole: &Path, folder: &Path, metric: Metric) {
    let Some(job) = load(folder) else { return };
    let look = Look::plain();
    for text in [
        table::full(&job, true, look),
        table::short(&job, look),
        sites::text(&job.sites, job.started_ns, 10, look),
        live::display(&job, 4, look),
    ] {
        is_clean(&text);
    }
    for phase in &job.phases {
        is_clean(&rank::phase(&job, phase, look));
    }
    let mut drawn = vec![pictures::job(&job)];
    for node in &job.nodes {
        is_clean(&table::node(&job, node, true, look));
        drawn.push(pictures::node(node));
    }
    for one in job.ranks() {
        is_clean(&rank::rank(one, true, look));
        drawn.extend(said(pictures::rank(one)));
    }
    let style = picture::Style::default();
    for one in &drawn {
        let svg = picture::timeline(one, &style);
        assert!(svg.contains("</svg>"));
        are_numbers(&svg, &[&job]);
    }
    if let Some(page) = said(html::page(&job)) {
        assert!(page.starts_with("<!"));
        are_numbers(&page, &[&job]);
    }
    let options = report::Options::of(folder);
    if let Some(text) = said(json::text(&job, &options)) {
        assert!(text.starts_with('{') && text.ends_with("}\n"));
    }
    let ranks: Vec<_> = job.ranks().collect();
    for format in [Format::Csv, Format::Json, Format::Perfetto, Format::Pprof] {
        said(export::write(format, &job, &ranks, Vec::new()));
    }
    said(export::write(Format::Massif, &job, &ranks[..1], Vec::new()));
    let same = compare(&job, &job);
    assert!(same.judge(0.0, NONE).grown.is_empty());
    if let Some(whole) = load(whole) {
        compared(&whole, &job);
        compared(&job, &whole);
    }
    if let Some(study) = said(sweep::gather(&[whole.to_owned(), folder.to_owned()], metric)) {
        let at = [(1, None), (1 << 20, Some(7)), (u32::MAX, Some(1))];
        let at = at.map(|(ranks, nodes)| sweep::At { ranks, nodes });
        let table = sweep::text::table(&study, &at, true, look);
        is_clean(&table);
        are_numbers(&table, &[&job]);
        said(sweep::text::json(&study, &at));
        assert!(sweep::text::picture(&study).contains("</svg>"));
    }
}

fn compared(before: &Job, after: &Job) {
    let comparison = compare(before, after);
    let verdict = comparison.judge(5.0, Floors { least: 1 << 16, noise: 1 << 12 });
    verdict.grown.iter().for_each(|grown| is_clean(grown));
    let table = diff::text::table(&comparison, NONE, true, Look::plain());
    is_clean(&table);
    are_numbers(&table, &[before, after]);
    let growths = diff::growth::compare(before, after);
    said(diff::text::json(&comparison, growths.as_ref(), Some(&verdict)));
}

/// Checks that no number is the result of 0/0, unless a name of the jobs contains the same text.
fn are_numbers(text: &str, jobs: &[&Job]) {
    let is_name = || jobs.iter().any(|job| format!("{job:?}").contains("NaN"));
    assert!(!text.contains("NaN") || is_name(), "{text}");
}

/// Checks that the printed text contains no terminal control characters.
fn is_clean(text: &str) {
    let strange = text.chars().find(|character| character.is_control() && *character != '\n');
    assert!(strange.is_none(), "{strange:?} in {text}");
}

fn is_said(error: &dyn Display) {
    assert!(!error.to_string().is_empty());
}

/// Checks that an error has a text.
fn said<T>(result: anyhow::Result<T>) -> Option<T> {
    result.inspect_err(|error| is_said(error)).ok()
}

/// Returns patches of one rank, and of two; marker files; and a program with a difficult name.
pub fn seeds() -> Vec<Vec<u8>> {
    let lists = traces::patches();
    let one = lists.iter().map(|list| [&[1], &list[..]].concat());
    let mut all: Vec<Vec<u8>> = one.collect();
    all.push(vec![0]);
    if let [first, .., last] = &lists[..] {
        all.push([&[2], &first[..], &last[..]].concat());
        all.push([&[RANKS as u8 + 2], &first[..], &last[..]].concat());
        all.push([&[RANKS as u8 * 3 + 1], b"\x1b[2J\n".as_slice(), &last[..]].concat());
    }
    let program = (IDENTITY + PROGRAM) as u16 / 8;
    let name = u64::from_le_bytes(*b"NaN\0\0\0\0\0");
    all.push([&[1, 1][..], &program.to_le_bytes(), &name.to_le_bytes()].concat());
    all
}
