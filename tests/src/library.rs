//! A libquo to compile C programs against: the checkout's, an installed one, or a foreign one.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::compilers::mpicc;

/// Headers and the library that belongs to them.
#[derive(Clone, Debug)]
pub struct Library {
    include: PathBuf,
    folder: PathBuf,
}

impl Library {
    /// Returns the library installed below a prefix.
    ///
    /// # Errors
    ///
    /// There is no library below the prefix.
    pub fn in_prefix(prefix: &Path) -> Result<Library> {
        let library = Library { include: prefix.join("include"), folder: prefix.join("lib") };
        for file in [library.include.join("quo.h"), library.folder.join("libquo.so")] {
            if !file.exists() {
                bail!("{} does not exist: no libquo is installed in that prefix", file.display());
            }
        }
        Ok(library)
    }

    /// Gives the shared library that cargo built the names that the linker and the loader look for,
    /// in a folder next to it.
    ///
    /// # Errors
    ///
    /// The library is not built, or the folder cannot be written.
    pub fn as_built(include: &Path, built: &Path) -> Result<Library> {
        if !built.exists() {
            bail!("{} is not built; {HOW_TO_BUILD}", built.display());
        }
        let folder = built.with_file_name("libquo-named");
        std::fs::create_dir_all(&folder)?;
        for name in ["libquo.so", "libquo.so.8"] {
            match std::os::unix::fs::symlink(built, folder.join(name)) {
                Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                    return Err(error).context("naming libquo");
                }
                _ => {}
            }
        }
        Ok(Library { include: include.to_path_buf(), folder })
    }

    /// Compiles one C program against this library and no other, whatever the environment at run
    /// time. All warnings are errors; `flags` are last, so that they may include libraries.
    ///
    /// # Errors
    ///
    /// The compilation fails; the error has the compiler's output.
    pub fn compile(&self, source: &Path, program: &Path, flags: &[&str]) -> Result<()> {
        let mut compiler = Command::new(mpicc());
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]);
        compiler.arg("-I").arg(&self.include).arg(source).arg("-o").arg(program);
        compiler.args(self.link_arguments()).args(flags);
        run_compiler(&mut compiler)
    }

    /// Returns the folder of `libquo.so`.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the folder of the headers.
    pub(crate) fn include(&self) -> &Path {
        &self.include
    }

    /// Returns arguments by which a compiler links against this library and no other.
    pub(crate) fn link_arguments(&self) -> [OsString; 4] {
        // DT_RPATH: DT_RUNPATH yields to LD_LIBRARY_PATH.
        let run_path = format!("-Wl,--disable-new-dtags,-rpath,{}", self.folder.display());
        ["-L".into(), self.folder.clone().into(), "-lquo".into(), run_path.into()]
    }
}

pub(crate) const HOW_TO_BUILD: &str =
    "`cargo xtask test` builds it, or `cargo build --workspace --all-features`";

/// Runs a compiler.
///
/// # Errors
///
/// The compiler cannot be started or fails; the error shows the call and the output.
pub fn run_compiler(compiler: &mut Command) -> Result<()> {
    let output = compiler.output().with_context(|| format!("starting {compiler:?}"))?;
    if !output.status.success() {
        bail!("{compiler:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
