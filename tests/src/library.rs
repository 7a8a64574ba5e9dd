//! A libquo to compile C programs against: the checkout's, an installed one, or another's.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::compilers::mpicc;

/// Headers and a library that go together.
#[derive(Clone, Debug)]
pub struct Library {
    include: PathBuf,
    folder: PathBuf,
}

impl Library {
    /// The one installed below a prefix.
    ///
    /// # Errors
    ///
    /// There is none.
    pub fn in_prefix(prefix: &Path) -> Result<Library> {
        let library = Library { include: prefix.join("include"), folder: prefix.join("lib") };
        for file in [library.include.join("quo.h"), library.folder.join("libquo.so")] {
            if !file.exists() {
                bail!("{} does not exist: no libquo is installed in that prefix", file.display());
            }
        }
        Ok(library)
    }

    /// Gives the shared library that cargo built the names that the linker and the loader ask for,
    /// in a folder beside it.
    ///
    /// # Errors
    ///
    /// It is not built, or the folder cannot be written.
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

    /// Compiles one C program against this library and no other, whatever the environment says when
    /// it runs. All warnings are errors; `flags` come last, so that libraries can be among them.
    ///
    /// # Errors
    ///
    /// The compiler complains: all it said is in the error.
    pub fn compile(&self, source: &Path, program: &Path, flags: &[&str]) -> Result<()> {
        let mut compiler = Command::new(mpicc());
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g"]);
        compiler.arg("-I").arg(&self.include).arg(source).arg("-o").arg(program);
        compiler.args(self.link_arguments()).args(flags);
        run_compiler(&mut compiler)
    }

    /// The folder that `libquo.so` is in.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Folder of the headers.
    pub(crate) fn include(&self) -> &Path {
        &self.include
    }

    /// Arguments by which a compiler links against this library and no other.
    pub(crate) fn link_arguments(&self) -> [OsString; 4] {
        // The old kind of run path: the new kind yields to LD_LIBRARY_PATH.
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
/// It cannot be started or is not content; the error shows the call and the complaint.
pub fn run_compiler(compiler: &mut Command) -> Result<()> {
    let output = compiler.output().with_context(|| format!("starting {compiler:?}"))?;
    if !output.status.success() {
        bail!("{compiler:?}: {}\n{}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(())
}
