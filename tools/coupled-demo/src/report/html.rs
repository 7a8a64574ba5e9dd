//! The page: everything in one file that opens anywhere.

use std::fmt::Write;

use crate::machine;
use coupled::result::{Mode, RunResult, count};
use coupled::timeline::Phase;
use quo_svg::markup;

use super::{Report, bindings, chart, ranks, remap_share, table};

const STYLE: &str = "
:root { color-scheme: light dark; --ground: #ffffff; --text: #1f2430; --quiet: #5b6475; --line: #dfe3ea; --card: #f6f7f9; --accent: #1c8a5a; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171c; --text: #e6e9ef; --quiet: #98a2b3; --line: #2e343d; --card: #1b1f26; --accent: #4cc38a; } }
body { margin: 0; background: var(--ground); color: var(--text); font: 16px/1.55 system-ui, -apple-system, 'Segoe UI', 'DejaVu Sans', sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 40px 20px 64px; }
h1 { font-size: 30px; line-height: 1.2; margin: 0 0 12px; }
h2 { font-size: 20px; margin: 44px 0 10px; }
h3 { font-size: 15px; margin: 18px 0 4px; }
p { max-width: 74ch; margin: 0 0 12px; }
.quiet { color: var(--quiet); }
.cards { display: grid; grid-template-columns: repeat(auto-fit, minmax(200px, 1fr)); gap: 14px; margin: 24px 0; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 10px; padding: 16px 18px; }
.card b { display: block; font-size: 30px; line-height: 1.15; }
.card.best b { color: var(--accent); }
.card span { color: var(--quiet); font-size: 14px; }
figure { margin: 14px 0; overflow-x: auto; }
figure svg { width: 100%; height: auto; display: block; }
.warning { border-left: 4px solid #cf3651; padding: 6px 14px; background: var(--card); }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 14px; font-variant-numeric: tabular-nums; min-width: 60%; margin-bottom: 14px; }
th, td { padding: 7px 12px; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap; }
th { color: var(--quiet); font-weight: 600; }
th:first-child, td:first-child { text-align: left; }
td.left, th.left { text-align: left; }
code { font-size: 0.92em; background: var(--card); padding: 1px 5px; border-radius: 4px; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 4px 18px; font-size: 15px; }
dt { color: var(--quiet); }
dd { margin: 0; }
@media (max-width: 700px) { figure svg, figure img { min-width: 680px; } }
";

/// The page for a report.
pub fn page(report: &Report) -> String {
    let mut body = String::new();
    introduction(&mut body, report);
    cards(&mut body, report);
    cores(&mut body, report);
    close_up(&mut body, report);
    numbers(&mut body, report);
    model(&mut body, report);
    bindings_table(&mut body, report);
    circumstances(&mut body, report);
    format!(
        "<!DOCTYPE html>\n<html xmlns=\"http://www.w3.org/1999/xhtml\" lang=\"en\"><head><meta charset=\"utf-8\"/><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/><title>{TITLE}</title><style>{STYLE}</style></head><body><main>{body}</main></body></html>\n"
    )
}

/// Title of the page and of the picture.
pub const TITLE: &str = "One coupled program, three ways to share a node";

fn introduction(out: &mut String, report: &Report) {
    let _ = write!(out, "<h1>{TITLE}</h1>");
    let every = report.runs.first().map_or(0, |measured| measured.run.deck.coupling.every);
    let _ = write!(
        out,
        "<p>The program couples two solvers. <b>L0</b> moves shallow water in explicit steps and wants \
         one single-threaded MPI rank per core. <b>L1</b> diffuses heat implicitly, every {every} steps, \
         and wants few ranks with many OpenMP threads. A launcher can only fix one choice for the whole \
         run: <i>under</i>-subscribe, with a rank per worker of L1, and L0 leaves cores idle; or \
         <i>over</i>-subscribe, with a rank per core, and the threads of L1 compete with ranks that spin. \
         <b>quo</b> changes the choice between phases: ranks that have nothing to do in L1 sleep, and \
         the workers widen over their cores until L1 is done.</p>"
    );
}

fn cards(out: &mut String, report: &Report) {
    let best = report
        .runs
        .iter()
        .min_by(|a, b| a.run.seconds.total_cmp(&b.run.seconds))
        .map(|measured| measured.run.mode);
    out.push_str("<div class=\"cards\">");
    for measured in &report.runs {
        let run = &measured.run;
        let class = if Some(run.mode) == best { "card best" } else { "card" };
        let useful = measured
            .useful()
            .map(|useful| format!(", cores {:.0} % useful", 100.0 * useful))
            .unwrap_or_default();
        let _ = write!(
            out,
            "<div class=\"{class}\"><span>{}</span><b>{:.1} s</b><span>{}{useful}</span></div>",
            run.mode.name(),
            run.seconds,
            count(run.ranks, "rank"),
        );
    }
    if let (Some(gain), Some(predicted)) =
        (report.in_mode(Mode::Quo).and_then(|quo| report.speed_up(quo)), report.predicted)
    {
        let _ = write!(
            out,
            "<div class=\"card best\"><span>quo over under</span><b>{gain:.2} x</b><span>model: {predicted:.2} x</span></div>"
        );
    }
    out.push_str("</div>");
    if let Some(other) = report.disturbance() {
        let _ = write!(
            out,
            "<p class=\"warning\">The machine was busy otherwise: other programs took up to {:.0} % of the \
             cores. These times say little.</p>",
            100.0 * other
        );
    }
}

fn cores(out: &mut String, report: &Report) {
    let _ = write!(
        out,
        "<h2>What each core did</h2><p>Time runs to the right, on one axis for all modes. The height of \
         a colour is the part of a core's time that went there; empty is idle. The curve below is the \
         utilisation u(t): the part of all cores' time spent in L0 or L1.</p><figure>{}</figure>",
        chart::picture(report, TITLE)
    );
}

fn close_up(out: &mut String, report: &Report) {
    let pictures = ranks::pictures(report);
    if pictures.is_empty() {
        return;
    }
    out.push_str(
        "<h2>Two rounds, close up</h2><p>The same number of seconds in each mode, rank by rank, as the \
         ranks recorded it: L0, then data moves (violet), then L1. Hover for times and bindings.</p>",
    );
    for (mode, picture) in pictures {
        let _ = write!(out, "<h3>{}</h3><figure>{picture}</figure>", mode.name());
    }
}

fn numbers(out: &mut String, report: &Report) {
    out.push_str("<h2>Numbers</h2><div class=\"wide\"><table><thead><tr>");
    for (title, meaning) in table::COLUMNS {
        let _ = write!(out, "<th title=\"{}\">{}</th>", markup(meaning), markup(title));
    }
    out.push_str("</tr></thead><tbody>");
    for measured in &report.runs {
        out.push_str("<tr>");
        for cell in table::cells(report, measured) {
            let _ = write!(out, "<td>{}</td>", markup(&cell));
        }
        out.push_str("</tr>");
    }
    out.push_str("</tbody></table></div><p class=\"quiet\">");
    for (title, meaning) in table::COLUMNS {
        let _ = write!(out, "<b>{}</b>: {}. ", markup(title), markup(meaning));
    }
    out.push_str("Phase times are means over the workers of L1.</p><p>");
    for line in table::remarks(report) {
        let _ = write!(out, "{}<br/>", markup(&line));
    }
    out.push_str("</p>");
}

fn model(out: &mut String, report: &Report) {
    let (Some(predicted), Some(under)) = (report.predicted, report.in_mode(Mode::Under)) else {
        return;
    };
    let share = |phase: Phase| {
        report.shares.iter().filter(|share| share.phase == phase).map(|s| s.share).sum::<f64>()
    };
    let threads = under.run.threads;
    let _ = write!(
        out,
        "<h2>What the model says</h2><p>With n cores, a phase that keeps t of t<sub>max</sub> threads busy \
         has utilisation u = t / t<sub>max</sub> and runs s = n u times as fast as on one core; phases with \
         shares p of the serial time give S = 1 / Σ (p / s). Measured shares f are those of the \
         under-subscribed run, so a run that keeps u = 1 throughout should be 1 / Σ (f u) times as fast as \
         it. Here L0 took {:.1} % at u = 1/{threads}, moving data {:.1} % at u = 1/{threads} and L1 {:.1} % \
         at u = 1, which promises <b>{predicted:.2}</b>",
        100.0 * share(Phase::Flow),
        100.0 * (share(Phase::Remap) + share(Phase::Wait)),
        100.0 * share(Phase::Diffusion),
    );
    match report.in_mode(Mode::Quo).and_then(|quo| Some((quo, report.speed_up(quo)?))) {
        Some((quo, gain)) => {
            let _ = write!(
                out,
                "; measured is <b>{gain:.2}</b>. The model leaves out what stops perfect scaling: moving \
                 data ({:.1} % here), messages between ranks, memory bandwidth, other programs.{}</p>",
                100.0 * remap_share(&quo.run),
                if gain > predicted {
                    " It does not know either that a smaller block of the mesh per core fits its cache \
                     better, so that L0 may gain more than the number of cores."
                } else {
                    ""
                }
            );
        }
        None => out.push_str(".</p>"),
    }
}

fn bindings_table(out: &mut String, report: &Report) {
    out.push_str(
        "<h2>Who ran where</h2><p>CPUs of each rank's main thread, as the kernel said at the start of each \
         phase.</p><div class=\"wide\"><table><thead><tr><th>mode</th><th class=\"left\">phase</th>\
         <th>ranks</th><th>CPUs</th><th>threads each</th></tr></thead><tbody>",
    );
    for measured in &report.runs {
        for binding in bindings::of(&measured.run) {
            let _ = write!(
                out,
                "<tr><td>{}</td><td class=\"left\">{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                measured.run.mode.name(),
                binding.phase.title(),
                markup(&binding.ranks),
                markup(&binding.cpus),
                binding.threads
            );
        }
    }
    out.push_str("</tbody></table></div>");
}

fn circumstances(out: &mut String, report: &Report) {
    let Some(measured) = report.runs.first() else { return };
    let RunResult { deck, deck_name, .. } = &measured.run;
    let [machine, system, mpi] = machine::describe();
    let facts = [
        machine,
        system,
        mpi,
        (
            "Deck",
            format!(
                "{deck_name}: {} x {} cells, {} steps of the flow, one of the diffusion every {}, \
                 tolerance {:e}, {} conjugate-gradient iterations in all",
                deck.mesh.nx,
                deck.mesh.ny,
                deck.time.steps,
                deck.coupling.every,
                deck.diffusion.tolerance,
                measured.run.solver_iterations
            ),
        ),
        (
            "Measuring",
            "Every 25 ms a process beside the run reads the CPU time and last CPU of each thread \
             (/proc/PID/task) and the busy time of each CPU (/proc/stat). The ranks record their phases; \
             a thread's time counts as what its rank was doing. Time in message passing is spinning, not \
             useful; time that threads of L1 spend waiting for each other inside L1 counts as L1."
                .to_owned(),
        ),
    ];
    out.push_str("<h2>How and where this was measured</h2><dl>");
    for (what, text) in facts {
        let _ = write!(out, "<dt>{what}</dt><dd>{}</dd>", markup(&text));
    }
    out.push_str("</dl>");
}
