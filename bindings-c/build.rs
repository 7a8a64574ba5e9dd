//! Gives libquo the name under which programs find it, since cargo gives none. 8 is the number
//! that the library of QUO 1.4.1 carries.
#![allow(clippy::print_stdout)] // That is how build scripts talk to cargo.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    // Folders of the MPI's libraries, from quo-mpi.
    let run_path = std::env::var("DEP_QUO_MPI_RUN_PATH").unwrap_or_default();
    for folder in run_path.split(':').filter(|folder| !folder.is_empty()) {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libquo.so.8");
}
