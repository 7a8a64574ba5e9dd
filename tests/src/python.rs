//! Programs in Python under the launcher, with the package of the checkout and mpi4py.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::checkout::Checkout;
use crate::compilers::{mpicc, python_tools};
use crate::job::Job;
use crate::suite::Skipped;

/// Returns the interpreter that set-up has fetched, with mpi4py, NumPy and the packaging tools.
///
/// # Errors
/// [`Skipped`] if there is none.
pub fn python_interpreter() -> Result<PathBuf> {
    let python = python_tools();
    python.ok_or_else(|| {
        Skipped("cargo xtask setup --tests has not fetched mpi4py and NumPy".into()).into()
    })
}

/// Returns variables by which a program finds the package, libquo and this MPI, which mpi4py looks
/// for as the loader does.
///
/// # Errors
/// libquo is not built, or the MPI has no library where its wrapper says.
pub fn python_surroundings() -> Result<Vec<(&'static str, PathBuf)>> {
    let checkout = Checkout::find()?;
    let shown =
        Command::new(mpicc()).arg("-show").output().context("starting the MPI's compiler")?;
    let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
    let named = |prefix: &'static str| {
        shown.split_whitespace().filter_map(move |word| word.strip_prefix(prefix))
    };
    // In wheels libmpi.so is a linker script, and the library has only its versioned name; next to
    // Debian's MPICH 4.0, which is libmpich, Open MPI's libmpi may be in the same folder.
    let mut files = named("-l").filter(|name| name.starts_with("mpi")).flat_map(|name| {
        let files = [".so", ".so.40", ".so.12"].map(|ending| format!("lib{name}{ending}"));
        files.into_iter().flat_map(|file| named("-L").map(move |at| Path::new(at).join(&file)))
    });
    let is_library = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|data| data.len() > 4096);
    let library = files.find(is_library);
    let library = library.with_context(|| format!("no library of the MPI in {shown:?}"))?;
    let folder = library.parent().context("a library in no folder")?;
    let folder = alias_of(&library, &checkout)?.unwrap_or_else(|| folder.to_owned());
    Ok(vec![
        // mpi4py looks for Open MPI first, wherever the loader finds one.
        ("MPI4PY_LIBMPI", library),
        ("LD_LIBRARY_PATH", folder),
        ("PYTHONPATH", checkout.root().join("bindings-python")),
        ("PYTHONDONTWRITEBYTECODE", "1".into()),
        ("QUO_LIBRARY", checkout.library()?.folder().join("libquo.so.8")),
    ])
}

/// Returns a folder with a link to the library under the name that mpi4py needs, if the library has
/// another one: Debian's MPICH is libmpich.
fn alias_of(library: &Path, checkout: &Checkout) -> Result<Option<PathBuf>> {
    if !library.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libmpich.")) {
        return Ok(None);
    }
    let folder = checkout.build_folder().join("libmpi-named");
    std::fs::create_dir_all(&folder)?;
    match std::os::unix::fs::symlink(library, folder.join("libmpi.so.12")) {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => {
            Err(error).context("linking libmpi.so.12")
        }
        _ => Ok(Some(folder)),
    }
}

/// Returns a job of a program by its path in the checkout.
///
/// # Errors
/// As [`python_interpreter`] and [`python_surroundings`].
pub fn python_job(ranks: usize, program: &str) -> Result<Job> {
    let job = Job::new(ranks, python_interpreter()?).arg(Checkout::find()?.root().join(program));
    Ok(python_surroundings()?.into_iter().fold(job, |job, (name, value)| job.env(name, value)))
}
