//! Fortran programs of the checkout: the modules of bindings-fortran, compiled once, and programs
//! compiled against them and the libquo that cargo has built.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use anyhow::{Context, Result, anyhow, bail};

use crate::checkout::Checkout;
use crate::compilers::mpifort;
use crate::library::run_compiler;

/// Options of every compilation: a warning is an error, and rules that the language leaves
/// unchecked are checked at run time.
pub const STRICT: [&str; 9] = [
    "-std=f2018",
    // Interface bodies too have only arguments with a declared type.
    "-fimplicit-none",
    "-Wall",
    "-Wextra",
    // A wrapper may optimise (Debian's for MPICH does); the compiler may then drop a query.
    "-Wno-function-elimination",
    "-Werror",
    "-g",
    "-fPIC",
    "-fcheck=all,no-array-temps",
];

/// Folder of the modules and their sources, relative to the checkout.
pub const BINDINGS: &str = "bindings-fortran";

const ARCHIVE: &str = "libquo_fortran.a";

/// Capabilities of the Fortran side of the MPI in use.
#[derive(Clone, Debug)]
pub struct FortranSupport {
    /// The module `mpi_f08` exists, and this compiler can read it.
    pub mpi_f08: bool,
}

/// Returns the capabilities of the Fortran wrapper of the MPI in use, determined once.
///
/// # Errors
///
/// The reason why no Fortran program can be compiled here: there is no wrapper, as in the Python
/// packages of the MPIs, or no compiler behind it.
pub fn fortran_support() -> Result<&'static FortranSupport> {
    static SUPPORT: OnceLock<Result<FortranSupport, String>> = OnceLock::new();
    let support = SUPPORT.get_or_init(|| {
        let without = |error: anyhow::Error| {
            let name = mpifort();
            let is_missing = |cause: &std::io::Error| cause.kind() == ErrorKind::NotFound;
            if error.chain().filter_map(|cause| cause.downcast_ref()).any(is_missing) {
                // The same text in every suite: the reasons of skips are counted.
                return "this MPI has no Fortran compiler (mpifort)".to_owned();
            }
            format!("{} compiles no Fortran program: {error:#}", name.to_string_lossy())
        };
        understands("include 'mpif.h'").map_err(without)?;
        Ok(FortranSupport { mpi_f08: understands("use mpi_f08, only: MPI_Comm").is_ok() })
    });
    support.as_ref().map_err(|reason| anyhow!("{reason}"))
}

fn understands(line: &str) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("probe.f90");
    fs::write(&source, format!("program probe\n  {line}\nend program\n"))?;
    let mut compiler = Command::new(mpifort());
    run_compiler(compiler.current_dir(&folder).arg("-c").arg(&source))
}

/// Returns the module sources in the order in which they are compiled.
///
/// # Errors
///
/// bindings-fortran/SOURCES cannot be read.
pub fn module_sources(root: &Path) -> Result<Vec<PathBuf>> {
    let folder = root.join(BINDINGS);
    let list = folder.join("SOURCES");
    let text = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    Ok(text.lines().filter(|line| !line.is_empty()).map(|line| folder.join(line)).collect())
}

/// Returns the files that module sources include.
fn included_sources(root: &Path) -> Result<Vec<PathBuf>> {
    let entries = root.join(BINDINGS).join("src").read_dir()?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|file| file.extension().is_some_and(|end| end == "inc"));
    files.sort();
    Ok(files)
}

/// Compiles the modules into a folder, with their .mod and .o files.
///
/// # Errors
///
/// The compilation fails.
pub fn compile_modules(root: &Path, folder: &Path, flags: &[&str]) -> Result<Vec<PathBuf>> {
    let mut objects = Vec::new();
    for source in module_sources(root)? {
        let object = folder.join(source.file_name().context("a source without a name")?);
        let object = object.with_extension("o");
        let mut compiler = Command::new(mpifort());
        compiler.current_dir(folder).args(flags);
        if !fortran_support()?.mpi_f08 {
            compiler.arg("-DQUO_NO_MPI_F08");
        }
        run_compiler(compiler.arg("-c").arg(&source).arg("-o").arg(&object))?;
        objects.push(object);
    }
    Ok(objects)
}

