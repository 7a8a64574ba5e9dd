//! A folder for each MPI with its compilers and its launcher under the usual names, whatever their
//! original names: what `MPI_HOME` means everywhere.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use quo_tests::Family;

use super::catalogue::{DEFAULT, Mpi, Origin, named};
use crate::project;

/// An installed MPI, ready to be used.
#[derive(Clone, Debug)]
pub struct Home {
    pub name: String,
    /// Folder with bin/mpicc and its siblings.
    pub folder: PathBuf,
    /// Cargo's build folder for this MPI: the crate that wraps MPI for Rust does not notice a
    /// change of the MPI.
    pub build: PathBuf,
}

impl Home {
    pub fn program(&self, name: &str) -> PathBuf {
        self.folder.join("bin").join(name)
    }

    /// Makes this the MPI of a command and of everything it starts.
    pub fn enter(&self, command: &mut Command) -> Result<()> {
        let bin = self.folder.join("bin");
        let path = std::env::var_os("PATH").unwrap_or_default();
        let others = std::env::split_paths(&path).filter(|folder| !folder.starts_with(homes()));
        let path = std::env::join_paths(std::iter::once(bin).chain(others))?;
        command.env("PATH", path).env("MPI_HOME", &self.folder);
        for (variable, name) in [
            ("MPICC", "mpicc"),
            ("MPICXX", "mpicxx"),
            // It may not exist: then there is no Fortran, rather than another MPI's.
            ("MPIFC", "mpifort"),
            ("QUO_TESTS_MPIRUN", "mpirun"),
            ("QUO_TESTS_PYTHON", "python3"),
        ] {
            command.env(variable, self.program(name));
        }
        if self.name != DEFAULT {
            command.env(project::linker_variable()?, self.program("linker"));
        }
        command.env(project::MPI, &self.name);
        command.env(project::BASE, project::base()?).env(project::BUILD, &self.build);
        Ok(())
    }
}

fn homes() -> PathBuf {
    project::base().unwrap_or_default().join("mpi/homes")
}

/// Returns the folder of an MPI's unpacked Python packages.
pub fn wheels(mpi: &Mpi) -> Result<PathBuf> {
    Ok(project::base()?.join("mpi/wheels").join(mpi.name))
}

/// Finds the MPI on this machine.
pub fn find(mpi: &Mpi) -> Result<Option<Home>> {
    let Some(parts) = parts(mpi)? else { return Ok(None) };
    let build = match mpi.name {
        DEFAULT => project::base()?,
        name => project::base()?.join("mpi").join(name),
    };
    Ok(Some(make(mpi.name, parts, build)?))
}

/// Finds an MPI that must be there.
pub fn require(mpi: &Mpi) -> Result<Home> {
    match find(mpi)? {
        Some(home) => Ok(home),
        None => {
            bail!("{} ({}) is not here; get it with: {}", mpi.name, mpi.title, mpi.how_to_get())
        }
    }
}

/// Returns the MPI that the variables `MPICC` and `MPI_HOME` select, unless it is the default.
pub fn of_environment() -> Result<Option<Home>> {
    let named = |variable| std::env::var_os(variable).filter(|value: &OsString| !value.is_empty());
    let mpicc = if let Some(name) = named("MPICC") {
        let Some(file) = project::find_program(&name.to_string_lossy()) else {
            bail!("MPICC={}: there is no such compiler", name.to_string_lossy());
        };
        file
    } else if let Some(home) = named("MPI_HOME") {
        let file = Path::new(&home).join("bin/mpicc");
        if project::find_program(&file.to_string_lossy()).is_none() {
            bail!(
                "MPI_HOME={}: there is no bin/mpicc in it; name the folder that an MPI is installed in",
                home.to_string_lossy()
            );
        }
        file
    } else {
        return Ok(None);
    };
    let usual = project::find_program("mpicc").and_then(|file| file.canonicalize().ok());
    // Wrappers are often one program that looks at its name: links are not followed to the end.
    if named("QUO_TESTS_MPIRUN").is_none() && usual.is_some() && mpicc.canonicalize().ok() == usual
    {
        return Ok(None);
    }
    let launcher = PathBuf::from(quo_tests::mpirun());
    if project::find_program(&launcher.to_string_lossy()).is_none() {
        bail!(
            "{} has no launcher {}; name it in QUO_TESTS_MPIRUN",
            mpicc.display(),
            launcher.display()
        );
    }
    let name = format!("by-path-{:08x}", hash(mpicc.as_os_str().as_encoded_bytes()));
    let parts = Parts {
        programs: vec![
            ("mpicc", mpicc),
            ("mpicxx", quo_tests::mpicxx().into()),
            ("mpifort", quo_tests::mpifort().into()),
            ("mpirun", launcher),
        ],
        preamble: String::new(),
    };
    let build = project::base()?.join("mpi").join(&name);
    Ok(Some(make(&name, parts, build)?))
}

