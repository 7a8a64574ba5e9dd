//! Probes the machine. Each probe looks where the build will look.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use quo_tests::mpicc;

use super::needs::Need;
use super::plan::{Machine, Privilege};
use crate::project::{find_program, find_system_program};

/// Lists older than this name packages that the mirrors no longer have.
const LISTS_GROW_OLD: Duration = Duration::from_secs(7 * 24 * 3600);

/// Returns the needs that this machine does not meet.
pub fn missing(needs: &[Need]) -> Vec<Need> {
    needs.iter().copied().filter(|need| !is_met(*need)).collect()
}

fn is_met(need: Need) -> bool {
    match need {
        Need::MpiCompiler => succeeds(Command::new(mpicc()).arg("-show")),
        Need::MpiLauncher => find_program("mpirun").is_some(),
        Need::CxxCompiler => find_program("c++").is_some(),
        Need::Fortran => find_program("gfortran").is_some(),
        Need::Clang => find_program("clang++").is_some(),
        Need::CMake => find_program("cmake").is_some(),
        Need::Make => find_program("make").is_some(),
        Need::Modules => find_program("modulecmd").is_some(),
        Need::PkgConfig => find_program("pkg-config").is_some(),
        Need::Mpich
        | Need::MpichLauncher
        | Need::MassifReader
        | Need::Browser
        | Need::Manual
        | Need::Heaptrack
        | Need::Lammps
        | Need::Hpcc
        | Need::QuantumEspresso
        | Need::Go
        | Need::ProgramEmulator => find_program(need.name()).is_some(),
        Need::LlvmOpenMp | Need::Jemalloc => {
            links("int main(void) { return 0; }", &format!("-l:{}", need.name()))
        }
        // Packages provide it for the distribution's own Python, which need not be the first.
        Need::PythonMpi => ["python3", "/usr/bin/python3"]
            .iter()
            .any(|python| succeeds(Command::new(python).args(["-c", "import mpi4py"]))),
        Need::Hwloc => succeeds(Command::new("pkg-config").args(["--exists", "hwloc >= 2.0"])),
        Need::Tbb => succeeds(Command::new("pkg-config").args(["--exists", "tbb"])),
        Need::OpenBlas => succeeds(Command::new("pkg-config").args(["--exists", "openblas"])),
        // The program's package only recommends them: both are installed if the program is missing.
        Need::Pseudopotentials => find_program(Need::QuantumEspresso.name()).is_some(),
        Need::Scalapack => Path::new("/usr/share/scalapack/LU.dat").exists(),
        Need::Fftw => links("#include <fftw3.h>\nint main(void) { return 0; }", "-lfftw3"),
        Need::FftwOverMpi => links("int main(void) { return 0; }", "-lfftw3_mpi"),
        Need::Petsc => Path::new("/usr/lib/petscdir").exists(),
        Need::Rmpi => Path::new("/usr/lib/R/site-library/Rmpi").exists(),
        Need::Kokkos => Path::new("/usr/include/trilinos/Kokkos_Core.hpp").exists(),
        Need::NetworkTools | Need::Slurm | Need::Emulator | Need::Quotas | Need::Bootstrap => {
            find_system_program(need.name()).is_some()
        }
        Need::Python => succeeds(Command::new("python3").args(["-c", "import ensurepip, venv"])),
        Need::Udev => !hwloc_links_udev() || links("int main(void) { return 0; }", "-ludev"),
        Need::LibClang => finds_libclang(),
        Need::OpenMp => {
            links("#include <omp.h>\nint main(void) { return omp_get_level(); }", "-fopenmp")
        }
    }
}

/// Returns the facts for the plan. Slower than the probes, so called only if something is missing.
pub fn machine() -> Machine {
    let privilege = if rustix::process::geteuid().is_root() {
        Privilege::Root
    } else if succeeds(Command::new("sudo").args(["-n", "true"])) {
        Privilege::SudoSilent
    } else if find_program("sudo").is_some() && std::io::stdin().is_terminal() {
        Privilege::SudoAsking
    } else {
        Privilege::None
    };
    Machine {
        has_apt: find_program("apt-get").is_some(),
        privilege,
        asks: matches!(privilege, Privilege::Root | Privilege::SudoSilent)
            && std::io::stdin().is_terminal(),
        lists_are_fresh: lists_are_fresh(Path::new("/var/lib/apt/lists")),
    }
}

