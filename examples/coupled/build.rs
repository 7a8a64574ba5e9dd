//! Compiles the implicit solver, in C with OpenMP, with the MPI's own compiler wrapper.

use std::env;

fn main() {
    for place in ["src/l1/diffusion.c", "src/l1/diffusion.h"] {
        println!("cargo:rerun-if-changed={place}");
    }
    for variable in ["MPICC", "MPI_HOME"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    // Where the MPI's libraries are, as reported by quo-mpi.
    let run_path = env::var("DEP_QUO_MPI_RUN_PATH").unwrap_or_default();
    for folder in run_path.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    let of_home = || Some(format!("{}/bin/mpicc", named("MPI_HOME")?));
    let mpicc = named("MPICC").or_else(of_home).unwrap_or_else(|| "mpicc".to_owned());
    let mut build = cc::Build::new();
    build.compiler(mpicc).file("src/l1/diffusion.c").opt_level(3);
    // `-ffp-contract=off`: the same bits whatever the number of threads, workers and the machine's instructions.
    for flag in ["-std=c11", "-fopenmp", "-ffp-contract=off", "-Wall", "-Wextra", "-Wpedantic"] {
        build.flag(flag);
    }
    build.compile("diffusion");
    println!("cargo:rustc-link-lib=gomp");
}

fn named(variable: &str) -> Option<String> {
    env::var(variable).ok().filter(|value| !value.is_empty())
}
