//! Needs of the project, and the name of each for each package manager.

/// Something that a build or a run needs and that Cargo cannot provide.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Need {
    MpiCompiler,
    MpiLauncher,
    CxxCompiler,
    PkgConfig,
    Hwloc,
    Udev,
    LibClang,
    OpenMp,
    Fortran,
    Clang,
    LlvmOpenMp,
    CMake,
    Make,
    Modules,
    NetworkTools,
    Slurm,
    Emulator,
    Tbb,
    OpenBlas,
    Kokkos,
    Python,
    Mpich,
    MpichLauncher,
    PythonMpi,
    MassifReader,
    Browser,
    Manual,
    Heaptrack,
    Quotas,
    Jemalloc,
    ProgramEmulator,
    Lammps,
    Hpcc,
    QuantumEspresso,
    Pseudopotentials,
    Scalapack,
    Fftw,
    FftwOverMpi,
    Petsc,
    Rmpi,
    Go,
    Bootstrap,
}

/// Needs of a build of the whole workspace, of its programs and of the demo.
pub const BASE: &[Need] = &[
    Need::MpiCompiler,
    Need::MpiLauncher,
    Need::CxxCompiler,
    Need::PkgConfig,
    Need::Hwloc,
    Need::Udev,
    Need::LibClang,
    Need::OpenMp,
    Need::Fortran,
];

/// Needs of `cargo xtask install` only.
pub const INSTALL: &[Need] =
    &[Need::MpiCompiler, Need::PkgConfig, Need::Hwloc, Need::Udev, Need::Fortran];

/// Needs of test beds, and tools and libraries that tests try in addition to the usual ones. Suites
/// whose needs are missing are skipped with a message.
pub const TEST_BEDS: &[Need] = &[
    Need::Clang,
    Need::LlvmOpenMp,
    Need::CMake,
    Need::Make,
    Need::Modules,
    Need::NetworkTools,
    Need::Slurm,
    Need::Emulator,
    Need::Tbb,
    Need::OpenBlas,
    Need::Kokkos,
    Need::Python,
    Need::Mpich,
    Need::MpichLauncher,
    Need::PythonMpi,
    Need::MassifReader,
    Need::Heaptrack,
    Need::Quotas,
    Need::Jemalloc,
    Need::ProgramEmulator,
];

/// Needs of tests that render pages and manuals. A separate list, since a distribution may package
/// its browser differently.
pub const VIEWERS: &[Need] = &[Need::Browser, Need::Manual];

/// Third-party programs that the full test runs under the memory profiler.
pub const PROGRAMS: &[Need] = &[
    Need::Lammps,
    Need::Hpcc,
    Need::QuantumEspresso,
    Need::Pseudopotentials,
    Need::Scalapack,
    Need::Fftw,
    Need::FftwOverMpi,
    Need::Petsc,
    Need::Rmpi,
    Need::Go,
];

/// Needs of MPIs that are Python packages.
pub const PYTHON: &[Need] = &[Need::Python];

/// Needs of `cargo xtask fresh` only.
pub const FRESH: &[Need] = &[Need::Bootstrap, Need::NetworkTools];

