//! The page of a job: which timelines it has, of what, and where they mark peaks and phases.

use memprof_trace::generate::{self, JobShape};
use quo_tests::suite::skip;
use serde_json::Value;
use std::collections::BTreeSet;
use std::process::Command;

/// A page, and the report of the same job.
struct Made {
    page: String,
    report: Value,
}

fn made(ranks: u32, nodes: u32) -> Made {
    made_of(ranks, nodes, 120)
}

fn made_of(ranks: u32, nodes: u32, samples: u32) -> Made {
    let place = tempfile::tempdir().expect("a folder");
    let (folder, file) = (place.path().join("job"), place.path().join("page.html"));
    let shape = JobShape { ranks, nodes, samples, file_size: 1 << 20, ..JobShape::default() };
    generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    let output = command.arg("report").arg(&folder).arg("--json").arg("--html").arg(&file).output();
    let output = output.expect("memprof runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Made {
        page: std::fs::read_to_string(file).expect("the page"),
        report: serde_json::from_slice(&output.stdout).expect("JSON"),
    }
}

/// Returns the page of times of a generated job.
fn times(ranks: u32, nodes: u32) -> String {
    let place = tempfile::tempdir().expect("a folder");
    let (folder, file) = (place.path().join("job"), place.path().join("page.html"));
    let (samples, file_size) = (48, 512 << 10);
    let shape = JobShape { ranks, nodes, samples, file_size, times: true, ..JobShape::default() };
    generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    let output = command.arg("time").arg(&folder).arg("--html").arg(&file).output();
    let output = output.expect("memprof runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(file).expect("the page")
}

/// Returns the text between two words, after the first occurrence of the first.
fn between<'a>(text: &'a str, from: &str, to: &str) -> &'a str {
    let rest = text.split_once(from).unwrap_or_else(|| panic!("no {from}")).1;
    rest.split_once(to).unwrap_or_else(|| panic!("no {to}")).0
}

/// One timeline of the page.
struct Figure<'a> {
    id: &'a str,
    hidden: bool,
    title: &'a str,
    drawing: &'a str,
}

impl Made {
    /// Returns the timelines.
    fn figures(&self) -> Vec<Figure<'_>> {
        let figures = self.page.split("<figure id=").skip(1).map(|rest| {
            let (head, rest) = rest.split_once('>').expect("a head");
            let drawing = rest.split_once("</figure>").expect("an end").0;
            let words: Vec<&str> = head.split(' ').collect();
            let hidden = words.contains(&"hidden");
            Figure { id: words[0], hidden, title: between(drawing, "aria-label=\"", "\""), drawing }
        });
        figures.filter(|figure| !figure.id.starts_with("stacks-")).collect()
    }

    /// Returns the choices: the part shown then, and its name.
    fn choices(&self, kind: &str) -> Vec<(&str, &str)> {
        let options = self.page.split("<option value=").skip(1);
        let options = options.map(|rest| between(rest, "", "</option>").split_once('>'));
        let options = options.map(|option| option.expect("a name"));
        options.filter(|(id, _)| id.starts_with(kind)).collect()
    }

    fn nodes(&self) -> &Vec<Value> {
        self.report["nodes"].as_array().expect("nodes")
    }

    fn ranks(&self) -> impl Iterator<Item = &Value> {
        self.nodes().iter().flat_map(|node| node["ranks"].as_array().expect("ranks"))
    }
}

