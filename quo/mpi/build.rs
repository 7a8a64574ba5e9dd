//! Compiles the C file with the compiler wrapper of the MPI in use, and passes on the wrapper's
//! linker flags.
#![allow(clippy::print_stdout)] // Build scripts communicate with cargo that way.

use std::ffi::OsString;
use std::path::Path;
use std::process::{Command, ExitCode};

#[path = "src/wrapper.rs"]
mod wrapper;

/// Variables that determine the MPI, and that its wrappers read.
const VARIABLES: [&str; 6] =
    ["MPICC", "MPI_HOME", "I_MPI_ROOT", "OPAL_PREFIX", "OMPI_CC", "MPICH_CC"];

/// Returns `MPICC`, otherwise `mpicc` of `MPI_HOME`, otherwise `mpicc`.
fn compiler() -> OsString {
    let named = |variable| std::env::var_os(variable).filter(|value: &OsString| !value.is_empty());
    named("MPICC")
        .or_else(|| Some(Path::new(&named("MPI_HOME")?).join("bin/mpicc").into_os_string()))
        .unwrap_or_else(|| "mpicc".into())
}

/// Gives a library a unique name, by a link in a folder of ours. Every MPI calls its library `mpi`,
/// and another package's search path that includes the distribution's library may precede ours. The
/// loader identifies a linked library by the name inside it.
fn named_apart(library: &str, folders: &[String]) -> Option<String> {
    let file = folders.iter().map(|folder| Path::new(folder).join(format!("lib{library}.so")));
    let file = file.into_iter().find(|file| file.exists())?;
    let name = format!("quo_mpi_{library}");
    let ours = std::env::var_os("OUT_DIR")?;
    let link = Path::new(&ours).join(format!("lib{name}.so"));
    let _absent = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(file, link).ok()?;
    println!("cargo:rustc-link-search=native={}", ours.display());
    Some(name)
}

fn main() -> ExitCode {
    println!("cargo:rerun-if-changed=src");
    for variable in VARIABLES {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-env-changed=DOCS_RS");
    // Documentation is built without an MPI, and links nothing.
    if std::env::var_os("DOCS_RS").is_some() {
        return ExitCode::SUCCESS;
    }
    let compiler = compiler();
    let shown = match Command::new(&compiler).arg("-show").output() {
        Ok(output) if output.status.success() => output.stdout,
        failed => {
            let name = compiler.display();
            println!(
                "cargo:error=`{name} -show` tells nothing, is it an MPI's compiler? {failed:?}"
            );
            return ExitCode::FAILURE;
        }
    };
    cc::Build::new()
        .compiler(Path::new(&compiler))
        .file("src/mpi.c")
        .file("src/members.c")
        .flag("-std=c11")
        .flag("-fvisibility=hidden")
        .flag("-Wall")
        .flag("-Wextra")
        .flag("-Wpedantic")
        // The MPI's own header may be older than the warnings.
        .flag("-Wno-long-long")
        .compile("quo_mpi_layer");
    let mut flags = wrapper::link_flags(&String::from_utf8_lossy(&shown));
    wrapper::drop_links(&mut flags, |file| file.canonicalize().ok());
    for folder in &flags.folders {
        println!("cargo:rustc-link-search=native={folder}");
    }
    for library in &flags.libraries {
        let name = named_apart(library, &flags.folders).unwrap_or_else(|| library.clone());
        println!("cargo:rustc-link-lib={name}");
    }
    // For the tests of this package; dependents read the metadata and do the same.
    for folder in &flags.run_path {
        println!("cargo:rustc-link-arg=-Wl,-rpath,{folder}");
    }
    println!("cargo:run_path={}", flags.run_path.join(":"));
    ExitCode::SUCCESS
}
