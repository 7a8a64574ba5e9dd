//! Allocation sites: the largest sampled call stacks of a job or of one rank.

use super::causes::allocated_for;
use super::symbols::Symbols;
use crate::model::{Site, Sites};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count};

/// A stack with its names.
#[derive(Debug, serde::Serialize)]
pub struct Named {
    /// The sampled stack.
    #[serde(flatten)]
    pub site: Site,
    /// One line for each frame, innermost first; inlined functions have separate lines.
    pub names: Vec<String>,
    /// For memory of a library, the call of the application that it was allocated for.
    pub allocated_for: Option<String>,
}

/// Returns the largest sites with the names of their functions, in objects that have not changed
/// since `started_ns`.
pub fn named(of: &Sites, started_ns: u64, limit: usize) -> Vec<Named> {
    let sites = of.sites.iter().take(limit);
    let mut symbols = Symbols::new(&of.objects, started_ns);
    sites
        .map(|site| Named {
            site: site.clone(),
            names: site
                .frames
                .iter()
                .flat_map(|frame| symbols.names(*frame))
                .map(|name| name.text)
                .collect(),
            allocated_for: site
                .allocated_for
                .map(|frame| allocated_for::place(frame, &mut symbols)),
        })
        .collect()
}

/// Returns the sites as text.
pub fn text(of: &Sites, started_ns: u64, limit: usize, look: Look) -> String {
    let mut out = String::new();
    let sites = named(of, started_ns, limit);
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
        if let Some(call) = &site.allocated_for {
            out += &format!("  allocated for {}\n", clean(call));
        }
        for name in &site.names {
            out += &format!("    {}\n", clean(name));
        }
        out.push('\n');
    }
    let more = of.sites.len().saturating_sub(sites.len()) as u64 + of.left_out.0;
    if more > 0 {
        out += &look.dim(&format!("{more} more; --sites COUNT shows them\n"));
    }
    out += &look
        .dim("estimates from sampled blocks, right on average; peaks added up over processes\n");
    out
}
