//! `cargo xtask mutants`: small faults put into the sources one at a time, each of which a test
//! must notice.
//!
//! cargo-mutants makes the faults in a copy of the checkout. `tests/mutants.toml` lists what is
//! changed, by which tests the faults must be noticed, and which faults cannot be noticed.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::Deserialize;

use crate::tally::Tally;
use crate::{project, run, setup};

const DATA: &str = "tests/mutants.toml";
const VERSION: &str = "27.1.0";
/// Limit for building the tool from source on one slow core.
const INSTALL_LIMIT: Duration = Duration::from_secs(30 * 60);
/// Limit for a room or its shard.
const ROOM_LIMIT: Duration = Duration::from_secs(12 * 60 * 60);
/// Number of faults that the full suite draws from each room by its seed.
const DRAWN_IN_TEST: usize = 12;
/// Cases of each random test; a fault that shows only in rare cases needs a separate test.
const RANDOM_CASES: &str = "64";
const SEED: &str = "QUO_TESTS_SEED";

#[derive(Args)]
pub struct Options {
    /// The room; without one, all of them in turn.
    room: Option<String>,
    /// Try part K of N, counted from 0: all parts together are the whole.
    #[arg(long, value_name = "K/N")]
    shard: Option<Shard>,
    /// List the rooms with their numbers of mutants and stop.
    #[arg(long)]
    list: bool,
}

/// One part of several.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
struct Shard {
    part: usize,
    parts: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let shard = text.split_once('/').and_then(|(part, parts)| {
            Some(Shard { part: part.parse().ok()?, parts: parts.parse().ok()? })
        });
        shard
            .filter(|shard| shard.part < shard.parts)
            .ok_or_else(|| format!("{text:?} is not a part like 0/4: K is below N"))
    }
}

pub fn run(options: &Options) -> Result<()> {
    let plan = Plan::of_checkout()?;
    let rooms = plan.rooms(options.room.as_deref())?;
    setup::ensure()?;
    let tool = Tool::fetch()?;
    if options.list {
        for room in rooms {
            println!(
                "{:10} {:5} mutants of {}",
                room.name,
                tool.count(room)?,
                room.files.join(" ")
            );
        }
        return Ok(());
    }
    let mut failed = 0;
    for room in rooms {
        let outcome = tool.try_all(room, options.shard)?;
        let verdict = plan.judge(room, &outcome);
        println!("{verdict}");
        failed += usize::from(!verdict.is_good());
    }
    ensure!(
        failed == 0,
        "{failed} rooms have mutants that no test notices, beyond what {DATA} allows"
    );
    Ok(())
}

/// Tries a few mutants of each room, drawn by the seed of the suite. The second value is the
/// report.
pub fn test() -> Result<(Tally, String)> {
    let plan = Plan::of_checkout()?;
    let tool = Tool::fetch()?;
    let seed: usize = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok()).unwrap_or(1);
    let (mut tally, mut report) = (Tally::default(), String::new());
    for room in &plan.room {
        let parts = tool.count(room)?.div_ceil(DRAWN_IN_TEST).max(1);
        let shard = Shard { part: seed % parts, parts };
        let verdict = plan.judge(room, &tool.try_all(room, Some(shard))?);
        tally += Tally::of_check(verdict.is_good());
        report += &format!("{verdict}\n");
    }
    Ok((tally, report))
}

/// The data file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Plan {
    most_unnoticed_percent: usize,
    room: Vec<Room>,
    #[serde(default)]
    unnoticed: Vec<Unnoticed>,
}

/// Sources and the tests that check them.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Room {
    name: String,
    package: String,
    /// Patterns of paths, from the root of the checkout.
    files: Vec<String>,
    /// Arguments of `cargo test`.
    tests: Vec<String>,
}

/// Mutants that no test can notice, or none at an acceptable cost.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unnoticed {
    room: String,
    /// File and change, in cargo-mutants' words, without line and column.
    mutants: Vec<String>,
    reason: String,
}

impl Plan {
    fn of_checkout() -> Result<Plan> {
        let path = project::root().join(DATA);
        let text = fs::read_to_string(&path).with_context(|| format!("reading {DATA}"))?;
        Plan::parse(&text).with_context(|| format!("reading {DATA}"))
    }

