//! The Fortran modules, compiled with the gfortran behind the MPI's wrapper.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{project, run};

/// Folder of the sources. `SOURCES` there names them in compile order.
const FOLDER: &str = "bindings-fortran";

const FLAGS: &[&str] = &["-O2", "-fPIC", "-ffunction-sections", "-fdata-sections", "-cpp"];

/// The compiled modules.
pub struct Modules {
    /// Name and version of the compiler; only compilers of the same kind can read its `.mod` files.
    pub compiler: Compiler,
    /// Objects, in the order of the sources.
    pub objects: Vec<PathBuf>,
    /// The `.mod` and `.smod` files.
    pub interfaces: Vec<PathBuf>,
    /// True if the module mpi_f08 is available.
    pub has_f08: bool,
}

impl Modules {
    /// Returns the common prefixes of all module procedures in gfortran's objects.
    pub fn symbols(&self) -> Vec<String> {
        let modules =
            self.interfaces.iter().filter(|file| file.extension() == Some("mod".as_ref()));
        modules
            .filter_map(|file| file.file_stem()?.to_str())
            .map(|name| format!("__{name}_MOD_*"))
            .collect()
    }
}

/// A Fortran compiler by its own version text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Compiler {
    pub version: String,
}

/// Returns the sources in compile order, as full paths.
pub fn sources() -> Result<Vec<PathBuf>> {
    let folder = project::root().join(FOLDER);
    let list = folder.join("SOURCES");
    let text = fs::read_to_string(&list).with_context(|| format!("reading {}", list.display()))?;
    let names =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    Ok(names.map(|name| folder.join(name)).collect())
}

/// Returns the files that sources include.
pub fn included() -> Result<Vec<PathBuf>> {
    let mut files = project::files_below(&project::root().join(FOLDER).join("src"))?;
    files.retain(|file| file.extension().is_some_and(|end| end == "inc"));
    Ok(files)
}

/// Returns the gfortran behind the MPI's wrapper, or why there is none.
pub fn compiler() -> Result<Compiler, String> {
    let wrapper = quo_tests::mpifort();
    let wrapper = wrapper.to_string_lossy();
    if project::find_program(&wrapper).is_none() {
        return Err(format!("{wrapper} is not there"));
    }
    let told = run::captured(Command::new(&*wrapper).arg("--version"))
        .map_err(|error| format!("{error:#}"))?;
    gfortran(&told).ok_or_else(|| {
        let first = told.lines().next().unwrap_or_default();
        format!("{wrapper} runs `{first}`, and the library's Fortran part is for gfortran")
    })
}

fn gfortran(told: &str) -> Option<Compiler> {
    let first = told.lines().next()?.strip_prefix("GNU Fortran")?;
    // A distribution may put its own version in parentheses before it.
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_digit() || c == '.');
    let version = first.split_whitespace().find(is_plain)?;
    Some(Compiler { version: version.to_owned() })
}

/// Compiles all sources into a folder, which is emptied first.
pub fn compile(compiler: Compiler, folder: &Path) -> Result<Modules> {
    let _absent = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).with_context(|| format!("creating {}", folder.display()))?;
    let has_f08 = understands_f08(folder)?;
    let mut objects = Vec::new();
    for source in sources()? {
        let stem = source.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // The prefix distinguishes it from Rust's own objects in the static library.
        let object = folder.join(format!("quo-fortran-{stem}.o"));
        let mut call = Command::new(quo_tests::mpifort());
        call.args(FLAGS).arg("-J").arg(folder).arg("-I").arg(folder);
        if !has_f08 {
            call.arg("-DQUO_NO_MPI_F08");
        }
        call.arg("-c").arg(&source).arg("-o").arg(&object);
        run::captured(&mut call).with_context(|| format!("compiling {}", source.display()))?;
        objects.push(object);
    }
    let interfaces = interfaces(folder)?;
    if interfaces.is_empty() {
        bail!("{} made no .mod files", quo_tests::mpifort().to_string_lossy());
    }
    Ok(Modules { compiler, objects, interfaces, has_f08 })
}

fn understands_f08(folder: &Path) -> Result<bool> {
    let probe = folder.join("probe.f90");
    let program = "program probe\n  use mpi_f08, only: MPI_Comm\n  type(MPI_Comm) :: comm\n\
                   \x20 comm%mpi_val = 0\nend program\n";
    fs::write(&probe, program).with_context(|| format!("writing {}", probe.display()))?;
    let mut call = Command::new(quo_tests::mpifort());
    call.current_dir(folder).arg("-fsyntax-only").arg(&probe);
    let understood = run::captured(&mut call).is_ok();
    fs::remove_file(&probe)?;
    Ok(understood)
}

fn interfaces(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut found: Vec<PathBuf> = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(|file| file.extension().is_some_and(|end| end == "mod" || end == "smod"))
        .collect();
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gfortran_is_known_by_what_it_says() {
        let told = "GNU Fortran (Debian 12.2.0-14+deb12u1) 12.2.0\nCopyright (C) 2022\n";
        assert_eq!(gfortran(told), Some(Compiler { version: "12.2.0".to_owned() }));
        assert_eq!(gfortran("ifx (IFX) 2025.0.1 20241113\n"), None);
        assert_eq!(gfortran(""), None);
    }

    #[test]
    fn exported_are_the_procedures_of_every_module_and_no_submodule() {
        let modules = Modules {
            compiler: Compiler { version: "12.2.0".to_owned() },
            objects: Vec::new(),
            interfaces: ["quo.mod", "quo_types.mod", "quo@parts.smod"].map(PathBuf::from).to_vec(),
            has_f08: true,
        };
        assert_eq!(modules.symbols(), ["__quo_MOD_*", "__quo_types_MOD_*"]);
    }
}
