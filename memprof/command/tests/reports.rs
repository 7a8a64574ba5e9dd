//! The command on generated jobs: its output, and its errors on wrong input.

use memprof_trace::generate::{self, JobShape};
use memprof_trace::layout::IDENTITY;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn memprof() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
    command.env("NO_COLOR", "1");
    command
}

fn run(arguments: &[&str]) -> Output {
    memprof().args(arguments).output().expect("memprof runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("UTF-8")
}

/// A job in a separate folder.
struct Made {
    _place: tempfile::TempDir,
    folder: PathBuf,
}

impl Made {
    fn new(ranks: u32, nodes: u32) -> Made {
        let place = tempfile::tempdir().expect("a folder");
        let folder = place.path().join("job");
        let shape =
            JobShape { ranks, nodes, samples: 120, file_size: 1 << 20, ..JobShape::default() };
        generate::job(&folder, &shape, &mut |_, _| {}).expect("a job");
        Made { _place: place, folder }
    }

    fn path(&self) -> &str {
        self.folder.to_str().expect("UTF-8")
    }

    fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = fs::read_dir(&self.folder)
            .expect("list")
            .map(|entry| entry.expect("entry").path())
            .collect();
        files.sort();
        files
    }

    /// Changes the processes to ones without a rank.
    fn without_ranks(self) -> Made {
        for file in self.files() {
            let mut bytes = fs::read(&file).expect("read");
            // Rank and size in the identity.
            bytes[IDENTITY..IDENTITY + 8].fill(0xff);
            generate::reseal(&mut bytes);
            fs::write(&file, bytes).expect("written");
        }
        self
    }

    fn report(&self, more: &[&str]) -> String {
        let mut arguments = vec!["report", self.path()];
        arguments.extend(more);
        let output = run(&arguments);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    }
}

fn fails(arguments: &[&str], code: i32, says: &str) {
    let output = run(arguments);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(says), "{arguments:?} said: {said}");
    assert!(!said.contains("panicked"), "{said}");
}

/// Set MEMPROF_GOLDEN=write to accept the current output.
#[test]
fn the_table_of_a_job_is_as_it_was() {
    let made = Made::new(6, 2);
    let shown = made.report(&[]).replace(made.path(), "JOB");
    let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/report.txt");
    if std::env::var_os("MEMPROF_GOLDEN").is_some_and(|value| value == "write") {
        fs::write(&golden, &shown).expect("written");
    }
    let expected = fs::read_to_string(&golden).expect("the golden file");
    assert_eq!(shown, expected, "set MEMPROF_GOLDEN=write to accept");
}

#[test]
fn tables_fit_a_screen_without_trailing_spaces() {
    let made = Made::new(6, 2);
    let shown = made.report(&[]);
    assert!(shown.lines().count() <= 70, "{shown}");
    assert!(!shown.contains("tool: "), "a hundredth of what ranks hold: {shown}");
    assert!(shown.lines().all(|line| line.trim_end() == line && line.chars().count() <= 150));
    assert!(!shown.contains('\x1b'));
}

/// Returns the percents of a text.
fn percents(text: &str) -> Vec<u64> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let before = words.windows(2).filter(|pair| pair[1] == "%");
    before.map(|pair| pair[0].parse().expect("a whole number")).collect()
}

#[test]
fn report_begins_with_who_holds_the_largest_peak() {
    let made = Made::new(6, 2);
    let shown = made.report(&[]);
    let report: serde_json::Value = serde_json::from_str(&made.report(&["--json"])).expect("JSON");
    let answer = &report["answer"];
    let paragraph = shown.split("\n\n").nth(1).expect("a paragraph");
    let told: Vec<&str> = paragraph.split_whitespace().collect();
    let sentences = answer["sentences"].as_array().expect("sentences");
    let sentences: Vec<&str> = sentences.iter().map(|one| one.as_str().expect("text")).collect();
    assert_eq!(told, sentences.join(" ").split_whitespace().collect::<Vec<&str>>());
    assert!(paragraph.starts_with("At the peak of rank 1 (309 MiB, in main · MPI_Allreduce), "));
    assert!(paragraph.lines().all(|line| line.chars().count() <= 100), "{paragraph}");
    let shares = answer["shares"].as_array().expect("shares");
    let given: Vec<u64> =
        shares.iter().map(|share| share["percent"].as_u64().expect("a number")).collect();
    assert_eq!(given.iter().sum::<u64>(), 100, "{answer}");
    let mut said = percents(sentences[0]);
    said.sort_unstable();
    let mut given = given;
    given.sort_unstable();
    assert_eq!(said, given, "{answer}");
    let bytes = |value: &serde_json::Value| value["bytes"].as_u64().expect("bytes");
    assert_eq!(shares.iter().map(bytes).sum::<u64>(), bytes(answer));
    assert_eq!(shares[0]["group"], "application");
}

