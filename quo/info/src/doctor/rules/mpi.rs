//! Situations of MPIs and launchers.

use std::collections::BTreeSet;

use super::Collector;
use crate::doctor::facts::{Facts, Process};
use crate::doctor::mpi::{Family, Mpi};

pub fn recognise(facts: &Facts, found: &mut Collector) {
    let mpi = facts.ranks.iter().find_map(|rank| Mpi::of(rank.mpi.as_deref()?));
    identity(facts, found);
    launch(facts, found, mpi.as_ref());
    if let Some(mpi) = &mpi {
        versions(facts, found, mpi);
    }
    differences(facts, found);
}

fn identity(facts: &Facts, found: &mut Collector) {
    let built_for = facts.built_for.as_deref().and_then(Mpi::named);
    found.each(facts, "mpi-other", |process| {
        let (built_for, own) = (built_for.as_ref()?, Mpi::of(process.mpi.as_deref()?)?);
        let fits = built_for.family == own.family && built_for.major() == own.major()
            || built_for.family == Family::Standard;
        (!fits).then(|| format!("the program has {own}, libquo was built for {built_for}"))
    });
    found.each(facts, "mpi-other-launcher", |process| {
        let own = Mpi::of(process.mpi.as_deref()?)?;
        let launcher = process.launcher.as_deref()?;
        let wrong = match own.family {
            Family::OpenMpi => launcher.contains("Hydra"),
            Family::Mpich | Family::Intel => launcher.contains("Open MPI"),
            Family::Standard => false,
        };
        wrong.then(|| format!("the program has {own}, {launcher} started it"))
    });
    found.each(facts, "mpi-several-versions", |process| {
        let mut all: Vec<&str> = ["libmpi.so", "libmpich.so", "libmpi_abi.so", "libmpi_cray.so"]
            .into_iter()
            .flat_map(|start| process.objects(start))
            .collect();
        all.sort_unstable();
        all.dedup();
        (all.len() > 1).then(|| all.join(" and "))
    });
}

