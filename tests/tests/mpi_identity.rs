//! A libquo and a program built for different MPIs, in one process: refused with both names on
//! every rank, without a crash or a hang. A launcher of one MPI under a program of another:
//! reported.
//!
//! The other MPIs are those whose compilers `QUO_TESTS_OTHER_MPIS` names (separated by `:`),
//! otherwise those that `cargo xtask mpi` has found, otherwise Debian's `mpicc.mpich` and
//! `mpicc.openmpi`; an MPI that is missing or in use is left out. A libquo for another MPI is this
//! build's libquo with its C files compiled again.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::OnceLock;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use quo_tests::suite::{self, Skipped, Test};
use quo_tests::{
    BindTo, Checkout, Launcher, Library, Outcome, Running, mpicc, mpirun, run_compiler,
};

const TESTS: &[Test] = &[
    ("a_program_of_another_mpi_is_refused_on_every_rank", programs_of_others),
    ("a_libquo_of_another_mpi_refuses_on_every_rank", libraries_of_others),
    ("libquo_with_another_mpis_c_file_serves_that_mpi", others_among_themselves),
    ("a_launcher_of_another_mpi_is_told_by_quo_info", launchers_of_others),
    ("loader_errors_about_libquo_are_not_excused", loader_errors),
    ("negative_version_is_not_the_standards_interface", negative_version),
    ("one_program_of_the_standard_runs_on_each_mpi", one_program),
];

const RANKS: usize = 2;
const LIMIT: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let obstacle = match mpis() {
        Ok((_, others)) if others.is_empty() => {
            Some("there is no second MPI, such as the package libmpich-dev".to_owned())
        }
        // The tests report the error.
        _ => None,
    };
    suite::run(TESTS, obstacle)
}

/// An MPI, by its compiler and launcher.
struct Mpi {
    mpicc: OsString,
    mpirun: OsString,
    /// The name libquo gives it, without the version: enough to recognise it in a text.
    name: &'static str,
}

/// Returns the MPI in use, and the others.
fn mpis() -> Result<&'static (Mpi, Vec<Mpi>)> {
    static MPIS: OnceLock<Result<(Mpi, Vec<Mpi>), String>> = OnceLock::new();
    let found = MPIS.get_or_init(|| look_for_mpis().map_err(|error| format!("{error:#}")));
    found.as_ref().map_err(|error| anyhow!("{error}"))
}

fn look_for_mpis() -> Result<(Mpi, Vec<Mpi>)> {
    let mut ours = Mpi::of(&mpicc())?.context("the MPI in use has no compiler")?;
    ours.mpirun = mpirun();
    let mut others: Vec<Mpi> = Vec::new();
    for compiler in other_compilers()? {
        let Some(other) = Mpi::of(&compiler)? else { continue };
        if others.iter().chain([&ours]).all(|known| known.name != other.name) {
            others.push(other);
        }
    }
    Ok((ours, others))
}

fn other_compilers() -> Result<Vec<OsString>> {
    if let Some(named) = std::env::var_os("QUO_TESTS_OTHER_MPIS") {
        let paths = std::env::split_paths(&named).map(PathBuf::into_os_string);
        return Ok(paths.filter(|path| !path.is_empty()).collect());
    }
    // In the build folder for the MPI in use, or in its parent if that MPI is not the usual one.
    let build = Checkout::find()?.program("libquo_c.so")?;
    let homes = build.ancestors().skip(1).map(|folder| folder.join("mpi/homes"));
    let homes = homes.filter_map(|homes| std::fs::read_dir(homes).ok()).flatten().flatten();
    let mut compilers: Vec<OsString> =
        homes.map(|home| home.path().join("bin/mpicc").into_os_string()).collect();
    compilers.sort();
    compilers.extend(["mpicc.mpich", "mpicc.openmpi"].map(OsString::from));
    Ok(compilers)
}

/// Prints the name and major version of the MPI it is compiled for.
const ASK: &str = r#"#include <mpi.h>
#if defined(I_MPI_VERSION)
"Intel MPI 2021"
#elif defined(MPICH_VERSION)
"MPICH " MPICH_VERSION
#elif defined(OPEN_MPI)
"Open MPI " OMPI_MAJOR_VERSION
#elif defined(MPI_ABI_VERSION)
"MPI's standard binary interface"
#endif
"#;

