//! The archives of `cargo xtask release` on a site without a network: the source builds with the
//! crates in it and makes Debian packages that hold every file, the static memprof runs where there
//! are no libraries at all, and a registry would accept the crates.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

use quo_tests::suite::skip;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use quo_tests::Checkout;

/// Makes one archive in a folder and returns its path.
fn release(what: &str, folder: &Path, options: &[&str]) -> Result<PathBuf> {
    let mut xtask = Command::new(Checkout::find()?.program("xtask")?);
    let told = done(xtask.args(["release", what, "--output"]).arg(folder).args(options))?;
    let last = told.lines().last().context("xtask release said nothing")?;
    let (archive, _) = last.split_once(" (").context("no archive in its last line")?;
    let mut check = Command::new("sha256sum");
    done(check.current_dir(folder).arg("--check").arg(format!("{archive}.sha256")))?;
    Ok(archive.into())
}

/// Unpacks an archive next to it and returns its one folder.
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

/// Returns a command in a separate, empty network, where this user may create one.
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

fn source_archive_builds_without_a_network() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let archive = release("source", folder.path(), &[])?;
    let first = fs::read(&archive)?;
    let again = release("source", folder.path(), &[])?;
    ensure!(first == fs::read(again)?, "two archives of one commit differ");
    let tree = unpacked(&archive)?;
    // Nothing that cargo has fetched before may be used.
    let home = folder.path().join("cargo");
    let cargo = |words: &[&str]| {
        let mut command = without_network("cargo");
        command.current_dir(&tree).args(words).args(["--offline", "--locked"]);
        command.env("CARGO_HOME", &home).env_remove("CARGO_TARGET_DIR");
        command
    };
    // Each package finds all crates it needs, including those of its tests.
    done(&mut cargo(&["tree", "--workspace", "--all-features", "--edges", "all"]))?;
    done(&mut cargo(&["build", "--package", "memprof-trace", "--package", "quo-terminal"]))?;
    Ok(())
}

fn static_memprof_runs_in_an_empty_root() -> Result<()> {
    let target = format!("{}-unknown-linux-musl", std::env::consts::ARCH);
    let library =
        done(Command::new("rustc").args(["--print", "target-libdir", "--target", &target]))?;
    if !Path::new(library.trim()).is_dir() {
        skip(format!("Rust's library for {target} is not there (rustup target add {target})"));
    }
    let folder = tempfile::tempdir()?;
    let tree = unpacked(&release("memprof", folder.path(), &["--debug"])?)?;
    let run = Command::new("unshare")
        .args(["--user", "--map-root-user", "--root"])
        .arg(tree.join("bin"))
        .args(["/memprof", "--version"])
        .output()?;
    if String::from_utf8_lossy(&run.stderr).contains("unshare: unshare failed") {
        skip("this user cannot change the root folder");
    }
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    ensure!(String::from_utf8_lossy(&run.stdout).starts_with("memprof "));
    // With a C library it profiles as the dynamic one does.
    let mut profile = Command::new(tree.join("bin/memprof"));
    profile.current_dir(folder.path()).args(["run", "-o", "traces", "--", "/bin/ls", "/"]);
    done(&mut profile)?;
    let mut report = Command::new(tree.join("bin/memprof"));
    let table = done(report.current_dir(folder.path()).args(["report", "traces"]))?;
    ensure!(table.contains("system:libc.so.6"), "{table}");
    Ok(())
}

fn crates_pass_a_trial_publication() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let tree = unpacked(&release("crates", folder.path(), &[])?)?;
    let version = env!("CARGO_PKG_VERSION");
    let name = format!("quo-mpi-{version}");
    done(
        Command::new("tar").arg("-C").arg(&tree).arg("-xf").arg(tree.join(format!("{name}.crate"))),
    )?;
    let manifest: toml::Table = fs::read_to_string(tree.join(&name).join("Cargo.toml"))?.parse()?;
    for file in ["README.md", "LICENSE-MIT", "LICENSE-APACHE"] {
        ensure!(tree.join(&name).join(file).is_file(), "{name}.crate has no {file}");
    }
    ensure!(manifest["package"]["readme"].as_str() == Some("README.md"), "{manifest}");
    // Programs write `use quo_mpi`, and that crate writes `use quo`, whatever the packages are
    // called.
    ensure!(manifest["lib"]["name"].as_str() == Some("quo_mpi"), "{manifest}");
    let quo = &manifest["dependencies"]["quo"];
    ensure!(quo["package"].as_str() == Some("quo-node"), "{quo}");
    ensure!(quo["version"].as_str() == Some(version), "{quo}");
    Ok(())
}

