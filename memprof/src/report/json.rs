//! The whole report for programs.

use super::{Options, View, select, sites};
use crate::model::Job;
use serde::Serialize;

/// Version of this form; fields are only added within one.
const VERSION: u32 = 1;

/// How many call stacks are named.
const SITES: usize = 100;

#[derive(Serialize)]
struct Document<'a, T> {
    memprof_report: u32,
    #[serde(flatten)]
    part: &'a T,
    #[serde(skip_serializing_if = "Option::is_none")]
    named_sites: Option<Vec<sites::Named>>,
}

/// The part that is asked for.
pub fn text(job: &Job, options: &Options) -> anyhow::Result<String> {
    match select(job, options)? {
        View::Job => document(job, Some(sites::named(job, SITES))),
        View::Rank(rank) => document(rank, None),
        View::Node(node) => document(node, None),
        View::Phase(phase) => document(phase, None),
    }
}

fn document<T: Serialize>(
    part: &T,
    named_sites: Option<Vec<sites::Named>>,
) -> anyhow::Result<String> {
    let document = Document { memprof_report: VERSION, part, named_sites };
    Ok(serde_json::to_string(&document)? + "\n")
}
