//! Memory of libraries by the call of the application that it was allocated for.

use super::{Cause, merged};
use crate::model::{Frame, Job, Site};
use crate::report::grid::{Align, Grid, Weight};
use crate::report::symbols::Symbols;
use crate::terminal::{Look, clean};
use crate::units::bytes;
use serde_json::{Value, json};

/// Memory of libraries at the peaks of the ranks, estimated from samples.
#[derive(Debug)]
pub struct Libraries {
    /// Calls of the application with what was allocated for them: `component` is the library and
    /// `place` the call.
    pub calls: Vec<Cause>,
    /// Bytes of all stacks with a call of the application above the library.
    pub found: u64,
    /// Bytes of the other stacks of libraries.
    pub not_found: u64,
}

/// Returns true if a stack allocated memory of a library.
fn is_librarys(site: &Site) -> bool {
    site.allocated_for.is_some() || !site.component.starts_with("app.exe")
}

/// Returns the memory of libraries with at most `limit` calls, those with most.
pub fn of(job: &Job, limit: usize) -> Libraries {
    let all = job.sites.sites.iter().filter(|site| site.at_peak > 0 && is_librarys(site));
    let (mut above, without): (Vec<&Site>, Vec<&Site>) =
        all.partition(|site| site.allocated_for.is_some());
    above.sort_by_key(|site| std::cmp::Reverse(site.at_peak));
    let sum = |sites: &[&Site]| sites.iter().fold(0_u64, |sum, s| sum.saturating_add(s.at_peak));
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    let peaks: Vec<u64> = above.iter().map(|site| site.at_peak).collect();
    let call = |index: usize| {
        let Site { at_peak, processes, allocated_for, .. } = *above[index];
        let place = allocated_for.map(|frame| place(frame, &mut symbols)).unwrap_or_default();
        let component = clean(&above[index].component);
        Cause { at_peak, component, place: clean(&place), processes, or_more: false }
    };
    Libraries {
        calls: merged(&peaks, limit, job.ranks().count() as u32, call),
        found: sum(&above),
        not_found: sum(&without),
    }
}

/// Returns the name of a call of the application, without its compiler's libraries.
pub fn place(frame: Frame, symbols: &mut Symbols<'_>) -> String {
    let names = symbols.names(frame);
    let own = names.iter().find(|name| !name.is_of_compiler).or(names.first());
    own.map(|name| name.text.clone()).unwrap_or_default()
}

impl Libraries {
    /// Returns a sentence about the stacks without a call of the application; `None` if there are
    /// none to speak of.
    pub fn remainder(&self) -> Option<String> {
        let is_much = self.not_found >= 64 << 10 && self.not_found > self.found / 100;
        is_much.then(|| {
            let amount = bytes(self.not_found);
            format!("{amount} more in libraries, with no call of the application in the stack")
        })
    }
}

/// Returns the calls as JSON.
pub fn json(job: &Job, limit: usize) -> Value {
    let Libraries { calls, found, not_found } = of(job, limit);
    let call = |call: Cause| {
        json!({
            "component": call.component,
            "place": call.place,
            "at_peak": call.at_peak,
            "processes": call.processes,
            "or_more": call.or_more,
        })
    };
    let calls: Vec<Value> = calls.into_iter().map(call).collect();
    json!({ "calls": calls, "at_peak": found, "at_peak_without_call": not_found })
}

/// Returns the table for the terminal; empty if no library held memory.
pub fn text(job: &Job, limit: usize, look: Look) -> String {
    use Align::{Left, Right};
    let libraries = of(job, limit);
    let mut out = String::new();
    if !libraries.calls.is_empty() {
        let mut grid = Grid::new(&[Right, Left, Left, Left]);
        grid.row(Weight::Head, ["at peaks", "of", "allocated for", "in"].map(String::from));
        for call in &libraries.calls {
            let cells = [call.component.clone(), call.place.clone(), call.processes()];
            grid.row(Weight::Plain, [bytes(call.at_peak)].into_iter().chain(cells));
        }
        out += &format!("\n{}", grid.text(look));
        out += &(libraries.remainder())
            .map_or(String::new(), |text| look.dim(&look.wrap(&format!("{text}\n"))));
    }
    out
}