/// Hashes for the name of a folder, not for security. (FNV-1a.)
pub fn hash(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

/// Linker script for cargo. Every MPI calls its library `mpi`, and the crates of the Rust programs
/// may name another MPI's folder first.
const LINKER: &str = r#"#!/bin/sh
folders=$("${0%/*}/mpicc" -show | tr ' ' '\n' | grep '^-L' | tr '\n' ' ')
eval "set -- $folders \"\$@\""
exec cc "$@"
"#;

struct Parts {
    programs: Vec<(&'static str, PathBuf)>,
    /// Shell lines before a program starts.
    preamble: String,
}

fn parts(mpi: &Mpi) -> Result<Option<Parts>> {
    match mpi.origin {
        Origin::Packages { suffix, .. } => {
            let outside = |name: &str| {
                let path = std::env::var_os("PATH")?;
                let folders = std::env::split_paths(&path).filter(|it| !it.starts_with(homes()));
                let mut files = folders.map(|folder| folder.join(name));
                files.find(|file| project::find_program(&file.to_string_lossy()).is_some())
            };
            let names = ["mpicc", "mpicxx", "mpifort", "mpirun"];
            let suffixed = outside(&format!("mpicc{suffix}")).is_some();
            let file = |name: &str| match suffixed {
                true => outside(&format!("{name}{suffix}")),
                // Other distributions have one MPI under plain names.
                false if mpi.name == DEFAULT => outside(name),
                false => None,
            };
            let programs: Vec<_> =
                names.into_iter().filter_map(|name| Some((name, file(name)?))).collect();
            let complete = ["mpicc", "mpirun"].iter().all(|it| programs.iter().any(|p| p.0 == *it));
            let launcher = programs.iter().find(|(name, _)| *name == "mpirun");
            let ours = launcher.is_some_and(|(_, file)| suffixed || says_open_mpi(file));
            Ok((complete && ours).then(|| Parts { programs, preamble: String::new() }))
        }
        Origin::StandardOf(name) => {
            let bin = wheels(named(name)?)?.join("bin");
            let found = |name: &str| Some(bin.join(name)).filter(|it| it.exists());
            let programs = [
                ("mpicc", "mpicc_abi"),
                ("mpicxx", "mpicxx_abi"),
                ("mpirun", "mpirun"),
                ("python3", "python3"),
            ];
            let programs: Option<Vec<_>> =
                programs.into_iter().map(|(name, file)| Some((name, found(file)?))).collect();
            Ok(programs.map(|programs| Parts { programs, preamble: String::new() }))
        }
        Origin::Wheels(_) => {
            let folder = wheels(mpi)?;
            let found = |name: &str| Some(folder.join("bin").join(name)).filter(|it| it.exists());
            if found("mpicc").is_none() || found("mpirun").is_none() {
                return Ok(None);
            }
            let mut programs = Vec::new();
            for (name, candidates) in [
                ("mpicc", &["mpicc"][..]),
                ("mpicxx", &["mpicxx"]),
                ("mpifort", &["mpifort", "mpif90"]),
                // Intel's mpirun is a script that leaves its launcher behind when it is told to
                // stop.
                ("mpirun", &["mpiexec.hydra", "mpirun"]),
                // For the library with the interface that MPI 5 standardises.
                ("mpicc_abi", &["mpicc_abi"]),
                // The Python that has mpi4py for this MPI.
                ("python3", &["python3"]),
            ] {
                let file = candidates.iter().find_map(|candidate| found(candidate));
                programs.extend(file.map(|file| (name, file)));
            }
            let intel = if mpi.name == "intel" { intel_preamble(&folder) } else { String::new() };
            Ok(Some(Parts { programs, preamble: intel }))
        }
    }
}

fn says_open_mpi(launcher: &Path) -> bool {
    let output = Command::new(launcher).arg("--version").stdin(Stdio::null()).output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let family = Family::of_version(&text.unwrap_or_default());
    matches!(family, Some(Family::OpenMpi4 | Family::OpenMpi5))
}

/// Returns shell lines for Intel MPI, which finds its own location by the environment, and whose
/// Fortran library finds the main library by it.
fn intel_preamble(folder: &Path) -> String {
    let folder = folder.display();
    format!(
        "I_MPI_ROOT='{folder}' PATH='{folder}/bin':\"$PATH\"\n\
         LD_LIBRARY_PATH='{folder}/lib'${{LD_LIBRARY_PATH:+:\"$LD_LIBRARY_PATH\"}}\n\
         export I_MPI_ROOT PATH LD_LIBRARY_PATH\n"
    )
}

fn make(name: &str, parts: Parts, build: PathBuf) -> Result<Home> {
    let folder = homes().join(name);
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).with_context(|| format!("making {}", bin.display()))?;
    for (program, file) in &parts.programs {
        // A script and no link: the wrappers look for related files next to their own.
        let file = file.display();
        let script = format!("#!/bin/sh\n{}exec '{file}' \"$@\"\n", parts.preamble);
        put(&bin.join(program), &script)?;
    }
    put(&bin.join("linker"), LINKER)?;
    Ok(Home { name: name.to_owned(), folder, build })
}

fn put(file: &Path, script: &str) -> Result<()> {
    if fs::read_to_string(file).is_ok_and(|text| text == script) {
        return Ok(());
    }
    let new = file.with_extension(format!("new-{}", std::process::id()));
    fs::write(&new, script)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
    fs::rename(&new, file).with_context(|| format!("making {}", file.display()))
}