impl Mpi {
    /// Returns `None` if there is no such compiler, or if it compiles for the standard's interface,
    /// which any MPI may provide.
    fn of(mpicc: &OsStr) -> Result<Option<Mpi>> {
        let folder = tempfile::tempdir()?;
        let file = folder.path().join("ask.c");
        std::fs::write(&file, ASK)?;
        let Ok(output) = Command::new(mpicc).args(["-E", "-P"]).arg(&file).output() else {
            return Ok(None);
        };
        // The wrapper's underlying compiler is gone.
        if output.status.code() == Some(127) {
            return Ok(None);
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let last = text.lines().rfind(|line| line.contains("MPI")).unwrap_or_default();
        let last = last.replace('"', "");
        let known = [
            "Intel MPI 2021",
            "MPICH 3",
            "MPICH 4",
            "MPICH 5",
            "Open MPI 4",
            "Open MPI 5",
            "Open MPI 6",
        ];
        let words = last.split_whitespace().collect::<Vec<_>>().join(" ");
        if words.contains("binary interface") {
            return Ok(None);
        }
        let Some(name) = known.into_iter().find(|name| words.starts_with(name)) else {
            bail!("{} is of no MPI that this test knows: {words}", mpicc.display());
        };
        let path = Path::new(mpicc);
        let launcher = path.file_name().unwrap_or_default().to_string_lossy();
        let mpirun = path.with_file_name(launcher.replacen("mpicc", "mpirun", 1)).into_os_string();
        Ok(Some(Mpi { mpicc: mpicc.to_owned(), mpirun, name }))
    }

    /// Starts ranks and waits for them.
    fn run(&self, program: &Path, arguments: &[&str]) -> Result<Outcome> {
        let mut command = Launcher::of(&self.mpirun)?.command(RANKS, BindTo::None);
        command.arg(program).args(arguments);
        let description = format!("{RANKS} ranks of {} by {}", program.display(), self.name);
        Running::start(&mut command, &description, LIMIT)?.finish()
    }

    /// Compiles the program of these tests for this MPI and the libquo in a folder.
    fn compile(&self, libquo: &Path, folder: &Path) -> Result<PathBuf> {
        let checkout = Checkout::find()?;
        let program = folder.join(format!("which_mpi-{}", self.name.replace(' ', "-")));
        let mut compiler = Command::new(&self.mpicc);
        compiler.args(["-std=c11", "-Wall", "-Wextra", "-Werror", "-g", "-I"]);
        compiler.arg(checkout.root().join("bindings-c/include"));
        compiler.arg(checkout.root().join("tests/programs/which_mpi.c")).arg("-o").arg(&program);
        compiler.arg("-L").arg(libquo).arg("-lquo");
        // Libquo itself finds the libraries of its own MPI.
        compiler.arg("-Wl,--allow-shlib-undefined");
        compiler.arg(format!("-Wl,--disable-new-dtags,-rpath,{}", libquo.display()));
        run_compiler(&mut compiler)?;
        Ok(program)
    }

    /// Links this build's libquo with its C files compiled for this MPI.
    fn libquo(&self, folder: &Path) -> Result<PathBuf> {
        let checkout = Checkout::find()?;
        let folder = folder.join(format!("libquo-{}", self.name.replace(' ', "-")));
        std::fs::create_dir(&folder)?;
        let sources = std::fs::read_dir(checkout.root().join("quo/mpi/src"))?;
        let sources: Vec<_> = sources.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
        let mut objects = Vec::new();
        for source in sources.iter().filter(|path| path.extension().is_some_and(|end| end == "c")) {
            let object = folder.join(source.with_extension("o").file_name().context("no name")?);
            let mut compiler = Command::new(&self.mpicc);
            compiler.args(["-std=c11", "-O2", "-fPIC", "-fvisibility=hidden", "-c"]);
            run_compiler(compiler.arg(source).arg("-o").arg(&object))?;
            objects.push(object);
        }
        // The objects come first, so that the archive's versions of them are not used.
        let exports = folder.join("exports");
        std::fs::write(&exports, "{ global: QUO_*; local: *; };\n")?;
        let mut linker = Command::new(&self.mpicc);
        linker.args(["-shared", "-Wl,-soname,libquo.so.8", "-Wl,-z,defs"]).args(&objects);
        // A build with all features also contains the crate `mpi`, none of which is used.
        linker.arg("-Wl,--gc-sections");
        linker.arg(format!("-Wl,--version-script={}", exports.display()));
        let source = std::fs::read_to_string(checkout.root().join("tests/programs/which_mpi.c"))?;
        for name in functions(&source) {
            linker.arg(format!("-Wl,-u,{name}"));
        }
        linker.arg(checkout.program("libquo_c.a")?).args(["-lhwloc", "-lm", "-ldl", "-lpthread"]);
        linker.args(["-lgcc_s", "-o"]).arg(folder.join("libquo.so.8"));
        run_compiler(&mut linker)?;
        std::os::unix::fs::symlink("libquo.so.8", folder.join("libquo.so"))?;
        Ok(folder)
    }
}

/// Returns the functions of libquo that a program calls.
fn functions(source: &str) -> Vec<String> {
    let starts = source.match_indices("QUO_").map(|(start, _)| &source[start..]);
    let names = starts.map(|text| {
        text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
    });
    let mut names: Vec<String> = names.collect();
    names.retain(|name| name.chars().any(char::is_lowercase) && name != "QUO_context");
    names.sort();
    names.dedup();
    names
}

/// Checks that every rank was refused, with a text that names libquo's MPI first and then its own.
fn expect_refusal(outcome: &Outcome, libquo: &Mpi, program: &Mpi) -> Result<()> {
    outcome.expect_success()?;
    let built = format!("was built for {}", libquo.name);
    let runs = format!("the process runs {}", program.name);
    // A launcher may interleave pieces of two ranks' lines, so the whole output is searched at
    // once.
    let places = |part: &str| -> Vec<usize> {
        outcome.stdout.match_indices(part).map(|(place, _)| place).collect()
    };
    let (first, second) = (places(&built), places(&runs));
    let in_order = first.iter().zip(&second).all(|(first, second)| first < second);
    let refused = [first.len(), second.len(), places("ok QUO_").len()];
    if refused != [RANKS; 3] || !in_order {
        bail!("not every rank was refused with both names: {}", outcome.report());
    }
    Ok(())
}

/// Returns true if the loader ended the processes because of a foreign library, before any code of
/// this project ran: two MPIs may bring incompatible libraries of one name (the UCX of MPICH 4 and
/// 5).
fn ended_by_the_loader(outcome: &Outcome) -> bool {
    !outcome.status.success() && outcome.stdout.is_empty() && is_of_another_library(&outcome.stderr)
}

/// Returns true if the loader names a symbol or a version, and none that libquo lacks or should
/// provide.
fn is_of_another_library(said: &str) -> bool {
    let of_loader = |line: &&str| {
        line.contains("symbol lookup error") || line.contains("' not found (required by ")
    };
    let mut errors = said.lines().filter(of_loader).peekable();
    errors.peek().is_some()
        && errors.all(|line| !line.contains("libquo") && !line.contains("undefined symbol: QUO_"))
}

/// Skips the test if the loader ended every run, as such a run shows nothing.
fn expect_any_refusal(refused: usize) -> Result<()> {
    if refused == 0 {
        let why = "the libraries of each other MPI do not fit to those of the MPI in use";
        return Err(Skipped(why.to_owned()).into());
    }
    Ok(())
}

fn loader_errors() -> Result<()> {
    let of = |who: &str, symbol: &str| {
        format!("{who}: symbol lookup error: {who}: undefined symbol: {symbol}\n")
    };
    let other = of("/usr/lib/libucp.so.0", "ucs_config_parser");
    let version = |file: &str, by: &str| {
        format!("./which_mpi: {file}: version `FABRIC_1.9' not found (required by {by})\n")
    };
    let others = [other.clone(), version("/lib/libfabric.so.1", "/opt/mpi/lib/libmpi.so.12")];
    for other in others {
        anyhow::ensure!(is_of_another_library(&other), "{other}");
    }
    for ours in [
        of("./which_mpi", "QUO_create"),
        of("/tmp/libquo.so.8", "MPI_Session_init"),
        version("/lib/libfabric.so.1", "/tmp/libquo.so.8"),
        String::new(),
    ] {
        anyhow::ensure!(!is_of_another_library(&ours), "{ours}");
        let both = if ours.is_empty() { ours } else { other.clone() + &ours };
        anyhow::ensure!(!is_of_another_library(&both), "{both}");
    }
    Ok(())
}

fn programs_of_others() -> Result<()> {
    let (ours, others) = mpis()?;
    let folder = tempfile::tempdir()?;
    let libquo = named_libquo()?;
    let mut refused = 0;
    for other in others {
        let program = other.compile(&libquo, folder.path())?;
        let outcome = other.run(&program, &["refused"])?;
        if !ended_by_the_loader(&outcome) {
            expect_refusal(&outcome, ours, other)?;
            refused += 1;
        }
    }
    // This MPI's own program is served.
    let program = ours.compile(&libquo, folder.path())?;
    expect_service(&ours.run(&program, &["works"])?)?;
    expect_any_refusal(refused)
}

fn libraries_of_others() -> Result<()> {
    let (ours, others) = mpis()?;
    let mut refused = 0;
    for other in others {
        let folder = tempfile::tempdir()?;
        let program = ours.compile(&other.libquo(folder.path())?, folder.path())?;
        let outcome = ours.run(&program, &["refused"])?;
        if !ended_by_the_loader(&outcome) {
            expect_refusal(&outcome, other, ours)?;
            refused += 1;
        }
    }
    expect_any_refusal(refused)
}

fn others_among_themselves() -> Result<()> {
    let (_, others) = mpis()?;
    for other in others {
        let folder = tempfile::tempdir()?;
        let program = other.compile(&other.libquo(folder.path())?, folder.path())?;
        expect_service(&other.run(&program, &["works"])?)?;
    }
    Ok(())
}

fn launchers_of_others() -> Result<()> {
    let (ours, others) = mpis()?;
    let program = Checkout::find()?.program("quo-info")?;
    let folder = tempfile::tempdir()?;
    let apart = with_temporary_files_apart(&program, folder.path())?;
    for other in others {
        if other.name.split(' ').next() == ours.name.split(' ').next() {
            // One release's launcher may well serve another release.
            continue;
        }
        for arguments in [&["bindings"][..], &["bindings", "--json"]] {
            let outcome = other.run(&apart, arguments)?;
            if outcome.stderr.contains("MPI_Init") && outcome.stdout.is_empty() {
                // An MPI may end ranks that it cannot connect (MPICH 5 under PMIx), and reports
                // that.
                continue;
            }
            let told = outcome.stdout.matches(ours.name).count();
            let warned = outcome.stdout.matches("sees 1 rank, but mpi").count();
            if (told, warned) != (RANKS, RANKS) {
                bail!("not every process warns: {}", outcome.report());
            }
            // Without a request one rank warns for all, and names the launcher.
            let said = outcome.stderr.matches("quo: warning: ").count();
            if said != 1 || !outcome.stderr.contains(&format!("-n {RANKS} ...")) {
                bail!("{said} processes warn by themselves: {}", outcome.report());
            }
        }
    }
    let outcome = ours.run(&program, &["bindings", "--json"])?;
    outcome.expect_success()?;
    if !outcome.stdout.contains("\"warnings\": []") {
        bail!("a warning without cause: {}", outcome.report());
    }
    Ok(())
}

/// Writes a script that gives each process of a program its own folder for temporary files:
/// singleton processes of Open MPI 4 that start at the same moment all create the node's folder,
/// and fail if it exists already.
fn with_temporary_files_apart(program: &Path, folder: &Path) -> Result<PathBuf> {
    let script = folder.join("apart");
    let text = format!(
        "#!/bin/sh\nTMPDIR='{}'/$$\nmkdir \"$TMPDIR\" && export TMPDIR && exec '{}' \"$@\"\n",
        folder.display(),
        program.display()
    );
    std::fs::write(&script, text)?;
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o700))?;
    Ok(script)
}

