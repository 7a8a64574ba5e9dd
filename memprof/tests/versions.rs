//! Every command on a trace of the older version of the format, held against the same trace in the newest.

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One folder for each version, each with the trace of the same rank under the same name.
fn folders(place: &Path) -> [PathBuf; 2] {
    ["v1", "v2"].map(|version| {
        let golden = format!("trace/tests/golden/{version}.memprof");
        let folder = place.join(version);
        fs::create_dir(&folder).expect("a folder");
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join(golden);
        fs::copy(from, folder.join("rank.memprof")).expect("the trace");
        folder
    })
}

/// Returns the output of a command; `JOB` in its words is the folder, and becomes so again in the
/// output.
fn said(words: &str, folder: &Path) -> String {
    let folder = folder.to_str().expect("UTF-8");
    let word = |word| if word == "JOB" { folder } else { word };
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    let output = command.env("NO_COLOR", "1").args(words.split(' ').map(word)).output();
    let output = output.expect("memprof runs");
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words}: {complaints}");
    assert!(!complaints.contains("damaged") && !complaints.contains("left out"), "{complaints}");
    String::from_utf8(output.stdout).expect("UTF-8").replace(folder, "JOB")
}

/// Returns the file that it writes.
fn written(words: &str, folder: &Path) -> Vec<u8> {
    let file = folder.with_extension("written");
    said(&format!("{words} {}", file.display()), folder);
    fs::read(file).expect("the file")
}

/// Takes away the parts that version 1 does not tell, or tells otherwise: memory between samples, of which bins tell
/// since, memory at the peak, and first touches.
fn told_by_both(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(told_by_both),
        Value::Object(fields) => {
            for name in ["resident_bound", "series", "heat", "at_peak", "touches"] {
                fields.remove(name);
            }
            fields.values_mut().for_each(told_by_both);
        }
        _ => {}
    }
}

fn json(words: &str, folder: &Path) -> Value {
    let mut document = serde_json::from_str(&said(words, folder)).expect("JSON");
    told_by_both(&mut document);
    document
}

#[test]
fn reports_of_older_traces_agree_with_the_newest() {
    let place = tempfile::tempdir().expect("a folder");
    let [old, new] = folders(place.path());
    let table = said("report JOB", &old);
    assert!(
        table.starts_with("program  1 rank on 1 node, 1.60 s, libmpi.so.40   JOB\n"),
        "{table}"
    );
    for line in ["rank 1   204 KiB", "note: a note", "note: 1 rank left no trace: 0"] {
        assert!(table.contains(line), "{line} in {table}");
    }
    assert!(said("report JOB --sites", &old).contains("libmpi.so.40+0xabc"));
    for words in ["report JOB --rank 1", "report JOB --phase main", "live --once JOB"] {
        assert_eq!(said(words, &old), said(words, &new), "{words}");
    }
    for words in [
        "report JOB --json",
        "report JOB --rank 1 --json",
        "report JOB --node gold --json",
        "report JOB --phase main --json",
        "live --once --json JOB",
    ] {
        assert_eq!(json(words, &old), json(words, &new), "{words}");
    }
    let report = json("report JOB --rank 1 --json", &old);
    assert_eq!(report["peak"]["bytes"], 49 * 4096 + 8192);
    for (form, begins) in [("html", "<!doctype html>"), ("svg", "<svg"), ("png", "\u{fffd}PNG")] {
        let file = written(&format!("report JOB --{form}"), &old);
        let text = String::from_utf8_lossy(&file);
        assert!(text.starts_with(begins), "{form}");
        assert!(form == "png" || text.contains("data-name=\"main\""), "{form}");
    }
}

#[test]
fn exports_of_an_older_trace_are_those_of_the_newest() {
    let place = tempfile::tempdir().expect("a folder");
    let [old, new] = folders(place.path());
    let csv = said("export JOB --format csv", &old);
    // Two components at 200 samples.
    assert_eq!(csv.lines().count(), 1 + 2 * 200, "{csv}");
    assert_eq!(csv, said("export JOB --format csv", &new));
    let exported = |folder: &Path| {
        let mut document: Value =
            serde_json::from_str(&said("export JOB --format json", folder)).expect("JSON");
        let rank = &mut document["ranks"][0];
        for component in rank["components"].as_array_mut().expect("components") {
            component.as_object_mut().expect("a component").remove("resident_bound");
        }
        document
    };
    assert_eq!(exported(&old)["ranks"][0]["series"].as_array().map(Vec::len), Some(2));
    assert_eq!(exported(&old), exported(&new));
    let mut forms = vec!["perfetto", "massif"];
    if cfg!(feature = "parquet") {
        forms.push("parquet");
    }
    for form in forms {
        let words = format!("export JOB --format {form} -o");
        let file = written(&words, &old);
        assert!(file.len() > 1000 && file == written(&words, &new), "{form}");
    }
    assert!(written("export JOB --format pprof -o", &old).starts_with(b"\x1f\x8b"));
}

#[test]
fn versions_of_one_job_do_not_differ_and_serve_sweeps() {
    let place = tempfile::tempdir().expect("a folder");
    let [old, new] = folders(place.path()).map(|folder| folder.to_str().expect("UTF-8").to_owned());
    let document = said(&format!("diff {old} {new} --json --least 0"), place.path());
    let document: Value = serde_json::from_str(&document).expect("JSON");
    assert_eq!(document["rank_max"]["before"], 49 * 4096 + 8192);
    let mut changes = vec![&document["rank_max"], &document["node_max"], &document["job"]];
    let lists = ["components", "phases"].map(|list| document[list].as_array().expect("a list"));
    assert!(lists.iter().all(|list| !list.is_empty()));
    let of_all = lists.into_iter().flatten().flat_map(|entry| entry.as_object().expect("an entry"));
    changes.extend(of_all.map(|(_, value)| value).filter(|value| value.is_object()));
    assert!(changes.len() > 8);
    for change in changes {
        assert_eq!(change["before"], change["after"], "{change}");
    }
    let study = said(&format!("sweep --json --from {old} {new}"), place.path());
    let study: Value = serde_json::from_str(&study).expect("JSON");
    let points = study["rank"]["points"].as_array().expect("points");
    assert_eq!((points.len(), &points[0]), (2, &points[1]));
}
