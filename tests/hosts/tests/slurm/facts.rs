//! Output of the ranks of `programs/facts.c`, and conditions on it for any launch.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result, ensure};
use quo_tests::Outcome;

/// Fails with the condition and all facts of the rank.
macro_rules! promised {
    ($condition:expr, $facts:expr) => {
        anyhow::ensure!($condition, "not so: {}\n{:?}", stringify!($condition), $facts)
    };
}
pub(crate) use promised;

pub const TYPES: [&str; 5] = ["machine", "numanode", "package", "core", "pu"];

/// Facts of one rank.
#[derive(Debug)]
pub struct Facts {
    values: BTreeMap<String, String>,
    /// The reason why its explicit push was refused, if it was.
    pub refusal: Option<String>,
}

impl Facts {
    fn parse(line: &str) -> Facts {
        let pairs = line.split_ascii_whitespace().filter_map(|word| word.split_once('='));
        let values = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
        Facts { values, refusal: None }
    }

    pub fn text(&self, name: &str) -> Result<&str> {
        Ok(self.values.get(name).with_context(|| format!("no {name} in {self:?}"))?)
    }

    pub fn number(&self, name: &str) -> Result<usize> {
        self.text(name)?.parse().with_context(|| format!("{name} of {self:?}"))
    }

    /// Returns true if a fact that is 0 or 1 is 1.
    pub fn holds(&self, name: &str) -> Result<bool> {
        Ok(self.number(name)? != 0)
    }

    pub fn mask(&self, name: &str) -> Result<BTreeSet<usize>> {
        let cpus = self.text(name)?.split(',').map(str::parse);
        cpus.collect::<Result<_, _>>().with_context(|| format!("{name} of {self:?}"))
    }
}

/// Returns the facts of all ranks of a successful job, in rank order.
pub fn of(outcome: &Outcome) -> Result<Vec<Facts>> {
    outcome.expect_success()?;
    in_text(&outcome.stdout)
}

/// Returns the facts of all ranks in this output.
pub fn in_text(text: &str) -> Result<Vec<Facts>> {
    let lines = text.lines().filter(|line| line.starts_with("first="));
    let mut ranks: Vec<Facts> = lines.map(Facts::parse).collect();
    let mut refusals = BTreeMap::new();
    for line in text.lines() {
        if let Some((rank, reason)) = line.split_once(" was refused: ") {
            refusals.insert(rank.to_owned(), reason.to_owned());
        }
    }
    for facts in &mut ranks {
        facts.refusal = refusals.remove(&format!("rank {}", facts.number("rank")?));
    }
    ranks.sort_by_key(|facts| facts.number("rank").ok());
    Ok(ranks)
}

/// Returns the ranks by node.
pub fn nodes(ranks: &[Facts]) -> Result<Vec<Vec<&Facts>>> {
    let mut nodes: BTreeMap<&str, Vec<&Facts>> = BTreeMap::new();
    for facts in ranks {
        nodes.entry(facts.text("host")?).or_default().push(facts);
    }
    Ok(nodes.into_values().collect())
}

/// Checks the conditions on every job: the context is over exactly these ranks, in order, with
/// `shape` ranks on the nodes; and each rank got back the mask of its launch.
pub fn consistent(ranks: &[Facts], shape: &[usize]) -> Result<()> {
    let nodes = nodes(ranks)?;
    let found: Vec<usize> = nodes.iter().map(Vec::len).collect();
    ensure!(found == shape, "{found:?} ranks on the nodes, not {shape:?}");
    for (rank, facts) in ranks.iter().enumerate() {
        promised!(facts.number("rank")? == rank, facts);
        promised!(facts.number("size")? == ranks.len(), facts);
        promised!(facts.number("nnodes")? == shape.len(), facts);
        masks_come_back(facts)?;
    }
    for node in &nodes {
        for (id, facts) in node.iter().enumerate() {
            promised!(facts.number("id")? == id, facts);
            for members in ["nqids", "qids-in-machine", "comm-machine"] {
                ensure!(facts.number(members)? == node.len(), "{members}: {facts:?}");
            }
        }
        for kind in TYPES {
            at_most_one_for_each(kind, node)?;
        }
        one_works_and_the_others_sleep(node)?;
    }
    Ok(())
}

fn masks_come_back(facts: &Facts) -> Result<()> {
    let first = facts.mask("first")?;
    let everything = facts.mask("push-machine")?;
    let pops = TYPES.iter().map(|kind| format!("pop-{kind}"));
    let later = ["created", "pop-nested", "pop-phase", "last"].map(str::to_owned);
    for name in pops.chain(later) {
        ensure!(facts.mask(&name)? == first, "{name} is not {first:?}: {facts:?}");
    }
    promised!(facts.holds("bound")? == (first != everything), facts);
    for kind in TYPES {
        let pushed = facts.mask(&format!("push-{kind}"))?;
        ensure!(pushed.is_subset(&everything), "{kind}: {facts:?}");
        ensure!(!pushed.is_disjoint(&first), "{kind}: {facts:?}");
    }
    promised!(facts.mask("nested")? == everything, facts);
    Ok(())
}

/// Checks that a phase's worker has all the CPUs it may use, and that the masks of the others are
/// unchanged.
fn one_works_and_the_others_sleep(node: &[&Facts]) -> Result<()> {
    let mut workers = 0;
    for facts in node {
        let works = facts.holds("phase-selected")?;
        workers += usize::from(works);
        let mask = facts.mask(if works { "push-machine" } else { "first" })?;
        promised!(facts.mask("phase")? == mask, facts);
        let threads = if works { mask.len() } else { 0 };
        promised!(facts.number("phase-threads")? == threads, facts);
    }
    ensure!(workers == 1, "{workers} workers: {node:?}");
    Ok(())
}

/// Checks workers chosen with at most one for each object: never more than objects, and at least
/// one.
fn at_most_one_for_each(kind: &str, node: &[&Facts]) -> Result<()> {
    let mut selected = 0;
    for facts in node {
        selected += facts.number(&format!("selected-{kind}"))?;
    }
    let objects = node[0].number(&format!("n-{kind}"))?;
    ensure!((1..=objects).contains(&selected), "{selected} ranks for {objects} {kind}: {node:?}");
    Ok(())
}
