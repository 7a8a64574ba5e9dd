//! An installation by `cargo xtask install` is usable from outside the checkout: through
//! pkg-config, shared and static, after the folder has moved; uninstalling removes it completely.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use quo_tests::suite::skip;
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use quo_tests::{Checkout, Installation, Job, mpicc, run_compiler};

const PROGRAM: &str = r#"
#include <quo-xpm.h>
#include <quo.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    QUO_context q = NULL;
    QUO_xpm_context memory = NULL;
    int ranks = 0, failures = 0;

    MPI_Init(&argc, &argv);
    failures += QUO_SUCCESS != QUO_create(&q, MPI_COMM_WORLD);
    failures += QUO_SUCCESS != QUO_nqids(q, &ranks);
    failures += QUO_SUCCESS != QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0);
    failures += QUO_SUCCESS != QUO_bind_pop(q);
    failures += QUO_SUCCESS != QUO_xpm_allocate(q, 64, &memory);
    failures += QUO_SUCCESS != QUO_xpm_free(memory);
    failures += QUO_SUCCESS != QUO_barrier(q);
    failures += QUO_SUCCESS != QUO_free(q);
    printf("%d ranks, %d failures\n", ranks, failures);
    MPI_Finalize();
    return failures;
}
"#;

fn install(prefix: &Path, options: &[&str]) -> Result<Output> {
    Installation::xtask("install", prefix, options)
}

fn uninstall(prefix: &Path, options: &[&str]) -> Result<String> {
    let output = Installation::xtask("uninstall", prefix, options)?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns one installation for all tests of this file.
fn installed() -> Result<Installation> {
    Installation::shared(env!("CARGO_TARGET_TMPDIR"), "prefix")
}

/// Returns a copy of the installation, to be changed.
fn copied(name: &str) -> Result<(tempfile::TempDir, PathBuf)> {
    let folder = tempfile::tempdir()?;
    let copy = folder.path().join(name);
    let made = Command::new("cp").arg("-a").arg(installed()?.prefix()).arg(&copy).status()?;
    ensure!(made.success(), "cp: {made}");
    Ok((folder, copy))
}

/// Compiles the program in its own folder and runs it with two ranks.
fn consume(installed: &Installation, link: &[String]) -> Result<PathBuf> {
    let folder = tempfile::tempdir()?.keep();
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&source, PROGRAM)?;
    let mut compiler = Command::new(mpicc());
    compiler.current_dir(&folder).args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    compiler
        .args(installed.pkg_config("libquo", &["--cflags"])?)
        .arg(&source)
        .arg("-o")
        .arg(&program);
    run_compiler(compiler.args(link))?;
    let outcome = Job::new(2, &program).run()?;
    outcome.expect_success()?;
    assert_eq!(outcome.stdout, "2 ranks, 0 failures\n".repeat(2));
    Ok(program)
}

