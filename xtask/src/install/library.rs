//! Links libquo from cargo's static library and the Fortran modules.
//!
//! Cargo's own shared library holds what is written in Rust and C only. A library that also serves Fortran
//! has to be linked by us, and then it gets the exports, the names and the run path that we choose.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::fortran::Modules;
use super::wrapper::Mpi;
use crate::run;

/// The interface number: the one that the library of QUO 1.4.1 carries.
pub const INTERFACE: &str = "8";

/// What Rust's standard library needs where it is linked statically, on Linux with glibc
/// (`rustc --print native-static-libs`).
pub const RUST_LIBRARIES: &str = "-lgcc_s -lutil -lrt -lpthread -lm -ldl -lc";

pub struct Parts<'a> {
    /// Cargo's static library.
    pub archive: PathBuf,
    pub is_static_wanted: bool,
    pub fortran: Option<&'a Modules>,
    pub mpi: &'a Mpi,
}

impl Parts<'_> {
    fn objects(&self) -> &[PathBuf] {
        self.fortran.map_or(&[], |modules| &modules.objects)
    }

    /// The shared library, without debug information: function names stay, for those who look at a stack.
    pub fn link(&self, library: &Path) -> Result<()> {
        let script = library.with_extension("map");
        write(&script, &self.exports())?;
        let mut linker = Command::new(&self.mpi.mpicc);
        linker.arg("-shared").arg("-o").arg(library);
        linker.arg(format!("-Wl,-soname,libquo.so.{INTERFACE}"));
        linker.arg(format!("-Wl,--version-script={}", script.display()));
        linker.args(["-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]);
        linker.args(["-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,--as-needed", "-Wl,-O1"]);
        // New: LD_LIBRARY_PATH goes before the run path.
        linker.arg("-Wl,--enable-new-dtags");
        for folder in self.mpi.run_path.iter().chain(&hwloc_run_path()?) {
            linker.arg(format!("-Wl,-rpath,{}", folder.display()));
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

    /// The version script: the C interface, the module procedures, and nothing else.
    fn exports(&self) -> String {
        let mut names = vec!["QUO_*".to_owned()];
        names.extend(self.fortran.map(Modules::symbols).unwrap_or_default());
        format!("{{\n  global: {};\n  local: *;\n}};\n", names.join("; "))
    }

    /// The static library: the same objects as one, with the same names visible as in the shared library, so
    /// that it goes together with other libraries written in Rust.
    ///
    /// Rust's own objects hold LLVM's intermediate code too. Where binutils know a plugin of an older LLVM
    /// they cannot read them, and an archive made by `ar` or `strip` would have no index of them. The linker
    /// can, and the intermediate code is removed.
    pub fn archive(&self, shared: &Path, library: &Path) -> Result<()> {
        let told =
            run::captured(Command::new("nm").args(["-D", "-P", "--defined-only"]).arg(shared))?;
        let names: Vec<&str> = told.lines().filter_map(|line| line.split(' ').next()).collect();
        let (keep, whole) = (library.with_extension("keep"), library.with_extension("whole.o"));
        write(&keep, &(names.join("\n") + "\n"))?;
        let mut linker = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
        linker.args(["-r", "-nostdlib", "-Wl,--gc-sections", "-Wl,--strip-debug"]);
        linker.arg("-Wl,--force-group-allocation").arg("-o").arg(&whole);
        linker.args(names.iter().map(|name| format!("-Wl,--undefined={name}")));
        linker.arg("-Wl,--whole-archive").arg(&self.archive).arg("-Wl,--no-whole-archive");
        linker.args(self.objects());
        run::captured(&mut linker).with_context(|| format!("linking {}", whole.display()))?;

        let object = library.with_file_name("quo.o");
        let mut objcopy = Command::new("objcopy");
        objcopy.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
        objcopy.arg(format!("--keep-global-symbols={}", keep.display())).arg(&whole).arg(&object);
        run::captured(&mut objcopy).with_context(|| format!("making {}", object.display()))?;
        if library.exists() {
            fs::remove_file(library).with_context(|| format!("removing {}", library.display()))?;
        }
        // Deterministic: the same objects give the same bytes.
        run::captured(Command::new("ar").arg("qcsD").arg(library).arg(&object))
            .with_context(|| format!("filling {}", library.display()))?;
        Ok(())
    }
}

/// The folder of an hwloc that the loader would not find by itself.
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
        let mut parts =
            Parts { archive: PathBuf::new(), is_static_wanted: true, fortran: None, mpi: &mpi };
        assert_eq!(parts.exports(), "{\n  global: QUO_*;\n  local: *;\n};\n");
        parts.fortran = Some(&modules);
        assert!(parts.exports().contains("global: QUO_*; __quo_MOD_*;\n"));
    }
}
