//! Two jobs with a known difference: the comparison finds its place, its component and its size.

use memprof_trace::generate::{self, JobShape, More};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};

const MEBI: u64 = 1 << 20;
/// `libmpi.so.40` in generated jobs.
const COMPONENT: u16 = 17;
const NAME: &str = "mpi.core:libmpi.so.40";
/// Their phase `solve`, which is inside `main` and contains `quo push socket`.
const PHASE: usize = 4;
const MORE: i64 = 10 * MEBI as i64;

fn job(place: &Path, name: &str, more: Option<More>) -> String {
    let folder = place.join(name);
    let shape = JobShape {
        ranks: 4,
        nodes: 2,
        samples: 120,
        file_size: 1 << 20,
        more,
        ..JobShape::default()
    };
    generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
    folder.to_str().expect("UTF-8").to_owned()
}

/// Generates two jobs; in the second the component holds 10 MiB more on the ranks of that node
/// while the phase is open.
fn pair(place: &Path, node: u32) -> [String; 2] {
    let more = More { component: COMPONENT, phase: PHASE, node, bytes: 10 * MEBI };
    [job(place, "before", None), job(place, "after", Some(more))]
}

fn diff(jobs: &[String; 2], more: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    command.env("NO_COLOR", "1").arg("diff").args(jobs).args(more).output().expect("memprof runs")
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).expect("UTF-8")
}

/// Returns the growth of a number in bytes.
fn growth(change: &Value) -> i64 {
    let number = |side: &str| change[side].as_i64().unwrap_or_else(|| panic!("{side}: {change}"));
    number("after") - number("before")
}

/// Returns the entry listed under that name.
fn listed<'a>(document: &'a Value, list: &str, key: &str, name: &str) -> &'a Value {
    let mut entries = document[list].as_array().expect("a list").iter();
    entries.find(|entry| entry[key] == name).unwrap_or_else(|| panic!("no {name} in {list}"))
}

/// Returns the words of the line that begins with that name, without the name.
fn line(table: &str, name: &str) -> Vec<String> {
    let mut lines = table.lines().map(str::trim_start);
    let found = lines.find_map(|line| line.strip_prefix(name));
    let cells = found.unwrap_or_else(|| panic!("no {name} in {table}")).split("  ");
    cells.map(|cell| cell.trim().to_owned()).filter(|cell| !cell.is_empty()).collect()
}

#[test]
fn json_names_exactly_the_component_node_and_phase_that_grew() {
    let place = tempfile::tempdir().expect("a folder");
    let document = said(&diff(&pair(place.path(), 1), &["--json"]));
    let document: Value = serde_json::from_str(&document).expect("JSON");
    for component in document["components"].as_array().expect("components") {
        // Half of the ranks are on the node. Memory that is owned and not touched varies between
        // samples.
        let (largest, mean) = if component["name"] == NAME { (MORE, MORE / 2) } else { (0, 0) };
        assert_eq!(growth(&component["resident_max"]), largest, "{component}");
        assert_eq!(growth(&component["resident_mean"]), mean, "{component}");
        assert!((growth(&component["owned_max"]) - largest).abs() < 4096, "{component}");
        assert!((growth(&component["owned_mean"]) - mean).abs() < 4096, "{component}");
    }
    let component = listed(&document, "components", "name", NAME);
    assert_eq!(component["resident_max"]["after_at"]["host"], "node0001");
    assert_eq!(document["components"][0]["name"], NAME, "the largest change comes first");
    for (phase, mean) in [
        ("init", 0),
        ("read mesh", 0),
        ("solve", MORE / 2),
        ("quo push socket", MORE / 2),
        ("finalize", 0),
    ] {
        let phase = listed(&document, "phases", "name", phase);
        assert_eq!(growth(&phase["resident_mean"]), mean, "{phase}");
        assert_eq!(growth(&phase["time_ns"]), 0, "{phase}");
        // The largest rank is on the other node.
        assert_eq!(growth(&phase["resident_max"]), 0, "{phase}");
    }
    let nodes = ["node0000", "node0001"];
    let [other, node] =
        nodes.map(|host| growth(&listed(&document, "by_node", "host", host)["peak"]));
    assert_eq!(other, 0);
    // The node's ranks together, which need not peak at the same time.
    assert!((19 * MORE / 10..=2 * MORE).contains(&node), "{node}");
    assert_eq!(document["ranks"], serde_json::json!([4, 4]));
    assert_eq!(document["nodes"], serde_json::json!([2, 2]));
}

