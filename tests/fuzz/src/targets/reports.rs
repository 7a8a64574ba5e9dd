//! What is made of memory traces that were read: tables, pages, pictures and files for other programs, of jobs whose
//! traces somebody has forged.

use std::fmt::Display;
use std::fs;
use std::path::Path;

use memprof::diff::compare::compare;
use memprof::export::{self, Format};
use memprof::model::Job;
use memprof::report::{self, html, json, pictures, rank, sites, table};
use memprof::terminal::Look;
use memprof::{live, picture};

use super::traces::{self, GOLDEN};

/// The traces of a job.
const RANKS: usize = 3;

/// The input is as many lists of patches as it says, as of a forged trace, each for another of the ranks. The last rank is
/// as it was.
pub fn job(input: &[u8]) {
    let Some((parts, lists)) = input.split_first() else { return };
    let parts = usize::from(*parts) % RANKS;
    let Ok(folder) = tempfile::tempdir() else { return };
    let length = lists.len().div_ceil(parts.max(1)).max(1);
    let mut forged = lists.chunks(length).map(traces::forge).collect::<Vec<_>>();
    forged.push(GOLDEN.last().map(|bytes| bytes.to_vec()));
    for (number, bytes) in forged.into_iter().flatten().enumerate() {
        let file = folder.path().join(format!("host.{number}.1.memprof"));
        if fs::write(file, bytes).is_err() {
            return;
        }
    }
    show(folder.path());
}

fn show(folder: &Path) {
    let job = match Job::load(folder, None, &mut |_, _| {}) {
        Ok(job) => job,
        Err(error) => return is_said(&error),
    };
    let look = Look::plain();
    for text in [
        table::full(&job, true, look),
        table::short(&job, look),
        sites::text(&job, 10, look),
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
        assert!(picture::timeline(one, &style).contains("</svg>"));
    }
    if let Some(page) = said(html::page(&job)) {
        assert!(page.starts_with("<!") && !page.contains("NaN"));
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
    assert!(same.judge(0.0, 0).grown.is_empty());
}

/// What is printed has no command for a terminal in it.
fn is_clean(text: &str) {
    let strange = text.chars().find(|character| character.is_control() && *character != '\n');
    assert!(strange.is_none(), "{strange:?} in {text}");
}

fn is_said(error: &dyn Display) {
    assert!(!error.to_string().is_empty());
}

/// An error says something.
fn said<T>(result: anyhow::Result<T>) -> Option<T> {
    result.inspect_err(|error| is_said(error)).ok()
}

/// Patches of one rank, and of two.
pub fn seeds() -> Vec<Vec<u8>> {
    let lists = traces::patches();
    let one = lists.iter().map(|list| [&[1], &list[..]].concat());
    let mut all: Vec<Vec<u8>> = one.collect();
    all.push(vec![0]);
    if let [first, .., last] = &lists[..] {
        all.push([&[2], &first[..], &last[..]].concat());
    }
    all
}
