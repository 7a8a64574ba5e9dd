//! Checkpoints of a world: written on some ranks and read on others, bit for bit, and whole at any
//! time: after errors, killed processes and damaged files.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use quo_tests::{Checkout, Job, Nodes, Outcome};

const LIMIT: Duration = Duration::from_secs(120);

/// A folder for a checkpoint, and the jobs that use it.
struct Place {
    place: tempfile::TempDir,
    program: PathBuf,
}

impl Place {
    fn new() -> Result<Self> {
        let program = Checkout::find()?.program("examples/checkpoints")?;
        Ok(Self { place: tempfile::tempdir()?, program })
    }

    fn folder(&self) -> PathBuf {
        self.place.path().join("checkpoints")
    }

    fn job(&self, ranks: usize, words: &[&str]) -> Job {
        let job = Job::new(ranks, &self.program).arg(self.folder());
        words.iter().fold(job, |job, word| job.arg(word)).limit(LIMIT)
    }

    fn run(&self, ranks: usize, words: &[&str]) -> Result<Vec<String>> {
        let outcome = self.job(ranks, words).run()?;
        outcome.expect_success()?;
        Ok(said(&outcome))
    }

    /// Names in the folder.
    fn files(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.folder())? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// File of a rank.
    fn file_of(&self, rank: usize) -> Result<PathBuf> {
        let end = format!(".{rank}");
        let found = self.files()?.into_iter().find(|name| name.ends_with(&end));
        Ok(self.folder().join(found.context("a rank without a file")?))
    }
}

/// Returns the lines of the ranks, sorted.
fn said(outcome: &Outcome) -> Vec<String> {
    let mut lines: Vec<_> = outcome.stdout.lines().map(str::to_owned).collect();
    lines.sort();
    lines
}

/// Checks that every one of two ranks got the same error, and nothing else was said.
fn expect_error(lines: &[String], text: &str) -> Result<()> {
    let is_right = |rank: usize, line: &String| {
        line.strip_prefix(&format!("rank {rank}: ")).is_some_and(|error| error.contains(text))
    };
    let same = lines.len() == 2 && lines[0][8..] == lines[1][8..];
    ensure!(
        same && lines.iter().enumerate().all(|(rank, line)| is_right(rank, line)),
        "not `{text}`: {lines:?}"
    );
    Ok(())
}

#[test]
fn data_of_four_ranks_are_equal_on_any_number() -> Result<()> {
    let place = Place::new()?;
    ensure!(place.run(4, &["0", "lists", "load"])? == ["nothing to load"]);
    ensure!(place.run(4, &["0", "init", "fill=7", "save"])? == ["saved 7 on 4"]);
    for ranks in [1, 2, 3, 4, 6] {
        let lines = place.run(ranks, &["0", "lists", "load"])?;
        ensure!(lines == [format!("loaded 7 on {ranks}")], "{lines:?}");
    }
    ensure!(place.run(1, &["0", "lists", "load", "fill=8", "save"])?.len() == 2);
    ensure!(place.run(5, &["0", "lists", "load"])? == ["loaded 8 on 5"]);
    Ok(())
}

#[test]
fn registered_arrays_keep_their_patterns_and_get_values() -> Result<()> {
    let place = Place::new()?;
    place.run(3, &["0", "init", "fill=5", "save"])?;
    for ranks in [2, 4] {
        let lines = place.run(ranks, &["0", "lists", "other", "load"])?;
        ensure!(lines == [format!("loaded 5 on {ranks}")], "{lines:?}");
        let lines = place.run(ranks, &["0", "init", "fill=9", "load"])?;
        ensure!(lines == [format!("loaded 5 on {ranks}")], "{lines:?}");
    }
    Ok(())
}

#[test]
fn checkpoint_is_restored_after_resizes_of_the_same_job() -> Result<()> {
    let place = Place::new()?;
    let words = [
        "2", "init", "fill=1", "save", "fill=2", "size=4", "load", "fill=3", "save", "size=1",
        "fill=4", "load", "size=3",
    ];
    let lines = place.run(4, &words)?;
    ensure!(
        lines == ["loaded 1 on 4", "loaded 3 on 1", "saved 1 on 2", "saved 3 on 4"],
        "{lines:?}"
    );
    Ok(())
}

