# SPDX-License-Identifier: (Apache-2.0 OR MIT)

import pathlib

from spack_repo.builtin.build_systems.generic import Package

from spack.package import *


class Quo(Package):
    """Node runtime for coupled MPI+X programs: most ranks of a node sleep and give up their cores
    while a few widen their binding and run threads there. With the interface of QUO 1.4.1 for C,
    C++ and Fortran."""

    # The checkout: this file is packaging/spack/spack_repo/quo/packages/quo/package.py in it.
    git = pathlib.Path(__file__).resolve().parents[6].as_uri()

    license("Apache-2.0 OR MIT")

    version("main", branch="main")

    variant("fortran", default=True, description="Build the Fortran modules into the library")
    variant("static", default=True, description="Install the static library too")

    variant("python", default=False, description="Load the Python package with mpi4py")

    depends_on("c", type="build")
    depends_on("fortran", type="build", when="+fortran")
    depends_on("rust@1.88:", type="build")
    depends_on("pkgconfig", type="build")
    depends_on("hwloc@2.2:2")
    depends_on("mpi")
    depends_on("py-mpi4py@3.1:", type="run", when="+python")

    # Futexes, record locks and CPU masks are specific to Linux.
    conflicts("platform=windows")
    conflicts("platform=darwin")

    def setup_build_environment(self, env):
        mpi = self.spec["mpi"]
        env.set("MPICC", mpi.mpicc)
        env.set("MPICXX", mpi.mpicxx)
        if self.spec.satisfies("+fortran"):
            env.set("MPIFC", mpi.mpifc)
        # The build writes nothing to the user's home folder.
        env.set("CARGO_HOME", join_path(self.stage.path, "cargo"))

    def setup_run_environment(self, env):
        if self.spec.satisfies("+python"):
            env.prepend_path("PYTHONPATH", join_path(self.prefix, "lib", "python"))

    def install(self, spec, prefix):
        arguments = ["xtask", "install", "--no-setup", "--prefix", prefix]
        if spec.satisfies("~fortran"):
            arguments.append("--no-fortran")
        if spec.satisfies("~static"):
            arguments.append("--no-static")
        cargo = which("cargo", required=True)
        cargo.add_default_env("CARGO_BUILD_JOBS", str(make_jobs))
        cargo(*arguments)

    @run_after("install")
    @on_package_attributes(run_tests=True)
    def check_install(self):
        Executable(join_path(self.prefix.bin, "quo-info"))("--config")

    def test_examples(self):
        """the installed examples compile and run"""
        mpi = self.spec["mpi"]
        install_tree(join_path(self.prefix, "share", "quo", "examples"), "examples")
        words = ["check", f"QUO={self.prefix}", f"MPICC={mpi.mpicc}", f"MPICXX={mpi.mpicxx}"]
        if self.spec.satisfies("+fortran"):
            words.append(f"MPIFC={mpi.mpifc}")
        with working_dir("examples"):
            which("make", required=True)(*words)