fn dynamic(program: &Path) -> Result<String> {
    let output = Command::new("readelf").arg("-d").arg(program).output().context("readelf")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

fn a_program_links_the_shared_library_by_its_versioned_name() -> Result<()> {
    let installed = installed()?;
    let link = installed.pkg_config("libquo", &["--libs"])?;
    let program = consume(&installed, &link)?;
    assert!(dynamic(&program)?.contains("[libquo.so.8]"));
    Ok(fs::remove_dir_all(program.parent().context("no folder")?)?)
}

fn a_program_links_the_static_library() -> Result<()> {
    let installed = installed()?;
    let mut by_name = installed.pkg_config("libquo", &["--static", "--libs"])?;
    for flag in by_name.iter_mut().filter(|flag| *flag == "-lquo") {
        *flag = "-l:libquo.a".to_owned();
    }
    for link in [by_name, installed.pkg_config("libquo-static", &["--libs"])?] {
        let program = consume(&installed, &link)?;
        assert!(!dynamic(&program)?.contains("libquo"));
        fs::remove_dir_all(program.parent().context("no folder")?)?;
    }
    Ok(())
}

fn the_library_shows_its_interface_and_nothing_else() -> Result<()> {
    let installed = installed()?;
    let shown = printed(
        Command::new("nm")
            .args(["-D", "-P", "--defined-only"])
            .arg(installed.path("lib/libquo.so")),
    )?;
    let is_ours = |name: &&str| {
        name.starts_with("QUO_") || (name.starts_with("__quo") && name.contains("_MOD_"))
    };
    let names: Vec<&str> = shown.lines().filter_map(|line| line.split(' ').next()).collect();
    let others: Vec<&&str> = names.iter().filter(|name| !is_ours(name)).collect();
    assert!(others.is_empty(), "{others:?}");
    assert!(names.contains(&"QUO_create") && names.len() > 60, "{names:?}");
    if installed.has_fortran() {
        assert!(names.iter().any(|name| name.ends_with("_MOD_quo_create")), "{names:?}");
    }
    // The static library is one object with the same names, so that it can be linked with other
    // Rust libraries.
    let archive = printed(
        Command::new("nm").args(["-g", "-P", "--defined-only"]).arg(installed.path("lib/libquo.a")),
    )?;
    let mut inside: Vec<&str> =
        archive.lines().filter_map(|line| line.split_once(' ')).map(|(name, _)| name).collect();
    inside.retain(|name| !name.ends_with(':') && !name.contains('['));
    let mut names = names;
    names.sort_unstable();
    inside.sort_unstable();
    assert_eq!(inside, names);
    Ok(())
}

fn library_needs_only_expected_objects_and_finds_its_mpi() -> Result<()> {
    let told = dynamic(&installed()?.path("lib/libquo.so"))?;
    let entries = |tag: &str| -> Vec<String> {
        let lines = told.lines().filter(|line| line.contains(tag));
        lines
            .filter_map(|line| Some(line.split_once('[')?.1.split_once(']')?.0.to_owned()))
            .collect()
    };
    assert_eq!(entries("(SONAME)"), ["libquo.so.8"]);
    let known = [
        "libhwloc.so",
        "libgcc_s.so",
        "libm.so",
        "libc.so",
        "ld-linux",
        "libmpi",
        "libopen_mpi",
        "libpthread",
        "librt.so",
        "libdl.so",
    ];
    for needed in entries("(NEEDED)") {
        assert!(known.iter().any(|name| needed.starts_with(name)), "{needed}");
    }
    let folders = entries("(RUNPATH)").join(":");
    let holds_mpi = folders.split(':').any(|folder| {
        let mut files = fs::read_dir(folder).into_iter().flatten().flatten();
        files.any(|file| file.file_name().to_string_lossy().starts_with("libmpi"))
    });
    assert!(holds_mpi, "{folders}");
    Ok(())
}

/// The library is replaced under a program that was linked with another library of the same name.
fn a_program_that_was_linked_before_runs_with_ours() -> Result<()> {
    let installed = installed()?;
    let folder = tempfile::tempdir()?;
    // The other library has only the symbols that the linker needs.
    let mut names = String::new();
    for line in PROGRAM.lines().filter(|line| line.contains("QUO_SUCCESS !=")) {
        let call = line.split("QUO_SUCCESS != ").nth(1).and_then(|rest| rest.split('(').next());
        names += &format!("int {}(void) {{ return 1; }}\n", call.context("no call")?);
    }
    let (source, other) = (folder.path().join("other.c"), folder.path().join("libquo.so"));
    fs::write(&source, names)?;
    let mut compiler = Command::new(mpicc());
    compiler
        .args(["-shared", "-fPIC", "-Wl,-soname,libquo.so.8"])
        .arg(&source)
        .arg("-o")
        .arg(&other);
    run_compiler(&mut compiler)?;
    let (program, source) = (folder.path().join("program"), folder.path().join("program.c"));
    fs::write(&source, PROGRAM)?;
    let mut compiler = Command::new(mpicc());
    compiler
        .args(installed.pkg_config("libquo", &["--cflags"])?)
        .arg(&source)
        .arg("-o")
        .arg(&program);
    run_compiler(compiler.arg("-L").arg(folder.path()).arg("-lquo"))?;
    let job =
        Job::new(2, &program).env("LD_LIBRARY_PATH", with_library_path(&installed.path("lib")));
    let outcome = job.run()?;
    outcome.expect_success()?;
    assert_eq!(outcome.stdout, "2 ranks, 0 failures\n".repeat(2));
    Ok(())
}

fn with_library_path(folder: &Path) -> std::ffi::OsString {
    let mut folders = vec![folder.to_path_buf()];
    let before = std::env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    folders.extend(std::env::split_paths(&before));
    std::env::join_paths(folders).unwrap_or_default()
}

fn the_folder_may_move() -> Result<()> {
    let (_folder, moved) = copied("elsewhere")?;
    let installation = Installation::at(&moved);
    for flag in installation.pkg_config("libquo", &["--cflags", "--libs"])? {
        if let Some(folder) = flag.strip_prefix("-I").or(flag.strip_prefix("-L")) {
            assert_eq!(Path::new(folder).canonicalize()?.parent(), Some(&*moved.canonicalize()?));
        }
    }
    let told = printed(Command::new(moved.join("bin/quo-info")).args(["--prefix", "--libs"]))?;
    let moved = moved.canonicalize()?;
    assert_eq!(told, format!("{0}\n-L{0}/lib -lquo\n", moved.display()));
    // Only the wrappers of the MPI may appear with a full path.
    for (name, bytes) in contents(&moved)? {
        let is_text = !name.starts_with("lib")
            || name.starts_with("lib/cmake")
            || name.starts_with("lib/pkgconfig");
        if is_text && !name.starts_with("bin") {
            let text = String::from_utf8_lossy(&bytes);
            let prefix = installed()?.prefix().display().to_string();
            assert!(!text.contains(&prefix), "{} names the prefix", name.display());
        }
    }
    Ok(())
}

/// With `QUO_TESTS_LONG` or `QUO_TESTS_RELEASE` only: cargo's plain builds name such folders.
fn optimised_files_name_no_folder_of_the_build() -> Result<()> {
    if !Installation::is_optimised() {
        return Ok(());
    }
    let home = PathBuf::from(std::env::var_os("HOME").context("there is no HOME")?);
    let root = Checkout::find()?.root().to_owned();
    let folders = [root.clone(), home.join(".cargo"), home.join(".rustup")];
    // An MPI in that folder is found by its path.
    let mpi = root.join("target/mpi").display().to_string();
    for (name, bytes) in contents(installed()?.prefix())? {
        let is_binary = name.starts_with("bin") || name.starts_with("lib");
        let text = String::from_utf8_lossy(&bytes).replace(&mpi, "");
        let named = folders.iter().find(|folder| text.contains(&*folder.to_string_lossy()));
        assert!(!is_binary || named.is_none(), "{}: {named:?}", name.display());
    }
    Ok(())
}

fn the_tool_works_where_it_is_installed() -> Result<()> {
    let installed = installed()?;
    let tool =
        |arguments: &[&str]| printed(Command::new(installed.path("bin/quo-info")).args(arguments));
    assert!(tool(&["--version"])?.contains(env!("CARGO_PKG_VERSION")));
    let prefix = installed.prefix().canonicalize()?;
    for language in ["C", "C++"] {
        let flags = tool(&["--lang", language, "--cflags"])?;
        assert_eq!(flags, format!("-I{}/include\n", prefix.display()));
    }
    if installed.has_fortran() {
        let flags = tool(&["--lang", "Fortran", "--cflags", "--libs"])?;
        let expected = format!("-I{0}/include/quo/fortran -L{0}/lib -lquo\n", prefix.display());
        assert_eq!(flags, expected);
    }
    let config = tool(&["--config"])?;
    assert!(config.contains("1.4.1"), "{config}");
    assert_eq!(config.contains("for GNU "), installed.has_fortran(), "{config}");

    // On a login node, where users send requests to jobs, there may be no MPI.
    let teller = installed.path("bin/quo-elastic");
    assert!(!dynamic(&teller)?.contains("libmpi"), "quo-elastic needs an MPI");
    assert!(printed(Command::new(&teller).arg("--version"))?.contains(env!("CARGO_PKG_VERSION")));
    let nobody = tempfile::tempdir()?;
    fs::set_permissions(nobody.path(), fs::Permissions::from_mode(0o700))?;
    let mut list = Command::new(&teller);
    assert_eq!(printed(list.arg("list").env("QUO_ELASTIC_DIR", nobody.path()))?, "");
    Ok(())
}

fn doctor_names_pages_where_they_are_installed() -> Result<()> {
    let installed = installed()?;
    let mut doctor = Command::new(installed.path("bin/quo-info"));
    let report = printed(doctor.arg("doctor").env("QUO_WAIT", "mpi"))?;
    let page = report.lines().find_map(|line| line.trim().strip_prefix("see ")).unwrap();
    let file = page.split('#').next().unwrap();
    assert!(Path::new(file).is_absolute() && Path::new(file).is_file(), "{page}");
    Ok(())
}

fn installing_again_changes_nothing() -> Result<()> {
    let installed = installed()?;
    let prefix = installed.prefix();
    let before = contents(prefix)?;
    let mut expected = vec![
        "bin/quo-info",
        "bin/quo-elastic",
        "bin/quo-run",
        "bin/memprof",
        "include/memprof.F90",
        "include/memprof.h",
        "include/quo.h",
        "include/quo-xpm.h",
        "include/quo.hpp",
        "include/quo-elastic.h",
        "include/quo-elastic.hpp",
        "include/quo-program.h",
        "include/quo-reshape.h",
        "lib/libquo.so",
        "lib/libquo.so.8",
        "lib/libquo.so.8.0.0",
        "lib/libquo.a",
        "lib/libmemprof.so",
        "lib/libmemprof.so.0",
        "lib/libmemprof.so.0.0.0",
        "lib/libmemprof.a",
        "lib/libmemprof_preload.so",
        "lib/libquo_run_preload.so",
        "lib/libquo_info_preload.so",
        "lib/libmemprof_static.a",
        "lib/pkgconfig/memprof.pc",
        "lib/cmake/quo/quo-config.cmake",
        "lib/cmake/quo/quo-config-version.cmake",
        "lib/pkgconfig/libquo.pc",
        "lib/pkgconfig/libquo-static.pc",
        "share/bash-completion/completions/quo-info",
        "share/fish/vendor_completions.d/quo-info.fish",
        "share/zsh/site-functions/_quo-info",
        "share/man/man1/quo-info.1",
        "share/man/man1/quo-info-plan.1",
        "share/bash-completion/completions/quo-elastic",
        "share/fish/vendor_completions.d/quo-elastic.fish",
        "share/zsh/site-functions/_quo-elastic",
        "share/man/man1/quo-elastic.1",
        "share/man/man1/quo-elastic-grow.1",
        "share/man/man1/quo-run.1",
        "share/bash-completion/completions/quo-run",
        "share/man/man1/memprof.1",
        "share/man/man1/memprof-run.1",
        "share/bash-completion/completions/memprof",
        "share/man/man7/quo.7",
        concat!("share/modulefiles/quo/", env!("CARGO_PKG_VERSION")),
        "lib/python/libquo/__init__.py",
        "lib/python/libquo/py.typed",
        "share/quo/examples/widen.f90",
        "share/quo/fortran/SOURCES",
        "share/quo/fortran/fpm.toml",
        "share/quo/install-manifest.txt",
        "share/doc/quo/LICENSE-MIT",
        "share/doc/quo/LICENSE-APACHE",
        "share/doc/quo/README.md",
        "share/doc/quo/docs/mpi.md",
        "share/doc/quo/docs/recipes/components.md",
        "share/doc/quo/findings/openmp_zero_threads_is_all_or_one.sh",
    ];
    if installed.has_fortran() {
        expected.extend([
            "lib/libquo-usequo.so",
            "lib/libquo-usequo.a",
            "lib/pkgconfig/libquo-fortran.pc",
        ]);
    }
    for name in expected {
        assert!(before.contains_key(Path::new(name)), "{name} is not installed");
    }
    assert_eq!(fs::read_link(prefix.join("lib/libquo.so"))?, Path::new("libquo.so.8"));
    assert_eq!(fs::read_link(prefix.join("lib/libquo.so.8"))?, Path::new("libquo.so.8.0.0"));
    let output = install(prefix, &[])?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(contents(prefix)? == before, "the second installation differs");
    Ok(())
}

/// Returns the targets of the links of a page to other files, without code.
fn links(text: &str) -> Vec<String> {
    let prose: String = text.split("```").step_by(2).collect();
    let targets = prose.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    let files = targets.map(|target| target.split('#').next().unwrap_or_default().to_owned());
    files.filter(|file| !file.is_empty() && !file.contains("://")).collect()
}

fn links_of_installed_pages_lead_to_files() -> Result<()> {
    let pages = installed()?.prefix().join("share/doc/quo");
    let mut followed = 0;
    for name in contents(&pages)?.keys().filter(|name| name.extension() == Some("md".as_ref())) {
        let page = pages.join(name);
        let folder = page.parent().context("a page without a folder")?;
        for link in links(&fs::read_to_string(&page)?) {
            ensure!(folder.join(&link).exists(), "{}: {link}", name.display());
            followed += 1;
        }
    }
    ensure!(followed > 0, "no links");
    Ok(())
}

fn uninstall_removes_installed_files_and_keeps_the_users() -> Result<()> {
    let (folder, prefix) = copied("prefix")?;
    fs::write(prefix.join("include/quo.h"), "changed")?;
    fs::write(prefix.join("share/quo/notes.txt"), "the user's own")?;
    let would = uninstall(&prefix, &["--dry-run"])?;
    assert!(would.contains("would remove") && prefix.join("lib/libquo.so").exists(), "{would}");
    let told = uninstall(&prefix, &[])?;
    for word in ["include/quo.h: it was changed", "share/quo: it holds files"] {
        assert!(told.contains(word), "{told}");
    }
    let left: Vec<PathBuf> = contents(&prefix)?.into_keys().collect();
    let expected = ["include/quo.h", "share/quo/install-manifest.txt", "share/quo/notes.txt"];
    assert_eq!(left, expected.map(PathBuf::from));
    uninstall(&prefix, &["--purge"])?;
    let left: Vec<PathBuf> = contents(&prefix)?.into_keys().collect();
    assert_eq!(left, [PathBuf::from("share/quo/notes.txt")]);

    let (other, prefix) = copied("prefix")?;
    // As left by the first import.
    let mut compile = Command::new("python3");
    compile.args(["-m", "compileall", "-q"]).arg(prefix.join("lib/python"));
    if compile.output().is_ok() {
        ensure!(prefix.join("lib/python/libquo/__pycache__").is_dir());
    }
    let told = uninstall(&prefix, &[])?;
    assert_eq!(told.lines().count(), 1, "{told}");
    assert_eq!(fs::read_dir(other.path())?.count(), 0);
    let again = Installation::xtask("uninstall", folder.path(), &[])?;
    let complaint = String::from_utf8_lossy(&again.stderr);
    assert!(!again.status.success() && complaint.contains("nothing was installed"), "{complaint}");
    Ok(())
}

fn packagers_stage_without_fortran_and_static_library() -> Result<()> {
    let tree = tempfile::tempdir()?;
    let tree_name = tree.path().to_str().context("not UTF-8")?;
    let options = ["--destdir", tree_name, "--no-fortran", "--no-static", "--no-setup"];
    let output = install(Path::new("/opt/quo"), &options)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let staged = Installation::at(&tree.path().join("opt/quo"));
    assert!(!staged.has_fortran() && !staged.path("lib/libquo.a").exists());
    assert!(!staged.path("lib/libquo-usequo.so").exists());
    assert!(!staged.path("lib/pkgconfig/libquo-fortran.pc").exists());
    let link = staged.pkg_config("libquo", &["--libs"])?;
    let program = consume(&staged, &link)?;
    Ok(fs::remove_dir_all(program.parent().context("no folder")?)?)
}

/// Lines and columns of a small terminal.
const SCREEN: (usize, usize) = (24, 80);

fn help_of_every_command_fits_a_screen() -> Result<()> {
    let installed = installed()?;
    for program in ["quo-info", "quo-run", "quo-elastic", "memprof"] {
        let program = installed.path("bin").join(program);
        let shown = |words: &[&str], option: &str| -> Result<String> {
            let output = Command::new(&program).args(words).arg(option).output()?;
            let text = String::from_utf8(output.stdout)?;
            let is_wide = text.lines().any(|line| line.chars().count() > SCREEN.1);
            ensure!(output.status.success() && !text.is_empty() && !is_wide, "{words:?}: {text}");
            ensure!(!text.contains('\x1b'), "{words:?}: colours without a terminal: {text}");
            Ok(text)
        };
        let help = |words: &[&str]| -> Result<String> {
            let short = shown(words, "-h")?;
            ensure!(short.lines().count() <= SCREEN.0, "{words:?}: {short}");
            shown(words, "--help")
        };
        let all = help(&[])?;
        ensure!(all.to_lowercase().contains("exit status"), "{}: {all}", program.display());
        let commands = all.lines().skip_while(|line| *line != "Commands:").skip(1);
        let is_first = |line: &&str| line.starts_with("  ") && !line.starts_with("   ");
        for command in commands.take_while(|line| !line.is_empty()).filter(is_first) {
            let name = command.split_whitespace().next().context("a command without a name")?;
            if name != "help" {
                help(&[name])?;
            }
        }
        let wrong = Command::new(&program).arg("--no-such-option").output()?;
        ensure!(wrong.status.code() == Some(2), "{}: {wrong:?}", program.display());
        let complaint = String::from_utf8(wrong.stderr)?;
        ensure!(complaint.contains("'--no-such-option'"), "{complaint}");
        let name = program.file_name().unwrap_or_default().to_string_lossy();
        let is_named =
            complaint.starts_with(&format!("{name}: ")) && complaint.ends_with(" --help)\n");
        ensure!(is_named && complaint.lines().count() == 1, "{complaint}");
        ensure!(wrong.stdout.is_empty() && !complaint.contains('\x1b'), "{complaint}");
    }
    Ok(())
}

fn manual_pages_are_well_formed_and_completions_are_scripts() -> Result<()> {
    let installed = installed()?;
    for section in ["man1", "man7"] {
        for page in fs::read_dir(installed.path("share/man").join(section))? {
            let page = page?.path();
            let mut reader = Command::new("man");
            reader
                .args(["--warnings=w", "-l"])
                .arg(&page)
                .env("MANPAGER", "cat")
                .env("LC_ALL", "C.UTF-8");
            match reader.output() {
                Ok(output) => {
                    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
                    assert!(output.status.success() && complaint.is_empty(), "{complaint}");
                    assert!(String::from_utf8_lossy(&output.stdout).contains("SEE ALSO"));
                }
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    skip("there is no man");
                }
                Err(error) => return Err(error).context("starting man"),
            }
        }
    }
    let overview = fs::read_to_string(installed.path("share/man/man7/quo.7"))?;
    for word in ["QUO_TMPDIR", "QUO_CREATE_TIMEOUT", "/dev/shm"] {
        assert!(overview.contains(word), "{word}");
    }
    let completed = [
        ("quo-info", "top", "topology"),
        ("quo-info", "plan --ra", "--ranks"),
        ("quo-elastic", "gr", "grow"),
        ("quo-elastic", "shrink --fr", "--from"),
        ("quo-elastic", "status we", "weather"),
        ("quo-elastic", "simulate --policy conserv", "conservative"),
    ];
    // A job exists as long as its socket does.
    let sockets = tempfile::tempdir()?;
    fs::set_permissions(sockets.path(), fs::Permissions::from_mode(0o700))?;
    let _weather = UnixListener::bind(sockets.path().join("weather.sock"))?;
    let _hostile = UnixListener::bind(sockets.path().join("weather$(id).sock"))?;
    let search = std::env::var("PATH").unwrap_or_default();
    let search = format!("{}:{search}", installed.path("bin").display());
    for (program, typed, expected) in completed {
        let script = installed.path("share/bash-completion/completions").join(program);
        // As the shell calls it when a user presses the key.
        let asked = format!(
            "source {}; COMP_WORDS=({program} {typed}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             function=$(complete -p {program} | sed 's/.* -F \\([^ ]*\\).*/\\1/'); \
             $function {program} \"${{COMP_WORDS[-1]}}\" \"${{COMP_WORDS[-2]}}\"; echo \"${{COMPREPLY[@]}}\"",
            script.display()
        );
        let mut bash = Command::new("bash");
        bash.arg("-c").arg(asked).env("PATH", &search).env("QUO_ELASTIC_DIR", sockets.path());
        assert_eq!(printed(&mut bash)?.trim(), expected, "{program} {typed}");
    }
    Ok(())
}

