//! The report of one rank, and of one phase.

use super::grid::{Align, Grid, Weight};
use super::table::{between_samples, closing, glossary};
use crate::model::{Group, Held, Job, PhaseAcross, Rank, noun};
use crate::terminal::{Look, clean};
use crate::units::{bytes, count, time};

/// Number of components of a group with a separate line before the rest is merged.
const KEPT: usize = 10;

/// Returns the table of one process: every component, and when and where it peaked.
pub fn rank(rank: &Rank, everything: bool, look: Look) -> String {
    use Align::{Left, Right};
    let who = &rank.identity;
    let program = match (who.rank, &who.child, who.parent) {
        (None, None, None) => String::new(),
        (None, None, Some(parent)) => format!(", child of {parent}"),
        _ => format!("  {} (pid {} on {})", clean(rank.program()), who.pid, clean(&who.host)),
    };
    let mut out = format!(
        "{}{program}, {}, {}\n\n",
        look.bold(&clean(&rank.label())),
        rank.state.label(),
        time(rank.duration_ns)
    );
    let mut grid = Grid::new(&[Left, Right, Right, Right, Right, Right, Right, Right, Left])
        .least(&[8, 7, 1, 6, 3, 2]);
    let head = ["", "owned", "peak", "resident", "at peak", "peak", "when", "allocated", "where"];
    grid.row(Weight::Head, head.map(String::from));
    for group in Group::ALL {
        let members: Vec<_> = rank.held.iter().filter(|held| held.group == group).collect();
        let shown = match everything || members.len() <= KEPT + 1 {
            true => members.len(),
            false => KEPT,
        };
        for held in &members[..shown] {
            let place: Vec<String> = [&held.phase, &held.mpi_function]
                .into_iter()
                .flatten()
                .map(|name| clean(name))
                .collect();
            let cells = [
                clean(&held.name),
                bytes(held.owned),
                bytes(held.owned_peak),
                bytes(held.resident),
                bytes(held.resident_at_peak),
                bytes(held.resident_peak),
                time(held.resident_peak_ns),
                match held.allocations {
                    0 => String::new(),
                    blocks => format!("{} in {blocks}", bytes(held.allocated)),
                },
                place.join(" · "),
            ];
            grid.row(Weight::Plain, cells);
        }
        let rest = &members[shown..];
        if !rest.is_empty() {
            let sum = |of: &dyn Fn(&Held) -> u64| bytes(rest.iter().map(|held| of(held)).sum());
            grid.row(
                Weight::Plain,
                [
                    format!("{} smaller ones of {}", rest.len(), group.label()),
                    sum(&|held| held.owned),
                    String::new(),
                    sum(&|held| held.resident),
                    sum(&|held| held.resident_at_peak),
                ],
            );
        }
    }
    let owned: u64 = rank.held.iter().map(|held| held.owned).sum();
    let seen = |value: String| if rank.is_seen() { value } else { "-".to_owned() };
    grid.row(
        Weight::Sum,
        [
            "all".to_owned(),
            seen(bytes(owned)),
            String::new(),
            seen(bytes(rank.totals.resident)),
            seen(bytes(rank.peak.bytes)),
            seen(bytes(rank.peak.bytes)),
            seen(time(rank.peak.time_ns)),
        ],
    );
    out += &grid.text(look);
    out += &look.dim(&look.wrap(&glossary(noun(std::iter::once(rank)))));
    if rank.kernel_peak > 0 {
        let line = format!("the kernel's own peak: {}", bytes(rank.kernel_peak));
        out += &format!("{}\n", look.dim(&line));
    }
    out += &phases(rank, look);
    out += &sampler(rank, look);
    if let Some(alive) = super::handles::alive(&rank.handles) {
        out += &look.wrap(&format!("{alive}\n"));
    }
    if let Some(gpu) = super::gpu::of_rank(&rank.gpu) {
        out += &look.wrap(&format!("{gpu}\n"));
    }
    out += &between_samples(std::iter::once(rank), look);
    for fault in &rank.faults {
        let what = if rank.damaged { "damaged:" } else { "note:" };
        out += &format!("{} {}\n", look.warn(what), clean(fault));
    }
    out
}

fn phases(rank: &Rank, look: Look) -> String {
    use Align::{Left, Right};
    if rank.phases.is_empty() {
        return String::new();
    }
    let mut grid = Grid::new(&[Left, Right, Right, Right, Left]);
    let head = ["phase", "times", "time", "first", "largest resident peaks"];
    grid.row(Weight::Head, head.map(String::from));
    for phase in &rank.phases {
        let mut peaks = phase.peaks.clone();
        peaks.sort_by_key(|(_, _, resident)| std::cmp::Reverse(*resident));
        let largest: Vec<String> = peaks
            .iter()
            .take(3)
            .filter(|(_, _, resident)| *resident > 0)
            .map(|(name, _, resident)| format!("{} {}", clean(name), bytes(*resident)))
            .collect();
        let indent = "  ".repeat(phase.depth.min(4) as usize);
        grid.row(
            Weight::Plain,
            [
                format!("{indent}{}", clean(&phase.name)),
                phase.entries.to_string(),
                time(phase.total_ns),
                time(phase.first_ns),
                match phase.is_sampled() {
                    false => "no sample".to_owned(),
                    true => largest.join(", "),
                },
            ],
        );
    }
    format!("\n{}", grid.text(look))
}

fn sampler(rank: &Rank, look: Look) -> String {
    let sampler = &rank.sampler;
    let line = format!(
        "{} ({} in main), {} without change; {:.2} % of a processor; mappings held for at most {}; {} before a \
         release, {} left out; small blocks known to ± {}",
        count(sampler.full as usize, "full sample"),
        sampler.in_main,
        sampler.quick,
        sampler.duty(rank.duration_ns) * 100.0,
        time(sampler.longest_hold_ns),
        sampler.releases,
        sampler.releases_skipped,
        bytes(sampler.mixed_bytes)
    );
    format!("\n{}\n", look.dim(&line))
}

/// Returns the table of one phase over all ranks.
pub fn phase(job: &Job, phase: &PhaseAcross, look: Look) -> String {
    use Align::{Left, Right};
    let mut out = format!(
        "{}  in {}, entered {} times, open for {} (shortest) to {} ({})\n\n",
        look.bold(&format!("phase {}", clean(&phase.name))),
        count(phase.processes as usize, job.noun()),
        phase.entries,
        time(phase.time_ns.min),
        time(phase.time_ns.max),
        phase.time_ns.max_at.label()
    );
    let mut grid = Grid::new(&[Left, Right, Right, Right, Right, Right, Right]);
    let noun = job.noun();
    let head = ["", "owned peak", noun, "resident: min", "mean", "max", noun];
    grid.row(Weight::Head, head.map(String::from));
    for row in &phase.components {
        grid.row(
            Weight::Plain,
            [
                clean(&row.name),
                bytes(row.owned_peak.max),
                row.owned_peak.max_at.to_string(),
                bytes(row.resident_peak.min),
                bytes(row.resident_peak.mean()),
                bytes(row.resident_peak.max),
                row.resident_peak.max_at.to_string(),
            ],
        );
    }
    out += &grid.text(look);
    out += &closing(job, look);
    out
}
