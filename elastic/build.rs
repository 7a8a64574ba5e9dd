//! Lets the program find the MPI's libraries where quo-mpi found them.
#![allow(clippy::print_stdout)] // This is how build scripts send directives to cargo.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let run_path = std::env::var("DEP_QUO_MPI_RUN_PATH").unwrap_or_default();
    for folder in run_path.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