    fn parse(text: &str) -> Result<Plan> {
        let plan: Plan = toml::from_str(text)?;
        for entry in &plan.unnoticed {
            ensure!(!entry.reason.trim().is_empty(), "{:?}: they have no reason", entry.mutants);
            plan.rooms(Some(&entry.room))?;
        }
        Ok(plan)
    }

    /// Returns the room of this name, or all.
    fn rooms(&self, name: Option<&str>) -> Result<Vec<&Room>> {
        let rooms: Vec<&Room> =
            self.room.iter().filter(|room| name.is_none_or(|name| room.name == name)).collect();
        if rooms.is_empty() {
            let names: Vec<&str> = self.room.iter().map(|room| room.name.as_str()).collect();
            bail!(
                "there is no room {:?}; there are {}",
                name.unwrap_or_default(),
                names.join(", ")
            );
        }
        Ok(rooms)
    }

    /// Compares the unnoticed mutants with the listed ones.
    fn judge(&self, room: &Room, outcome: &Outcome) -> Verdict {
        let of_room = self.unnoticed.iter().filter(|entry| entry.room == room.name);
        let listed: Vec<&str> = of_room.flat_map(|it| &it.mutants).map(String::as_str).collect();
        let is_listed = |mutant: &&String| listed.contains(&without_place(mutant).as_str());
        let (expected, unexpected): (Vec<&String>, Vec<&String>) =
            outcome.missed.iter().partition(is_listed);
        let tried = outcome.caught + outcome.missed.len();
        Verdict {
            room: room.name.clone(),
            caught: outcome.caught,
            tried,
            listed: expected.len(),
            too_many: outcome.is_whole
                && expected.len() * 100 > tried * self.most_unnoticed_percent,
            unexpected: unexpected.into_iter().cloned().collect(),
        }
    }
}

/// Returns `file:line:column: change` without line and column, which other changes move.
fn without_place(mutant: &str) -> String {
    let mut parts = mutant.splitn(4, ':');
    match (parts.next(), parts.next(), parts.next(), parts.next()) {
        (Some(file), Some(_), Some(_), Some(change)) => format!("{file}:{change}"),
        _ => mutant.to_owned(),
    }
}

/// cargo-mutants, and the folder of its builds and output.
struct Tool {
    program: PathBuf,
    folder: PathBuf,
}

impl Tool {
    /// Builds the tool from its source if it is not here yet.
    fn fetch() -> Result<Tool> {
        let folder = project::base()?.join("mutants");
        let place = folder.join(format!("cargo-mutants-{VERSION}"));
        let program = place.join("bin/cargo-mutants");
        if !program.is_file() {
            println!("building cargo-mutants {VERSION}, some minutes");
            let mut cargo = project::cargo()?;
            cargo.args(["install", "cargo-mutants", "--version", VERSION, "--locked", "--root"]);
            cargo.arg(&place).env("CARGO_TARGET_DIR", place.join("build"));
            let finished = run::logged(&mut cargo, &folder.join("install.log"), INSTALL_LIMIT)?;
            ensure!(finished.ending.is_success(), "{}\n{}", finished.output, finished.ending);
            fs::remove_dir_all(place.join("build"))?;
        }
        Ok(Tool { program, folder })
    }

