//! Masks set by Slurm are the base of all bindings, and are restored by the last pop.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use quo_hosts::slurm::{Options, Slurm, why_not_confined};
use quo_hosts::suite::{Skipped, Test};

use crate::contexts::left_clean;
use crate::facts::{self, Facts, TYPES, consistent, promised};
use crate::{our_cpus, program, slurm, two_cpus};

pub const TESTS: &[Test] = &[
    ("core_bound_ranks_work_on_their_cores_and_return", bound_to_cores),
    ("a_cpu_mapped_to_each_rank_is_its_mask", a_cpu_for_each_rank),
    ("a_mask_given_to_each_rank_decides_who_is_selected", a_mask_for_each_rank),
    ("ranks_on_one_cpu_are_selected_one_at_a_time", all_on_one_cpu),
    ("ranks_that_are_not_bound_keep_the_daemons_mask", not_bound),
    ("a_confined_step_pushes_inside_its_cores_only", confined_to_one_core),
    ("a_confined_step_with_bound_ranks_widens_to_its_cores", confined_and_bound),
    ("ranks_with_different_cores_push_inside_their_own", each_with_cores_of_its_own),
];

/// Runs two ranks on each of two nodes, bound by an option.
fn bound(slurm: &Slurm, binding: &str, explicit: &[usize]) -> Result<Vec<Facts>> {
    let job = slurm.srun(2, 4, program("facts")?).option("--ntasks-per-node=2");
    let found = facts::of(&job.option(binding).arg(list(explicit)).run()?)?;
    consistent(&found, &[2, 2])?;
    Ok(found)
}

