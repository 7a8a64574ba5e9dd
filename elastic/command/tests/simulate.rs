//! `quo-elastic simulate` as a user runs it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn simulate(folder: &Path, words: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
    command.current_dir(folder).arg("simulate").args(words.split_whitespace());
    command.output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn done(output: &Output) -> String {
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    text(&output.stdout)
}

const LOG: &str = "\
; MaxProcs: 8
1 0 -1 100 6 -1 -1 6 100 -1 1 -1 -1 -1 -1 -1 -1 -1
2 1 -1 50 6 -1 -1 6 50 -1 1 -1 -1 -1 -1 -1 -1 -1
3 2 -1 50 2 -1 -1 2 50 -1 1 -1 -1 -1 -1 -1 -1 -1
4 2 -1 wrong 2 -1 -1 2 50 -1 1 -1 -1 -1 -1 -1 -1 -1
";

#[test]
fn two_schedulers_are_compared_in_table_and_files() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.swf"), LOG).unwrap();
    let output = simulate(
        folder.path(),
        "log.swf --policy fcfs,easy --csv jobs.csv --jobs-csv batsim.csv --html page.html \
         --decisions decisions.jsonl",
    );
    let table = done(&output);
    assert!(
        table.contains("fcfs: 3 jobs on 8 nodes, makespan 150.0 s, utilisation 83.3 %"),
        "{table}"
    );
    assert!(table.contains("easy against fcfs, 1 workload\n"), "{table}");
    assert!(
        text(&output.stderr).contains("log.swf:5: run time: \"wrong\" is not a number: skipped")
    );
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let starts = |name: &str| -> Vec<String> {
        read(name).lines().skip(1).map(|line| line.split(',').nth(4).unwrap().to_owned()).collect()
    };
    assert_eq!(starts("jobs-fcfs.csv"), ["0", "100", "100"]);
    assert_eq!(starts("jobs-easy.csv"), ["0", "100", "2"]);
    assert!(
        read("batsim-easy.csv")
            .contains("3,w0,rigid,2,2,50,1,COMPLETED_SUCCESSFULLY,2,50,52,0,50,1,6-7,-1,")
    );
    let page = read("page.html");
    assert_eq!(page.matches("<svg").count(), 7);
    assert!(
        page.contains("3: Rigid, 2 nodes from 2 s to 52 s") && page.contains("easy against fcfs")
    );
    let decisions = read("decisions-easy.jsonl");
    let lines: Vec<serde_json::Value> =
        decisions.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(
        lines.iter().all(|line| line["reason"].as_str().is_some_and(|words| !words.is_empty()))
    );
    let third = lines.iter().find(|line| line["job"] == "3").unwrap();
    assert_eq!(third["reason"], "ends before job 1 can start, at 100 s");
}

#[test]
fn seeds_give_a_confidence_and_the_same_result_again() {
    let folder = tempfile::tempdir().unwrap();
    let words =
        "--synthetic 200 --nodes 32 --elastic 0.5 --policy easy,two-parts-egs --seeds 4 --json";
    let mut command = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
    let again = command.current_dir(folder.path()).arg("simulate").args(words.split_whitespace());
    let (first, again) = (done(&simulate(folder.path(), words)), done(&again.output().unwrap()));
    assert_eq!(first, again);
    let report: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(report["policies"][1].as_array().unwrap().len(), 4);
    let figure = &report["comparison"]["figures"][0];
    assert_eq!(figure["figure"], "utilisation %");
    assert!(figure["confidence"].as_f64().is_some_and(|half| half > 0.0), "{figure}");
}

#[test]
fn output_of_sacct_and_description_are_recognised() {
    let folder = tempfile::tempdir().unwrap();
    let log = "JobID|Submit|Start|End|TimelimitRaw|NNodes|State\n\
        7|2026-03-01T00:00:00|2026-03-01T00:00:00|2026-03-01T00:10:00|20|4|COMPLETED\n";
    fs::write(folder.path().join("log"), log).unwrap();
    assert!(done(&simulate(folder.path(), "log --nodes 4")).starts_with("easy: 1 jobs on 4 nodes"));
    let description = "nodes = 4\n[[job]]\nname = \"a\"\nsubmit = 0.0\nnodes = 2\nruntime = 5.0\n";
    fs::write(folder.path().join("jobs.toml"), description).unwrap();
    assert!(done(&simulate(folder.path(), "jobs.toml")).contains("makespan 5.00 s"));
}

