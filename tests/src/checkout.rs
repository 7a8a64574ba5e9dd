//! The checkout under test and cargo's builds of it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::library::{HOW_TO_BUILD, Library};

/// The checkout, and the build folder that contains this test program.
#[derive(Clone, Debug)]
pub struct Checkout {
    root: PathBuf,
    build: PathBuf,
}

impl Checkout {
    /// Finds the checkout and the build folder. The variable `QUO_TESTS_BUILD` names another build
    /// folder: one for another MPI, on which test programs do not depend.
    ///
    /// # Errors
    ///
    /// The test program does not lie in a build folder.
    pub fn find() -> Result<Checkout> {
        let package = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = package.parent().context("the package has no parent folder")?.to_path_buf();
        if let Some(build) = std::env::var_os("QUO_TESTS_BUILD") {
            return Ok(Checkout { root, build: build.into() });
        }
        let executable = std::env::current_exe().context("finding the running executable")?;
        // <build folder>/deps/<test program>
        let build = executable.ancestors().nth(2).context("not in a build folder")?.to_path_buf();
        Ok(Checkout { root, build })
    }

    /// Returns the folder of the workspace.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the folder that cargo builds into.
    #[must_use]
    pub fn build_folder(&self) -> &Path {
        &self.build
    }

    /// Returns a program that cargo has built.
    ///
    /// # Errors
    ///
    /// The program is not built.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        let mut file = self.build.join(name);
        // Programs without MPI are built once, next to the test programs.
        if let Ok(executable) = std::env::current_exe()
            && let Some(own) = executable.ancestors().nth(2)
            && !file.exists()
        {
            file = own.join(name);
        }
        if !file.exists() {
            bail!("{} is not built; {HOW_TO_BUILD}", file.display());
        }
        Ok(file)
    }

    /// Copies a program that cargo has built to `place`, where another user can start it.
    ///
    /// Another process writes the copy: a child that another test forks in the meantime would keep
    /// a file of this process open for writing, and the file could not be executed.
    ///
    /// # Errors
    ///
    /// The program is not built, or `cp` fails.
    pub fn copy_program(&self, name: &str, place: &Path) -> Result<()> {
        let program = self.program(name)?;
        let output = Command::new("cp").arg(&program).arg(place).output().context("starting cp")?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "copying {}: {said}", program.display());
        Ok(())
    }

    /// Returns the libquo that cargo has built.
    ///
    /// # Errors
    ///
    /// libquo is not built.
    pub fn library(&self) -> Result<Library> {
        Library::as_built(&self.root.join("bindings-c/include"), &self.build.join("libquo_c.so"))
    }

    /// Compiles a C program of the checkout against its own libquo, into `folder`. All warnings are
    /// errors; `flags` are last, so that they may include libraries.
    ///
    /// # Errors
    ///
    /// libquo is not built, or the compilation fails; the error has the compiler's output.
    pub fn compile_c(&self, source: &str, folder: &Path, flags: &[&str]) -> Result<PathBuf> {
        let source = self.root.join(source);
        let program = folder.join(source.file_stem().context("a source without a name")?);
        self.library()?.compile(&source, &program, flags)?;
        Ok(program)
    }
}
