//! Third-party programs use an installation, from outside the checkout: in C, C++ and Fortran; with
//! pkg-config, CMake, make and fpm; with the shared library and the static one; with a modulefile.

#[path = "consumers/spack.rs"]
mod spack;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

use anyhow::{Result, ensure};
use quo_tests::memprof::{PROGRAMS, fake_mpi};
use quo_tests::suite::{Skipped, Test, run};
use quo_tests::{
    BindTo, Checkout, Installation, Job, Launcher, Outcome, Running, Selection, mpicc, mpicxx,
    mpifort, run_compiler,
};

/// Limit for one call of a build tool.
const LIMIT: Duration = Duration::from_secs(180);

/// The machine of the expected output.
const MACHINE: &str = "pack:2 core:2 pu:2";

const TESTS: [Test; 18] = [
    ("pkg_config_serves_c", pkg_config_serves_c),
    ("pkg_config_serves_cxx", pkg_config_serves_cxx),
    ("pkg_config_serves_fortran", pkg_config_serves_fortran),
    ("the_name_of_the_reference_serves_fortran", the_name_of_the_reference_serves_fortran),
    ("pkg_config_serves_static_programs", pkg_config_serves_static_programs),
    ("memprof_flags_serves_static_programs", memprof_flags_serves_static_programs),
    ("quo_info_serves_fortran", quo_info_serves_fortran),
    ("cmake_serves_three_languages_after_a_move", cmake_serves_three_languages_after_a_move),
    ("cmake_compiles_modules_for_another_compiler", cmake_compiles_modules_for_another_compiler),
    ("cmake_compares_versions", cmake_compares_versions),
    ("cmake_explains_what_is_missing", cmake_explains_what_is_missing),
    ("fpm_takes_the_sources_as_a_package", fpm_takes_the_sources_as_a_package),
    ("fpm_takes_the_installed_modules", fpm_takes_the_installed_modules),
    (
        "make_checks_the_installed_examples_with_one_slot",
        make_checks_the_installed_examples_with_one_slot,
    ),
    (
        "ctest_checks_the_installed_examples_with_one_slot",
        ctest_checks_the_installed_examples_with_one_slot,
    ),
    ("a_modulefile_is_loaded_and_unloaded", a_modulefile_is_loaded_and_unloaded),
    ("spack_would_call_what_is_there", spack::spack_would_call_what_is_there),
    ("a_library_without_fortran_says_so", a_library_without_fortran_says_so),
];

fn main() -> ExitCode {
    if !Selection::of_this_program().is_listing() {
        // Outside the time limit of a test, since it may have to compile everything. Every test
        // that needs the installation reports the reason for a failure.
        let _told_by_the_tests = installed();
    }
    run(&TESTS, None)
}

fn installed() -> Result<Installation> {
    Installation::shared(env!("CARGO_TARGET_TMPDIR"), "consumed")
}

/// Returns an installation whose library has a Fortran part, where `use mpi` can be compiled.
fn installed_with_fortran() -> Result<Installation> {
    let installed = installed()?;
    let folder = tempfile::tempdir()?;
    fs::write(folder.path().join("probe.f90"), "program probe\n  use mpi\nend program\n")?;
    let mut compiler = Command::new(mpifort());
    compiler.current_dir(&folder).args(["-c", "probe.f90"]);
    if !installed.has_fortran() || run_compiler(&mut compiler).is_err() {
        let name = mpifort().to_string_lossy().into_owned();
        return Err(Skipped(format!("{name} has no module mpi for gfortran")).into());
    }
    Ok(installed)
}

/// Skips the test if a program is not on the path.
fn need(name: &str) -> Result<()> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if std::env::split_paths(&path).any(|folder| folder.join(name).is_file()) {
        return Ok(());
    }
    Err(Skipped(format!("there is no {name} on this machine")).into())
}

/// Runs a tool that must succeed.
fn tool(command: &mut Command) -> Result<Outcome> {
    let outcome = ended(command)?;
    outcome.expect_success()?;
    Ok(outcome)
}

fn ended(command: &mut Command) -> Result<Outcome> {
    let description = format!("{command:?}");
    Running::start(command, &description, LIMIT)?.finish()
}