/// Heterogeneous, requeued, pending, running and step lines, zones, and changed clocks.
const SACCT: &str = "\
JobID|JobName|Submit|Start|End|TimelimitRaw|NNodes|State|AllocCPUS
101|a|b|2026-10-01T00:00:00|2026-10-01T00:10:00|2026-10-01T01:10:00|120|2|COMPLETED|8
102|c|2026-10-01T00:01:00|None|2026-10-01T00:05:00|120|2|CANCELLED by 1000|0
103_[1-5%2]|d|2026-10-01T00:02:00|Unknown|Unknown|Partition_Limit|1|PENDING|0
104_1|e|2026-10-01T00:03:00|2026-10-01T00:10:00|Unknown|60|1|RUNNING|4
105+0|f|2026-10-01T00:03:00|2026-10-01T00:10:00|2026-10-01T00:20:00|60|1|TIMEOUT|4
105+1|f|2026-10-01T00:03:00|2026-10-01T00:10:00|2026-10-01T00:20:00|60|3|TIMEOUT|12
106|g|2026-10-01T00:04:00|2026-10-01T00:10:00|2026-10-01T00:20:00|UNLIMITED|1|NODE_FAIL|4
106|g|2026-10-01T00:04:00|2026-10-01T00:30:00|2026-10-01T00:50:00|UNLIMITED|1|COMPLETED|4
107|h|2026-10-01T01:04:00+0100|2026-10-01T01:30:00+0100|2026-10-01T01:50:00+0100|10|1|OUT_OF_MEMORY|4
108.batch|batch|2026-10-01T00:04:00|2026-10-01T00:30:00|2026-10-01T00:50:00|10|1|COMPLETED|1
109|i|2026-10-25T02:30:00|2026-10-25T02:30:00|2026-10-25T02:10:00|10|1|COMPLETED|1
110|j|2026-10-01T00:05:00|2026-10-01T00:30:00|2026-10-01T01:30:00|60|9|COMPLETED|36
";

#[test]
fn no_line_of_a_log_is_lost_in_silence() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log"), SACCT).unwrap();
    let output = simulate(folder.path(), "log --nodes 4 --csv jobs.csv --html page.html");
    let table = done(&output);
    assert!(table.starts_with("easy: 6 jobs on 4 nodes"), "{table}");
    // 8 + 16/6 + 4/3 + 4/3 of these, 4 of the one that runs, 4/6 of the first run, and 36 of the job that is too large.
    let hours = "17.3 of the log's 54.0 CPU hours are in the result (32.1 %); those of 2 lines are not known";
    assert!(table.ends_with(&format!("{hours}\n")), "{table}");
    let said = text(&output.stderr);
    for words in [
        "log:12: End 2026-10-25T02:10:00 is before Start 2026-10-25T02:30:00; ",
        "log:11: a step of job 108, which has no line of its own: skipped",
        "log: 6 jobs never ran: left out",
        "log: 1 job has not ended: taken as ending with the log, or at its walltime",
        "log: 1 job ran more than once: the last run counts",
        "log: 1 job has several parts, which start together",
        "log: some times have a zone and some have none: these are taken as UTC",
    ] {
        assert!(said.contains(words), "{words}\n{said}");
    }
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    assert!(read("page.html").contains("17.3 of the log&#39;s 54.0 CPU hours"));
    let jobs = read("jobs.csv");
    let columns = |line: &str| {
        let values: Vec<&str> = line.split(',').collect();
        (values[0].to_owned(), values[3].to_owned(), values[9].to_owned())
    };
    let found: Vec<_> = jobs.lines().skip(1).map(columns).collect();
    let expected = [
        ("101", "0", "2"),
        ("104_1", "180", "1"),
        ("105", "180", "4"),
        ("106", "240", "1"),
        ("107", "240", "1"),
        ("110", "300", "9"),
    ];
    assert_eq!(found, expected.map(|it| (it.0.to_owned(), it.1.to_owned(), it.2.to_owned())));
    let each = simulate(folder.path(), "log --nodes 4 --each-run --json");
    let report: serde_json::Value = serde_json::from_str(&done(&each)).unwrap();
    assert_eq!(report["policies"][0][0]["jobs"], 7);
    assert_eq!(report["hours"]["unit"], "CPU");
    assert!((report["hours"]["result"].as_f64().unwrap() - 18.0).abs() < 1e-9, "{report}");
}

