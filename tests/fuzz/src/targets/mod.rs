//! Targets of the fuzzer. A target uses its result as a program would, so that a value that should
//! have been refused is detected.

mod cpus;
mod reports;
mod requests;
mod segments;
mod topology;
mod traces;

use crate::{Target, forge, seeds};

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "topology_xml",
        about: "hwloc XML files, as QUO_TOPOLOGY names them",
        longest: 32 << 10,
        run: topology::xml,
        seeds: || Ok(seeds::machines()?.into_iter().map(String::into_bytes).collect()),
    },
    Target {
        name: "topology_synthetic",
        about: "synthetic strings, looked over before hwloc gets them",
        longest: 256,
        run: topology::synthetic,
        seeds: || Ok(seeds::SYNTHETIC.iter().map(|text| text.as_bytes().to_vec()).collect()),
    },
    Target {
        name: "topology_bytes",
        about: "snapshots that ranks read from the segment",
        longest: 8 << 10,
        run: topology::bytes,
        seeds: seeds::snapshots,
    },
    Target {
        name: "segment_header",
        about: "files under a segment's name: foreign, cut short, older, hostile",
        longest: 512,
        run: segments::header,
        seeds: forge::headers,
    },
    Target {
        name: "segment_state",
        about: "segments whose shared state somebody has overwritten",
        longest: 240,
        run: segments::state,
        seeds: || Ok(forge::states()),
    },
    Target {
        name: "cpu_lists",
        about: "CPU lists and initial bindings",
        longest: 128,
        run: cpus::lists,
        seeds: || Ok(seeds::CPUS.iter().map(|text| text.as_bytes().to_vec()).collect()),
    },
    Target {
        name: "memory_trace",
        about: "memory traces: cut short, damaged, of other programs",
        longest: 64 << 10,
        run: traces::bytes,
        seeds: || Ok(vec![traces::GOLDEN.to_vec()]),
    },
    Target {
        name: "memory_trace_forged",
        about: "memory traces that somebody has forged, with the right checksums",
        longest: 512,
        run: traces::forged,
        seeds: || Ok(traces::patches()),
    },
    Target {
        name: "memory_reports",
        about: "what is made of the forged traces of a job: tables, pages, pictures, comparisons, laws, exports",
        longest: 1 << 10,
        run: reports::job,
        seeds: || Ok(reports::seeds()),
    },
    Target {
        name: "elastic_plans",
        about: "scripted plans of elastic jobs",
        longest: 2 << 10,
        run: requests::plans,
        seeds: || Ok(requests::PLANS.iter().map(|text| text.as_bytes().to_vec()).collect()),
    },
    Target {
        name: "elastic_calls",
        about: "what clients say at a control socket, and lines of event logs",
        longest: 2 << 10,
        run: requests::calls,
        seeds: || Ok(requests::CALLS.iter().map(|text| text.as_bytes().to_vec()).collect()),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_seed_is_survived() {
        for target in TARGETS {
            let seeds = (target.seeds)().unwrap();
            assert!(!seeds.is_empty(), "{}", target.name);
            seeds.iter().for_each(|seed| (target.run)(seed));
        }
    }

    #[test]
    fn what_once_failed_is_survived() {
        for target in TARGETS {
            for (file, bytes) in crate::regressions(target).unwrap() {
                println!("{}", file.display());
                (target.run)(&bytes);
            }
        }
    }
}