#[test]
fn program_without_mpi_has_no_mpi_in_the_answer() {
    let shown = Made::new(1, 1).without_ranks().report(&[]);
    assert!(shown.contains("\nAt the peak ("), "{shown}");
}

#[test]
fn ranks_nodes_phases_and_sites_have_tables_of_their_own() {
    let made = Made::new(4, 2);
    assert!(made.report(&["--rank", "3"]).starts_with("rank 3 "));
    assert!(made.report(&["--node", "node0001"]).contains("2 ranks"));
    assert!(made.report(&["--phase", "main"]).starts_with("phase main"));
    assert!(made.report(&["--sites", "1"]).contains("at peak"));
    assert!(made.report(&["--all"]).lines().count() >= made.report(&[]).lines().count());
}

#[test]
fn every_table_of_components_has_one_line_on_its_columns() {
    let made = Made::new(4, 2);
    for options in [&[][..], &["--node", "node0000"], &["--rank", "1"]] {
        let shown = made.report(options);
        let lines: Vec<&str> = shown.lines().filter(|line| line.starts_with("owned: ")).collect();
        let [line] = lines[..] else { panic!("{shown}") };
        for word in ["owned", "resident", "peak", "at peak", "at most", "slack"] {
            assert!(line.split("; ").any(|part| part.starts_with(&format!("{word}: "))), "{word}");
        }
    }
}

/// Returns the largest number of processes in a table of call stacks.
fn most_processes(sites: &str) -> u32 {
    let counts = sites.lines().filter_map(|line| {
        let (before, _) = line.split_once(" process")?;
        before.rsplit(' ').next()?.parse().ok()
    });
    counts.max().expect("a call stack")
}

#[test]
fn call_stacks_of_one_rank_are_of_that_rank_alone() {
    let made = Made::new(4, 2);
    assert_eq!(most_processes(&made.report(&["--sites"])), 4);
    let one = made.report(&["--sites", "3", "--rank", "2"]);
    assert_eq!(most_processes(&one), 1, "{one}");
    assert!(one.contains("at peak") && one.contains("libmpi"), "{one}");
}

#[test]
fn json_goes_into_a_file_as_a_page_does() {
    let made = Made::new(2, 1);
    let file = made.folder.with_file_name("report.json");
    let path = file.to_str().expect("UTF-8");
    assert_eq!(made.report(&["--json", path]), "");
    let written = fs::read_to_string(&file).expect("the file");
    assert_eq!(written, made.report(&["--json"]));
    // Options before the folder, too: a folder cannot be written as a file.
    let before = run(&["report", "--json", made.path()]);
    assert_eq!(text(&before.stdout), written, "{}", text(&before.stderr));
    fails(&["report", "--json", path], 1, "no folder of a job is named");
    fails(&["report", made.path(), "--json", "/nowhere/a.json"], 1, "cannot write /nowhere/a.json");
}

#[test]
fn processes_without_a_rank_are_not_called_ranks() {
    let shown = Made::new(1, 1).without_ranks().report(&[]);
    assert!(shown.contains("at worst, process "), "{shown}");
    assert!(!shown.contains("rank pid"), "{shown}");
}

#[test]
fn what_is_not_there_is_named_with_what_is() {
    let made = Made::new(4, 2);
    fails(&["report", made.path(), "--rank", "9"], 1, "there are ranks 0 to 3");
    fails(&["report", made.path(), "--node", "x"], 1, "node0000, node0001");
    fails(&["report", made.path(), "--phase", "x"], 1, "init, main");
}

