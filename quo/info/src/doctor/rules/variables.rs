//! Situations of quo's own variables: values that cannot be used, and names that nothing reads.

use quo::environment::VARIABLES;

use super::Collector;
use crate::doctor::facts::Facts;

/// The most letters that a misspelt name has wrong, missing or too many.
const SLIPS: usize = 2;

/// Variables of quo's commands and of memprof that no table of the library has.
const OTHERS: [&str; 23] = [
    "QUO_RUN_AFTER",
    "QUO_RUN_JOB",
    "QUO_RUN_MALLEABLE",
    "QUO_RUN_PRELOAD",
    "QUO_RUN_REPORT",
    "QUO_INFO_PRELOAD",
    "QUO_ELASTIC_DIR",
    "QUO_ELASTIC_HOSTS",
    "QUO_ELASTIC_SLURM_JOB",
    "QUO_ELASTIC_START",
    "MEMPROF_ARCHIVE",
    "MEMPROF_COMPONENTS",
    "MEMPROF_DIR",
    "MEMPROF_EXACT",
    "MEMPROF_FAULTS",
    "MEMPROF_FILE_SIZE",
    "MEMPROF_INTERVAL_MS",
    "MEMPROF_LOOP_INTERVAL",
    "MEMPROF_MAX_OVERHEAD",
    "MEMPROF_MPI_TIME",
    "MEMPROF_PRELOAD",
    "MEMPROF_QUIET",
    "MEMPROF_RECORD",
];
/// Further ones.
const FURTHER: [&str; 10] = [
    "MEMPROF_STACKS",
    "MEMPROF_SYNC_INTERVAL",
    "QUO_ELASTIC_LOG",
    "QUO_ELASTIC_NAME",
    "QUO_ELASTIC_PLAN",
    "QUO_ELASTIC_RANKS",
    "QUO_ELASTIC_SLURM",
    "QUO_LIBRARY",
    "QUO_MPI_RUN_PATH",
    "QUO_ROOT",
];

pub fn recognise(facts: &Facts, found: &mut Collector) {
    for (id, name) in [("topology-unusable", "QUO_TOPOLOGY"), ("binding-unusable", "QUO_BINDING")] {
        found.each(facts, id, |process| process.refused.get(name).cloned());
    }
    found.each(facts, "simulated", |process| {
        process
            .variable("QUO_TOPOLOGY")
            .filter(|_| !process.refused.contains_key("QUO_TOPOLOGY"))
            .map(|value| format!("QUO_TOPOLOGY={value}"))
    });
    found.each(facts, "wait-mpi", |process| {
        process
            .variable("QUO_WAIT")
            .filter(|&value| value == "mpi")
            .map(|_| "QUO_WAIT=mpi".to_owned())
    });
    found.each(facts, "unknown-variable", |process| {
        let names = process.environment.keys().filter(|name| is_unknown(name));
        let unknown: Vec<String> = names.map(|name| with_suggestion(name)).collect();
        (!unknown.is_empty()).then(|| unknown.join(", "))
    });
}

/// Returns all names that are read.
fn known() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().map(|variable| variable.name).chain(OTHERS).chain(FURTHER)
}

/// Returns true for a name that looks like one of the project's and is none.
fn is_unknown(name: &str) -> bool {
    let is_ours = name.starts_with("QUO_") || name.starts_with("MEMPROF_");
    let is_of_tests = ["QUO_TEST", "QUO_XTASK_", "QUO_HOSTS_"];
    let is_known = known().any(|known| known == name);
    is_ours && !is_known && !is_of_tests.iter().any(|start| name.starts_with(start))
}

/// Returns the name, with the most similar name that is read if one is similar.
fn with_suggestion(name: &str) -> String {
    let distances = known().map(|known| (strsim::damerau_levenshtein(name, known), known));
    match distances.min() {
        Some((slips, known)) if slips <= SLIPS => format!("{name}: did you mean {known}?"),
        _ => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{healthy, recognised, set};
    use super::super::recognise;

    #[test]
    fn variables_with_no_effect_are_named() {
        assert_eq!(recognised(|facts| set(facts, "MEMPROF_DUTY", "1")), ["unknown-variable"]);
        assert_eq!(recognised(|facts| set(facts, "QUO_WIAT", "mpi")), ["unknown-variable"]);
        assert_eq!(recognised(|facts| set(facts, "MEMPROF_STACKS", "1")), [""; 0]);
        assert_eq!(recognised(|facts| set(facts, "QUO_TOPOLOGY", "core:4")), ["simulated"]);
        assert_eq!(recognised(|facts| set(facts, "QUO_WAIT", "mpi")), ["wait-mpi"]);
    }

    #[test]
    fn misspelt_name_is_answered_with_the_known_one() {
        for (name, expected) in [
            ("QUO_TOPOLOGIE", "QUO_TOPOLOGIE: did you mean QUO_TOPOLOGY?"),
            ("MEMPROF_QIUET", "MEMPROF_QIUET: did you mean MEMPROF_QUIET?"),
            ("QUO_SOMETHING_ELSE", "QUO_SOMETHING_ELSE"),
        ] {
            let mut facts = healthy();
            set(&mut facts, name, "1");
            assert_eq!(recognise(&facts)[0].value, expected);
        }
    }

    #[test]
    fn unusable_topology_is_an_error_and_no_simulation() {
        let ids = recognised(|facts| {
            set(facts, "QUO_TOPOLOGY", "pak:2");
            let refused = &mut facts.ranks[0].refused;
            refused.insert("QUO_TOPOLOGY".to_owned(), "QUO_TOPOLOGY=pak:2: why".to_owned());
            facts.ranks[1].environment.remove("QUO_TOPOLOGY");
        });
        assert_eq!(ids, ["topology-unusable", "environment-differs"]);
    }
}