/// Runs a build of the example program, which prints the lines that the example promises.
fn expect_widened(program: &Path) -> Result<()> {
    let expected = fs::read_to_string(installed()?.path("share/quo/examples/widen.expected"))?;
    let outcome = Job::new(4, program).topology(MACHINE).env("QUO_BINDING", "core").run()?;
    outcome.expect_success()?;
    ensure!(outcome.stdout == expected, "{}: {:?}", program.display(), outcome.stdout);
    Ok(())
}

/// Compiles the example in one language into its own folder and runs it.
fn consume(compiler: Command, end: &str, before: &[String], after: &[String]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let source = installed()?.path(&format!("share/quo/examples/widen.{end}"));
    let program = folder.path().join("program");
    let mut compiler = compiler;
    compiler.current_dir(&folder).args(["-Wall", "-Wextra", "-Werror"]).args(before);
    run_compiler(compiler.arg(&source).arg("-o").arg(&program).args(after))?;
    expect_widened(&program)
}

fn with_run_path(installed: &Installation, mut flags: Vec<String>) -> Vec<String> {
    flags.push(installed.run_path());
    flags
}

/// Returns flags for C++, without the MPI's C++ classes and their warnings.
fn cxx(mut flags: Vec<String>) -> Vec<String> {
    flags.extend(["-std=c++17", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX"].map(String::from));
    flags
}

fn pkg_config_serves_c() -> Result<()> {
    let installed = installed()?;
    let link = installed.pkg_config("libquo", &["--libs"])?;
    let flags = installed.pkg_config("libquo", &["--cflags"])?;
    consume(Command::new(mpicc()), "c", &flags, &link)
}

fn pkg_config_serves_cxx() -> Result<()> {
    let installed = installed()?;
    let link = installed.pkg_config("libquo", &["--libs"])?;
    let flags = cxx(installed.pkg_config("libquo", &["--cflags"])?);
    consume(Command::new(mpicxx()), "cpp", &flags, &link)
}

fn pkg_config_serves_fortran() -> Result<()> {
    let installed = installed_with_fortran()?;
    let link = installed.pkg_config("libquo-fortran", &["--libs"])?;
    let flags = installed.pkg_config("libquo-fortran", &["--cflags"])?;
    consume(Command::new(mpifort()), "f90", &flags, &link)?;
    let variable = installed.pkg_config("libquo", &["--variable=fflags"])?;
    let same = flags.iter().all(|flag| variable.contains(flag) || flag.ends_with("include"));
    ensure!(same, "{variable:?} and {flags:?}");
    // The same with the handles of mpi_f08, if there are any.
    let example = fs::read_to_string(installed.path("share/quo/examples/widen.f90"))?;
    let (folder, probe) = (tempfile::tempdir()?, "program p\n  use mpi_f08\nend program\n");
    let (source, program) = (folder.path().join("f08.f90"), folder.path().join("f08"));
    let compile = |text: &str, further: &[String]| {
        fs::write(&source, text)?;
        let mut compiler = Command::new(mpifort());
        compiler.current_dir(&folder).args(&flags).arg(&source).arg("-o").arg(&program);
        run_compiler(compiler.args(further))
    };
    if compile(probe, &[]).is_ok() {
        compile(&example.replace("  use mpi\n", "  use mpi_f08\n"), &link)?;
        expect_widened(&program)?;
    }
    Ok(())
}

fn the_name_of_the_reference_serves_fortran() -> Result<()> {
    let installed = installed_with_fortran()?;
    let flags = [format!("-I{}", installed.path("include/quo/fortran").display())];
    let folder = format!("-L{}", installed.path("lib").display());
    let link = with_run_path(&installed, vec![folder, "-lquo-usequo".to_owned()]);
    consume(Command::new(mpifort()), "f90", &flags, &link)
}

fn pkg_config_serves_static_programs() -> Result<()> {
    let installed = installed()?;
    let link = installed.pkg_config("libquo-static", &["--libs"])?;
    let flags = installed.pkg_config("libquo-static", &["--cflags"])?;
    consume(Command::new(mpicc()), "c", &flags, &link)?;
    consume(Command::new(mpicxx()), "cpp", &cxx(flags), &link)?;
    let installed = installed_with_fortran()?;
    let flags = installed.pkg_config("libquo-static", &["--variable=fflags"])?;
    consume(Command::new(mpifort()), "f90", &flags, &link)
}

/// Uses the installed archive, header and command, and no file of cargo's builds.
fn memprof_flags_serves_static_programs() -> Result<()> {
    let found = tool(Command::new("cc").arg("-print-file-name=libc.a"))?.stdout;
    if Path::new(found.trim()).is_relative() {
        return Err(Skipped("there is no libc.a".to_owned()).into());
    }
    let (installed, fake) = (installed()?, fake_mpi()?);
    let memprof = || {
        let mut command = Command::new(installed.path("bin/memprof"));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("MEMPROF_") {
                command.env_remove(name);
            }
        }
        command
    };
    let told = tool(memprof().arg("flags"))?.stdout;
    let place = format!("-L{}", installed.path("lib").display());
    ensure!(told.split_whitespace().any(|word| word == place), "{told}");
    let folder = tempfile::tempdir()?;
    let (program, traces) = (folder.path().join("books"), folder.path().join("traces"));
    let mut compiler = Command::new("cc");
    compiler.current_dir(&folder).args(["-D_GNU_SOURCE", "-std=gnu11", "-O1", "-fno-builtin"]);
    compiler.args(["-fno-optimize-sibling-calls", "-pthread", "-static", "-I"]);
    compiler.arg(installed.path("include"));
    compiler.arg(Checkout::find()?.root().join(PROGRAMS).join("static_books.c"));
    compiler.args(told.split_whitespace()).arg("-L").arg(fake).args(["-lfakempi", "-lstdc++"]);
    run_compiler(compiler.arg("-o").arg(&program))?;

    let launch = Launcher::find()?.command(2, BindTo::None);
    let mut run = memprof();
    run.envs(launch.get_envs().filter_map(|(name, value)| Some((name, value?))));
    run.arg("run").arg("--output").arg(&traces).arg("--").arg(launch.get_program());
    let outcome = tool(run.args(launch.get_args()).arg(&program))?;
    ensure!(outcome.stdout.matches("books agree").count() == 2, "{}", outcome.report());
    let report = tool(memprof().arg("report").arg(&traces))?.stdout;
    let is_static = report.contains("linked statically");
    ensure!(is_static && report.contains("2 ranks on 1 node"), "{report}");
    Ok(())
}

fn quo_info_serves_fortran() -> Result<()> {
    let installed = installed_with_fortran()?;
    let mut asked = Command::new(installed.path("bin/quo-info"));
    let told = tool(asked.args(["--lang", "Fortran", "--cflags", "--libs"]))?.stdout;
    let flags: Vec<String> = told.split_whitespace().map(String::from).collect();
    consume(Command::new(mpifort()), "f90", &flags, &with_run_path(&installed, flags.clone()))
}

fn configure(project: &Path, prefix: &Path, options: &[&str]) -> Command {
    let mut cmake = Command::new("cmake");
    cmake.arg("-S").arg(project).arg("-B").arg(project.join("build")).args(options);
    cmake.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix.display()));
    cmake
}