impl Figure<'_> {
    fn numbers(&self, attribute: &str) -> Vec<f64> {
        let words = between(self.drawing, &format!("{attribute}=\""), "\"").split(' ');
        words.map(|word| word.parse().expect("a number")).collect()
    }

    /// Returns bytes and time of the peak's mark, by the scales of the figure.
    fn mark(&self) -> (f64, f64) {
        let mark = between(self.drawing, "<g class=\"peak\">", "</g>");
        let at = |name: &str| -> f64 {
            between(mark, &format!(" {name}=\""), "\"").parse().expect("a place")
        };
        let (plot, time, bytes) =
            (self.numbers("data-plot"), self.numbers("data-time"), self.numbers("data-bytes"));
        let [left, top, width, height] = plot[..] else { panic!("{plot:?}") };
        (
            (1.0 - (at("cy") - top) / height) * bytes[0],
            time[0] + (at("cx") - left) / width * (time[1] - time[0]),
        )
    }

    /// Checks that this is a timeline of components with the names of phases, and that its peak is
    /// marked at the time in the report and labelled.
    fn check(&self, peak: &Value, offset: u64, least_components: usize) {
        assert!(self.drawing.contains("class=\"memprof-timeline\""), "{}", self.id);
        let number = |name: &str| peak[name].as_u64().expect("a number");
        let (bytes, time) = (number("bytes") as f64, (number("time_ns") + offset) as f64);
        let ((marked, at), span) = (self.mark(), self.numbers("data-time"));
        assert!((marked / bytes - 1.0).abs() < 0.01, "{}: {marked} for {bytes}", self.id);
        // Times before the middle of the first bin, or after that of the last, have no position.
        let near = (at - time.clamp(span[0], span[1])).abs();
        assert!(near < 0.01 * (span[1] - span[0]), "{}: {at} for {time}", self.id);
        let mark = between(self.drawing, "<g class=\"peak\">", "</g>");
        let label = between(mark, "<text", "</text>");
        let label = label.split_once('>').expect("words").1;
        let value = bytes / f64::from(1 << 20);
        let value =
            if value >= 1024.0 { format!("{:.2}", value / 1024.0) } else { format!("{value:.0}") };
        assert!(label.starts_with(&value), "{}: {label} for {value}", self.id);
        if let Some(phase) = peak["phase"].as_str() {
            assert!(label.contains(phase), "{}: {label} for {phase}", self.id);
        }
        let names = |attribute: &str| -> BTreeSet<&str> {
            let found = self.drawing.split(attribute).skip(1);
            found.map(|rest| rest.split_once('"').expect("an end").0).collect()
        };
        let phases = ["finalize", "init", "main", "quo push socket", "read mesh", "solve"];
        assert_eq!(names("class=\"phase\" data-name=\"").into_iter().collect::<Vec<_>>(), phases);
        let series = names("class=\"series\" data-series=\"");
        assert!(series.len() >= least_components, "{}: {series:?}", self.id);
        // Samples were taken in all phases, and are marked.
        assert!(!self.drawing.contains("class=\"unseen\""), "{}", self.id);
        assert!(self.drawing.contains("class=\"samples\""), "{}", self.id);
        assert!(series.contains("app.exe:ocean") && series.contains("mpi.shm"), "{series:?}");
    }
}

/// Checks the figures of the job and of nodes, largest peaks first, each with its position in the
/// report.
fn check_job_and_nodes(made: &Made, shown: usize) {
    let figures = made.figures();
    let find = |id: &str| {
        let mut found = figures.iter().filter(|figure| figure.id == id);
        let one = found.next().unwrap_or_else(|| panic!("no figure {id}"));
        assert!(found.next().is_none(), "{id} twice");
        one
    };
    let (ranks, nodes) = (made.ranks().count(), made.nodes().len());
    let job = find("job");
    let s = |count: usize| if count == 1 { "" } else { "s" };
    let title = format!("ocean: {ranks} rank{} on {nodes} node{}, resident", s(ranks), s(nodes));
    assert_eq!((job.title, job.hidden), (&*title, false));
    job.check(&made.report["timeline"]["peak"], 0, 8);

    let mut largest: Vec<&Value> = made.nodes().iter().collect();
    largest.sort_by_key(|node| std::cmp::Reverse(node["timeline"]["peak"]["bytes"].as_u64()));
    let of_nodes = figures.iter().filter(|figure| figure.id.starts_with("node-")).count();
    assert_eq!(of_nodes, shown);
    let choices = made.choices("node-");
    for (number, node) in largest.iter().take(shown).enumerate() {
        let host = node["host"].as_str().expect("a host");
        let figure = find(&format!("node-{number}"));
        assert!(figure.title.starts_with(&format!("{host}: ")), "{} for {host}", figure.title);
        assert_eq!(figure.hidden, number > 0);
        assert_eq!(choices[number], (figure.id, host));
        figure.check(&node["timeline"]["peak"], 0, 8);
    }
    // The pointer's data use the same names.
    let data = between(&made.page, "const charts = ", ";\n");
    let data: Value = serde_json::from_str(data).expect("JSON");
    let known: BTreeSet<&str> =
        data.as_object().expect("charts").keys().map(|key| &**key).collect();
    assert_eq!(known, figures.iter().map(|figure| figure.id).collect());
}