#[test]
fn gate_refuses_resizes_that_cost_more_than_they_save() {
    let folder = tempfile::tempdir().unwrap();
    let description = "nodes = 8\n[[job]]\nname = \"a\"\nsubmit = 0.0\nclass = \"resizable\"\nnodes = 1\nmax = 8\n\
        sizes = \"doubling\"\niterations = 40\nresize_every = 5\namdahl = { serial = 5.0, parallel = 5.0 }\n\
        resize_cost = 60.0\n";
    fs::write(folder.path().join("jobs.toml"), description).unwrap();
    let simulated = |words: &str| {
        let words = format!("jobs.toml --policy greedy-r --json --decisions decisions {words}");
        let report: serde_json::Value =
            serde_json::from_str(&done(&simulate(folder.path(), &words))).unwrap();
        let all = &report["policies"][0][0]["all"];
        (all["resizes"].as_u64().unwrap(), all["completion"]["mean"].as_f64().unwrap())
    };
    // To 2, 4 and 8 nodes after 50, 147.5 and 238.75 s; with `gate` the last one would cost 60 s
    // for 39.
    assert_eq!(simulated(""), (3, 439.375));
    assert_eq!(simulated("--predict gate"), (2, 395.0));
    let decisions = fs::read_to_string(folder.path().join("decisions")).unwrap();
    let reasons: Vec<&str> =
        decisions.lines().filter_map(|line| Some(line.split_once("\"reason\":\"")?.1)).collect();
    let refused: Vec<f64> = reasons
        .iter()
        .filter_map(|reason| reason.strip_prefix("keeps 4 nodes: an expansion would save "))
        .map(|rest| rest.split_once(" s and cost 60.0 s").unwrap().0.parse().unwrap())
        .collect();
    assert_eq!(refused, [39.1, 31.2, 23.4, 15.6, 7.8], "{decisions}");
    assert_eq!(reasons.iter().filter(|reason| reason.starts_with("expands")).count(), 2);
    assert_eq!(simulated("--predict window=3,threshold=0.2,measure=scaled,gain=0"), (3, 439.375));
}

const RECORD: &str = r#"{"record":1,"at":5000,"policy":"two-parts-egs","nodes":["q0","q1"]}
{"at":5000,"job":"7","name":"a","class":"malleable","asked":1,"walltime":60000,"stage":{"runs":5000},"nodes":["q0"]}
{"at":15000,"job":"7","name":"a","class":"malleable","asked":1,"walltime":60000,"stage":{"runs":5000},"nodes":["q0","q1"]}
{"at":25000,"job":"7","name":"a","class":"malleable","asked":1,"walltime":60000,"stage":"ended"}
"#;

#[test]
fn record_of_a_manager_is_drawn_as_it_was() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("record"), RECORD).unwrap();
    let told = done(&simulate(folder.path(), "record --html page.html --svg nodes.svg"));
    assert!(told.starts_with("two-parts-egs: 1 jobs on 2 nodes"), "{told}");
    let read = |name| fs::read_to_string(folder.path().join(name)).unwrap();
    // The second node was gained: it has an edge.
    assert!(
        read("page.html").contains("class=\"n\"><title>a: Malleable, 1 nodes from 10 s to 20 s")
    );
    assert!(read("nodes.svg").starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\""));
    let output = simulate(folder.path(), "record --policy fcfs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("--policy: a record is shown as it was"));
}

#[test]
fn failures_have_the_exit_status_of_other_commands() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.swf"), LOG).unwrap();
    fs::write(folder.path().join("bare.swf"), LOG.replace("; MaxProcs: 8\n", "")).unwrap();
    let cases = [
        ("log.swf --strict", 1, "reading log.swf: line 5: run time: \"wrong\" is not a number"),
        ("bare.swf", 1, "name their number with --nodes"),
        ("absent.swf", 1, "reading absent.swf: No such file"),
        ("log.swf --policy easi", 2, "invalid value 'easi' for '--policy <NAMES>'"),
        ("log.swf --predict window=1", 2, "window=NUMBER (from 2)"),
        ("log.swf --predict gate=1", 2, "or gate is expected"),
        ("log.swf --elastic 1.5", 2, "a number from 0 to 1 is expected"),
        ("log.swf --synthetic 5", 2, "cannot be used with"),
        ("", 2, "<FILE>"),
        (
            "log.swf --csv absent/jobs.csv",
            1,
            "writing absent/jobs.csv: the folder absent: No such file",
        ),
    ];
    for (words, status, message) in cases {
        let output = simulate(folder.path(), words);
        let error = text(&output.stderr);
        assert_eq!(output.status.code(), Some(status), "{words}: {error}");
        assert!(error.contains(message), "{words}: {error}");
    }
}