fn launch(facts: &Facts, found: &mut Collector, mpi: Option<&Mpi>) {
    let is_open_mpi =
        facts.launcher.as_deref().is_some_and(|launcher| launcher.contains("Open MPI"));
    let accepts = ["OMPI_ALLOW_RUN_AS_ROOT", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM"];
    let accepted = accepts.iter().all(|name| facts.here.variable(name).is_some());
    if is_open_mpi && facts.here.is_root && facts.ranks.is_empty() && !accepted {
        found.add("openmpi-root", "the user is root");
    }
    if let Some(refusal) = facts.without_slots.as_ref().filter(|_| is_open_mpi) {
        found.add("openmpi-slots", refusal.clone());
    }
    found.each(facts, "world-slots", |process| {
        // New nodes bring slots.
        let has_slurm = process.variable("SLURM_JOB_ID").is_some();
        if has_slurm && process.variable("QUO_ELASTIC_SLURM") == Some("1") {
            return None;
        }
        let most =
            process.variable("QUO_ELASTIC_RANKS")?.split_once("..")?.1.parse::<u64>().ok()?;
        let slots = process.variable("OMPI_UNIVERSE_SIZE")?.parse::<u64>().ok()?;
        (slots < most)
            .then(|| format!("up to {most} ranks are asked for, the launcher has {slots} slots"))
    });
    let ranks: Vec<&Process> =
        facts.ranks.iter().filter(|rank| rank.host == facts.here.host).collect();
    let cpus = ranks.iter().fold(quo::CpuSet::new(), |all, rank| all.union(&rank.mask)).len();
    if cpus == 0 || ranks.len() <= cpus {
        return;
    }
    let value = format!("{} ranks on {cpus} CPUs", ranks.len());
    let variable = |name: &str| ranks.iter().find_map(|rank| rank.variable(name));
    match mpi.map(|mpi| mpi.family) {
        Some(Family::Mpich) if variable("MPIR_CVAR_CH4_PROGRESS_THROTTLE").is_none() => {
            found.add_for("mpich5-spins", mpi.map(|mpi| mpi.version.as_str()), value);
        }
        Some(Family::OpenMpi) if variable("OMPI_MCA_mpi_yield_when_idle") == Some("0") => {
            found.add("openmpi-spins", value);
        }
        _ => {}
    }
}

fn versions(facts: &Facts, found: &mut Collector, mpi: &Mpi) {
    let version = Some(mpi.version.as_str());
    let variable = |name: &str| facts.ranks.iter().find_map(|rank| rank.variable(name));
    match mpi.family {
        Family::OpenMpi => {
            if facts.machine.has_ipv6 && variable("OMPI_MCA_btl_tcp_disable_family").is_none() {
                found.add_for("openmpi5-ipv6", version, mpi.to_string());
            }
            if variable("PMIX_MCA_gds") != Some("hash") {
                found.add_for("openmpi-pmix-store", version, "PMIX_MCA_gds is not hash");
            }
        }
        Family::Mpich => {
            found.add_for("mpich4", version, mpi.to_string());
            if variable("UCX_TLS").is_none() {
                found.add_for("mpich5-mappings", version, mpi.to_string());
            }
        }
        Family::Intel if variable("I_MPI_SPAWN").is_none_or(|value| value != "on") => {
            found.add("intel-spawn", "I_MPI_SPAWN is not on");
        }
        Family::Intel | Family::Standard => {}
    }
}

/// Recognises variables that some ranks have with other values than others, or do not have.
fn differences(facts: &Facts, found: &mut Collector) {
    let own = |name: &&String| {
        ["QUO_", "OMP_", "KMP_", "GOMP_"].iter().any(|start| name.starts_with(start))
    };
    let names: BTreeSet<&String> =
        facts.ranks.iter().flat_map(|rank| rank.environment.keys()).filter(own).collect();
    let differing: Vec<&str> = names
        .into_iter()
        .filter(|name| {
            let values: BTreeSet<_> =
                facts.ranks.iter().map(|rank| rank.environment.get(*name)).collect();
            values.len() > 1
        })
        .map(String::as_str)
        .collect();
    if !differing.is_empty() {
        found.add("environment-differs", differing.join(", "));
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::{load, recognised, set};
    use super::*;

    const OPEN_MPI_4: &str = "Open MPI v4.1.4, package: Debian OpenMPI, ident: 4.1.4";
    const OPEN_MPI_5: &str = "Open MPI v5.0.7, package: Debian OpenMPI, ident: 5.0.7";
    const MPICH_5: &str = "MPICH Version:      5.0.2\nMPICH Release date: Fri";
    const INTEL: &str = "Intel(R) MPI Library 2021.18.1 for Linux* OS\n";

    fn with(mpi: &'static str, change: impl Fn(&mut Facts)) -> Vec<&'static str> {
        recognised(|facts| {
            set(facts, "PMIX_MCA_gds", "hash");
            set(facts, "UCX_TLS", "^cma");
            facts.ranks.iter_mut().for_each(|rank| rank.mpi = Some(mpi.to_owned()));
            change(facts);
        })
    }

    #[test]
    fn another_mpi_than_libquos_is_an_error() {
        let built_for =
            |name: &'static str| move |facts: &mut Facts| facts.built_for = Some(name.to_owned());
        assert_eq!(with(OPEN_MPI_4, built_for("Open MPI 4.1.4")), [""; 0]);
        assert_eq!(with(OPEN_MPI_4, built_for("Open MPI 5.0.11")), ["mpi-other"]);
        assert_eq!(with(MPICH_5, built_for("Open MPI 4.1.4")), ["mpi-other"]);
        assert_eq!(with(MPICH_5, built_for("the standard binary interface of MPI 5.0.2")), [""; 0]);
    }

    #[test]
    fn launcher_of_another_family_is_an_error() {
        let by = |name: &'static str| {
            move |facts: &mut Facts| {
                facts.ranks.iter_mut().for_each(|rank| rank.launcher = Some(name.to_owned()));
            }
        };
        assert_eq!(with(OPEN_MPI_4, by("mpiexec (Hydra)")), ["mpi-other-launcher"]);
        assert_eq!(with(MPICH_5, by("mpirun (Open MPI)")), ["mpi-other-launcher"]);
        assert_eq!(with(MPICH_5, by("srun (Slurm)")), [""; 0]);
    }

    #[test]
    fn versions_have_their_own_situations() {
        let nothing = |_: &mut Facts| {};
        let ipv6 = |facts: &mut Facts| facts.machine.has_ipv6 = true;
        assert_eq!(with(OPEN_MPI_5, ipv6), ["openmpi5-ipv6"]);
        assert_eq!(with(OPEN_MPI_4, ipv6), [""; 0]);
        assert_eq!(with("Open MPI v5.0.11, package: x", ipv6), [""; 0]);
        let off = |facts: &mut Facts| {
            ipv6(facts);
            set(facts, "OMPI_MCA_btl_tcp_disable_family", "6");
        };
        assert_eq!(with(OPEN_MPI_5, off), [""; 0]);
        assert_eq!(
            with(OPEN_MPI_4, |facts| set(facts, "PMIX_MCA_gds", "ds21")),
            ["openmpi-pmix-store"]
        );
        assert_eq!(with("MPICH Version: 4.0.2", nothing), ["mpich4"]);
        assert_eq!(with(MPICH_5, |facts| set(facts, "UCX_TLS", "")), ["mpich5-mappings"]);
        assert_eq!(with(INTEL, nothing), ["intel-spawn"]);
        assert_eq!(with(INTEL, |facts| set(facts, "I_MPI_SPAWN", "on")), [""; 0]);
    }

    #[test]
    fn more_ranks_than_cpus_have_to_yield() {
        let crowded = |facts: &mut Facts| {
            facts.ranks.iter_mut().for_each(|rank| rank.mask = quo::CpuSet::single(0));
        };
        assert_eq!(with(MPICH_5, crowded), ["cpus-shared", "mpich5-spins"]);
        assert_eq!(with(OPEN_MPI_4, crowded), ["cpus-shared"]);
        let told = |facts: &mut Facts| {
            crowded(facts);
            set(facts, "OMPI_MCA_mpi_yield_when_idle", "0");
            set(facts, "MPIR_CVAR_CH4_PROGRESS_THROTTLE", "1");
        };
        assert_eq!(with(OPEN_MPI_4, told), ["cpus-shared", "openmpi-spins"]);
        assert_eq!(with(MPICH_5, told), ["cpus-shared"]);
    }

    #[test]
    fn root_is_refused_by_open_mpis_launcher_only() {
        let root = |launcher: &'static str| {
            move |facts: &mut Facts| {
                facts.ranks.clear();
                facts.here.is_root = true;
                facts.launcher = Some(launcher.to_owned());
            }
        };
        assert_eq!(recognised(root("mpirun (Open MPI)")), ["openmpi-root"]);
        assert_eq!(recognised(root("mpiexec (Hydra)")), [""; 0]);
        let accepted = |facts: &mut Facts| {
            root("mpirun (Open MPI)")(facts);
            set(facts, "OMPI_ALLOW_RUN_AS_ROOT", "1");
            set(facts, "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        };
        assert_eq!(recognised(accepted), [""; 0]);
    }

    #[test]
    fn two_libraries_of_mpi_in_one_process_are_an_error() {
        let both = ["libmpi.so.40.30.4", "libmpich.so.12.2.0"];
        assert_eq!(recognised(|facts| load(facts, &both)), ["mpi-several-versions"]);
        assert_eq!(recognised(|facts| load(facts, &both[..1])), [""; 0]);
    }

    #[test]
    fn variable_that_reaches_some_ranks_is_named() {
        let one = |facts: &mut Facts| {
            let variables = &mut facts.ranks[1].environment;
            variables.insert("OMP_NUM_THREADS".to_owned(), "2".to_owned());
        };
        assert_eq!(recognised(one), ["environment-differs"]);
    }

    #[test]
    fn too_few_slots_are_named_with_their_number() {
        let refused = recognised(|facts| {
            facts.launcher = Some("mpirun (Open MPI)".to_owned());
            facts.without_slots = Some("There are not enough slots".to_owned());
        });
        assert_eq!(refused, ["openmpi-slots"]);
        let world = |slots: &'static str| {
            move |facts: &mut Facts| {
                set(facts, "QUO_ELASTIC_RANKS", "2..8");
                set(facts, "OMPI_UNIVERSE_SIZE", slots);
            }
        };
        assert_eq!(recognised(world("4")), ["world-slots"]);
        assert_eq!(recognised(world("8")), [""; 0]);
        let wants_nodes = |facts: &mut Facts| {
            world("4")(facts);
            set(facts, "QUO_ELASTIC_SLURM", "1");
        };
        assert_eq!(recognised(wants_nodes), ["world-slots"], "outside a job of Slurm");
        let in_a_job = |facts: &mut Facts| {
            wants_nodes(facts);
            set(facts, "SLURM_JOB_ID", "7");
        };
        assert_eq!(recognised(in_a_job), [""; 0]);
    }
}