/// Creates a project with the example's sources and this text.
fn project(text: &str) -> Result<tempfile::TempDir> {
    let folder = tempfile::tempdir()?;
    for end in ["c", "cpp", "f90"] {
        let name = format!("widen.{end}");
        fs::copy(installed()?.path("share/quo/examples").join(&name), folder.path().join(name))?;
    }
    fs::write(folder.path().join("CMakeLists.txt"), text)?;
    Ok(folder)
}

fn build(project: &Path, programs: &[&str]) -> Result<()> {
    tool(Command::new("cmake").arg("--build").arg(project.join("build")))?;
    programs.iter().try_for_each(|name| expect_widened(&project.join("build").join(name)))
}

fn cmake_serves_three_languages_after_a_move() -> Result<()> {
    need("cmake")?;
    let fortran = installed_with_fortran();
    let installed = installed()?;
    let elsewhere = tempfile::tempdir()?;
    let moved = elsewhere.path().join("moved");
    tool(Command::new("cp").arg("-a").arg(installed.prefix()).arg(&moved))?;
    let mut text = "cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES C CXX)\n".to_owned();
    let mut programs = vec!["c", "cxx", "c_static"];
    let mut components = "C CXX static";
    if fortran.is_ok() {
        text += "enable_language(Fortran)\n";
        components = "C CXX Fortran static";
    }
    text += &format!(
        "find_package(quo 0.1 REQUIRED COMPONENTS {components})\n\
         add_executable(c widen.c)\ntarget_link_libraries(c quo::quo)\n\
         add_executable(c_static widen.c)\ntarget_link_libraries(c_static quo::static)\n\
         add_executable(cxx widen.cpp)\ntarget_link_libraries(cxx quo::cxx)\n"
    );
    if fortran.is_ok() {
        text += "add_executable(f widen.f90)\ntarget_link_libraries(f quo::fortran)\n\
                 add_executable(f_static widen.f90)\n\
                 target_link_libraries(f_static quo::fortran_modules quo::static)\n";
        programs.extend(["f", "f_static"]);
    }
    let project = project(&text)?;
    let told = tool(&mut configure(project.path(), &moved, &[]))?;
    ensure!(!told.stdout.contains("compiling the modules"), "{}", told.stdout);
    ensure!(!told.stderr.contains("was built for"), "{}", told.stderr);
    build(project.path(), &programs)?;
    for (program, linked) in [("c", true), ("c_static", false)] {
        let program = project.path().join("build").join(program);
        let told = tool(Command::new("readelf").arg("-d").arg(program))?.stdout;
        ensure!(told.contains("libquo.so.8") == linked, "{told}");
    }
    Ok(())
}

