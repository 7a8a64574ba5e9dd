//! The archives of `cargo xtask release` on a site without a network: the source builds with the crates in it and makes
//! Debian packages that hold every file, the static memprof runs where there is no library at all, and a registry would
//! take the crates.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use quo_tests::Checkout;

/// Makes one archive in a folder and returns its path.
fn release(what: &str, folder: &Path, options: &[&str]) -> Result<PathBuf> {
    let mut xtask = Command::new(Checkout::find()?.program("xtask")?);
    let told = done(xtask.args(["release", what, "--out"]).arg(folder).args(options))?;
    let last = told.lines().last().context("xtask release said nothing")?;
    let (archive, _) = last.split_once(" (").context("no archive in its last line")?;
    let mut check = Command::new("sha256sum");
    done(check.current_dir(folder).arg("--check").arg(format!("{archive}.sha256")))?;
    Ok(archive.into())
}

/// Unpacks an archive beside it and returns the one folder that is in it.
fn unpacked(archive: &Path) -> Result<PathBuf> {
    let folder = archive.parent().context("an archive has a folder")?;
    done(Command::new("tar").arg("-C").arg(folder).arg("-xf").arg(archive))?;
    let name = archive.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(folder.join(name.strip_suffix(".tar.gz").context("no .tar.gz")?))
}

/// Returns the output of a successful call.
fn done(command: &mut Command) -> Result<String> {
    let Output { status, stdout, stderr } =
        command.output().with_context(|| format!("starting {command:?}"))?;
    let [out, error] = [stdout, stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    ensure!(status.success(), "{command:?}: {status}\n{out}\n{error}");
    Ok(out)
}

/// A command in a network of its own, which has nothing, where this user may make one.
#[allow(clippy::print_stdout)] // A test says that it shows less.
fn without_network(program: &str) -> Command {
    let words = ["--user", "--map-root-user", "--net"];
    let can = Command::new("unshare").args(words).arg("true").output();
    if can.is_ok_and(|output| output.status.success()) {
        let mut command = Command::new("unshare");
        command.args(words).arg(program);
        return command;
    }
    println!("no network namespace for this user: cargo's own --offline is all that is tested");
    Command::new(program)
}

#[test]
fn source_archive_builds_without_a_network() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let archive = release("source", folder.path(), &[])?;
    let first = fs::read(&archive)?;
    let again = release("source", folder.path(), &[])?;
    ensure!(first == fs::read(again)?, "two archives of one commit differ");
    let tree = unpacked(&archive)?;
    // Nothing that cargo has fetched before may help.
    let home = folder.path().join("cargo");
    let cargo = |words: &[&str]| {
        let mut command = without_network("cargo");
        command.current_dir(&tree).args(words).args(["--offline", "--locked"]);
        command.env("CARGO_HOME", &home).env_remove("CARGO_TARGET_DIR");
        command
    };
    // Each package finds each crate that it needs, tests included.
    done(&mut cargo(&["tree", "--workspace", "--all-features", "--edges", "all"]))?;
    done(&mut cargo(&["build", "--package", "memprof-trace", "--package", "quo-terminal"]))?;
    Ok(())
}

#[test]
fn static_memprof_runs_in_an_empty_root() -> Result<()> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let library =
        done(Command::new("rustc").args(["--print", "target-libdir", "--target", &target]))?;
    if !Path::new(library.trim()).is_dir() {
        println!("skipped: Rust's library for {target} is not there (rustup target add {target})");
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let tree = unpacked(&release("memprof", folder.path(), &["--debug"])?)?;
    let run = Command::new("unshare")
        .args(["--user", "--map-root-user", "--root"])
        .arg(tree.join("bin"))
        .args(["/memprof", "--version"])
        .output()?;
    if String::from_utf8_lossy(&run.stderr).contains("unshare: unshare failed") {
        println!("skipped: this user cannot change the root folder");
        return Ok(());
    }
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    ensure!(String::from_utf8_lossy(&run.stdout).starts_with("memprof "));
    // With a C library it profiles as the other one does.
    let mut profile = Command::new(tree.join("bin/memprof"));
    profile.current_dir(folder.path()).args(["run", "-o", "traces", "--", "/bin/ls", "/"]);
    done(&mut profile)?;
    let mut report = Command::new(tree.join("bin/memprof"));
    let table = done(report.current_dir(folder.path()).args(["report", "traces"]))?;
    ensure!(table.contains("system:libc.so.6"), "{table}");
    Ok(())
}