/// Checks the figures of ranks, in this order.
fn check_ranks(made: &Made, expected: &[(u64, &str)]) {
    let figures = made.figures();
    let of_ranks: Vec<_> = figures.iter().filter(|one| one.id.starts_with("rank-")).collect();
    assert_eq!(of_ranks.len(), expected.len());
    let choices = made.choices("rank-");
    for (at, (figure, (number, why))) in of_ranks.iter().zip(expected).enumerate() {
        let mut ranks = made.ranks();
        let rank = ranks.find(|rank| rank["identity"]["rank"] == *number).expect("the rank");
        let host = rank["identity"]["host"].as_str().expect("a host");
        assert_eq!(figure.id, format!("rank-{at}"));
        assert_eq!(figure.title, format!("rank {number}: ocean on {host}, resident"));
        assert_eq!(figure.hidden, at > 0);
        if expected.len() > 1 {
            let name = format!("rank {number} ({why}{host})");
            assert_eq!(choices[at], (figure.id, &*name));
        }
        assert!(figure.drawing.contains("class=\"outline\""), "no line of what is owned");
        figure.check(&rank["peak"], rank["offset_ns"].as_u64().expect("a time"), 8);
    }
}

fn page_of_few_ranks_has_job_node_and_rank_timelines() {
    for (ranks, nodes) in [(4, 2), (8, 4)] {
        let made = made(ranks, nodes);
        check_job_and_nodes(&made, nodes as usize);
        let all: Vec<_> = (0..u64::from(ranks)).map(|rank| (rank, "")).collect();
        check_ranks(&made, &all);
        assert_eq!(made.page.matches("class=\"memprof-heat\"").count(), 1);
    }
}

fn page_of_one_rank_shows_it_once() {
    let made = made(1, 1);
    check_job_and_nodes(&made, 0);
    check_ranks(&made, &[(0, "")]);
    assert!(made.page.contains("All ranks together, node node0000"));
    assert!(!made.page.contains("class=\"memprof-heat\""));
}

fn page_of_many_ranks_shows_four_nodes_and_four_ranks() {
    let made = made(24, 6);
    check_job_and_nodes(&made, 4);
    let mut order: Vec<(u64, u64)> = made
        .ranks()
        .map(|rank| (&rank["peak"]["bytes"], &rank["identity"]["rank"]))
        .map(|(peak, rank)| (peak.as_u64().expect("bytes"), rank.as_u64().expect("a number")))
        .collect();
    order.sort_unstable();
    let last = order.len() - 1;
    let mut expected = vec![
        (order[last].1, "largest peak, "),
        (order[last / 2].1, "median peak, "),
        (order[0].1, "smallest peak, "),
    ];
    // Rank 0 reads for all, and is often the largest.
    if expected.iter().all(|(rank, _)| *rank != 0) {
        expected.push((0, ""));
    }
    check_ranks(&made, &expected);
    let heat = between(&made.page, "class=\"memprof-heat\"", "</svg>");
    assert!(heat.contains("rank 0") && heat.contains("rank 23"), "rows of the first and the last");
}

fn page_of_times_has_all_ranks_axis_and_legend() {
    let page = times(100, 10);
    let bars: Vec<&str> = page.split("class=\"memprof-bars\"").skip(1).collect();
    // The whole run, and six phases; the longest phase is open as well as the whole run.
    assert_eq!(bars.len(), 7);
    assert_eq!(page.matches("<details open>").count(), 2);
    assert!(page.contains("<details open><summary><h2>solve</h2>"));
    for bars in bars {
        assert!(bars.contains("rank 99 on node0009, ") && bars.contains(">time, "), "{bars:.400}");
        assert_eq!(
            bars.split("</svg>").next().unwrap_or("").matches("class=\"hint\"").count(),
            100
        );
    }
    assert!(page.contains("class=legend") && page.contains("id=theme"), "its script needs it");
}