#[test]
fn new_checkpoint_replaces_the_former_in_private_files() -> Result<()> {
    let place = Place::new()?;
    place.run(3, &["0", "init", "fill=1", "save"])?;
    let first = place.files()?;
    // Files of the user, and what a killed job left.
    fs::write(place.folder().join("data.csv"), "mine")?;
    fs::write(place.folder().join("data.0123456789abcdef.0"), "left")?;
    fs::write(place.folder().join("checkpoint.next"), "left")?;
    place.run(2, &["0", "init", "fill=2", "save"])?;
    let mut second = place.files()?;
    ensure!(first.len() == 5 && second.len() == 5, "{first:?} {second:?}");
    ensure!(
        second.iter().filter(|name| first.contains(name)).eq(["checkpoint", "lock"]),
        "{second:?}"
    );
    second.retain(|name| name != "data.csv");
    let mode =
        |path: &Path| -> Result<u32> { Ok(fs::metadata(path)?.permissions().mode() & 0o777) };
    ensure!(mode(&place.folder())? == 0o700);
    for name in second {
        ensure!(mode(&place.folder().join(&name))? == 0o600, "{name}");
    }
    ensure!(place.run(1, &["0", "lists", "load"])? == ["loaded 2 on 1"]);
    Ok(())
}

/// Words, and a part of the error that they end in on every rank.
const UNFIT: [(&[&str], &str); 14] = [
    (&["load"], "the checkpoint has the list `ants`: register it"),
    (&["lists", "element", "load"], "`rows` have 4 bytes, and in the checkpoint 8"),
    (&["clear", "lists", "shape", "load"], "array `rows`: schedule: the array is"),
    (&["clear", "lists", "unknown", "load"], "the checkpoint has no array `unknown`"),
    (&["clear", "lists", "index", "load"], "`nonzeros` lies along another matrix"),
    (&["clear", "lists", "rows", "load"], "the matrix `A` has 38 rows from 0"),
    (&["clear", "lists", "callback", "load"], "the callback `words` moves data"),
    (&["save"], "the callback `words` moves data"),
    (
        &["clear", "init", "fill=2", "begin", "load"],
        "ghost cells of `cells` has begun: end it first",
    ),
    (&["save"], "ghost cells of `cells` has begun: end it first"),
    (&["end", "text"], "the state of the checkpoint is of another type"),
    (&["alone", "load"], "it has 15 arrays and rank 0 has 14"),
    (&["save"], "it has 15 arrays and rank 0 has 14"),
    (&["clear", "init", "save"], "number 19 of its arrays, and on rank 0 it is number 18"),
];

