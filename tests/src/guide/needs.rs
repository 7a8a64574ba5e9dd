//! Needs of the guide's blocks that some machines do not meet.

/// A name, a shell command that succeeds where the need is met, and its description for users.
const KNOWN: &[(&str, &str, &str)] = &[
    (
        "memory-policy",
        "grep -q '^Seccomp:[[:space:]]*0' /proc/self/status",
        "programs that may place memory, as those in many containers may not",
    ),
    ("two-cpus", "test \"$(nproc)\" -ge 2", "two CPUs"),
    ("fortran", "ls ~/.local/quo/include/quo/fortran/quo.mod", "quo's Fortran modules (gfortran)"),
    ("python", "python3 -c 'import mpi4py, numpy'", "Python with mpi4py and NumPy"),
    ("cxx-header", "ls ~/.local/quo/include/quo.hpp", "the C++ header quo.hpp"),
    ("tbb", "pkg-config --exists tbb", "TBB (Debian's libtbb-dev)"),
    ("openblas", "pkg-config --exists openblas", "OpenBLAS (Debian's libopenblas-dev)"),
    (
        "kokkos",
        "ls /usr/include/trilinos/Kokkos_Core.hpp",
        "Kokkos (Debian's libtrilinos-kokkos-dev)",
    ),
    (
        "several-programs",
        "mpirun -n 1 true : -n 1 true",
        "a launcher that starts several programs at once",
    ),
    ("openmpi4", "mpirun --version | grep -q '(Open MPI) 4'", "Open MPI 4"),
    ("openmpi5", "mpirun --version | grep -q '(Open MPI) 5'", "Open MPI 5"),
    ("mpich", "mpirun --version | grep -q HYDRA", "MPICH"),
    ("intel-mpi", "mpirun --version | grep -q 'Intel(R) MPI'", "Intel MPI"),
];

pub(super) fn is_known(name: &str) -> bool {
    KNOWN.iter().any(|(known, ..)| *known == name)
}

/// Returns the command that checks a need, and the need's description.
pub(super) fn test_for(name: &str) -> Option<(&'static str, &'static str)> {
    KNOWN.iter().find(|(known, ..)| *known == name).map(|(_, test, called)| (*test, *called))
}
