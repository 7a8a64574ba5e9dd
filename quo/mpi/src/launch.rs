//! Check that the launcher and MPI agree on the number of ranks.
//!
//! A program that is started by another MPI's launcher runs in the requested number of copies, and
//! each copy sees only itself.

use std::path::{Path, PathBuf};

use quo_launch::job::Started;

use crate::Family;

/// Returns the warning for a launcher that started several ranks while MPI has only one. `own` is
/// the launcher of the MPI in use, if it was found.
pub(crate) fn mismatch(
    world: usize,
    mpi: &str,
    own: Option<&Path>,
    started: Option<&Started>,
) -> Option<String> {
    let started = started.filter(|_| world == 1)?;
    let own = own.map_or_else(|| "mpirun".to_owned(), |own| own.display().to_string());
    let by = match started.ranks {
        Some(size) => format!("{} started {size} ({})", started.by, started.variable),
        None => {
            let rank = started.rank.unwrap_or_default();
            format!("{} calls it rank {rank} ({})", started.by, started.variable)
        }
    };
    Some(format!(
        "{mpi} sees 1 rank, but {by}: every process runs alone and takes the whole node; start it by the launcher \
         of its own MPI, {own} -n {} ..., unless that is meant",
        started.number()
    ))
}

/// Returns the warning for a context with one of several ranks.
pub(crate) fn alone(size: usize, world: usize) -> Option<String> {
    (size == 1 && world > 1).then(|| {
        format!(
            "the context has 1 of the {world} ranks of MPI_COMM_WORLD (MPI_COMM_SELF?): ranks in contexts of their own do \
             not know of each other, and each may take the whole node; make it over MPI_COMM_WORLD, unless that is meant"
        )
    })
}

/// Finds the launcher that belongs to an MPI library, in a folder `bin` next to one that contains
/// the library.
pub(crate) fn launcher_of(library: &Path, family: Family) -> Option<PathBuf> {
    let names: &[&str] = match family {
        Family::OpenMpi => &["mpirun.openmpi", "mpirun"],
        Family::Mpich => &["mpirun.mpich", "mpiexec.hydra", "mpirun"],
        _ => &["mpiexec.hydra", "mpirun", "mpiexec"],
    };
    // Not next to the root: a launcher there belongs to no particular MPI.
    let above = library.ancestors().skip(1).filter(|above| above.parent().is_some());
    let folders = above.map(|above| above.join("bin"));
    folders
        .flat_map(|folder| names.iter().map(move |name| folder.join(name)))
        .find(|file| file.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(world: usize, variables: &[(&str, &str)]) -> Option<String> {
        let value = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| (*value).to_owned())
        };
        mismatch(
            world,
            "MPICH 5.0.2",
            Some(Path::new("/opt/bin/mpirun")),
            Started::from(value).as_ref(),
        )
    }

    #[test]
    fn launcher_of_several_beside_singleton_mpi_is_reported() {
        for (variables, part) in [
            (&[("OMPI_COMM_WORLD_SIZE", "4")][..], "mpirun of Open MPI started 4"),
            (&[("PMI_SIZE", "4"), ("PMI_RANK", "0")], "mpiexec of MPICH or Intel MPI started 4"),
        ] {
            let text = told(1, variables).unwrap();
            assert!(text.contains(part) && text.contains("MPICH 5.0.2 sees 1"), "{text}");
            assert!(text.contains("/opt/bin/mpirun -n 4 ..."), "{text}");
        }
        assert!(told(1, &[("PMIX_RANK", "2")]).unwrap().contains("calls it rank 2"));
    }

    #[test]
    fn nobody_is_alarmed_without_cause() {
        assert_eq!(told(4, &[("OMPI_COMM_WORLD_SIZE", "4")]), None);
        assert_eq!(told(1, &[]), None);
    }

    #[test]
    fn context_of_one_rank_among_several_is_noted() {
        assert!(alone(1, 4).unwrap().contains("1 of the 4 ranks"));
        for (size, world) in [(1, 1), (4, 4), (2, 4)] {
            assert_eq!(alone(size, world), None);
        }
    }

    #[test]
    fn launcher_is_found_beside_its_library() {
        let place = tempfile::tempdir().unwrap();
        let file = |name: &str| {
            let file = place.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            file
        };
        let library = file("lib/x86/openmpi/libmpi.so.40");
        assert_eq!(launcher_of(&library, Family::Intel), None);
        let any = file("bin/mpirun");
        assert_eq!(launcher_of(&library, Family::OpenMpi), Some(any));
        let own = file("bin/mpirun.openmpi");
        assert_eq!(launcher_of(&library, Family::OpenMpi), Some(own));
    }
}