/// Returns the output of a successful call.
fn printed(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("starting {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Returns every file below a folder with its bytes.
fn contents(folder: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.insert(path.strip_prefix(folder)?.to_path_buf(), fs::read(&path)?);
            }
        }
    }
    Ok(found)
}

fn prefix_that_cannot_be_used_is_refused_before_a_build() -> Result<()> {
    let others = tempfile::tempdir()?;
    fs::create_dir(others.path().join("include"))?;
    fs::write(others.path().join("include/quo.h"), "of another library")?;
    let others = others.path().to_str().context("not UTF-8")?;
    for (prefix, reason) in [
        ("/", "root folder"),
        ("", "value is required"),
        ("/dev/null/quo", "not a folder"),
        ("/proc/quo", "cannot write into /proc,"),
        ("~/quo", "the shell has not replaced ~"),
        (others, "did not put there: include/quo.h."),
    ] {
        let output = install(Path::new(prefix), &[])?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{prefix:?}: {complaint}");
        assert!(complaint.contains(reason), "{prefix:?}: {complaint}");
        assert!(output.stdout.is_empty(), "{prefix:?}: a step has begun");
    }
    Ok(())
}

quo_tests::suite! {
    within quo_tests::suite::LONG_LIMIT;
    a_program_links_the_shared_library_by_its_versioned_name
    a_program_links_the_static_library
    the_library_shows_its_interface_and_nothing_else
    library_needs_only_expected_objects_and_finds_its_mpi
    a_program_that_was_linked_before_runs_with_ours
    the_folder_may_move
    optimised_files_name_no_folder_of_the_build
    the_tool_works_where_it_is_installed
    doctor_names_pages_where_they_are_installed
    installing_again_changes_nothing
    links_of_installed_pages_lead_to_files
    uninstall_removes_installed_files_and_keeps_the_users
    packagers_stage_without_fortran_and_static_library
    help_of_every_command_fits_a_screen
    manual_pages_are_well_formed_and_completions_are_scripts
    prefix_that_cannot_be_used_is_refused_before_a_build
}
