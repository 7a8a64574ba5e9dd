//! Memory requested from the runtimes of GPUs: of components, and of call sites.

use super::grid::{Align, Grid, Weight};
use super::symbols::Symbols;
use crate::model::{GpuMemory, GpuSite, Job, Rank};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, number};
use std::sync::Arc;

/// Meaning of the numbers.
pub const NOTE: &str = "Counted where the program and its libraries call the runtime. Memory of devices is not \
     resident memory and is in no other table; pinned memory is resident, and the runtime maps it.";

/// Returns a sentence about memory that is not counted: the driver of CUDA is loaded and the runtime
/// is not, and nothing called the driver. `None` if this is not so.
pub fn unseen(job: &Job) -> Option<&'static str> {
    let has = |start: &str| {
        let files = job.components.iter().filter_map(|row| row.name.split_once(':'));
        files.into_iter().any(|(_, file)| file.starts_with(start))
    };
    let is_unseen = job.gpu.is_empty() && has("libcuda.so") && !has("libcudart");
    is_unseen.then_some(
        "memory of GPUs: libcuda.so is loaded and no call that requests memory was seen; a CUDA runtime inside \
         the program, as nvcc links it without -cudart shared, is not counted",
    )
}

/// Titles of the columns of [`held`].
pub const HEAD: [&str; 6] = ["kind", "of", "alive", "peak: max", "rank", "blocks"];

/// A call site with its name.
#[derive(Debug, serde::Serialize)]
pub struct Named {
    /// The call site, and what it requested.
    #[serde(flatten)]
    pub site: GpuSite,
    /// Function of the program, and line or object.
    pub place: String,
}

/// Returns the call sites of a job with their names: calls of a function in one line are one place.
pub fn named(job: &Job) -> Vec<Named> {
    let mut symbols = Symbols::new(&job.sites.objects, job.started_ns);
    let mut places: Vec<Named> = Vec::new();
    for site in &job.gpu {
        let mut names = symbols.names(site.frame);
        let own = names.iter().position(|name| !name.is_of_compiler).unwrap_or(0);
        let place = names.swap_remove(own).text;
        let same = |named: &&mut Named| {
            named.place == place
                && named.site.kind == site.kind
                && named.site.function == site.function
                && named.site.component == site.component
        };
        match places.iter_mut().find(same) {
            Some(named) => named.site.add(site),
            None => places.push(Named { site: site.clone(), place }),
        }
    }
    places.sort_by_key(|named| named.site.order());
    places
}

/// Memory of one kind over all ranks, of a component or of all.
struct Held<'a> {
    kind: &'static str,
    component: Option<&'a Arc<str>>,
    alive: u64,
    blocks: u64,
    /// Highest peak of a rank, and the rank.
    peak: u64,
    rank: &'a Rank,
}

/// Returns the cells of all kinds and components, grouped by kind, the largest first.
pub fn held(job: &Job) -> Vec<[String; 6]> {
    let mut all: Vec<Held<'_>> = Vec::new();
    for rank in job.ranks() {
        for GpuMemory { kind, component, bytes } in &rank.gpu {
            let component = component.as_ref();
            let same = |held: &&mut Held<'_>| held.kind == *kind && held.component == component;
            let found = match all.iter_mut().position(|held| same(&held)) {
                Some(at) => at,
                None => {
                    all.push(Held { kind, component, alive: 0, blocks: 0, peak: 0, rank });
                    all.len() - 1
                }
            };
            let held = &mut all[found];
            held.alive = held.alive.saturating_add(bytes.alive);
            held.blocks = held.blocks.saturating_add(bytes.blocks);
            if bytes.alive_peak > held.peak {
                (held.peak, held.rank) = (bytes.alive_peak, rank);
            }
        }
    }
    // Sums of the process stand before their components.
    all.sort_by_key(|held| (held.kind, held.component.is_some(), u64::MAX - held.peak));
    let cells = all.iter().map(|held| {
        [
            held.kind.to_owned(),
            held.component.map_or_else(|| "all".to_owned(), |name| format!("  {}", clean(name))),
            bytes(held.alive),
            bytes(held.peak),
            held.rank.short(),
            number(held.blocks),
        ]
    });
    cells.collect()
}

/// Returns the memory of one process in a line; `None` if it requested none.
pub fn of_rank(memory: &[GpuMemory]) -> Option<String> {
    let sums = memory.iter().filter(|memory| memory.component.is_none());
    let kinds: Vec<String> = sums
        .map(|of| {
            let (peak, alive) = (bytes(of.bytes.alive_peak), bytes(of.bytes.alive));
            format!("{} {peak} at most, {alive} alive", of.kind)
        })
        .collect();
    (!kinds.is_empty()).then(|| format!("memory of GPUs: {}", kinds.join("; ")))
}

/// Titles of the columns of [`cells`].
pub const SITES_HEAD: [&str; 6] = ["alive", "peaks", "kind", "by", "called in", "in"];

/// Returns the cells of a call site.
pub fn cells(named: &Named) -> [String; 6] {
    let site = &named.site;
    [
        bytes(site.bytes.alive),
        bytes(site.bytes.alive_peak),
        site.kind.to_owned(),
        site.function.as_deref().map(clean).unwrap_or_default(),
        clean(&named.place),
        count(site.processes as usize, "process"),
    ]
}

/// Returns both tables for the terminal; empty if no memory of GPUs was requested.
pub fn text(job: &Job, limit: usize, look: Look) -> String {
    use Align::{Left, Right};
    let held = held(job);
    if held.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&[Left, Left, Right, Right, Right, Right]);
    grid.row(Weight::Head, HEAD.map(String::from));
    for cells in held {
        grid.row(Weight::Plain, cells);
    }
    let mut sites = Grid::new(&[Right, Right, Left, Left, Left, Left]);
    sites.row(Weight::Head, SITES_HEAD.map(String::from));
    let places = named(job);
    for named in places.iter().take(limit) {
        sites.row(Weight::Plain, cells(named));
    }
    let mut out = format!("\n{}\n{}", grid.text(look), sites.text(look));
    let more = places.len().saturating_sub(limit);
    if more > 0 {
        let more = count(more, "more place");
        out += &look.dim(&format!("{more} with memory of GPUs: --json shows all\n"));
    }
    out += &look.dim(&look.wrap(&format!("{NOTE}\n")));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::gpu_tests::{bytes as some, site};

    #[test]
    fn memory_of_a_process_is_a_line_of_its_kinds() {
        let of = |kind, component: Option<&str>, allocated| GpuMemory {
            kind,
            component: component.map(Arc::from),
            bytes: some(allocated),
        };
        let memory = [
            of("device", None, 4 << 20),
            of("device", Some("app.exe:solver"), 4 << 20),
            of("pinned", None, 2048),
        ];
        assert_eq!(
            of_rank(&memory).as_deref(),
            Some(
                "memory of GPUs: device 4.00 MiB at most, 2.00 MiB alive; pinned 2.00 KiB at most, \
                 1.00 KiB alive"
            )
        );
        assert_eq!(of_rank(&[]), None);
    }

    #[test]
    fn call_site_shows_function_place_and_processes() {
        let named = Named { site: site(1, 2048), place: "fill  field.c:88".to_owned() };
        assert_eq!(
            cells(&named),
            ["1.00 KiB", "2.00 KiB", "device", "cudaMalloc", "fill  field.c:88", "1 process"]
        );
    }
}