fn cc() -> OsString {
    std::env::var_os("CC").unwrap_or_else(|| "cc".into())
}

fn succeeds(command: &mut Command) -> bool {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns true if hwloc must be linked with udev. The bindings ask pkg-config for static flags
/// even for a dynamic link; Debian's hwloc then names udev, other builds of hwloc do not.
fn hwloc_links_udev() -> bool {
    let flags = Command::new("pkg-config").args(["--static", "--libs", "hwloc"]).output();
    match flags {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).split_whitespace().any(|flag| flag == "-ludev")
        }
        // hwloc is not installed yet; apt's needs udev.
        _ => true,
    }
}

fn links(program: &str, flag: &str) -> bool {
    let script = Command::new(cc())
        .args(["-x", "c", "-", flag, "-o", "/dev/null"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut compiler) = script else { return false };
    if let Some(mut input) = compiler.stdin.take() {
        let _compiler_says_no = std::io::Write::write_all(&mut input, program.as_bytes());
    }
    compiler.wait().is_ok_and(|status| status.success())
}

/// Searches where the bindings generator searches: its own variable, the newest llvm-config, and
/// the library folders. The compiler's own headers must be next to the library.
fn finds_libclang() -> bool {
    if let Some(path) = std::env::var_os("LIBCLANG_PATH") {
        let path = PathBuf::from(path);
        return path.is_file() || holds(&path, is_libclang);
    }
    let folders = library_folders();
    let library = folders.iter().any(|folder| holds(folder, is_libclang));
    let headers = folders.iter().any(|folder| {
        let versions = fs::read_dir(folder.join("clang")).into_iter().flatten().flatten();
        versions.map(|entry| entry.path().join("include/stddef.h")).any(|file| file.exists())
    });
    library && headers
}

fn library_folders() -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> =
        ["/usr/lib", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64"].map(Into::into).into();
    folders.push(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH).into());
    let versions = fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    folders.extend(
        versions
            .filter(|entry| entry.file_name().to_string_lossy().starts_with("llvm"))
            .map(|entry| entry.path().join("lib")),
    );
    if let Ok(output) = Command::new("llvm-config").arg("--libdir").output() {
        folders.push(String::from_utf8_lossy(&output.stdout).trim().into());
    }
    folders
}

fn is_libclang(name: &OsStr) -> bool {
    let name = name.to_string_lossy();
    let version = name.strip_prefix("libclang").and_then(|rest| rest.split_once(".so"));
    version.is_some_and(|(infix, _)| !infix.contains(|c: char| c.is_alphabetic()))
}

fn holds(folder: &Path, accept: fn(&OsStr) -> bool) -> bool {
    fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| accept(&entry.file_name()))
}

/// Judged by the folder, since apt gives each list the date of the mirror.
fn lists_are_fresh(folder: &Path) -> bool {
    let renewed = folder.metadata().and_then(|data| data.modified()).map(|time| time.elapsed());
    // A clock set back makes the folder newer than now.
    let recent = renewed.is_ok_and(|age| age.map_or(true, |age| age < LISTS_GROW_OLD));
    recent && holds(folder, |name| name.to_string_lossy().contains("_Packages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_library_itself_counts_as_libclang() {
        for name in ["libclang.so", "libclang.so.1", "libclang-14.so.1"] {
            assert!(is_libclang(OsStr::new(name)), "{name}");
        }
        for name in ["libclang.a", "libclang-cpp.so.14", "libclangAST.a"] {
            assert!(!is_libclang(OsStr::new(name)), "{name}");
        }
    }

    #[test]
    fn a_folder_without_lists_is_not_fresh() {
        let folder = tempfile::tempdir().unwrap();
        assert!(!lists_are_fresh(folder.path()));
        assert!(!lists_are_fresh(&folder.path().join("absent")));
        fs::write(folder.path().join("mirror_dists_stable_main_binary-amd64_Packages.lz4"), "")
            .unwrap();
        assert!(lists_are_fresh(folder.path()));
    }
}