fn cmake_compiles_modules_for_another_compiler() -> Result<()> {
    need("cmake")?;
    let installed = installed_with_fortran()?;
    // The project claims another version of the Fortran compiler.
    let project = project(
        "cmake_minimum_required(VERSION 3.16)\nproject(p LANGUAGES Fortran)\n\
         set(CMAKE_Fortran_COMPILER_VERSION 99.1.0)\n\
         find_package(quo REQUIRED COMPONENTS Fortran)\n\
         add_executable(f widen.f90)\ntarget_link_libraries(f quo::fortran)\n",
    )?;
    let told = tool(&mut configure(project.path(), installed.prefix(), &[]))?.stdout;
    ensure!(told.contains("uses GNU 99.1.0: compiling the modules from"), "{told}");
    build(project.path(), &["f"])?;
    let made = project.path().join("build/quo-fortran/modules/quo.mod");
    ensure!(made.exists(), "{} is not there", made.display());
    Ok(())
}

/// Configures a project that only looks for quo.
fn looked_for(request: &str) -> Result<Outcome> {
    let project = project(&format!(
        "cmake_minimum_required(VERSION 3.19)\nproject(p LANGUAGES NONE)\n\
         find_package(quo {request} REQUIRED)\nmessage(STATUS \"MPI: ${{quo_MPI}}\")\n"
    ))?;
    ended(&mut configure(project.path(), installed()?.prefix(), &[]))
}

fn cmake_compares_versions() -> Result<()> {
    need("cmake")?;
    let (major, minor) = (env!("CARGO_PKG_VERSION_MAJOR"), env!("CARGO_PKG_VERSION_MINOR"));
    let newer = format!("{major}.{}", minor.parse::<u32>()? + 1);
    let other = format!("{}", major.parse::<u32>()? + 1);
    let ours = env!("CARGO_PKG_VERSION");
    for (request, is_found) in [
        (String::new(), true),
        (format!("{major}.0"), true),
        (ours.to_owned(), true),
        (format!("{ours} EXACT"), true),
        (format!("{major}.0...{newer}"), true),
        (newer.clone(), false),
        (other.clone(), false),
        (format!("{major}.0...<{ours}"), false),
        (format!("{newer}...{other}"), false),
    ] {
        let outcome = looked_for(&request)?;
        ensure!(outcome.status.success() == is_found, "{request:?}: {}", outcome.stderr);
        let text = if is_found { &outcome.stdout } else { &outcome.stderr };
        let word = if is_found { "MPI: " } else { "version: " };
        ensure!(text.contains(word), "{request:?}: {text}");
    }
    Ok(())
}

fn cmake_explains_what_is_missing() -> Result<()> {
    need("cmake")?;
    for (request, reason) in [
        ("COMPONENTS Fortran", "needs the language"),
        ("COMPONENTS Cobol", "the components C, CXX, Fortran and static, not Cobol"),
    ] {
        let outcome = looked_for(request)?;
        let text = outcome.stderr.split_whitespace().collect::<Vec<_>>().join(" ");
        ensure!(!outcome.status.success() && text.contains(reason), "{request}: {text}");
    }
    Ok(())
}

