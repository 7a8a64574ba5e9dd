//! Compiles the implicit solver, which is plain C with OpenMP and MPI, with the MPI's own compiler wrapper.

fn main() {
    println!("cargo:rerun-if-changed=src/l1/diffusion.c");
    println!("cargo:rerun-if-changed=src/l1/diffusion.h");
    println!("cargo:rerun-if-env-changed=MPICC");
    println!("cargo:rerun-if-env-changed=MPI_HOME");
    let of_home = || Some(format!("{}/bin/mpicc", std::env::var("MPI_HOME").ok()?));
    let compiler = std::env::var("MPICC").ok().or_else(of_home);
    let compiler = compiler.unwrap_or_else(|| "mpicc".to_owned());
    // Where the MPI's libraries are, told by quo-mpi.
    let run_path = std::env::var("DEP_QUO_MPI_RUN_PATH").unwrap_or_default();
    for folder in run_path.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    cc::Build::new()
        .compiler(compiler)
        .file("src/l1/diffusion.c")
        .flag("-std=c11")
        .flag("-fopenmp")
        // The same bits whatever the number of threads, workers and the machine's instructions.
        .flag("-ffp-contract=off")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Wpedantic")
        .opt_level(3)
        .compile("diffusion");
    println!("cargo:rustc-link-lib=gomp");
}