#[test]
fn wrong_command_lines_end_with_2() {
    fails(&["report"], 2, "DIR");
    fails(&["report", ".", "--rank", "x"], 2, "invalid value");
    fails(&["report", ".", "--rank", "1", "--node", "n"], 2, "cannot be used with");
    fails(&["report", ".", "--sites", "0"], 2, "invalid value");
    fails(&["report", ".", "--svg", "a.PNG"], 2, "pictures are SVG: name the file a.svg");
    for ignored in [
        ["--rank", "1", "--html", "x"],
        ["--node", "n", "--html", "x"],
        ["--phase", "p", "--html", "x"],
        ["--phase", "p", "--svg", "x"],
        ["--sites", "3", "--phase", "p"],
        ["--all", "--json", "--job", "1"],
        ["--all", "--html", "x", "--json"],
    ] {
        let arguments: Vec<&str> = ["report", "."].into_iter().chain(ignored).collect();
        fails(&arguments, 2, "cannot be used with");
    }
    fails(&["live", ".", "--once", "--interval", "2"], 2, "cannot be used with");
    fails(&["live", ".", "--interval", "0"], 2, "seconds from");
    fails(&["nonsense"], 2, "unrecognized subcommand");
    fails(&["run", "--"], 2, "COMMAND");
    fails(&["run", "--max-overhead", "0", "--", "true"], 2, "percentage");
    fails(&["run", "--interval", "0", "--", "true"], 2, "invalid value");
}

#[test]
fn folder_without_a_job_is_refused_with_the_reason() {
    let place = tempfile::tempdir().expect("a folder");
    let path = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    fails(&["report", &path("absent")], 1, "cannot read the folder");
    fs::write(place.path().join("file"), "x").expect("written");
    fails(&["report", &path("file")], 1, "cannot read the folder");
    fs::create_dir(place.path().join("empty")).expect("made");
    fails(&["report", &path("empty")], 1, "no traces");
    fails(&["live", "--once", &path("empty")], 1, "no traces");
    fails(&["live", "--timeout", "0.1", &path("empty")], 1, "no traces");
    fails(&["live", "--timeout", "x", &path("empty")], 2, "seconds from 0");
    fs::create_dir(place.path().join("junk")).expect("made");
    fs::write(place.path().join("junk/a.memprof"), "not a trace").expect("written");
    fails(&["report", &path("junk")], 1, "not a trace of memprof");
}

/// Any files in a folder: the traces among them are read, no link is followed, no read blocks.
#[test]
fn names_of_files_cannot_steer_the_terminal_from_errors_either() {
    let place = tempfile::tempdir().expect("a folder");
    fs::write(place.path().join("a\x1b[2J.memprof"), "no trace").expect("written");
    let said = run(&["report", place.path().to_str().expect("UTF-8")]).stderr;
    assert!(text(&said).contains("a\u{fffd}[2J.memprof"), "{}", text(&said));
}

#[test]
fn among_hostile_files_the_good_traces_are_still_read() {
    let made = Made::new(4, 1);
    let files = made.files();
    let at = |name: &str| made.folder.join(name);
    symlink("/dev/zero", at("link.memprof")).expect("a link");
    fs::create_dir(at("folder.memprof")).expect("a folder");
    let pipe = Command::new("mkfifo").arg(at("pipe.memprof")).status().expect("mkfifo");
    assert!(pipe.success());
    fs::write(at("empty.memprof"), "").expect("written");
    fs::write(at("noise.memprof"), vec![0xa5; 100_000]).expect("written");
    fs::write(at("escape\x1b[2J.memprof"), "junk").expect("written");
    let whole = fs::read(&files[3]).expect("read");
    fs::write(&files[3], &whole[..whole.len() / 3]).expect("cut");
    let shown = made.report(&[]);
    assert!(shown.starts_with("ocean  4 ranks on 1 node"), "{shown}");
    assert!(shown.contains("1 trace damaged"), "{shown}");
    assert!(shown.contains("empty.memprof: the file is empty"), "{shown}");
    assert!(!shown.contains('\x1b'), "{shown:?}");
}

#[test]
fn a_rank_without_a_trace_is_missed() {
    let made = Made::new(4, 1);
    fs::remove_file(&made.files()[1]).expect("removed");
    let shown = made.report(&[]);
    assert!(shown.contains("1 rank left no trace"), "{shown}");
}