/// Returns the fpm that set-up fetched, or the machine's.
fn fpm() -> Result<PathBuf> {
    let program = Checkout::find()?.program("xtask")?;
    for folder in program.ancestors().skip(1).map(|folder| folder.join("fpm/lib")) {
        let versions = fs::read_dir(folder).into_iter().flatten().flatten();
        let programs = versions.map(|version| version.path().join("site-packages/fpm/fpm"));
        if let Some(program) = programs.into_iter().find(|program| program.is_file()) {
            return Ok(program);
        }
    }
    need("fpm")?;
    Ok(PathBuf::from("fpm"))
}

/// Builds the example with fpm, with these parts of a manifest and these options, and runs it.
fn fpm_project(installed: &Installation, manifest: &str, options: &[String]) -> Result<()> {
    let folder = tempfile::tempdir()?;
    fs::create_dir(folder.path().join("app"))?;
    let example = installed.path("share/quo/examples/widen.f90");
    fs::copy(example, folder.path().join("app/main.f90"))?;
    // fpm takes packages from paths that begin in the project's folder.
    std::os::unix::fs::symlink(installed.prefix(), folder.path().join("installed"))?;
    let text = format!("name = \"widen\"\nversion = \"1.0.0\"\n{manifest}");
    fs::write(folder.path().join("fpm.toml"), text)?;
    let mut build = Command::new(fpm()?);
    build.current_dir(&folder).arg("build").arg("--compiler").arg(mpifort()).args(options);
    let lib = installed.path("lib");
    build.arg("--link-flag").arg(format!("-L{} {}", lib.display(), installed.run_path()));
    tool(&mut build)?;
    let mut install = Command::new(fpm()?);
    install.current_dir(&folder).arg("install").arg("--compiler").arg(mpifort()).args(options);
    install.arg("--link-flag").arg(format!("-L{} {}", lib.display(), installed.run_path()));
    tool(install.arg("--prefix").arg(folder.path().join("out")))?;
    expect_widened(&folder.path().join("out/bin/widen"))
}

fn fpm_takes_the_sources_as_a_package() -> Result<()> {
    fpm()?;
    let installed = installed_with_fortran()?;
    let manifest = "[dependencies]\nquo = { path = \"installed/share/quo/fortran\" }\n\
                    [build]\nexternal-modules = [\"mpi\"]\n";
    fpm_project(&installed, manifest, &[])
}

fn fpm_takes_the_installed_modules() -> Result<()> {
    fpm()?;
    let installed = installed_with_fortran()?;
    let manifest = "[build]\nexternal-modules = [\"mpi\", \"quo\"]\nlink = [\"quo\"]\n";
    let modules = format!("-I{}", installed.path("include/quo/fortran").display());
    fpm_project(&installed, manifest, &["--flag".to_owned(), modules])
}

/// Copies the installed examples, as a user does, into `folder`.
fn copied_examples(folder: &Path) -> Result<PathBuf> {
    let copy = folder.join("examples");
    let examples = installed()?.path("share/quo/examples");
    tool(Command::new("cp").arg("-r").arg(examples).arg(&copy))?;
    Ok(copy)
}

fn make_checks_the_installed_examples_with_one_slot() -> Result<()> {
    need("make")?;
    let installed = installed()?;
    let folder = tempfile::tempdir()?;
    let copy = copied_examples(folder.path())?;
    let launcher = Launcher::find()?;
    let mut make = Command::new("make");
    make.current_dir(&copy).arg("check").arg(format!("QUO={}", installed.prefix().display()));
    launcher.limit_to_one_slot(&mut make, folder.path())?;
    if launcher.program() != "mpirun" {
        make.arg(format!("MPIRUN={} -n 4", launcher.program().to_string_lossy()));
    }
    for (name, wrapper) in [("MPICC", mpicc()), ("MPICXX", mpicxx()), ("MPIFC", mpifort())] {
        make.env(name, wrapper);
    }
    if installed_with_fortran().is_err() {
        make.arg("PROGRAMS=widen-c widen-cpp");
    }
    tool(&mut make)?;
    let expected = fs::read_to_string(copy.join("widen.expected"))?;
    for name in ["widen-c", "widen-cpp", "widen-f90"] {
        if copy.join(name).exists() {
            let output = fs::read_to_string(copy.join(format!("{name}.output")))?;
            ensure!(output == expected, "{name}: {output}");
        }
    }
    ensure!(copy.join("widen-f90").exists() == installed_with_fortran().is_ok(), "no widen-f90");
    Ok(())
}