impl Checkout {
    /// Returns the folder with the compiled modules and an archive of them. It is named after
    /// everything that goes into it, so it is created once, possibly by another process.
    fn fortran_modules(&self) -> Result<PathBuf> {
        static MADE: OnceLock<Result<PathBuf, String>> = OnceLock::new();
        let made = MADE.get_or_init(|| self.make_modules().map_err(|error| format!("{error:#}")));
        made.clone().map_err(|reason| anyhow!("{reason}"))
    }

    fn make_modules(&self) -> Result<PathBuf> {
        let mut hash = DefaultHasher::new();
        for source in module_sources(self.root())?.into_iter().chain(included_sources(self.root())?)
        {
            fs::read(&source).with_context(|| source.display().to_string())?.hash(&mut hash);
        }
        STRICT.hash(&mut hash);
        fortran_support()?.mpi_f08.hash(&mut hash);
        mpifort().hash(&mut hash);
        for question in ["--version", "-show"] {
            let answer = Command::new(mpifort()).arg(question).output()?;
            answer.stdout.hash(&mut hash);
        }
        let parent = self.build_folder().join("quo-fortran");
        let folder = parent.join(format!("{:016x}", hash.finish()));
        if folder.join(ARCHIVE).exists() {
            return Ok(folder);
        }
        fs::create_dir_all(&parent)?;
        let making = tempfile::tempdir_in(&parent)?;
        let objects = compile_modules(self.root(), making.path(), &STRICT)?;
        let archive = making.path().join(ARCHIVE);
        run_compiler(Command::new("ar").arg("rcs").arg(archive).args(objects))?;
        // A process that is second finds the folder with the same contents; its own folder is
        // removed.
        match fs::rename(making.path(), &folder) {
            Err(error) if !folder.join(ARCHIVE).exists() => {
                return Err(error).context("naming the modules");
            }
            Err(_) => drop(making),
            Ok(()) => drop(making.keep()),
        }
        Ok(folder)
    }

    /// Compiles a shared Fortran module into `folder`, where [`compile_fortran`] finds it. Returns
    /// its object, which must be among the flags of the program.
    ///
    /// [`compile_fortran`]: Self::compile_fortran
    ///
    /// # Errors
    ///
    /// There is no Fortran here, or the compilation fails.
    pub fn compile_fortran_module(&self, source: &str, folder: &Path) -> Result<PathBuf> {
        let source = self.root().join(source);
        let name = source.file_stem().context("a source without a name")?;
        let object = folder.join(name).with_extension("o");
        let mut compiler = Command::new(mpifort());
        compiler.current_dir(folder).args(STRICT).arg("-I").arg(self.fortran_modules()?);
        run_compiler(compiler.arg("-c").arg(&source).arg("-o").arg(&object))?;
        Ok(object)
    }

    /// Compiles a Fortran program of the checkout against the module `quo` and its own libquo, into
    /// `folder`. All warnings are errors; `flags` are placed after the source and before libquo, so
    /// that they may include objects and libraries.
    ///
    /// # Errors
    ///
    /// There is no Fortran here ([`fortran_support`]), libquo is not built, or the compilation
    /// fails; the error has the compiler's output.
    pub fn compile_fortran(&self, source: &str, folder: &Path, flags: &[&str]) -> Result<PathBuf> {
        fortran_support()?;
        let source = self.root().join(source);
        if !source.exists() {
            bail!("{} does not exist", source.display());
        }
        let program = folder.join(source.file_stem().context("a source without a name")?);
        let modules = self.fortran_modules()?;
        let mut compiler = Command::new(mpifort());
        // Modules of the program itself are written to its own folder.
        compiler.current_dir(folder).args(STRICT).arg("-I").arg(&modules).arg(&source);
        compiler.arg("-o").arg(&program).args(flags).arg(modules.join(ARCHIVE));
        compiler.args(self.library()?.link_arguments());
        run_compiler(&mut compiler)?;
        Ok(program)
    }
}