fn expect_service(outcome: &Outcome) -> Result<()> {
    outcome.expect_success()?;
    if outcome.stdout.matches("ok works").count() != RANKS {
        bail!("not every rank was served: {}", outcome.report());
    }
    Ok(())
}

/// Open MPI 6 reports -1 in its own header, and 1 in the standard's.
fn negative_version() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let sources = Checkout::find()?.root().join("quo/mpi/src");
    let (source, program) = (folder.path().join("asks.c"), folder.path().join("asks"));
    let text = r#"#include <stdio.h>
#include "quo_mpi.h"
int main(void)
{
    int is_standard = quo_mpi_built_family() == QUO_MPI_STANDARD;
    printf("%d %d %s", is_standard, quo_mpi_offers_standard(), quo_mpi_built_version());
    return 0;
}
"#;
    std::fs::write(&source, text)?;
    let mut compiler = Command::new(mpicc());
    compiler.args(["-DMPI_ABI_VERSION=-1", "-DMPI_ABI_SUBVERSION=-1", "-I"]).arg(&sources);
    // No function of the layer's other C files is called.
    compiler.arg("-Wl,--unresolved-symbols=ignore-all").arg(&source).arg(sources.join("mpi.c"));
    run_compiler(compiler.arg("-o").arg(&program))?;
    let output = Command::new(&program).output()?;
    let said = String::from_utf8(output.stdout)?;
    if !output.status.success() || !said.starts_with("0 0 ") || said.contains("-1") {
        bail!("{}: {said:?}", output.status);
    }
    Ok(())
}