fn ctest_checks_the_installed_examples_with_one_slot() -> Result<()> {
    need("ctest")?;
    let installed = installed_with_fortran()?;
    let folder = tempfile::tempdir()?;
    let copy = copied_examples(folder.path())?;
    let launcher = Launcher::find()?;
    let programs = [
        ("MPIEXEC_EXECUTABLE", launcher.program().to_owned()),
        ("MPI_C_COMPILER", mpicc()),
        ("MPI_CXX_COMPILER", mpicxx()),
        ("MPI_Fortran_COMPILER", mpifort()),
    ];
    let mut configure = configure(&copy, installed.prefix(), &[]);
    // CMake finds programs on the path by itself.
    for (name, program) in programs.iter().filter(|(_, program)| Path::new(program).is_absolute()) {
        configure.arg(format!("-D{name}={}", program.to_string_lossy()));
    }
    tool(&mut configure)?;
    tool(Command::new("cmake").arg("--build").arg(copy.join("build")))?;
    let mut ctest = Command::new("ctest");
    ctest.current_dir(copy.join("build")).arg("--output-on-failure");
    launcher.limit_to_one_slot(&mut ctest, folder.path())?;
    let outcome = tool(&mut ctest)?;
    ensure!(outcome.stdout.contains("0 tests failed out of 3"), "{}", outcome.stdout);
    Ok(())
}

fn a_modulefile_is_loaded_and_unloaded() -> Result<()> {
    need("modulecmd")?;
    let installed = installed()?;
    let folder = installed.path("share/modulefiles");
    let script = "\
        module() { eval \"$(modulecmd bash \"$@\")\"; }\n\
        before=\"$PATH:$LD_LIBRARY_PATH:$CPATH:$MANPATH\"\n\
        module use \"$1\" && module load quo || exit 1\n\
        quo-info --prefix && pkg-config --modversion libquo && echo \"$LD_LIBRARY_PATH\"\n\
        echo \"$CMAKE_PREFIX_PATH\" && echo \"$CPATH\" && echo \"$QUO_ROOT\"\n\
        command -v man > /dev/null && { man -w quo && man -w sh > /dev/null || exit 2; }\n\
        module help quo 2>&1 | grep -q 'built for' || exit 3\n\
        module unload quo\n\
        [ \"$before\" = \"$PATH:$LD_LIBRARY_PATH:$CPATH:$MANPATH\" ] || exit 4\n\
        [ -z \"$QUO_ROOT\" ] || exit 5\n";
    let mut bash = Command::new("bash");
    bash.args(["--norc", "-c", script, "bash"]).arg(&folder);
    for name in ["LD_LIBRARY_PATH", "CPATH", "MANPATH", "CMAKE_PREFIX_PATH", "PKG_CONFIG_PATH"] {
        bash.env_remove(name);
    }
    let outcome = tool(&mut bash)?;
    let prefix = installed.prefix().display().to_string();
    let mut lines = outcome.stdout.lines();
    let expected = ["", "version", "/lib", "", "/include", "", "/share/man/man7/quo.7"];
    for end in expected {
        let Some(line) = lines.next() else {
            ensure!(end.ends_with("quo.7"), "{}", outcome.stdout);
            break;
        };
        let wanted = match end {
            "version" => env!("CARGO_PKG_VERSION").to_owned(),
            end => format!("{prefix}{end}"),
        };
        ensure!(line == wanted, "{line} is not {wanted}");
    }
    Ok(())
}

fn a_library_without_fortran_says_so() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let prefix = folder.path().join("prefix");
    let checkout = Checkout::find()?;
    let mut call = Command::new(checkout.program("xtask")?);
    call.arg("install").arg("--no-static").arg("--prefix").arg(&prefix);
    call.args(Installation::options(&checkout)?);
    // A wrapper that does not exist.
    let outcome = tool(call.env("MPIFC", "no-such-mpifort"))?;
    let word = "no-such-mpifort is not there; the sources are installed";
    ensure!(outcome.stdout.contains(word), "{}", outcome.stdout);
    let installed = Installation::at(&prefix);
    ensure!(!installed.has_fortran() && installed.path("share/quo/fortran/quo.F90").exists());
    ensure!(installed.pkg_config("libquo-fortran", &["--libs"]).is_err(), "a file for no library");
    Ok(())
}
