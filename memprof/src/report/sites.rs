//! Places where memory was allocated: the largest sampled call stacks.

use super::symbols::Symbols;
use crate::model::{Job, Site};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count};

/// A stack with its names.
#[derive(Debug, serde::Serialize)]
pub struct Named {
    /// The sampled stack.
    #[serde(flatten)]
    pub site: Site,
    /// One line for each frame, innermost first; functions that were inlined have their own.
    pub names: Vec<String>,
}

/// The largest sites of a job with the names of their functions.
pub fn named(job: &Job, limit: usize) -> Vec<Named> {
    let sites = job.sites.sites.iter().take(limit);
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    sites
        .map(|site| Named {
            site: site.clone(),
            names: site
                .frames
                .iter()
                .flat_map(|frame| symbols.names(*frame))
                .map(|name| name.text)
                .collect(),
        })
        .collect()
}

/// As text.
pub fn text(job: &Job, limit: usize, look: Look) -> String {
    let mut out = String::new();
    let sites = named(job, limit);
    if sites.is_empty() {
        return "no call stacks were sampled\n".to_owned();
    }
    for site in &sites {
        let head = format!(
            "{} at peak, {} now, {} ever",
            bytes(site.site.peak),
            bytes(site.site.live),
            bytes(site.site.total)
        );
        out += &format!(
            "{}  {} in {}; largest in one: {}\n",
            look.bold(&head),
            clean(&site.site.component),
            count(site.site.processes as usize, "process"),
            bytes(site.site.peak_max)
        );
        for name in &site.names {
            out += &format!("    {}\n", clean(name));
        }
        out.push('\n');
    }
    let more = job.sites.sites.len().saturating_sub(sites.len()) as u64 + job.sites.left_out.0;
    if more > 0 {
        out += &look.dim(&format!("{more} more; --sites COUNT shows them\n"));
    }
    out += &look
        .dim("estimates from sampled blocks, right on average; peaks added up over processes\n");
    out
}
