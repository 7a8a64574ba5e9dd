//! Compiles the implicit solver, in C with OpenMP and in C++ with threads of its own, with the MPI's own
//! compiler wrappers.

use std::env;

fn main() {
    for place in ["src/l1/diffusion.c", "src/l1/diffusion.h", "cxx"] {
        println!("cargo:rerun-if-changed={place}");
    }
    for variable in ["MPICC", "MPICXX", "MPI_HOME"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    // Where the MPI's libraries are, as reported by quo-mpi.
    let run_path = env::var("DEP_QUO_MPI_RUN_PATH").unwrap_or_default();
    for folder in run_path.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    let of_home = || Some(format!("{}/bin/mpicc", named("MPI_HOME")?));
    let mpicc = named("MPICC").or_else(of_home).unwrap_or_else(|| "mpicc".to_owned());
    let mpicxx = named("MPICXX").unwrap_or_else(|| sibling(&mpicc));
    same_bits(cc::Build::new().compiler(mpicc).flag("-std=c11").flag("-fopenmp"))
        .file("src/l1/diffusion.c")
        .compile("diffusion");
    println!("cargo:rustc-link-lib=gomp");
    same_bits(cc::Build::new().cpp(true).compiler(mpicxx).flag("-std=c++17").flag("-pthread"))
        // The MPIs' C++ bindings are long gone from the standard, and not free of warnings.
        .define("OMPI_SKIP_MPICXX", None)
        .define("MPICH_SKIP_MPICXX", None)
        .include("src/l1")
        .files(["cxx/pool.cpp", "cxx/solver.cpp"])
        .compile("heat");
}

/// The same bits whatever the number of threads, workers and the machine's instructions.
fn same_bits(build: &mut cc::Build) -> &mut cc::Build {
    for flag in ["-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic"] {
        build.flag(flag);
    }
    build.opt_level(3)
}

fn named(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}

/// The C++ wrapper next to a C wrapper: `mpicc.mpich` has `mpicxx.mpich`.
fn sibling(mpicc: &str) -> String {
    let (folder, name) = mpicc.rsplit_once('/').map_or(("", mpicc), |(f, n)| (f, n));
    let name = name.replacen("mpicc", "mpicxx", 1);
    if folder.is_empty() { name } else { format!("{folder}/{name}") }
}
