//! What `cargo xtask install` leaves is usable by strangers: outside the checkout, through pkg-config,
//! shared and static, and after the folder has moved.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail, ensure};
use quo_tests::{Checkout, Job, mpicc, run_compiler};

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

fn install(prefix: &Path) -> Result<Output> {
    let xtask = Checkout::find()?.program("xtask")?;
    let mut command = Command::new(xtask);
    command.arg("install").arg("--prefix").arg(prefix).output().context("starting xtask")
}

/// One installation for all tests of this file.
fn installed() -> Result<&'static Path> {
    static PREFIX: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let prefix = PREFIX.get_or_init(|| {
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("prefix");
        // The first installation must not live on what an earlier run left.
        let _absent = fs::remove_dir_all(&prefix);
        match install(&prefix) {
            Ok(output) if output.status.success() => Ok(prefix),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(format!("{error:#}")),
        }
    });
    match prefix {
        Ok(prefix) => Ok(prefix),
        Err(complaint) => bail!("{complaint}"),
    }
}

fn pkg_config(prefix: &Path, arguments: &[&str]) -> Result<Vec<String>> {
    let mut command = Command::new("pkg-config");
    command.args(arguments).arg("libquo");
    command.env("PKG_CONFIG_PATH", prefix.join("lib/pkgconfig"));
    let output = command.output().context("starting pkg-config")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout);
    Ok(text.split_whitespace().map(String::from).collect())
}

/// Compiles the program in a folder of its own and runs it with two ranks.
fn consume(prefix: &Path, link: &[String]) -> Result<PathBuf> {
    let folder = tempfile::tempdir()?.keep();
    let (source, program) = (folder.join("program.c"), folder.join("program"));
    fs::write(&source, PROGRAM)?;
    let mut compiler = Command::new(mpicc());
    compiler.current_dir(&folder).args(["-std=c99", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]);
    compiler.args(pkg_config(prefix, &["--cflags"])?).arg(&source).arg("-o").arg(&program);
    run_compiler(compiler.args(link))?;
    let outcome = Job::new(2, &program).run()?;
    outcome.expect_success()?;
    assert_eq!(outcome.stdout, "2 ranks, 0 failures\n".repeat(2));
    Ok(program)
}

fn needed(program: &Path) -> Result<String> {
    let output = Command::new("readelf").arg("-d").arg(program).output().context("readelf")?;
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_program_links_the_shared_library_by_its_versioned_name() -> Result<()> {
    let prefix = installed()?;
    let mut link = pkg_config(prefix, &["--libs"])?;
    link.push(format!("-Wl,-rpath,{}/lib", prefix.display()));
    let program = consume(prefix, &link)?;
    assert!(needed(&program)?.contains("[libquo.so.8]"));
    Ok(fs::remove_dir_all(program.parent().context("no folder")?)?)
}

#[test]
fn a_program_links_the_static_library() -> Result<()> {
    let prefix = installed()?;
    let mut link = pkg_config(prefix, &["--static", "--libs"])?;
    for flag in link.iter_mut().filter(|flag| *flag == "-lquo") {
        *flag = "-l:libquo.a".to_owned();
    }
    let program = consume(prefix, &link)?;
    assert!(!needed(&program)?.contains("libquo"));
    Ok(fs::remove_dir_all(program.parent().context("no folder")?)?)
}

#[test]
fn the_folder_may_move() -> Result<()> {
    let moved = tempfile::tempdir()?;
    let moved = moved.path().join("elsewhere");
    let copied = Command::new("cp").arg("-a").arg(installed()?).arg(&moved).status()?;
    ensure!(copied.success(), "cp: {copied}");
    for flag in pkg_config(&moved, &["--cflags", "--libs"])? {
        if let Some(folder) = flag.strip_prefix("-I").or(flag.strip_prefix("-L")) {
            assert_eq!(Path::new(folder).canonicalize()?.parent(), Some(&*moved.canonicalize()?));
        }
    }
    Ok(())
}

#[test]
fn the_tool_works_where_it_is_installed() -> Result<()> {
    let output = Command::new(installed()?.join("bin/quo-info")).arg("--version").output()?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(String::from_utf8_lossy(&output.stdout).contains(env!("CARGO_PKG_VERSION")));
    Ok(())
}

#[test]
fn installing_again_changes_nothing() -> Result<()> {
    let prefix = installed()?;
    let before = contents(prefix)?;
    for name in [
        "bin/quo-info",
        "include/quo.h",
        "include/quo-xpm.h",
        "lib/libquo.so",
        "lib/libquo.so.8",
        "lib/libquo.so.8.0.0",
        "lib/libquo.a",
        "lib/pkgconfig/libquo.pc",
        "share/doc/quo/LICENSE-MIT",
        "share/doc/quo/LICENSE-APACHE",
        "share/doc/quo/README.md",
    ] {
        assert!(before.contains_key(Path::new(name)), "{name} is not installed");
    }
    assert_eq!(fs::read_link(prefix.join("lib/libquo.so"))?, Path::new("libquo.so.8"));
    assert_eq!(fs::read_link(prefix.join("lib/libquo.so.8"))?, Path::new("libquo.so.8.0.0"));
    let output = install(prefix)?;
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert!(contents(prefix)? == before, "the second installation differs");
    Ok(())
}

/// Every file below a folder with its bytes.
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

#[test]
fn a_prefix_that_makes_no_sense_is_refused_at_once() -> Result<()> {
    for (prefix, reason) in
        [("/", "root folder"), ("", "value is required"), ("/dev/null/quo", "not a folder")]
    {
        let output = install(Path::new(prefix))?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success(), "{prefix:?}: {complaint}");
        assert!(complaint.contains(reason), "{prefix:?}: {complaint}");
    }
    Ok(())
}