#[test]
fn data_that_do_not_fit_are_refused_on_all_ranks() -> Result<()> {
    let place = Place::new()?;
    place.run(2, &["0", "init", "fill=1", "save"])?;
    let mut words = vec!["0"];
    UNFIT.iter().for_each(|(case, _)| words.extend(*case));
    let outcome = place.job(2, &words).run()?;
    outcome.expect_success()?;
    // The lines of one rank are in order.
    let of_rank = |rank: usize| {
        let begin = format!("rank {rank}: ");
        let lines = outcome.stdout.lines().filter_map(|line| line.strip_prefix(&begin));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (of_rank(0), of_rank(1));
    ensure!(first.len() == UNFIT.len() && first == second, "{}", outcome.report());
    for (error, (words, text)) in first.iter().zip(UNFIT) {
        ensure!(error.contains(text), "{words:?} end in `{error}`, without `{text}`");
    }
    // None of the refused ones was written.
    ensure!(place.run(2, &["0", "lists", "load"])? == ["loaded 1 on 2"]);
    Ok(())
}

#[test]
fn fixed_grid_of_other_ranks_is_named_with_remedy() -> Result<()> {
    let place = Place::new()?;
    place.run(4, &["0", "init", "fixed", "fill=1", "save"])?;
    expect_error(&place.run(2, &["0", "lists", "load"])?, "`fixed`")?;
    Ok(())
}

#[test]
fn changed_and_foreign_files_are_refused_on_all_ranks() -> Result<()> {
    let place = Place::new()?;
    place.run(3, &["0", "init", "fill=1", "save"])?;
    let load = || place.run(2, &["0", "init", "fill=2", "load"]);
    let path = place.file_of(2)?;
    let right = fs::read(&path)?;
    let mut wrong = right.clone();
    wrong[right.len() / 2] ^= 1;
    fs::write(&path, &wrong)?;
    expect_error(&load()?, "is damaged, its checksums differ")?;
    fs::write(&path, &right[..right.len() - 1])?;
    expect_error(&load()?, "bytes and not")?;
    fs::remove_file(&path)?;
    expect_error(&load()?, "is missing: it was removed")?;
    let elsewhere = place.place.path().join("elsewhere");
    fs::write(&elsewhere, &right)?;
    symlink(&elsewhere, &path)?;
    expect_error(&load()?, "is a link")?;
    fs::remove_file(&path)?;
    fs::write(&path, &right)?;
    ensure!(load()? == ["loaded 1 on 2"]);

    let manifest = place.folder().join("checkpoint");
    let right = fs::read(&manifest)?;
    fs::write(&manifest, &right[..right.len() / 2])?;
    expect_error(&load()?, "checkpoint is damaged")?;
    fs::write(&manifest, "notes of mine\n")?;
    expect_error(&load()?, "is no checkpoint: choose another folder")?;
    let save = place.run(2, &["0", "init", "fill=2", "save"])?;
    expect_error(&save, "is no checkpoint: choose another folder")?;
    ensure!(fs::read_to_string(&manifest)? == "notes of mine\n");
    fs::write(&manifest, &right)?;
    ensure!(load()? == ["loaded 1 on 2"]);
    fs::set_permissions(place.folder(), fs::Permissions::from_mode(0o777))?;
    expect_error(&load()?, "others may write to it")?;
    Ok(())
}

#[test]
fn limit_of_file_length_is_an_error_and_former_remains() -> Result<()> {
    let place = Place::new()?;
    place.run(2, &["0", "init", "fill=1", "save"])?;
    let before = place.files()?;
    let words = ["0", "init", "fill=2", "limit=100000", "save"];
    expect_error(&place.run(2, &words)?, "files may have at most 100000 bytes here (ulimit -f)")?;
    ensure!(place.files()? == before);
    ensure!(place.run(2, &["0", "lists", "load"])? == ["loaded 1 on 2"]);
    Ok(())
}

/// Compiles the library with which calls on files fail.
fn failing_files(folder: &Path) -> Result<PathBuf> {
    let source = Checkout::find()?.root().join("tests/programs/failing_files.c");
    let library = folder.join("failing_files.so");
    let mut compiler = Command::new("cc");
    compiler.args(["-shared", "-fPIC", "-Wall", "-Werror", "-o"]).arg(&library).arg(source);
    ensure!(compiler.status()?.success(), "the library is not compiled");
    Ok(library)
}

#[test]
fn full_disk_is_an_error_and_former_remains() -> Result<()> {
    let place = Place::new()?;
    let library = failing_files(place.place.path())?;
    place.run(2, &["0", "init", "fill=1", "save"])?;
    let before = place.files()?;
    // ENOSPC of the second write of rank 1, of its data's way to the device, and of the manifest.
    for fault in [
        "1 write .1 1 28",
        "1 fsync .1 0 28",
        "0 write checkpoint.next 0 28",
        "0 fsync checkpoint.next 0 28",
        "0 fsync /checkpoints 0 28",
    ] {
        let job = place.job(2, &["0", "init", "fill=2", "save", "load"]);
        let outcome = job.env("LD_PRELOAD", &library).env("QUO_TEST_FAULT", fault).run()?;
        outcome.expect_success()?;
        let lines = said(&outcome);
        ensure!(lines.first().map(String::as_str) == Some("loaded 1 on 2"), "{}", outcome.report());
        expect_error(&lines[1..], "No space left on device")?;
        ensure!(place.files()? == before, "{fault}: {:?}", place.files()?);
    }
    Ok(())
}

#[test]
fn killed_rank_leaves_one_whole_checkpoint() -> Result<()> {
    let place = Place::new()?;
    let library = failing_files(place.place.path())?;
    let mut time = 1;
    place.run(3, &["0", "init", "fill=1", "save"])?;
    for (fault, is_written) in [
        ("2 write .2 1 kill", false),
        ("0 fsync .0 0 kill", false),
        ("0 fsync checkpoint.next 0 kill", false),
        ("0 fsync /checkpoints 0 kill", false),
        // After the manifest has its name.
        ("0 fsync /checkpoints 1 kill", true),
    ] {
        let next = format!("fill={}", time + 1);
        let job = place.job(3, &["0", "init", &next, "save"]);
        let outcome = job.env("LD_PRELOAD", &library).env("QUO_TEST_FAULT", fault).run()?;
        ensure!(outcome.expect_success().is_err(), "{fault}: {}", outcome.report());
        time += i32::from(is_written);
        let lines = place.run(2, &["0", "lists", "load"])?;
        ensure!(lines == [format!("loaded {time} on 2")], "{fault}: {lines:?}");
    }
    // What was left goes with the next checkpoint.
    place.run(2, &["0", "lists", "load", "save"])?;
    ensure!(place.files()?.len() == 4, "{:?}", place.files()?);
    Ok(())
}

#[test]
fn ranks_of_several_nodes_write_and_read_one_folder() -> Result<()> {
    let place = Place::new()?;
    let nodes = Nodes::new(2, 2, &place.program)?;
    let job = |words: &[&str]| {
        let job = Job::new(4, nodes.program()).arg(place.folder());
        words.iter().fold(job, |job, word| job.arg(word)).limit(LIMIT)
    };
    let outcome = job(&["0", "init", "fill=3", "save", "fill=4", "load"]).run()?;
    outcome.expect_success()?;
    ensure!(said(&outcome) == ["loaded 3 on 4", "saved 3 on 4"], "{}", outcome.report());
    nodes.expect_clean()
}