/// As left by a script that calls mpirun twice.
#[test]
fn several_jobs_of_one_folder_are_told_apart() {
    let made = Made::new(4, 1);
    let other = made.folder.with_file_name("other");
    let shape = JobShape {
        ranks: 2,
        nodes: 1,
        samples: 40,
        file_size: 1 << 20,
        seed: 7,
        ..JobShape::default()
    };
    for (number, file) in
        generate::job(&other, &shape, &mut |_, _| {}).expect("a job").iter().enumerate()
    {
        fs::rename(file, made.folder.join(format!("second-{number}.memprof"))).expect("moved");
    }
    let both = made.report(&[]);
    assert!(both.starts_with("ocean  6 ranks of 2 jobs on "), "{both}");
    assert!(both.contains("note: 2 jobs in this folder"), "{both}");
    let of_rank = |line: &str| line.starts_with("rank ") && line.contains(" of job ");
    assert!(both.lines().any(of_rank), "{both}");
    let numbers = ["1", "2"].map(|number| {
        let one = made.report(&["--job", number]);
        assert!(!one.contains("jobs"), "{one}");
        one.split_once(" ranks on ").expect("ranks").0.trim_start_matches("ocean  ").to_owned()
    });
    let mut sorted = numbers.clone();
    sorted.sort();
    assert_eq!(sorted, ["2", "4"], "{numbers:?}");
    fails(&["report", made.path(), "--job", "3"], 1, "no job 3");
    fails(&["report", made.path(), "--rank", "0"], 1, "name it with --job");
    assert!(made.report(&["--job", "2", "--rank", "0"]).starts_with("rank 0 "));
    let exported = run(&["export", made.path(), "--format", "csv", "--job", "1"]);
    assert_eq!(text(&exported.stderr), "");
    let exported = run(&["export", made.path(), "--format", "csv"]);
    assert!(text(&exported.stderr).contains("2 jobs in this folder"));
}

/// Sizes that a trace never has: no read blocks, and the claimed memory is not allocated.
#[test]
fn large_sparse_files_take_neither_time_nor_memory() {
    let made = Made::new(2, 1);
    let files = made.files();
    let grow = |file: &Path, size: u64| {
        let opened = fs::File::options().write(true).create(true).truncate(false).open(file);
        opened.and_then(|file| file.set_len(size)).expect("grown");
    };
    grow(&files[1], 1 << 30);
    grow(&made.folder.join("zeros.memprof"), 1 << 30);
    grow(&made.folder.join("larger.memprof"), 8 << 30);
    let script = "ulimit -v 524288 -t 20; exec \"$@\"";
    let output = Command::new("sh")
        .args(["-c", script, "sh", env!("CARGO_BIN_EXE_memprof"), "report", made.path()])
        .output()
        .expect("memprof runs");
    assert!(output.status.success(), "{}", text(&output.stderr));
    let shown = text(&output.stdout);
    assert!(shown.starts_with("ocean  2 ranks on 1 node"), "{shown}");
    assert!(shown.contains("larger.memprof: ") && shown.contains("zeros.memprof: "), "{shown}");
}

#[test]
fn folders_whose_names_are_not_unicode_have_every_report() {
    use std::os::unix::ffi::OsStrExt;
    let made = Made::new(2, 1);
    let folder = made.folder.with_file_name(std::ffi::OsStr::from_bytes(b"j\xffb"));
    fs::rename(&made.folder, &folder).expect("renamed");
    for arguments in [&["report", "--json"][..], &["live", "--once", "--json"], &["report"]] {
        let output = memprof().args(arguments).arg(&folder).output().expect("memprof runs");
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        if arguments.len() > 1 {
            serde_json::from_slice::<serde_json::Value>(&output.stdout).expect("JSON");
        }
    }
}

#[test]
fn look_at_a_job_is_one_json_line() {
    let made = Made::new(4, 2);
    let output = run(&["live", "--once", "--json", made.path()]);
    let shown = text(&output.stdout);
    assert_eq!(shown.lines().count(), 1);
    let look: serde_json::Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(look["memprof_live"], 2);
    let ranks = look["ranks"].as_array().expect("ranks");
    assert_eq!(ranks.len(), 4);
    for rank in ranks {
        let groups = rank["groups"].as_object().expect("groups").values();
        let sum: u64 = groups.filter_map(serde_json::Value::as_u64).sum();
        assert_eq!(Some(sum), rank["resident"].as_u64());
    }
}

#[test]
fn json_is_json_and_says_what_the_table_says() {
    let made = Made::new(4, 2);
    let job: serde_json::Value = serde_json::from_str(&made.report(&["--json"])).expect("JSON");
    assert_eq!(job["memprof_report"], 1);
    assert_eq!(job["nodes"].as_array().map(Vec::len), Some(2));
    assert!(job["components"].as_array().is_some_and(|rows| rows.len() >= 12));
    let rank: serde_json::Value =
        serde_json::from_str(&made.report(&["--json", "--rank", "2"])).expect("JSON");
    assert_eq!(rank["identity"]["rank"], 2);
    assert!(rank["peak"]["bytes"].as_u64().is_some_and(|bytes| bytes > 0));
}