#[test]
fn table_names_exactly_the_component_and_node_that_grew() {
    let place = tempfile::tempdir().expect("a folder");
    let mut jobs = pair(place.path(), 1);
    let table = said(&diff(&jobs, &[]));
    assert_eq!(line(&table, NAME)[2..], ["+10.0 MiB", "+139.0 %", "rank 2"], "{table}");
    assert!(
        table.contains("\n23 components changed by less than 64.0 KiB owned, 256 KiB resident\n"),
        "{table}"
    );
    assert_eq!(line(&table, "node0000")[2..], ["="], "{table}");
    assert!(line(&table, "node0001")[2].starts_with("+19."), "{table}");
    assert!(!table.contains("numbers of ranks differ"), "{table}");

    let judged = diff(&jobs, &["--fail-above", "5"]);
    assert_eq!(judged.status.code(), Some(1));
    let grown = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert_eq!(grown.lines().count(), 2, "{grown}");
    assert!(grown.lines().all(|line| line.starts_with(&format!("memprof: {NAME} ("))), "{grown}");

    jobs.reverse();
    let table = said(&diff(&jobs, &["--fail-above", "5"]));
    assert_eq!(line(&table, NAME)[2], "-10.0 MiB", "{table}");
}

#[test]
fn changes_below_the_floor_are_noise_and_no_growth() {
    let place = tempfile::tempdir().expect("a folder");
    let pages = |bytes| More { component: COMPONENT, phase: PHASE, node: 1, bytes };
    let before = job(place.path(), "before", None);
    let (below, above) = (pages(200 << 10), pages(300 << 10));
    let jobs = [before.clone(), job(place.path(), "below", Some(below))];
    // Owned memory grew as well, and is exact: only resident memory can be noise.
    let table = said(&diff(&jobs, &["--all"]));
    assert_eq!(line(&table, NAME)[2..4], ["+200 KiB", "noise"], "{table}");
    assert_eq!(line(&table, "node0001")[3], "noise", "{table}");
    let judged = diff(&jobs, &["--fail-above", "1"]);
    let grown = String::from_utf8_lossy(&judged.stderr).into_owned();
    assert!(grown.contains("(owned, largest rank)") && !grown.contains("(resident"), "{grown}");
    let strict = diff(&jobs, &["--fail-above", "1", "--noise", "0"]);
    assert!(String::from_utf8_lossy(&strict.stderr).contains("(resident, largest rank)"));

    let jobs = [before, job(place.path(), "above", Some(above))];
    let judged = diff(&jobs, &["--fail-above", "1"]);
    assert!(String::from_utf8_lossy(&judged.stderr).contains("(resident, largest rank)"));
    assert_eq!(line(&said(&diff(&jobs, &[])), NAME)[2], "+300 KiB");
}

#[test]
fn only_the_phase_with_a_grown_maximum_has_grown() {
    let place = tempfile::tempdir().expect("a folder");
    let jobs = pair(place.path(), 0);
    let table = said(&diff(&jobs, &[]));
    let document: Value = serde_json::from_str(&said(&diff(&jobs, &["--json"]))).expect("JSON");
    for (phase, more) in
        [("init", 0), ("read mesh", 0), ("solve", MORE), ("quo push socket", MORE), ("finalize", 0)]
    {
        let change = &listed(&document, "phases", "name", phase)["resident_max"];
        assert_eq!(growth(change), more, "{change}");
        let shown = if more > 0 { "+10.0 MiB" } else { "=" };
        assert_eq!(line(&table, phase)[2], shown, "{table}");
    }
}