#[test]
fn workload_of_which_no_job_fits_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.swf"), LOG).unwrap();
    let output = simulate(folder.path(), "log.swf --nodes 1 --html page.html --json");
    assert_eq!((output.status.code(), text(&output.stdout)), (Some(1), String::new()));
    let said = text(&output.stderr);
    assert!(said.contains("none of the 3 jobs fits on 1 nodes, the smallest needs 2: "), "{said}");
    assert!(!folder.path().join("page.html").exists());
    // If one job fits, the others are reported.
    let table = done(&simulate(folder.path(), "log.swf --nodes 2 --html page.html"));
    assert!(table.contains("2 jobs need more nodes than there are\n"), "{table}");
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    assert!(page.contains("<p>easy: 2 jobs need more nodes than there are</p>"), "{page}");
}

#[test]
fn verdicts_of_the_terminal_are_in_the_page() {
    let folder = tempfile::tempdir().unwrap();
    let words = "--synthetic 30 --nodes 16 --policy fcfs,easy --seeds 3 --html page.html";
    let table = done(&simulate(folder.path(), words));
    let page = fs::read_to_string(folder.path().join("page.html")).unwrap();
    let heading = table.lines().position(|line| line == "easy against fcfs, 3 workloads").unwrap();
    let rows: Vec<&str> = table.lines().skip(heading + 3).take(7).collect();
    for row in &rows {
        // Columns are at least two blanks apart.
        let cells: Vec<&str> = row.split("  ").map(str::trim).filter(|it| !it.is_empty()).collect();
        let cells: String = cells.iter().map(|cell| format!("<td>{cell}</td>")).collect();
        assert!(page.contains(&format!("<tr>{cells}</tr>")), "{cells}\n{page}");
    }
    assert!(
        rows.iter().any(|row| row.ends_with("(may be none)") || row.ends_with("none")),
        "{table}"
    );
}

#[test]
fn hostile_names_steer_no_output() {
    let folder = tempfile::tempdir().unwrap();
    let description = "nodes = 2\n\
        [[job]]\nname = \"<script>alert(1)</script>\\u001b[31m\\u202e\"\nsubmit = 0.0\nnodes = 1\nruntime = 3.0\n\
        [[job]]\nname = \"=cmd|A\\n\"\nsubmit = 0.0\nnodes = 2\nruntime = 3.0\n";
    fs::write(folder.path().join("w.toml"), description).unwrap();
    let words =
        "w.toml --csv a.csv --jobs-csv b.csv --html page.html --svg jobs.svg --decisions d.json";
    let table = done(&simulate(folder.path(), words));
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let steers = |letter: char| (letter.is_control() && letter != '\n') || letter == '\u{202e}';
    for (name, content) in [
        ("terminal", table),
        ("a.csv", read("a.csv")),
        ("b.csv", read("b.csv")),
        ("page.html", read("page.html")),
        ("jobs.svg", read("jobs.svg")),
    ] {
        assert!(!content.contains(steers), "{name}: {content:?}");
        assert!(name.ends_with("csv") || !content.contains("<script"), "{name}: {content}");
        assert!(!content.lines().any(|line| line.starts_with('=')), "{name}: {content}");
    }
    assert_eq!(read("a.csv").lines().count(), 3);
    assert!(read("a.csv").contains("\n'=cmd|A\u{fffd},rigid,"), "{}", read("a.csv"));
    assert!(read("d.json").contains("\\u001b"), "a JSON string keeps the name");
}

/// Four jobs of one CPU each that shared one node of four.
const SHARED: &str = "\
JobID|Submit|Start|End|TimelimitRaw|NNodes|State|AllocCPUS|ReqMem
1|2026-11-28T02:00:00|2026-11-28T02:00:00|2026-11-28T02:01:00|5|1|COMPLETED|1|2G
2|2026-11-28T02:00:00|2026-11-28T02:00:00|2026-11-28T02:01:00|5|1|COMPLETED|1|2G
3|2026-11-28T02:00:00|2026-11-28T02:00:00|2026-11-28T02:01:00|5|1|COMPLETED|1|2G
4|2026-11-28T02:00:00|2026-11-28T02:00:00|2026-11-28T02:01:00|5|1|COMPLETED|1|2G
";