/// Name of the library with MPI 5's standard binary interface, in any MPI.
const STANDARD: &str = "libmpi_abi.so.1";

/// An MPI that has the standard's library.
struct Speaker {
    /// Name by which it identifies itself.
    name: &'static str,
    mpicc: PathBuf,
    mpirun: PathBuf,
    library: PathBuf,
}

/// Returns the MPIs in the folder of MPICH's Python package, and those of Debian's packages, which
/// can be installed together.
fn speakers() -> Result<Vec<Speaker>> {
    let mut speakers = Vec::new();
    for compiler in other_compilers()? {
        let mpicc = Path::new(&compiler).with_file_name("mpicc_abi");
        let Ok(shown) = Command::new(&mpicc).arg("-show").output() else { continue };
        let shown = String::from_utf8_lossy(&shown.stdout).into_owned();
        let folders = shown.split_whitespace().filter_map(|word| word.strip_prefix("-L"));
        let mut libraries = folders.map(|folder| Path::new(folder).join(STANDARD));
        let Some(library) = libraries.find(|file| file.exists()) else { continue };
        let mpirun = mpicc.with_file_name("mpirun");
        speakers.push(Speaker { name: "MPICH", mpicc, mpirun, library });
    }
    let folder = PathBuf::from(format!("/usr/lib/{}-linux-gnu", std::env::consts::ARCH));
    for (name, ending, mpicc) in [
        ("MPICH", "mpich", "/usr/bin/mpicc.mpi_abi_mpich"),
        ("Open MPI", "openmpi", "/usr/bin/mpicc_abi.openmpi"),
    ] {
        let library = folder.join(format!("libmpi_abi_{ending}.so.1.0.0"));
        let mpirun = PathBuf::from(format!("/usr/bin/mpirun.{ending}"));
        if library.exists() && mpirun.exists() {
            speakers.push(Speaker { name, mpicc: mpicc.into(), mpirun, library });
        }
    }
    Ok(speakers)
}