#[test]
fn crates_pass_a_trial_publication() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tree = unpacked(&release("crates", folder.path(), &[])?)?;
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("quo-mpi-{version}");
    done(
        Command::new("tar").arg("-C").arg(&tree).arg("-xf").arg(tree.join(format!("{name}.crate"))),
    )?;
    let manifest: toml::Table = fs::read_to_string(tree.join(&name).join("Cargo.toml"))?.parse()?;
    // Programs write `use quo_mpi` and it writes `use quo`, whatever the packages are called.
    ensure!(manifest["lib"]["name"].as_str() == Some("quo_mpi"), "{manifest}");
    let quo = &manifest["dependencies"]["quo"];
    ensure!(quo["package"].as_str() == Some("quo-node"), "{quo}");
    ensure!(quo["version"].as_str() == Some(version), "{quo}");
    Ok(())
}

#[test]
fn debian_packages_hold_every_installed_file() -> Result<()> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status} ", "debhelper", "chrpath"]);
    if !query.output().is_ok_and(|found| found.stdout == b"installed installed ") {
        println!("skipped: debhelper or chrpath is not there (apt-get install debhelper chrpath)");
        return Ok(());
    }
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    // Only what the recipe itself reads: the files come from the build that the tests run.
    let debian = folder.path().join("quo/debian");
    fs::create_dir(folder.path().join("quo"))?;
    done(Command::new("cp").arg("-r").arg(checkout.root().join("packaging/debian")).arg(&debian))?;
    let built = checkout.program("memprof")?;
    let built = built.parent().context("memprof has no folder")?;
    let mut package = Command::new("dpkg-buildpackage");
    package.current_dir(folder.path().join("quo"));
    // The packages that a build needs are not: nothing is compiled here.
    package.args(["--no-sign", "--build=binary", "--no-check-builddeps"]);
    package.env("XTASK", checkout.program("xtask")?);
    package.env("QUO_INSTALL_OPTIONS", format!("--built {}", built.display()));
    // Compression is most of the time.
    done(package.env("QUO_COMPRESSION", "none"))?;
    let mut packed = String::new();
    let mut names = Vec::new();
    for entry in fs::read_dir(folder.path())? {
        let file = entry?.path();
        if file.extension().is_some_and(|end| end == "deb") {
            packed += &done(Command::new("dpkg-deb").arg("--contents").arg(&file))?;
            let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
            names.push(name.split('_').next().unwrap_or_default().to_owned());
        }
    }
    names.sort();
    let expected = [
        "libmemprof-dev",
        "libmemprof0",
        "libquo-dev",
        "libquo8",
        "memprof",
        "python3-libquo",
        "quo-tools",
    ];
    ensure!(names == expected, "{names:?}");
    for file in [
        "./usr/lib/libquo.so.8 ->",
        "./usr/lib/python3/dist-packages/libquo/__init__.py\n",
        "./usr/share/man/man1/quo-elastic.1.gz\n",
        "./usr/share/bash-completion/completions/memprof\n",
        "./usr/lib/libmemprof_preload.so\n",
    ] {
        ensure!(packed.contains(file), "{file:?} is in no package");
    }
    // Which libraries of the system a package needs is read from its objects.
    let library = names_of(folder.path(), "libquo8_")?;
    let needs = done(Command::new("dpkg-deb").arg("--field").arg(library).arg("Depends"))?;
    ensure!(needs.contains("libhwloc15"), "{needs}");
    // The loader looks into the folders of the system by itself.
    for object in ["lib/libquo.so.8", "bin/quo-info"] {
        let staged = folder.path().join("quo/debian/tmp/usr").join(object);
        let entries = done(Command::new("readelf").arg("--dynamic").arg(staged))?;
        ensure!(entries.contains("(NEEDED)") && !entries.contains("PATH)"), "{object}: {entries}");
    }
    Ok(())
}

/// The file in a folder whose name begins so.
fn names_of(folder: &Path, start: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let begins = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(".deb")
    };
    files.find(begins).with_context(|| format!("no package {start}*"))
}