#[test]
fn log_of_shared_nodes_shares_them_or_is_named() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log"), SHARED).unwrap();
    let run = |words: &str| {
        let output = simulate(folder.path(), words);
        (done(&output), text(&output.stderr))
    };
    let (table, said) = run("log --nodes 1");
    assert!(table.starts_with("easy: 4 jobs on 1 nodes, makespan 240.0 s"), "{table}");
    let note = "quo-elastic: log: its jobs held 4 nodes at the same time, and there are 1: if jobs shared nodes, name \
        the cores of each with --cores-per-node\n";
    assert_eq!(said, note);
    assert_eq!(run("log --nodes 4").1, "");
    let (table, said) = run("log --nodes 1 --cores-per-node 4 --policy easy,fcfs --seeds 2");
    let first = "easy: 4 jobs on 1 nodes of 4 shared cores, makespan 60.0 s, utilisation 100.0 %";
    assert!(table.starts_with(first), "{table}");
    let memory =
        "log: memory is no limit: name that of a node with --memory-per-node, such as 192G\n";
    assert_eq!(said, format!("quo-elastic: {memory}"), "said once");
    let (table, said) =
        run("log --nodes 1 --cores-per-node 4 --memory-per-node 4G --html page.html");
    assert!(table.contains("makespan 120.0 s, utilisation 50.0 %"), "{table}");
    assert_eq!(said, "");
    assert!(
        fs::read_to_string(folder.path().join("page.html")).unwrap().contains("Jobs shared nodes")
    );
    let (table, said) = run("log --nodes 1 --cores-per-node 2 --memory-per-node 4G --json");
    assert!(said.contains("held 4 CPUs at the same time, and there are 2: name"), "{said}");
    let report: serde_json::Value = serde_json::from_str(&table).unwrap();
    assert_eq!(report["policies"][0][0]["shared_cores"], 2);
    for (words, cause) in [
        (
            "log --nodes 1 --cores-per-node 4 --policy two-parts-egs",
            "gives jobs whole nodes; fcfs,",
        ),
        ("log --nodes 1 --cores-per-node 4 --svg a.svg", "--svg: jobs shared nodes"),
        ("log --nodes 1 --cores-per-node 4 --memory-per-node 1G", "none of the 4 jobs fits"),
        (
            "--synthetic 3 --nodes 1 --cores-per-node 4 --memory-per-node 1G",
            "only the jobs of a log",
        ),
    ] {
        let output = simulate(folder.path(), words);
        assert!(!output.status.success() && text(&output.stderr).contains(cause), "{words}");
    }
}

#[test]
fn processors_of_a_log_fill_nodes_unless_memory_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let line = |job: u32| format!("{job} 0 0 60 1 -1 1024 1 60 -1 1 -1 -1 -1 -1 -1 -1 -1\n");
    let log: String = (1..=4).map(line).collect();
    fs::write(folder.path().join("log.swf"), log).unwrap();
    let run = |words: &str| {
        let output = simulate(folder.path(), words);
        (done(&output), text(&output.stderr))
    };
    let (table, said) = run("log.swf --nodes 1 --cores-per-node 4");
    assert!(table.contains("makespan 240.0 s"), "{table}");
    assert!(said.contains("held 4 nodes") && said.contains("leave --cores-per-node out"), "{said}");
    let (table, said) = run("log.swf --nodes 1 --cores-per-node 4 --memory-per-node 4");
    assert!(table.contains("makespan 60.0 s") && said.is_empty(), "{table}{said}");
    let (table, said) = run("log.swf --nodes 4");
    assert!(table.contains("makespan 60.0 s") && said.is_empty(), "{table}{said}");
}

#[test]
fn help_fits_on_one_screen() {
    let folder = tempfile::tempdir().unwrap();
    let help = done(&simulate(folder.path(), "-h"));
    assert!(help.lines().count() <= 24, "{help}");
}

#[test]
fn commands_without_a_reader_end_with_their_own_status() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("log.swf"), LOG).unwrap();
    for (words, status) in [
        ("simulate log.swf --policy fcfs,easy", 0),
        ("simulate log.swf --json", 0),
        ("simulate log.swf --csv /dev/stdout", 0),
        ("list", 0),
        ("status no-such-job", 1),
        ("simulate no-such-file", 1),
        ("--help", 0),
        ("nonsense", 2),
    ] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_quo-elastic"));
        command.current_dir(folder.path()).args(words.split_whitespace());
        command.env("QUO_ELASTIC_DIR", folder.path().join("none"));
        command.stdout(writer.try_clone().unwrap()).stderr(writer);
        assert_eq!(command.status().unwrap().code(), Some(status), "{words}");
    }
}