#[test]
fn pages_and_pictures_are_whole_and_need_no_network() {
    let made = Made::new(4, 2);
    let place = tempfile::tempdir().expect("a folder");
    let file = |name: &str| place.path().join(name).to_str().expect("UTF-8").to_owned();
    let (html, svg) = (file("a.html"), file("a.svg"));
    made.report(&["--html", &html, "--svg", &svg]);
    let page = fs::read_to_string(html).expect("the page");
    assert!(page.starts_with("<!doctype html>") && page.trim_end().ends_with("</script>"));
    for word in ["src=http", "href=http", "@import", "url(http", "fetch("] {
        assert!(!page.contains(word), "{word}");
    }
    assert_eq!(page.matches("<figure").count(), page.matches("</figure>").count());
    assert!(fs::read_to_string(svg).expect("vectors").trim_end().ends_with("</svg>"));
    let left: Vec<_> = fs::read_dir(place.path()).expect("list").collect();
    assert_eq!(left.len(), 2, "{left:?}");
}

#[test]
fn a_pipe_is_written_to_and_stays_a_pipe() {
    use std::os::unix::fs::FileTypeExt;
    let made = Made::new(1, 1);
    let pipe = made.folder.with_file_name("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().expect("mkfifo").success());
    let reader = Command::new("cat").arg(&pipe).stdout(std::process::Stdio::piped()).spawn();
    made.report(&["--svg", pipe.to_str().expect("UTF-8")]);
    assert!(pipe.symlink_metadata().expect("the pipe").file_type().is_fifo());
    let read = reader.and_then(std::process::Child::wait_with_output).expect("cat");
    assert!(text(&read.stdout).trim_end().ends_with("</svg>"));
}

#[test]
fn a_report_that_cannot_be_written_is_an_error() {
    let made = Made::new(1, 1);
    let full = fs::File::options().write(true).open("/dev/full").expect("/dev/full");
    let output = memprof().args(["report", made.path()]).stdout(full).output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("standard output"), "{}", text(&output.stderr));
    fails(&["report", made.path(), "--html", "/nowhere/a.html"], 1, "cannot write /nowhere/a.html");
    fails(&["report", made.path(), "--svg", "/"], 1, "names no file");
}

#[test]
fn live_shows_ranks_that_have_ended_and_ends() {
    let made = Made::new(4, 1);
    let output = run(&["live", made.path()]);
    assert!(output.status.success());
    let shown = text(&output.stdout);
    assert!(shown.starts_with("ocean  4 ranks on 1 node, 0 running"), "{shown}");
    assert!(!shown.contains('\x1b'));
    let few = run(&["live", "--once", "--ranks", "2", made.path()]);
    assert!(text(&few.stdout).contains("2 more"));
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let made = Made::new(4, 1);
    let memprof = env!("CARGO_BIN_EXE_memprof");
    let folder = made.path();
    for of in [
        format!("report {folder}"),
        format!("report --json {folder}"),
        format!("live --once {folder}"),
        format!("diff --all {folder} {folder}"),
        format!("export {folder} --format csv"),
        format!("export {folder} --format json"),
        format!("export {folder} --format perfetto"),
    ] {
        let script = format!("{memprof} {of} | head -c 20 >/dev/null");
        let output = Command::new("bash").args(["-o", "pipefail", "-c", &script]).output();
        let output = output.expect("bash");
        assert!(output.status.success(), "{of}: {}", text(&output.stderr));
        assert_eq!(text(&output.stderr), "", "{of}");
    }
}

#[test]
fn commands_without_a_reader_end_with_their_own_status() {
    let made = Made::new(2, 1);
    for (words, status) in [
        ("report JOB", 0),
        ("report JOB --json", 0),
        ("report JOB --html /dev/stdout", 0),
        ("export JOB --format csv", 0),
        ("diff JOB JOB", 0),
        ("live --once JOB", 0),
        ("time JOB", 1),
        ("report no-such-folder", 1),
        ("--help", 0),
        ("nonsense", 2),
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let mut command = Command::new(env!("CARGO_BIN_EXE_memprof"));
        let arguments = words.split(' ').map(|word| if word == "JOB" { made.path() } else { word });
        command.args(arguments).stdout(writer.try_clone().expect("a pipe")).stderr(writer);
        assert_eq!(command.status().expect("it runs").code(), Some(status), "{words}");
    }
}