/// Returns what is wider than its place on a page in a window of this width, by the browser, and
/// errors of its script; `None` without a browser.
fn cut_at(page: &std::path::Path, width: u32) -> Option<String> {
    let place = tempfile::tempdir().expect("a folder");
    let probe = place.path().join("probe.html");
    let frame = format!(
        "<iframe id=f src='file://{}' style='border:0;width:{width}px;height:9000px'></iframe><pre id=o></pre><script>\
         f.onload=()=>{{const d=f.contentDocument;let s='cut: ';\
         for(const e of [d.documentElement,...d.querySelectorAll('.scroll,pre,.tile,header')])\
         if(e.scrollWidth>e.clientWidth+1)s+=e.className+' '+e.textContent.slice(0,60)+e.scrollWidth+'; ';\
         o.textContent=s+' end';}}</script>",
        page.display()
    );
    std::fs::write(&probe, frame).expect("written");
    let output = Command::new("timeout")
        .args(["120", "chromium", "--headless=new", "--no-sandbox", "--disable-gpu"])
        .args([
            "--allow-file-access-from-files",
            "--disable-web-security",
            "--enable-logging=stderr",
        ])
        .args(["--virtual-time-budget=10000", "--dump-dom"])
        .arg(format!("--user-data-dir={}", place.path().join("profile").display()))
        .arg(format!("file://{}", probe.display()))
        .output()
        .ok()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let (_, rest) = said.split_once("<pre id=\"o\">cut: ")?;
    let cut = rest.split_once(" end</pre>")?.0.trim().to_owned();
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    let errors = errors.lines().filter(|line| line.contains("Uncaught"));
    Some(errors.fold(cut, |all, error| all + error + "; "))
}

fn nothing_on_a_page_is_cut_in_a_narrow_window() {
    let place = tempfile::tempdir().expect("a folder");
    let page = place.path().join("page.html");
    let pages = [made(100, 10).page, made(4, 2).page, times(100, 10), times(4, 2)];
    for (index, text) in pages.iter().enumerate() {
        std::fs::write(&page, text).expect("written");
        match cut_at(&page, 800) {
            Some(cut) => assert_eq!(cut, "", "page {index}"),
            None => skip("there is no chromium that shows pages"),
        }
        // On a phone pictures scroll, so that their text stays readable.
        if let Some(cut) = cut_at(&page, 400) {
            let others: Vec<&str> =
                cut.split("; ").filter(|part| !part.starts_with("scroll")).collect();
            assert!(cut.contains("scroll") && others.concat().is_empty(), "page {index}: {cut}");
        }
    }
}

fn page_begins_with_the_answer_without_moments_of_short_runs() {
    for (samples, is_short) in [(20, true), (120, false)] {
        let made = made_of(4, 2, samples);
        let answer = between(&made.page, "<div class=answer>", "<div class=tiles>");
        for sentence in made.report["answer"]["sentences"].as_array().expect("sentences") {
            let sentence = sentence.as_str().expect("text").replace('\'', "&#39;");
            assert!(answer.contains(&format!("<p>{sentence}</p>")), "{sentence} not in {answer}");
        }
        let growth = between(&made.page, "<h2>Growth</h2>", "</section>");
        assert_eq!(growth.contains("too short to say"), is_short, "{growth}");
        assert_eq!(growth.contains("the first quarter is the warm-up"), !is_short, "{growth}");
    }
}

quo_tests::suite! {
    page_begins_with_the_answer_without_moments_of_short_runs
    page_of_few_ranks_has_job_node_and_rank_timelines
    page_of_one_rank_shows_it_once
    page_of_many_ranks_shows_four_nodes_and_four_ranks
    page_of_times_has_all_ranks_axis_and_legend
    nothing_on_a_page_is_cut_in_a_narrow_window
}
