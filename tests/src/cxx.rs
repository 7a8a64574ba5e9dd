//! C++ programs against a libquo: with the MPI's wrapper around the compiler of a test.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::compilers::mpicxx;
use crate::library::{Library, run_compiler};

/// Warnings that the project's C++ has to pass.
pub const CXX_WARNINGS: &[&str] =
    &["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"];

/// Variables by which the wrappers of Open MPI, MPICH and Intel MPI select the compiler.
const COMPILER_VARIABLES: [&str; 3] = ["OMPI_CXX", "MPICH_CXX", "I_MPI_CXX"];

/// Returns true if a compiler is on this machine.
#[must_use]
pub fn has_compiler(name: &str) -> bool {
    Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success())
}

/// Returns the MPI's C++ wrapper around a compiler, with [`CXX_WARNINGS`] for everything except
/// MPI's own headers, which may contain outdated C++ bindings.
///
/// # Errors
///
/// The wrapper does not show its compiler's options.
pub fn cxx_compiler(compiler: &str) -> Result<Command> {
    let mut command = Command::new(mpicxx());
    command.envs(COMPILER_VARIABLES.map(|variable| (variable, compiler)));
    let shown = command.arg("-show").output().context("starting the MPI's C++ compiler")?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();

    let mut command = Command::new(mpicxx());
    command.envs(COMPILER_VARIABLES.map(|variable| (variable, compiler)));
    // A folder given by both options is a system folder.
    for folder in shown.split_whitespace().filter_map(|word| word.strip_prefix("-I")) {
        command.args(["-isystem", folder.trim_matches('"')]);
    }
    command.args(CXX_WARNINGS);
    if compiler.contains("clang") {
        // The wrapper names libraries even when nothing is linked.
        command.arg("-Wno-unused-command-line-argument");
    }
    Ok(command)
}

impl Library {
    /// As [`Library::compile`], for C++ and with a compiler such as `g++` or `clang++`. The
    /// standard is C++17 unless `flags` name another; more sources can be among the flags.
    ///
    /// # Errors
    ///
    /// The compilation fails; the error has the compiler's output.
    pub fn compile_cxx(
        &self,
        source: &Path,
        program: &Path,
        compiler: &str,
        flags: &[&str],
    ) -> Result<()> {
        let mut command = cxx_compiler(compiler)?;
        command.args(["-std=c++17", "-g", "-pthread"]).arg("-I").arg(self.include());
        command.arg(source).arg("-o").arg(program).args(flags).args(self.link_arguments());
        run_compiler(&mut command)
    }
}

impl Checkout {
    /// As [`Checkout::compile_c`], for C++ and with a compiler such as `g++` or `clang++`. The
    /// standard is C++17 unless `flags` name another.
    ///
    /// # Errors
    ///
    /// libquo is not built, or the compilation fails; the error has the compiler's output.
    pub fn compile_cxx(
        &self,
        source: &str,
        folder: &Path,
        compiler: &str,
        flags: &[&str],
    ) -> Result<PathBuf> {
        let source = self.root().join(source);
        let program = folder.join(source.file_stem().context("a source without a name")?);
        self.library()?.compile_cxx(&source, &program, compiler, flags)?;
        Ok(program)
    }
}
