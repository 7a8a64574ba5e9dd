//! The file that tells other builds how to use libquo.

use std::process::Command;

use anyhow::Result;

use crate::run;

/// What Rust's standard library needs where it is linked statically, on Linux with glibc
/// (`rustc --print native-static-libs`).
const RUST_LIBRARIES: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

/// The whole file. It finds its prefix from its own place, so that the folder can be moved.
pub fn text() -> Result<String> {
    let mpi = run::captured(Command::new(quo_tests::mpicc()).arg("-show"))?;
    Ok(file(env!("CARGO_PKG_VERSION"), &link_flags(&mpi)))
}

fn file(version: &str, mpi: &str) -> String {
    format!(
        "prefix=${{pcfiledir}}/../..\n\
         libdir=${{prefix}}/lib\n\
         includedir=${{prefix}}/include\n\
         # The QUO interface that quo.h offers.\n\
         api_version=1.4.1\n\
         \n\
         Name: libquo\n\
         Description: Node runtime for coupled MPI+X programs; compile with your MPI's mpicc\n\
         Version: {version}\n\
         Requires.private: hwloc\n\
         Cflags: -I${{includedir}}\n\
         Libs: -L${{libdir}} -lquo\n\
         Libs.private: {mpi} {RUST_LIBRARIES}\n"
    )
}

/// The linker's part of what an MPI compiler wrapper passes on.
fn link_flags(shown: &str) -> String {
    let is_for_linker =
        |word: &&str| ["-L", "-l", "-Wl,"].iter().any(|start| word.starts_with(start));
    shown.split_whitespace().filter(is_for_linker).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_linker_flags_of_mpi_are_passed_on() {
        let shown =
            "gcc -I/usr/mpi/include -pthread -L/usr/mpi/lib -Wl,-rpath,/usr/mpi/lib -lmpi\n";
        assert_eq!(link_flags(shown), "-L/usr/mpi/lib -Wl,-rpath,/usr/mpi/lib -lmpi");
    }

    #[test]
    fn private_libraries_stay_private() {
        let file = file("9.9.9", "-lmpi");
        let libraries = file.lines().find(|line| line.starts_with("Libs:")).unwrap();
        assert_eq!(libraries, "Libs: -L${libdir} -lquo");
        assert!(file.contains("Libs.private: -lmpi -lgcc_s"));
        assert!(file.contains("Version: 9.9.9\n"));
    }
}
