//! The whole report as JSON, for programs.

use super::causes::allocated_for;
use super::table::{answer, slack};
use super::{Options, View, gpu, growth, handles, select, sites};
use crate::model::Job;
use serde::Serialize;

/// Version of the JSON form; fields are only added within one.
const VERSION: u32 = 1;

/// Kinds of numbers. Exact: counted. Sampled: exact at the moments of samples. Interval: a bound at
/// every moment. Estimate: from a random sample, right on average.
const KINDS: &[(&str, &[&str])] = &[
    (
        "exact",
        &[
            "owned",
            "owned_peak",
            "allocations",
            "frees",
            "allocated",
            "made",
            "freed",
            "alive",
            "alive_peak",
            "blocks",
        ],
    ),
    (
        "sampled",
        &[
            "resident",
            "resident_peak",
            "resident_at_peak",
            "shared",
            "huge",
            "swapped",
            "mean",
            "low",
            "high",
        ],
    ),
    ("interval", &["resident_bound", "floor", "ceiling", "mixed_bytes"]),
    ("estimate", &["live", "peak", "at_peak", "total"]),
];

/// Number of call stacks that are named.
const SITES: usize = 100;

#[derive(Serialize)]
struct Document<'a, T> {
    memprof_report: u32,
    /// Kind of each number, by field name.
    kinds: &'a [(&'a str, &'a [&'a str])],
    #[serde(flatten)]
    part: &'a T,
    /// Holders of the memory at the largest peak, in figures and in words.
    #[serde(skip_serializing_if = "Option::is_none")]
    answer: Option<answer::Answer>,
    /// What would return the allocator's free memory, if there is much.
    #[serde(skip_serializing_if = "Option::is_none")]
    slack: Option<slack::Told>,
    #[serde(skip_serializing_if = "Option::is_none")]
    named_sites: Option<Vec<sites::Named>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    allocated_for: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handles: Option<Vec<handles::Named>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    gpu: Option<Vec<gpu::Named>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    growth: Option<serde_json::Value>,
}

/// Returns growth between equal moments.
///
/// # Errors
/// If the document cannot be written as JSON.
pub fn growth(of: &growth::Named) -> anyhow::Result<String> {
    let document = serde_json::json!({ "memprof_report": VERSION, "growth": of.json() });
    Ok(serde_json::to_string(&document)? + "\n")
}

/// Returns the requested part.
///
/// # Errors
/// If the options name a rank, node or phase that the job does not have.
pub fn text(job: &Job, options: &Options) -> anyhow::Result<String> {
    match select(job, options)? {
        View::Job => {
            let sites = sites::named(&job.sites, job.started_ns, SITES);
            let grown = growth::of(job);
            let document = Document {
                answer: answer::of(job, &grown),
                slack: slack::of(job),
                named_sites: Some(sites),
                allocated_for: Some(allocated_for::json(job, SITES)),
                handles: Some(handles::named(job)),
                gpu: Some(gpu::named(job)),
                growth: Some(grown.json()),
                ..Document::of(job)
            };
            document.text()
        }
        View::Rank(rank) => Document::of(rank).text(),
        View::Node(node) => Document::of(node).text(),
        View::Phase(phase) => Document::of(phase).text(),
    }
}

impl<T: Serialize> Document<'_, T> {
    fn of(part: &T) -> Document<'_, T> {
        Document {
            memprof_report: VERSION,
            kinds: KINDS,
            part,
            answer: None,
            slack: None,
            named_sites: None,
            allocated_for: None,
            handles: None,
            gpu: None,
            growth: None,
        }
    }

    fn text(&self) -> anyhow::Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }
}
