//! A self-contained page about one or two policies.

use std::fmt::Write as _;

use quo_terminal::markup;

use super::chart::{self, Axis};
use super::compare::Comparison;
use super::coverage::Coverage;
use super::summary::{Group, Summary};
use super::text::number;
use crate::simulate::Outcome;
use crate::workload::Workload;

const STYLE: &str = "\
:root{color-scheme:light dark;--ink:#1f2933;--muted:#52606d;--grid:#e4e7eb;--paper:#fff}\
@media(prefers-color-scheme:dark){:root{--ink:#e8eaed;--muted:#aab4c0;--grid:#3a424c;--paper:#16191d}}\
body{font:15px/1.5 'Inter','Helvetica Neue',Helvetica,Arial,'DejaVu Sans',sans-serif;color:var(--ink);\
background:var(--paper);max-width:1100px;margin:2em auto;padding:0 1em}h1{font-size:1.5em;overflow-wrap:anywhere}\
h2{font-size:1.15em;margin-top:2em;overflow-wrap:anywhere}\
table{border-collapse:collapse;font-size:.93em;font-variant-numeric:tabular-nums}\
td,th{padding:.2em .6em;text-align:right;white-space:nowrap;border-bottom:1px solid var(--grid)}\
td:first-child,th:first-child{text-align:left}svg{width:100%;height:auto;margin:.5em 0}\
text{font-size:11px;fill:var(--muted)}.m{text-anchor:middle}.e{text-anchor:end}.g{stroke:var(--grid);fill:none}\
.n{stroke:var(--ink);stroke-width:.8}.about{color:var(--muted);max-width:75ch}.s{overflow-x:auto}\
@media(max-width:1000px){table{font-size:.8em}td,th{padding:.2em .4em}}\
@media(max-width:700px){svg{min-width:760px}}\
@media print{svg,tr{break-inside:avoid}h2{break-after:avoid}}";

/// Explanation of the columns of figures.
const FIGURES_TOLD: &str = "Times are in seconds, means over the jobs. Utilisation: share of the machine's time in which \
    nodes ran jobs; makespan: from the first submission to the last end; 95 % wait: no longer for 95 of 100 jobs; \
    completion: wait and execution; slowdown: completion by execution, of short jobs by a bound.";

/// Returns the page about the outcomes of one workload, with the comparison of two policies, if there are two.
#[must_use]
pub fn page(
    title: &str,
    workload: &Workload,
    outcomes: &[&Outcome],
    comparison: Option<&Comparison>,
    coverage: Option<Coverage>,
) -> String {
    let mut text = format!(
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=Content-Security-Policy content=\"default-src 'none'; \
         style-src 'unsafe-inline'\">\n<title>{0}</title>\n<style>{STYLE}</style>\n\
         <h1>{0}</h1>\n",
        markup(title)
    );
    let summaries: Vec<Summary> = outcomes.iter().map(|outcome| Summary::of(outcome)).collect();
    text += &figures(&summaries);
    let _ = writeln!(text, "<p class=about>{}</p>", markup(FIGURES_TOLD));
    for summary in &summaries {
        for note in summary.notes() {
            let _ = writeln!(text, "<p>{}: {}</p>", markup(&summary.policy), markup(&note));
        }
    }
    if let Some(comparison) = comparison {
        text += &differences(comparison);
    }
    if let Some(coverage) = coverage {
        let _ = writeln!(text, "<p>{}</p>", markup(&coverage.to_string()));
    }
    let axis = Axis::of(outcomes);
    for outcome in outcomes {
        let _ = writeln!(text, "<h2>{}: use of the nodes</h2>", markup(&outcome.policy));
        text += &scrolled(&chart::over_time(outcome, axis, false).text());
        text += &scrolled(&chart::over_time(outcome, axis, true).text());
        match chart::gantt(outcome, workload, axis) {
            Some(gantt) => {
                text += "<p class=about>Jobs by node; a job says its name when it is pointed at, its colour only \
                    sets it off from others. Nodes that a job gained after its start have an edge.</p>\n";
                text += &scrolled(&gantt.text());
            }
            None if outcome.is_shared => {
                text +=
                    "<p class=about>Jobs shared nodes: there is no chart of jobs by node.</p>\n";
            }
            None => text += "<p class=about>Too many jobs for a chart of jobs by node.</p>\n",
        }
    }
    text += "<h2>Waits by class</h2>\n<p class=about>Narrow and dark: the mean. Wide and light: 95 % of the jobs wait no longer.</p>\n";
    let groups: Vec<(String, Group)> = summaries
        .iter()
        .flat_map(|summary| {
            let groups = std::iter::once(&summary.all).chain(&summary.classes);
            groups.map(|group| (summary.policy.clone(), group.clone()))
        })
        .collect();
    text += &scrolled(&chart::waits(&groups).text());
    text
}

fn figures(summaries: &[Summary]) -> String {
    let heads = [
        "policy",
        "jobs",
        "class",
        "utilisation",
        "makespan s",
        "wait s",
        "95 % wait s",
        "execution s",
        "completion s",
        "slowdown",
        "resizes",
    ];
    let mut rows = Vec::new();
    for summary in summaries {
        for group in std::iter::once(&summary.all).chain(&summary.classes) {
            rows.push(vec![
                summary.policy.clone(),
                group.jobs.to_string(),
                group.name.clone(),
                format!("{:.1} %", 100.0 * summary.utilisation),
                number(summary.makespan),
                number(group.wait.mean),
                number(group.wait.p95),
                number(group.execution.mean),
                number(group.completion.mean),
                number(group.slowdown),
                group.resizes.to_string(),
            ]);
        }
    }
    table(&heads, &rows)
}

fn differences(comparison: &Comparison) -> String {
    let Comparison { first, second, figures, .. } = comparison;
    let heads = ["figure", first, second, "difference", "95 % confidence"];
    let rows: Vec<Vec<String>> = figures
        .iter()
        .map(|figure| {
            vec![
                figure.figure.to_owned(),
                number(figure.first),
                number(figure.second),
                figure.signed(),
                figure.verdict(),
            ]
        })
        .collect();
    let heading = comparison.heading();
    format!("<h2>{}</h2>\n{}", markup(&heading), table(&heads, &rows))
}

fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut text = "<table>\n<tr>".to_owned();
    for head in heads {
        let _ = write!(text, "<th>{}</th>", markup(head));
    }
    text += "</tr>\n";
    for row in rows {
        text += "<tr>";
        for cell in row {
            let _ = write!(text, "<td>{}</td>", markup(cell));
        }
        text += "</tr>\n";
    }
    scrolled(&(text + "</table>\n"))
}

/// Returns a part of the page that scrolls if the window is narrower.
fn scrolled(part: &str) -> String {
    format!("<div class=s>{part}</div>\n")
}
