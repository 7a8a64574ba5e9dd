//! Situations of OpenMP runtimes and of the variables that change them, as the runtimes behave.

use quo::CpuSet;

use super::Collector;
use crate::doctor::facts::{Facts, Process};

const GNU: &str = "libgomp.so";
const LLVM: &str = "libomp.so";
const INTEL: &str = "libiomp5.so";

pub fn recognise(facts: &Facts, found: &mut Collector) {
    found.each(facts, "openmp-binds", |process| {
        binding(process).map(|(name, value)| format!("{name}={value}"))
    });
    found.each(facts, "openmp-binds-children", |process| {
        let value = process.variable("OMP_PROC_BIND").filter(|value| !is_false(value))?;
        process.mask.len().gt(&1).then(|| format!("OMP_PROC_BIND={value}"))
    });
    found.each(facts, "openmp-place-outside", |process| {
        let places = process.variable("OMP_PLACES")?;
        let outside = cpus_in(places)?.difference(&process.mask);
        let value =
            || format!("OMP_PLACES={places}, CPUs {outside} are outside of {}", process.mask);
        (!outside.is_empty()).then(value)
    });
    found.each(facts, "openmp-dynamic", |process| {
        is_true(process.variable("OMP_DYNAMIC")?).then(|| "OMP_DYNAMIC=true".to_owned())
    });
    found.each(facts, "openmp-thread-limit", |process| {
        let limit: usize = process.variable("OMP_THREAD_LIMIT")?.trim().parse().ok()?;
        let cpus = facts.machine.online.len();
        (limit < cpus).then(|| format!("OMP_THREAD_LIMIT={limit}, the machine has {cpus} CPUs"))
    });
    found.each(facts, "openmp-zero-threads", |process| {
        let value = process.variable("OMP_NUM_THREADS")?;
        let zero = value.split(',').any(|number| number.trim().parse() == Ok(0));
        zero.then(|| format!("OMP_NUM_THREADS={value}"))
    });
    found.each(facts, "openmp-team-of-all", |process| {
        let several = facts.ranks.len() > 1 && process.mask.len() > 1;
        let everywhere = process.mask == facts.machine.online;
        (several
            && everywhere
            && has_runtime(process)
            && process.variable("OMP_NUM_THREADS").is_none())
        .then(|| format!("{} threads per rank", process.mask.len()))
    });
    found.each(facts, "openmp-gomp-affinity", |process| {
        let list = process.variable("GOMP_CPU_AFFINITY")?;
        process
            .variable("OMP_PLACES")
            .map(|places| format!("GOMP_CPU_AFFINITY={list}, OMP_PLACES={places}"))
    });
    found.each(facts, "openmp-kmp-disabled", |process| {
        let value = process.variable("KMP_AFFINITY")?;
        let disabled =
            value.split(',').any(|word| ["disabled", "norespect"].contains(&word.trim()));
        (disabled && !process.has_object(GNU)).then(|| format!("KMP_AFFINITY={value}"))
    });
    found.each(facts, "openmp-spins", spinning);
    runtimes(facts, found);
}

fn runtimes(facts: &Facts, found: &mut Collector) {
    let names = |process: &Process| -> Vec<&'static str> {
        [("GNU's", GNU), ("LLVM's", LLVM), ("Intel's", INTEL)]
            .into_iter()
            .filter(|(_, start)| process.has_object(start))
            .map(|(name, _)| name)
            .collect()
    };
    found.each(facts, "openmp-first-mask", |process| {
        let all = names(process);
        let first = *all.first().filter(|name| **name != "GNU's")?;
        (process.mask.len() < facts.machine.online.len()).then(|| format!("{first} OpenMP"))
    });
    found.each(facts, "openmp-missing", |process| {
        let pools = ["libtbb.so", "libmkl_", "libopenblas", "libblis", "libpython"];
        let has_threads = has_runtime(process) || pools.iter().any(|it| process.has_object(it));
        (process.has_object("libquo.so") && !has_threads).then(|| "no OpenMP runtime".to_owned())
    });
    found.each(facts, "openmp-two-runtimes", |process| {
        let all = names(process);
        (all.len() > 1 && all.contains(&"GNU's")).then(|| all.join(" and "))
    });
    found.each(facts, "openmp-two-of-one-family", |process| {
        let both = process.has_object(LLVM) && process.has_object(INTEL);
        let accepted = process.variable("KMP_DUPLICATE_LIB_OK").is_some_and(is_true);
        (both && !accepted).then(|| "LLVM's and Intel's".to_owned())
    });
}

