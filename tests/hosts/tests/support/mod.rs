//! Helpers of the suites over hosts: programs compiled once, and the output of ranks.
#![allow(dead_code)] // Each suite uses its part.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use quo_hosts::Hosts;
use quo_tests::{Checkout, Outcome};

/// Returns a program of the checkout, compiled at its first use.
pub fn program(source: &str) -> Result<PathBuf> {
    static BUILT: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(program) = built.get(source) {
        return Ok(program.clone());
    }
    // Next to what cargo builds: every host sees that folder.
    let checkout = Checkout::find()?;
    let folder = checkout.program("quo-info")?.with_file_name("host-programs");
    let folder = folder.join(std::env::current_exe()?.file_name().context("a nameless program")?);
    std::fs::create_dir_all(&folder)?;
    let program = checkout.compile_c(source, &folder, &["-pthread"])?;
    built.insert(source.to_owned(), program.clone());
    Ok(program)
}

/// Returns the program that prints each rank's view of a context over hosts.
pub fn over_hosts() -> Result<PathBuf> {
    program("tests/programs/over_hosts.c")
}

/// Output of one rank about a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub host: String,
    pub nodes: usize,
    pub qids: usize,
    pub id: usize,
    /// Ranks of the node that automatic distribution selects, of at most one and two.
    pub selected: [usize; 2],
}

/// Returns the facts of each rank, by rank. Facts that a rank determines in two ways must agree.
pub fn facts(outcome: &Outcome) -> Result<BTreeMap<usize, Facts>> {
    let mut all = BTreeMap::new();
    for line in outcome.stdout.lines().filter(|line| line.contains(" nodes ")) {
        let (rank, facts) = parse(line).with_context(|| format!("rank says: {line}"))?;
        ensure!(line.ends_with("memory shared"), "{line}");
        let machine = format!("machine {} of {}", facts.id, facts.qids);
        ensure!(line.contains(&machine), "{line}: another communicator than the node");
        ensure!(all.insert(rank, facts).is_none(), "twice: {line}");
    }
    Ok(all)
}

fn parse(line: &str) -> Option<(usize, Facts)> {
    let words: Vec<&str> = line.split([' ', ':']).filter(|word| !word.is_empty()).collect();
    let number = |place: usize| words.get(place)?.parse::<usize>().ok();
    let facts = Facts {
        host: (*words.get(2)?).to_owned(),
        nodes: number(4)?,
        qids: number(6)?,
        id: number(8)?,
        selected: [number(10)?, number(11)?],
    };
    Some((number(1)?, facts))
}

/// Returns the expected facts of ranks that are placed on nodes as listed, with the host name and
/// ranks of each node.
pub fn expected(nodes: &[(&str, &[usize])]) -> BTreeMap<usize, Facts> {
    let mut all = BTreeMap::new();
    for (host, ranks) in nodes {
        for (id, rank) in ranks.iter().enumerate() {
            let facts = Facts {
                host: (*host).to_owned(),
                nodes: nodes.len(),
                qids: ranks.len(),
                id,
                selected: [1, ranks.len().min(2)],
            };
            all.insert(*rank, facts);
        }
    }
    all
}

/// Checks that the job succeeded, that its ranks see these nodes, and that nothing is left on any
/// host.
pub fn expect(hosts: &Hosts, outcome: &Outcome, nodes: &[(&str, &[usize])]) -> Result<()> {
    outcome.expect_success()?;
    let (found, expected) = (facts(outcome)?, expected(nodes));
    ensure!(found == expected, "expected {expected:#?}\n{}", outcome.report());
    expect_nothing_left(hosts)
}

pub fn expect_nothing_left(hosts: &Hosts) -> Result<()> {
    let left = hosts.leftovers();
    ensure!(left.is_empty(), "left on the hosts: {left:#?}");
    Ok(())
}

/// Waits until another process has acted.
pub fn until(what: &str, holds: impl Fn() -> Result<bool>) -> Result<()> {
    let end = Instant::now() + Duration::from_secs(60);
    while !holds()? {
        ensure!(Instant::now() < end, "{what}: not within a minute");
        // Sleeps: between two looks at something that the kernel or another process does.
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}

/// Waits for a rank's note in a file of its host, and returns it.
pub fn note(hosts: &Hosts, host: usize, file: &str, rank: usize) -> Result<String> {
    let path = hosts.host(host).path(Path::new(&format!("{file}.{rank}")));
    until(&format!("a note of rank {rank}"), || Ok(path.exists()))?;
    std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
}
