//! Lets programs and tests find the MPI's libraries where quo-mpi found them. Also the build script
//! of the packages in this folder, which link to it since each has to hold its own when it is
//! published, and of the demo.
#![allow(clippy::print_stdout)] // This is how build scripts send directives to cargo.

fn main() {
    // A file of each package: cargo notices changes of this script itself.
    println!("cargo:rerun-if-changed=Cargo.toml");
    let run_path = std::env::var("DEP_QUO_MPI_RUN_PATH").unwrap_or_default();
    for folder in run_path.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
}