fn bound_to_cores() -> Result<()> {
    two_cpus()?;
    let slurm = slurm("cores", Options::default())?;
    let everything = our_cpus()?;
    let found = bound(&slurm, "--cpu-bind=cores", &everything)?;
    for node in facts::nodes(&found)? {
        let masks = [node[0].mask("first")?, node[1].mask("first")?];
        ensure!(masks[0].is_disjoint(&masks[1]), "{masks:?}");
        for facts in node {
            promised!(facts.holds("bound")?, facts);
            promised!(facts.number("explicit-code")? == 0, facts);
            promised!(facts.mask("explicit")? == set(&everything), facts);
            promised!(facts.mask("pop-explicit")? == facts.mask("first")?, facts);
            // Each rank has its own core.
            promised!(facts.holds("selected-core")?, facts);
            promised!(facts.number("comm-core")? == 1, facts);
        }
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn a_cpu_for_each_rank() -> Result<()> {
    let [first, second] = two_cpus()?;
    let slurm = slurm("map", Options::default())?;
    // Reversed, so that the order of the ranks and the order of the CPUs differ.
    let found = bound(&slurm, &format!("--cpu-bind=map_cpu:{second},{first}"), &[first])?;
    for facts in &found {
        let own = if facts.number("id")? == 0 { second } else { first };
        promised!(facts.mask("first")? == set(&[own]), facts);
        promised!(facts.text("binding")? == own.to_string(), facts);
        promised!(facts.holds("bound")?, facts);
        promised!(facts.mask("push-pu")? == set(&[own]), facts);
        promised!(facts.mask("push-core")?.contains(&own), facts);
        promised!(facts.mask("explicit")? == set(&[first]), facts);
        promised!(facts.mask("pop-explicit")? == set(&[own]), facts);
        promised!(facts.holds("selected-pu")?, facts);
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn a_mask_for_each_rank() -> Result<()> {
    let [first, second] = two_cpus()?;
    let slurm = slurm("mask", Options::default())?;
    let mask =
        |cpus: &[usize]| format!("{:#x}", cpus.iter().fold(0u128, |all, cpu| all | 1 << cpu));
    ensure!(second < 128, "a mask for CPU {second}");
    let binding = format!("--cpu-bind=mask_cpu:{},{}", mask(&[first, second]), mask(&[second]));
    for facts in bound(&slurm, &binding, &[first])? {
        let wide = facts.number("id")? == 0;
        let own = if wide { set(&[first, second]) } else { set(&[second]) };
        promised!(facts.mask("first")? == own, facts);
        // A rank that is not bound is selected after one that is; otherwise the first rank is.
        let wide_is_bound = facts.number("n-pu")? > 2;
        promised!(facts.holds("bound")? == (!wide || wide_is_bound), facts);
        promised!(facts.holds("selected-machine")? == (wide == wide_is_bound), facts);
        promised!(facts.mask("pop-explicit")? == own, facts);
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn all_on_one_cpu() -> Result<()> {
    let [_, second] = two_cpus()?;
    let slurm = slurm("same", Options::default())?;
    let found = bound(&slurm, &format!("--cpu-bind=map_cpu:{second},{second}"), &[second])?;
    for facts in &found {
        promised!(facts.mask("first")? == set(&[second]), facts);
        for kind in ["core", "pu"] {
            let selected = facts.holds(&format!("selected-{kind}"))?;
            ensure!(selected == (facts.number("id")? == 0), "{kind}: {facts:?}");
        }
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn not_bound() -> Result<()> {
    let slurm = slurm("none", Options::default())?;
    let ours = our_cpus()?;
    for facts in bound(&slurm, "--cpu-bind=none", &ours)? {
        promised!(facts.mask("first")? == set(&ours), facts);
        promised!(facts.mask("explicit")? == set(&ours), facts);
    }
    left_clean(&slurm)?;
    slurm.down()
}

/// Starts a Slurm whose steps are confined by control groups.
fn confined(purpose: &str) -> Result<Slurm> {
    if let Some(reason) = why_not_confined() {
        return Err(Skipped(reason).into());
    }
    two_cpus()?;
    slurm(purpose, Options { confined: true, ..Options::default() })
}

fn confined_to_one_core() -> Result<()> {
    let slurm = confined("confined")?;
    let ours = our_cpus()?;
    let job = slurm.srun(2, 4, program("facts")?).option("--ntasks-per-node=2");
    // One core for both ranks of a node.
    let job = job.option("--overcommit").arg(list(&ours));
    let found = facts::of(&job.run()?)?;
    consistent(&found, &[2, 2])?;
    for facts in &found {
        let allowed = facts.mask("push-machine")?;
        promised!(allowed.is_subset(&set(&ours)) && allowed.len() < ours.len(), facts);
        for kind in TYPES {
            let pushed = facts.mask(&format!("push-{kind}"))?;
            ensure!(pushed.is_subset(&allowed), "{kind}: {facts:?}");
        }
        refused_with_both_sets(facts, &[set(&ours), allowed])?;
    }
    left_clean(&slurm)?;
    slurm.down()
}

fn confined_and_bound() -> Result<()> {
    let slurm = confined("widen")?;
    let found = bound(&slurm, "--cpu-bind=cores", &our_cpus()?)?;
    for node in facts::nodes(&found)? {
        let [first, second] = [node[0].mask("first")?, node[1].mask("first")?];
        ensure!(first.is_disjoint(&second), "{node:?}");
        for facts in node {
            promised!(facts.holds("bound")?, facts);
            promised!(facts.mask("push-machine")? == &first | &second, facts);
        }
    }
    left_clean(&slurm)?;
    slurm.down()
}

/// As with one container per rank: each rank has its own control group under the node's.
fn each_with_cores_of_its_own() -> Result<()> {
    let slurm = confined("own")?;
    let cpus = two_cpus()?;
    let script = format!(
        "set -e; cpusets=/sys/fs/cgroup/cpuset; node=$cpusets/slurm_$SLURMD_NODENAME; \
         own=$node/own-$SLURM_LOCALID; mkdir $own; cat $node/cpuset.mems > $own/cpuset.mems; \
         test $SLURM_LOCALID = 0 && echo {} > $own/cpuset.cpus || echo {} > $own/cpuset.cpus; \
         echo $$ > $own/cgroup.procs; exec \"$0\" {}",
        // Reversed, so that the order of the ranks and the order of the CPUs differ.
        cpus[1],
        cpus[0],
        list(&cpus),
    );
    let job = slurm.srun(2, 4, "/bin/sh").option("--ntasks-per-node=2").option("--cpu-bind=none");
    let found = facts::of(&job.arg("-c").arg(&script).arg(program("facts")?).run()?)?;
    consistent(&found, &[2, 2])?;
    for facts in &found {
        let own = set(&[if facts.number("id")? == 0 { cpus[1] } else { cpus[0] }]);
        promised!(facts.mask("push-machine")? == own, facts);
        refused_with_both_sets(facts, &[set(&cpus), own])?;
        // Compared with the node, both ranks are bound.
        promised!(facts.holds("selected-pu")?, facts);
    }
    left_clean(&slurm)?;
    slurm.down()
}

/// Checks that the error of the explicit push names the requested and the allowed CPUs.
fn refused_with_both_sets(facts: &Facts, sets: &[BTreeSet<usize>]) -> Result<()> {
    let refusal = facts.refusal.as_ref().with_context(|| format!("{facts:?}"))?;
    for cpus in sets {
        let named = refusal.split([' ', '`', ':']).any(|word| is_list_of(word, cpus));
        ensure!(named, "\"{refusal}\" does not name {cpus:?}");
    }
    promised!(facts.mask("pop-explicit")? == facts.mask("first")?, facts);
    Ok(())
}

fn set(cpus: &[usize]) -> BTreeSet<usize> {
    cpus.iter().copied().collect()
}

fn list(cpus: &[usize]) -> String {
    cpus.iter().map(usize::to_string).collect::<Vec<_>>().join(",")
}

/// Returns true if a text such as `0-3,8` means this set.
fn is_list_of(text: &str, cpus: &BTreeSet<usize>) -> bool {
    let mut found = BTreeSet::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse()) else { return false };
        found.extend(from..=to);
    }
    found == *cpus
}
