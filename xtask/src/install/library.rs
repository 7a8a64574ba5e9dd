//! Links libquo from cargo's static library and the Fortran modules.
//!
//! Cargo's own shared library holds only the parts in Rust and C. A library that also serves
//! Fortran is therefore linked here, with the right exports, names and run path.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::fortran::Modules;
use super::object;
use super::wrapper::Mpi;
use crate::run;

/// Interface number, the same as that of QUO 1.4.1.
pub const INTERFACE: &str = "8";

/// Libraries that Rust's standard library needs if it is linked statically, on Linux with glibc
/// (`rustc --print native-static-libs`).
pub const RUST_LIBRARIES: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

pub struct Parts<'a> {
    /// Cargo's static library.
    pub archive: PathBuf,
    pub is_static_wanted: bool,
    pub fortran: Option<&'a Modules>,
    pub mpi: &'a Mpi,
    /// True if the loader finds the libraries of the MPI and hwloc by default, as for system
    /// packages.
    pub is_of_system: bool,
}

impl Parts<'_> {
    fn objects(&self) -> &[PathBuf] {
        self.fortran.map_or(&[], |modules| &modules.objects)
    }

    /// Links the shared library, without debug information: function names stay, for stack traces.
    pub fn link(&self, library: &Path) -> Result<()> {
        let script = library.with_extension("map");
        write(&script, &self.exports())?;
        let mut linker = Command::new(&self.mpi.mpicc);
        linker.arg("-shared").arg("-o").arg(library);
        linker.arg(format!("-Wl,-soname,libquo.so.{INTERFACE}"));
        linker.arg(format!("-Wl,--version-script={}", script.display()));
        linker.args(["-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]);
        linker.args(["-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,--as-needed", "-Wl,-O1"]);
        // DT_RUNPATH: LD_LIBRARY_PATH takes precedence.
        linker.arg("-Wl,--enable-new-dtags");
        if !self.is_of_system {
            for folder in self.mpi.run_path.iter().chain(&hwloc_run_path()?) {
                linker.arg(format!("-Wl,-rpath,{}", folder.display()));
            }
        }
        linker.arg("-Wl,--whole-archive").arg(&self.archive).arg("-Wl,--no-whole-archive");
        linker.args(self.objects());
        linker.args(
            run::captured(Command::new("pkg-config").args(["--libs", "hwloc"]))?.split_whitespace(),
        );
        linker.args(RUST_LIBRARIES.split(' '));
        run::captured(&mut linker).with_context(|| format!("linking {}", library.display()))?;
        Ok(())
    }

    /// Returns the version script: the C interface, the module procedures, and nothing else.
    fn exports(&self) -> String {
        let mut names = vec!["QUO_*".to_owned()];
        names.extend(self.fortran.map(Modules::symbols).unwrap_or_default());
        format!("{{\n  global: {};\n  local: *;\n}};\n", names.join("; "))
    }

    /// Creates the static library, with the same visible names as the shared one.
    pub fn archive(&self, shared: &Path, library: &Path) -> Result<()> {
        object::archive(&self.archive, self.objects(), shared, library)
    }
}

/// Returns the folder of an hwloc that the loader would not find by default.
fn hwloc_run_path() -> Result<Vec<PathBuf>> {
    let flags = run::captured(Command::new("pkg-config").args(["--libs-only-L", "hwloc"]))?;
    Ok(flags
        .split_whitespace()
        .filter_map(|flag| flag.strip_prefix("-L"))
        .map(PathBuf::from)
        .collect())
}

fn write(file: &Path, text: &str) -> Result<()> {
    fs::write(file, text).with_context(|| format!("writing {}", file.display()))
}

#[cfg(test)]
mod tests {
    use super::super::fortran::Compiler;
    use super::*;

    #[test]
    fn c_names_and_module_procedures_are_exported_and_nothing_else() {
        let mpi = Mpi {
            name: String::new(),
            mpicc: PathBuf::new(),
            link_flags: Vec::new(),
            run_path: Vec::new(),
        };
        let modules = Modules {
            compiler: Compiler { version: "12.2.0".to_owned() },
            objects: Vec::new(),
            interfaces: vec![PathBuf::from("quo.mod")],
            has_f08: true,
        };
        let mut parts = Parts {
            archive: PathBuf::new(),
            is_static_wanted: true,
            fortran: None,
            mpi: &mpi,
            is_of_system: false,
        };
        assert_eq!(parts.exports(), "{\n  global: QUO_*;\n  local: *;\n};\n");
        parts.fortran = Some(&modules);
        assert!(parts.exports().contains("global: QUO_*; __quo_MOD_*;\n"));
    }
}