/// Checks the rules of semantic versioning, as in `docs/contributing/releases.md`.
fn crates_keep_the_interface_of_the_last_release() -> Result<()> {
    let checkout = Checkout::find()?;
    let root = checkout.root();
    let mut tags = Command::new("git");
    tags.current_dir(root).args(["tag", "--list", "v[0-9]*", "--merged", "HEAD"]);
    let tags = done(tags.arg("--sort=-version:refname"))?;
    let Some(tag) = tags.lines().next() else {
        skip(format!("no release has a tag (v{})", env!("CARGO_PKG_VERSION")));
    };
    let mut version = Command::new("cargo");
    if !version.args(["semver-checks", "--version"]).output()?.status.success() {
        skip("there is no cargo-semver-checks (cargo install cargo-semver-checks --locked)");
    }
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let names = manifest["workspace"]["metadata"]["registry"].as_table();
    let names = names.context("workspace.metadata.registry is no table")?;
    let mut check = Command::new("cargo");
    check.current_dir(root).args(["semver-checks", "--baseline-rev", tag]);
    check.env("CARGO_TARGET_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("semver"));
    check.args(names.keys().flat_map(|name| ["--package", name]));
    if tag == concat!("v", env!("CARGO_PKG_VERSION")) {
        // In a version under development anything may be new.
        check.args(["--release-type", "minor"]);
    }
    done(&mut check)?;
    Ok(())
}

fn debian_packages_hold_every_installed_file() -> Result<()> {
    let mut query = Command::new("dpkg-query");
    query.args(["--show", "--showformat=${db:Status-Status}", "debhelper"]);
    if !query.output().is_ok_and(|found| found.stdout == b"installed") {
        skip("debhelper is not there (apt-get install debhelper)");
    }
    let checkout = Checkout::find()?;
    let folder = tempfile::tempdir()?;
    // Only what the recipe itself reads: the files are those of the build under test.
    let debian = folder.path().join("quo/debian");
    fs::create_dir(folder.path().join("quo"))?;
    done(Command::new("cp").arg("-r").arg(checkout.root().join("packaging/debian")).arg(&debian))?;
    // Cargo checks each file of the crates in a source archive.
    let of_crate = folder.path().join("quo/vendor/some-1.0.0/Cargo.toml.orig");
    fs::create_dir_all(of_crate.parent().context("it lies in a folder")?)?;
    fs::write(&of_crate, "")?;
    let built = checkout.program("memprof")?;
    let built = built.parent().context("memprof has no folder")?;
    let mut package = Command::new("dpkg-buildpackage");
    package.current_dir(folder.path().join("quo"));
    // Build dependencies are not installed: nothing is compiled here.
    package.args(["--no-sign", "--build=binary", "--no-check-builddeps"]);
    package.env("XTASK", checkout.program("xtask")?);
    package.env("QUO_INSTALL_OPTIONS", format!("--built {}", built.display()));
    // Compression would take most of the time.
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
    // The system libraries that a package needs are read from its objects.
    let library = names_of(folder.path(), "libquo8_")?;
    let needs = done(Command::new("dpkg-deb").arg("--field").arg(library).arg("Depends"))?;
    ensure!(needs.contains("libhwloc15"), "{needs}");
    ensure!(of_crate.exists(), "the recipe removed {}", of_crate.display());
    // The loader searches the system's folders by default.
    let staged = folder.path().join("quo/debian/tmp/usr");
    let is_program =
        |file: &PathBuf| fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"\x7fELF"));
    let mut found = 0;
    for part in ["bin", "lib"] {
        let files = fs::read_dir(staged.join(part))?.flatten().map(|entry| entry.path());
        for object in files.filter(is_program) {
            let entries = done(Command::new("readelf").arg("--dynamic").arg(&object))?;
            ensure!(!entries.contains("PATH)"), "{}: {entries}", object.display());
            found += 1;
        }
    }
    ensure!(found >= 7, "only {found} programs and libraries were looked at");
    Ok(())
}

/// Returns the file in a folder whose name begins with `start`.
fn names_of(folder: &Path, start: &str) -> Result<PathBuf> {
    let mut files = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let begins = |file: &PathBuf| {
        let name = file.file_name().unwrap_or_default().to_string_lossy();
        name.starts_with(start) && name.ends_with(".deb")
    };
    files.find(begins).with_context(|| format!("no package {start}*"))
}

quo_tests::suite! {
    within quo_tests::suite::LONG_LIMIT;
    source_archive_builds_without_a_network
    static_memprof_runs_in_an_empty_root
    crates_pass_a_trial_publication
    crates_keep_the_interface_of_the_last_release
    debian_packages_hold_every_installed_file
}