/// Runs a libquo and a program that were linked once, each time with another library under the
/// standard's name.
fn one_program() -> Result<()> {
    let speakers = speakers()?;
    let Some(first) = speakers.iter().find(|speaker| speaker.mpicc.exists()) else {
        let why = "no MPI here has the standard's library and a compiler for it";
        return Err(Skipped(why.to_owned()).into());
    };
    let folder = tempfile::tempdir()?;
    let name = "the standard binary interface of MPI";
    let (mpicc, mpirun) = (first.mpicc.clone().into(), first.mpirun.clone().into());
    let standard = Mpi { mpicc, mpirun, name };
    let libquo = standard.libquo(folder.path())?;
    let program = standard.compile(&libquo, folder.path())?;
    let libquo = libquo.join("libquo.so.8");
    for speaker in &speakers {
        let mut command = Launcher::of(speaker.mpirun.as_os_str())?.command(RANKS, BindTo::None);
        // For the ranks only: what the launcher starts before them has its own libraries.
        let first = format!("LD_PRELOAD={}:{}", speaker.library.display(), libquo.display());
        command.arg("env").arg(first);
        command.arg(&program).arg("works");
        let description = format!("{RANKS} ranks of the standard by {}", speaker.name);
        let outcome = Running::start(&mut command, &description, LIMIT)?.finish()?;
        expect_service(&outcome)?;
        if outcome.stdout.matches(&format!("ok works with {}", speaker.name)).count() != RANKS {
            bail!("not {}: {}", speaker.name, outcome.report());
        }
    }
    Ok(())
}

/// Returns the folder with the installed names of the libquo that cargo built.
fn named_libquo() -> Result<PathBuf> {
    let built = Checkout::find()?.program("libquo_c.so")?;
    let include = Checkout::find()?.root().join("bindings-c/include");
    let _named: Library = Library::as_built(&include, &built)?;
    Ok(built.with_file_name("libquo-named"))
}