fn has_runtime(process: &Process) -> bool {
    [GNU, LLVM, INTEL].into_iter().any(|start| process.has_object(start))
}

/// Returns the first variable by which OpenMP binds its threads.
fn binding(process: &Process) -> Option<(&'static str, &str)> {
    let bind = process.variable("OMP_PROC_BIND");
    if bind.is_some_and(is_false) {
        return None;
    }
    let kmp =
        || process.variable("KMP_AFFINITY").filter(|value| !["none", "disabled"].contains(value));
    None.or(bind.map(|value| ("OMP_PROC_BIND", value)))
        .or_else(|| process.variable("OMP_PLACES").map(|value| ("OMP_PLACES", value)))
        .or_else(|| process.variable("GOMP_CPU_AFFINITY").map(|value| ("GOMP_CPU_AFFINITY", value)))
        .or_else(|| kmp().map(|value| ("KMP_AFFINITY", value)))
}

/// Returns the variable that makes idle threads spin without an end.
fn spinning(process: &Process) -> Option<String> {
    let is = |name: &str, values: &[&str]| {
        let value =
            process.variable(name).filter(|value| values.contains(&value.to_lowercase().trim()));
        value.map(|value| format!("{name}={value}"))
    };
    // A number of spins overrules the policy in GNU's runtime.
    let bounded =
        process.variable("GOMP_SPINCOUNT").is_some_and(|value| value.parse::<u64>().is_ok());
    is("KMP_BLOCKTIME", &["infinite"])
        .or_else(|| is("GOMP_SPINCOUNT", &["infinite", "infinity"]))
        .or_else(|| is("OMP_WAIT_POLICY", &["active"]).filter(|_| !bounded))
}

fn is_true(value: &str) -> bool {
    ["true", "1", "yes", "on"].contains(&value.trim().to_lowercase().as_str())
}

fn is_false(value: &str) -> bool {
    value.trim().eq_ignore_ascii_case("false")
}

/// Returns the CPUs that a list of places names by number: `{0,1},{4:2}`, with strides and
/// repetitions. `None` for names such as `cores` and for lists that are not understood.
fn cpus_in(places: &str) -> Option<CpuSet> {
    let mut cpus = CpuSet::new();
    let mut rest = places.trim();
    while let Some(start) = rest.find('{') {
        let end = rest[start..].find('}')? + start;
        let place = interval_list(&rest[start + 1..end])?;
        rest = &rest[end + 1..];
        // A repetition behind the place: `{0:4}:2:4`.
        let next = rest.find('{').unwrap_or(rest.len());
        let mut numbers = rest[..next].trim_matches([' ', ',']).split(':').skip(1);
        let count = numbers.next().map_or(Some(1), |text| text.trim().parse().ok())?;
        let stride: usize =
            numbers.next().map_or(Some(place.len()), |text| text.trim().parse().ok())?;
        for at in 0..count {
            cpus.extend(place.iter().map(|cpu| cpu + at * stride));
        }
    }
    (!cpus.is_empty()).then_some(cpus)
}

/// Returns the numbers of `0,1`, `4:2` and `0:4:2`.
fn interval_list(text: &str) -> Option<Vec<usize>> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let numbers: Option<Vec<usize>> =
            part.split(':').map(|word| word.trim().parse().ok()).collect();
        match numbers?[..] {
            [cpu] => cpus.push(cpu),
            [first, count] => cpus.extend(first..first.checked_add(count.min(4096))?),
            [first, count, stride] => {
                cpus.extend((0..count.min(4096)).map(|at| first + at * stride.min(4096)));
            }
            _ => return None,
        }
    }
    Some(cpus)
}

#[cfg(test)]
mod tests {
    use super::super::examples::{load, recognised, set};
    use super::*;

