//! Adds the MPI's library folders, as found by quo-mpi, to the program's run path.
#![allow(clippy::print_stdout)] // Build scripts communicate with cargo that way.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    let run_path = std::env::var("DEP_QUO_MPI_RUN_PATH").unwrap_or_default();
    for folder in run_path.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
