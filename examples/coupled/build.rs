//! Compiles the implicit solver, which is plain C with OpenMP and MPI, with the MPI's own compiler wrapper.

fn main() {
    println!("cargo:rerun-if-changed=src/l1/diffusion.c");
    println!("cargo:rerun-if-changed=src/l1/diffusion.h");
    println!("cargo:rerun-if-env-changed=MPICC");
    let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_owned());
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