impl Need {
    /// Returns the name of what is looked for.
    pub fn name(self) -> &'static str {
        match self {
            Need::MpiCompiler => "mpicc",
            Need::MpiLauncher => "mpirun",
            Need::CxxCompiler => "c++",
            Need::PkgConfig => "pkg-config",
            Need::Hwloc => "hwloc 2",
            Need::Udev => "libudev",
            Need::LibClang => "libclang",
            Need::OpenMp => "OpenMP",
            Need::Fortran => "gfortran",
            Need::Clang => "clang++",
            Need::LlvmOpenMp => "libomp.so.5",
            Need::CMake => "cmake",
            Need::Make => "make",
            Need::Modules => "modulecmd",
            Need::NetworkTools => "ip",
            Need::Slurm => "slurmctld",
            Need::Emulator => "qemu-system-x86_64",
            Need::Tbb => "TBB",
            Need::OpenBlas => "OpenBLAS",
            Need::Kokkos => "Kokkos",
            Need::Python => "python3 venv",
            Need::Mpich => "mpicc.mpich",
            Need::MpichLauncher => "mpirun.mpich",
            Need::PythonMpi => "mpi4py",
            Need::MassifReader => "ms_print",
            Need::Browser => "chromium",
            Need::Manual => "man",
            Need::Heaptrack => "heaptrack",
            Need::Quotas => "mkfs.btrfs",
            Need::Jemalloc => "libjemalloc.so.2",
            Need::ProgramEmulator => "qemu-x86_64",
            Need::Lammps => "lmp",
            Need::Hpcc => "hpcc",
            Need::QuantumEspresso => "pw.x",
            Need::Pseudopotentials => "Si.pz-vbc.UPF",
            Need::Scalapack => "ScaLAPACK's tests",
            Need::Fftw => "FFTW",
            Need::FftwOverMpi => "FFTW for MPI",
            Need::Petsc => "petsc4py",
            Need::Rmpi => "Rmpi",
            Need::Go => "go",
            Need::Bootstrap => "mmdebstrap",
        }
    }

    /// Returns the reason for the need.
    pub fn reason(self) -> &'static str {
        match self {
            Need::MpiCompiler => "compiles everything that meets MPI",
            Need::MpiLauncher => "starts the ranks of demos and tests",
            Need::CxxCompiler => "checks that the headers are C++ too",
            Need::PkgConfig => "tells the build where hwloc is",
            Need::Hwloc => "discovers packages, NUMA nodes, caches and cores",
            Need::Udev => "hwloc's pkg-config file links it",
            Need::LibClang => "reads mpi.h for examples and tests in Rust that use MPI",
            Need::OpenMp => "runs the threads of the coupled example",
            Need::Fortran => "compiles Fortran programs that are coupled",
            Need::Clang => "checks that C++ users of another compiler get no warnings",
            Need::LlvmOpenMp => "runs phases beside a second OpenMP runtime",
            Need::CMake => "builds programs against an installed library, as users do",
            Need::Make => "builds the coupled example in Fortran",
            Need::Modules => "loads the installed environment-module file",
            Need::NetworkTools => "connects the hosts that tests make",
            Need::Slurm => "runs jobs on the hosts that tests make",
            Need::Emulator => "emulates machines with several packages",
            Need::Tbb | Need::OpenBlas | Need::Kokkos => "runs what the guide says of thread pools",
            Need::Python => "fetches MPICH and Open MPI 5 for tests",
            Need::Mpich | Need::MpichLauncher => "runs the memory profiler on one more MPI",
            Need::PythonMpi => "loads an MPI as Python does, under the memory profiler",
            Need::MassifReader => "draws what the memory profiler exports",
            Need::Browser => "shows the memory profiler's pages in narrow windows",
            Need::Manual => "shows the manuals of an installation",
            Need::Heaptrack => "counts blocks too, beside the memory profiler",
            Need::Quotas => "makes a disk with a quota that the memory profiler uses up",
            Need::Jemalloc => "takes the C library's place under the memory profiler",
            Need::ProgramEmulator => {
                "runs a program that the memory profiler has to know as emulated"
            }
            Need::Lammps | Need::Hpcc | Need::QuantumEspresso | Need::Scalapack => {
                "runs under the memory profiler, unchanged"
            }
            Need::Fftw | Need::FftwOverMpi | Need::Petsc | Need::Rmpi => {
                "works under the memory profiler"
            }
            Need::Pseudopotentials => "describes silicon to pw.x",
            Need::Go => "reads the call stacks that the memory profiler exports (pprof)",
            Need::Bootstrap => "makes a bare Debian in a folder",
        }
    }

    /// Returns the packages that provide it with apt, dnf and Spack.
    pub fn packages(self) -> Packages {
        let (apt, dnf, spack) = match self {
            Need::MpiCompiler => ("libopenmpi-dev", "openmpi-devel", "openmpi"),
            Need::MpiLauncher => ("openmpi-bin", "openmpi", "openmpi"),
            Need::CxxCompiler => ("g++", "gcc-c++", "gcc"),
            Need::PkgConfig => ("pkg-config", "pkgconf-pkg-config", "pkgconf"),
            Need::Hwloc => ("libhwloc-dev", "hwloc-devel", "hwloc"),
            Need::Udev => ("libudev-dev", "systemd-devel", "hwloc~libudev"),
            Need::LibClang => ("libclang-dev", "clang-devel", "llvm+clang"),
            // gcc includes its OpenMP; only clang has a separate package.
            Need::OpenMp | Need::LlvmOpenMp => ("libomp-dev", "libomp-devel", "llvm-openmp"),
            Need::Fortran => ("gfortran", "gcc-gfortran", "gcc"),
            Need::Clang => ("clang", "clang", "llvm+clang"),
            Need::CMake => ("cmake", "cmake", "cmake"),
            Need::Make => ("make", "make", "gmake"),
            // Lmod would do as well.
            Need::Modules => ("environment-modules", "environment-modules", "environment-modules"),
            Need::NetworkTools => ("iproute2", "iproute", "iproute2"),
            // Controller, node daemon and commands.
            Need::Slurm => ("slurm-wlm", "slurm-slurmctld", "slurm"),
            Need::Emulator => ("qemu-system-x86", "qemu-system-x86-core", "qemu"),
            Need::Tbb => ("libtbb-dev", "tbb-devel", "intel-oneapi-tbb"),
            Need::OpenBlas => ("libopenblas-dev", "openblas-devel", "openblas"),
            Need::Kokkos => ("libtrilinos-kokkos-dev", "kokkos-devel", "kokkos"),
            // Only Debian has the module in a separate package.
            Need::Python => ("python3-venv", "python3-pip", "python"),
            Need::Mpich => ("libmpich-dev", "mpich-devel", "mpich"),
            Need::MpichLauncher => ("mpich", "mpich", "mpich"),
            Need::PythonMpi => ("python3-mpi4py", "python3-mpi4py-openmpi", "py-mpi4py"),
            Need::MassifReader => ("valgrind", "valgrind", "valgrind"),
            Need::Browser => ("chromium", "chromium", "chromium"),
            Need::Manual => ("man-db", "man-db", "man-db"),
            Need::Heaptrack => ("heaptrack", "heaptrack", "heaptrack"),
            Need::Quotas => ("btrfs-progs", "btrfs-progs", "btrfs-progs"),
            Need::Jemalloc => ("libjemalloc2", "jemalloc", "jemalloc"),
            Need::ProgramEmulator => ("qemu-user", "qemu-user", "qemu"),
            Need::Lammps => ("lammps", "lammps", "lammps"),
            Need::Hpcc => ("hpcc", "hpcc", "hpcc"),
            Need::QuantumEspresso => {
                ("quantum-espresso", "quantum-espresso-openmpi", "quantum-espresso")
            }
            // Elsewhere they are in the program's sources.
            Need::Pseudopotentials => {
                ("quantum-espresso-data", "quantum-espresso", "quantum-espresso")
            }
            // Elsewhere they are in the library's sources.
            Need::Scalapack => {
                ("scalapack-mpi-test", "scalapack-openmpi-devel", "netlib-scalapack")
            }
            Need::Fftw => ("libfftw3-dev", "fftw-devel", "fftw"),
            Need::FftwOverMpi => ("libfftw3-mpi-dev", "fftw-openmpi-devel", "fftw"),
            Need::Petsc => ("python3-petsc4py", "python3-petsc-openmpi", "py-petsc4py"),
            Need::Rmpi => ("r-cran-rmpi", "R-Rmpi", "r-rmpi"),
            Need::Go => ("golang-go", "golang", "go"),
            Need::Bootstrap => ("mmdebstrap", "mmdebstrap", "mmdebstrap"),
        };
        Packages { apt, dnf, spack }
    }
}

/// Names of one package in three package managers.
#[derive(Copy, Clone, Debug)]
pub struct Packages {
    pub apt: &'static str,
    pub dnf: &'static str,
    pub spack: &'static str,
}