    fn command(&self, room: &Room) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["mutants", "--colors=never", "--dir"]).arg(project::root());
        command.args(["--package", &room.package]);
        for file in &room.files {
            command.args(["--file", file]);
        }
        command
    }

    fn count(&self, room: &Room) -> Result<usize> {
        let listed = run::captured(self.command(room).arg("--list"))?;
        let mutants = listed.lines().count();
        ensure!(mutants > 0, "room {}: {} have nothing to change", room.name, room.files.join(" "));
        Ok(mutants)
    }

    /// Tries the mutants of a room or of a part of it.
    fn try_all(&self, room: &Room, shard: Option<Shard>) -> Result<Outcome> {
        let words = self.folder.join(&room.name);
        fs::create_dir_all(&words).with_context(|| format!("creating {}", words.display()))?;
        let mut command = self.command(room);
        // The registry's packages are built once, and long tests justify some optimisation.
        command.env("CARGO_TARGET_DIR", self.folder.join("build")).env("CARGO_INCREMENTAL", "1");
        command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "1");
        command.env("PROPTEST_CASES", RANDOM_CASES);
        command.arg("--output").arg(&words);
        if let Some(Shard { part, parts }) = shard {
            command.args(["--sharding=round-robin", "--shard", &format!("{part}/{parts}")]);
        }
        command.arg("--").args(&room.tests);
        let log = words.with_extension("log");
        println!("{}: the tool's words come into {}", room.name, log.display());
        let finished = run::logged(&mut command, &log, ROOM_LIMIT)?;
        let list = |name: &str| {
            let path = words.join("mutants.out").join(name);
            let text =
                fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()));
            Ok::<_, anyhow::Error>(text?.lines().map(str::to_owned).collect::<Vec<_>>())
        };
        // 0: all caught, 2: some missed, 3: some timed out; anything else says nothing about tests.
        let code = match &finished.ending {
            run::Ending::Exited(status) => status.code(),
            run::Ending::OutOfTime(_) => None,
        };
        ensure!(matches!(code, Some(0 | 2 | 3)), "{}\n{}", finished.output, finished.ending);
        let caught = list("caught.txt")?.len() + list("timeout.txt")?.len();
        Ok(Outcome { caught, missed: list("missed.txt")?, is_whole: shard.is_none() })
    }
}

/// Outcomes of the mutants of a room.
#[derive(Debug, Default)]
struct Outcome {
    caught: usize,
    missed: Vec<String>,
    is_whole: bool,
}

/// Verdict on a room.
#[derive(Debug)]
struct Verdict {
    room: String,
    caught: usize,
    tried: usize,
    listed: usize,
    too_many: bool,
    unexpected: Vec<String>,
}

impl Verdict {
    fn is_good(&self) -> bool {
        self.unexpected.is_empty() && !self.too_many
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Verdict { room, caught, tried, listed, .. } = self;
        write!(f, "{room:10} caught {caught} of {tried}, {listed} listed as unnoticed")?;
        if self.too_many {
            write!(f, ": more than {DATA} allows")?;
        }
        self.unexpected.iter().try_for_each(|mutant| write!(f, "\n    not noticed: {mutant}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::parse(
            r#"most_unnoticed_percent = 5
            [[room]]
            name = "a"
            package = "p"
            files = ["a.rs"]
            tests = ["--lib"]
            [[unnoticed]]
            room = "a"
            mutants = ["a.rs: replace < with <= in near"]
            reason = "both are right""#,
        )
        .unwrap()
    }

    #[test]
    fn data_names_rooms_and_reasons() {
        let plan = Plan::of_checkout().unwrap();
        assert_eq!(plan.rooms(None).unwrap().len(), plan.room.len());
        let error = plan.rooms(Some("roof")).unwrap_err().to_string();
        assert!(error.starts_with("there is no room \"roof\"; there are plan, "), "{error}");
    }

    #[test]
    fn entry_without_reason_is_refused() {
        let text = "most_unnoticed_percent = 5\nroom = []\n[[unnoticed]]\nroom = \"a\"\nmutants = [\"x\"]\nreason = \" \"";
        let error = Plan::parse(text).unwrap_err().to_string();
        assert!(error.contains("no reason"), "{error}");
    }

    #[test]
    fn listed_mutant_is_expected_wherever_it_stands() {
        let plan = plan();
        let missed = ["a.rs:7:9: replace < with <= in near", "a.rs:8:9: replace + with - in far"];
        let outcome =
            Outcome { caught: 38, missed: missed.map(str::to_owned).into(), is_whole: true };
        let verdict = plan.judge(&plan.room[0], &outcome);
        assert_eq!((verdict.tried, verdict.listed, verdict.too_many), (40, 1, false));
        assert_eq!(verdict.unexpected, [missed[1]]);
        let few = Outcome { caught: 3, missed: vec![missed[0].to_owned()], is_whole: true };
        assert!(plan.judge(&plan.room[0], &few).too_many);
        assert!(!plan.judge(&plan.room[0], &Outcome { is_whole: false, ..few }).too_many);
    }

    #[test]
    fn shard_beyond_the_last_is_refused() {
        assert_eq!("2/3".parse(), Ok(Shard { part: 2, parts: 3 }));
        assert!("3/3".parse::<Shard>().is_err() && "1".parse::<Shard>().is_err());
    }
}