    /// Returns what is recognised with these variables, and with GNU's OpenMP.
    fn with(variables: &[(&str, &str)]) -> Vec<&'static str> {
        recognised(|facts| {
            load(facts, &["libgomp.so.1.0.0"]);
            variables.iter().for_each(|(name, value)| set(facts, name, value));
        })
    }

    #[test]
    fn variables_of_openmp_are_judged_by_their_values() {
        for (variables, ids) in [
            (&[("OMP_PROC_BIND", "close")][..], &["openmp-binds", "openmp-binds-children"][..]),
            (&[("OMP_PROC_BIND", "FALSE"), ("OMP_PLACES", "cores")], &[]),
            (&[("OMP_PLACES", "cores")], &["openmp-binds"]),
            (&[("GOMP_CPU_AFFINITY", "0-3")], &["openmp-binds"]),
            (&[("KMP_AFFINITY", "compact")], &["openmp-binds"]),
            (&[("KMP_AFFINITY", "none")], &[]),
            (&[("OMP_DYNAMIC", "true")], &["openmp-dynamic"]),
            (&[("OMP_DYNAMIC", "false")], &[]),
            (&[("OMP_THREAD_LIMIT", "2")], &["openmp-thread-limit"]),
            (&[("OMP_THREAD_LIMIT", "64")], &[]),
            (&[("OMP_NUM_THREADS", "4,0")], &["openmp-zero-threads"]),
            (&[("OMP_NUM_THREADS", "1")], &[]),
            (&[("OMP_WAIT_POLICY", "ACTIVE")], &["openmp-spins"]),
            (&[("OMP_WAIT_POLICY", "active"), ("GOMP_SPINCOUNT", "3000")], &[]),
            (&[("KMP_BLOCKTIME", "infinite")], &["openmp-spins"]),
            (
                &[("GOMP_CPU_AFFINITY", "0"), ("OMP_PLACES", "cores")],
                &["openmp-binds", "openmp-gomp-affinity"],
            ),
        ] {
            assert_eq!(with(variables), ids, "{variables:?}");
        }
    }

    #[test]
    fn place_outside_of_the_mask_is_recognised_for_its_rank() {
        let facts = |facts: &mut Facts| set(facts, "OMP_PLACES", "{0},{1}");
        assert_eq!(recognised(facts), ["openmp-binds", "openmp-place-outside"]);
    }

    #[test]
    fn places_by_number_give_their_cpus() {
        for (places, cpus) in [
            ("{0,1},{4}", Some("0-1,4")),
            ("{0:4}", Some("0-3")),
            ("{0:2:4}", Some("0,4")),
            ("{0:2}:2:4", Some("0-1,4-5")),
            ("{3}:2", Some("3-4")),
            ("cores", None),
            ("sockets(2)", None),
            ("{0", None),
            ("{x}", None),
            ("", None),
        ] {
            let expected = cpus.map(|text| text.parse().unwrap());
            assert_eq!(cpus_in(places), expected, "{places}");
        }
    }

    #[test]
    fn several_runtimes_in_one_process_are_recognised() {
        let both = |names: &'static [&str]| move |facts: &mut Facts| load(facts, names);
        let first = "openmp-first-mask";
        assert_eq!(recognised(both(&["libgomp.so.1", "libomp.so.5"])), ["openmp-two-runtimes"]);
        assert_eq!(
            recognised(both(&["libomp.so.5", "libiomp5.so"])),
            ["openmp-two-of-one-family", first]
        );
        let accepted = |facts: &mut Facts| {
            load(facts, &["libomp.so.5", "libiomp5.so"]);
            set(facts, "KMP_DUPLICATE_LIB_OK", "TRUE");
        };
        assert_eq!(recognised(accepted), [first]);
        let disabled = |facts: &mut Facts| {
            load(facts, &["libomp.so.5"]);
            set(facts, "KMP_AFFINITY", "disabled");
        };
        assert_eq!(recognised(disabled), ["openmp-kmp-disabled", first]);
    }

    #[test]
    fn program_of_quo_without_threads_is_recognised() {
        assert_eq!(recognised(|facts| load(facts, &["libquo.so.8.0.0"])), ["openmp-missing"]);
        let with = |facts: &mut Facts| load(facts, &["libquo.so.8.0.0", "libgomp.so.1"]);
        assert_eq!(recognised(with), [""; 0]);
    }

    #[test]
    fn team_of_all_cpus_needs_ranks_without_a_binding() {
        let unbound = |facts: &mut Facts| {
            load(facts, &["libgomp.so.1"]);
            facts.ranks.iter_mut().for_each(|rank| rank.mask = CpuSet::from_range(0..4));
        };
        assert_eq!(recognised(unbound), ["cpus-unbound", "openmp-team-of-all"]);
        let one = |facts: &mut Facts| {
            unbound(facts);
            set(facts, "OMP_NUM_THREADS", "1");
        };
        assert_eq!(recognised(one), ["cpus-unbound"]);
    }
}
