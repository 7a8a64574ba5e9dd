//! `cargo xtask install --prefix DIR`: libquo for C, C++ and Fortran, its commands, and the files
//! by which other builds find them.

mod fortran;
mod library;
pub mod manifest;
mod memprof;
mod object;
pub mod place;
pub mod prefix;
mod template;
mod wrapper;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use clap::Args;

use crate::output::Steps;
use crate::{book, project, release, run, setup};
use fortran::Modules;
use library::{INTERFACE, Parts};
use place::{Content, Item};
use template::Values;
use wrapper::Mpi;

/// Programs that are built with the library.
const COMMANDS: [&str; 3] = ["quo-info", "quo-elastic", "quo-run"];

/// Object that `quo-run` loads into ranks.
const RUN_OBJECT: &str = "libquo_run_preload.so";
/// The object that `quo-info doctor` loads into programs.
const INFO_OBJECT: &str = "libquo_info_preload.so";

const VERSION: &str = env!("CARGO_PKG_VERSION");

#[derive(Args)]
pub struct Options {
    /// Folder of the installation: bin, include, lib and share are made below it.
    #[arg(long, value_name = "DIR")]
    prefix: PathBuf,
    /// Put everything below DIR instead of the root folder, for packagers.
    #[arg(long, value_name = "DIR")]
    destdir: Option<PathBuf>,
    /// Leave the Fortran modules out of the library. Their sources are still installed.
    #[arg(long)]
    no_fortran: bool,
    /// Leave out the static library.
    #[arg(long)]
    no_static: bool,
    /// Replace existing files of other software.
    #[arg(long)]
    overwrite: bool,
    /// Do not install missing system packages: list all that are missing, and fail.
    #[arg(long)]
    no_setup: bool,
    /// Build nothing: install the files in DIR. For tests, to save the minutes of optimising.
    #[arg(long, value_name = "DIR", hide = true)]
    built: Option<PathBuf>,
}

pub fn run(options: &Options) -> Result<()> {
    let prefix = prefix::checked(&options.prefix)?;
    let destination = match &options.destdir {
        Some(folder) => prefix::staged(folder, &prefix)?,
        None => prefix.clone(),
    };
    prefix::writable(&destination)?;
    place::check(&destination, &headers()?, options.overwrite)?;
    let mut steps = Steps::new(5);
    steps.next("looking for the system packages of a build");
    let look = if options.no_setup { setup::check_install } else { setup::ensure_install };
    look(!options.no_fortran)?;
    // All installations, whatever the MPI, build in the same place and link under the same names.
    let _turn = project::turn(&project::base()?, "installation")?;
    steps.next("building the library and its commands, minutes the first time");
    let built = options.built.clone().map_or_else(release::build_library, Ok)?;
    steps.next("building the memory profiler");
    let profiler = options.built.as_ref().map(|built| built.join("memprof"));
    let memprof = profiler.map_or_else(release::build_memprof, Ok)?;
    let mpi = Mpi::of_build()?;
    let work = project::target()?.join("install");
    fs::create_dir_all(&work).with_context(|| format!("creating {}", work.display()))?;
    steps.next(&format!("linking libquo for {}", mpi.name));
    let modules = modules(options.no_fortran, &work)?;
    let parts = Parts {
        archive: built.join("libquo_c.a"),
        is_static_wanted: !options.no_static,
        fortran: modules.as_ref(),
        mpi: &mpi,
        is_of_system: is_of_system(&prefix),
    };
    let items = everything(&parts, &built, &memprof, &work, &prefix)?;
    steps.next(&format!("writing files into {}", destination.display()));
    let report = place::install(&destination, &items, VERSION, options.overwrite)?;

    let folder = destination.display();
    for name in &report.set_aside {
        println!("your changed file is now {folder}/{name}");
    }
    for name in &report.kept {
        println!("{folder}/{name} is not part of quo any more; it stays, since it was changed");
    }
    println!("installed in {folder} ({} files)", items.len());
    if options.destdir.is_none() {
        println!("use it with: export PATH={folder}/bin:$PATH");
        println!("             export PKG_CONFIG_PATH={folder}/lib/pkgconfig");
        println!("             mpicc program.c $(pkg-config --cflags --libs libquo)");
        println!("         or: module load {folder}/share/modulefiles/quo/{VERSION}");
    }
    Ok(())
}

fn modules(unwanted: bool, work: &Path) -> Result<Option<Modules>> {
    if unwanted {
        return Ok(None);
    }
    match fortran::compiler() {
        Ok(compiler) => {
            println!("compiling the Fortran modules with gfortran {}", compiler.version);
            let modules = fortran::compile(compiler, &work.join("fortran"))?;
            if !modules.has_f08 {
                println!("this MPI has no module mpi_f08 for gfortran: the modules do without");
            }
            Ok(Some(modules))
        }
        Err(reason) => {
            println!("libquo gets no Fortran part: {reason}; the sources are installed");
            Ok(None)
        }
    }
}

/// Returns all items of an installation, in the order in which they appear: the items by which
/// other builds find it are last.
fn everything(
    parts: &Parts,
    built: &Path,
    memprof: &Path,
    work: &Path,
    prefix: &Path,
) -> Result<Vec<Item>> {
    let root = project::root();
    let values = values(parts, prefix)?;
    let mut items = Vec::new();
    libraries(&mut items, parts, work)?;
    for command in COMMANDS {
        items.push(program(&built.join(command), work, &format!("bin/{command}"))?);
        let pages = work.join(format!("generated-{command}"));
        generated_by(&mut items, &built.join(command), &pages)?;
    }
    for object in [RUN_OBJECT, INFO_OBJECT] {
        items.push(program(&built.join(object), work, &format!("lib/{object}"))?);
    }
    items.extend(headers()?);
    for interface in parts.fortran.iter().flat_map(|modules| &modules.interfaces) {
        items.push(copy(interface, "include/quo/fortran", 0o644)?);
    }
    fortran_sources(&mut items, &values)?;
    for module in files(&root.join("bindings-python/libquo"))? {
        items.push(copy(&module, "lib/python/libquo", 0o644)?);
    }
    memprof::everything(&mut items, built, memprof, work, &values, parts.is_static_wanted)?;
    for paper in papers(root)? {
        let folder = paper.parent().unwrap_or(Path::new(""));
        let place = Path::new("share/doc/quo").join(folder);
        items.push(copy(&root.join(&paper), &place.to_string_lossy(), 0o644)?);
    }
    let packaging = root.join("packaging");
    for example in files(&packaging.join("examples"))? {
        items.push(copy(&example, "share/quo/examples", 0o644)?);
    }
    let modulefile = template::filled(&packaging.join("modulefile/quo.in"), &values)?;
    items.push(text(&format!("share/modulefiles/quo/{VERSION}"), modulefile));
    for (folder, place) in [("pkgconfig", "lib/pkgconfig"), ("cmake", "lib/cmake/quo")] {
        for file in files(&packaging.join(folder))? {
            let name = name(&file);
            let name = name.strip_suffix(".in").unwrap_or(&name);
            let wanted = match name {
                "libquo-fortran.pc" => parts.fortran.is_some(),
                "libquo-static.pc" => parts.is_static_wanted,
                _ => true,
            };
            if wanted {
                items.push(text(&format!("{place}/{name}"), template::filled(&file, &values)?));
            }
        }
    }
    Ok(items)
}

/// Returns the headers of the library. Another library in the same prefix has files of their names.
fn headers() -> Result<Vec<Item>> {
    let headers = files(&project::root().join("bindings-c/include"))?;
    headers.iter().map(|header| copy(header, "include", 0o644)).collect()
}

fn libraries(items: &mut Vec<Item>, parts: &Parts, work: &Path) -> Result<()> {
    let full = format!("libquo.so.{INTERFACE}.0.0");
    let short = format!("libquo.so.{INTERFACE}");
    let shared = work.join(&full);
    parts.link(&shared)?;
    items.push(copy(&shared, "lib", 0o755)?);
    let mut links = vec![(full, short.clone()), (short, "libquo.so".to_owned())];
    let mut ends = vec!["so"];
    if parts.is_static_wanted {
        parts.archive(&shared, &work.join("libquo.a"))?;
        items.push(copy(&work.join("libquo.a"), "lib", 0o644)?);
        ends.push("a");
    }
    if parts.fortran.is_some() {
        // Under the names of QUO's own Fortran library.
        links.extend(
            ends.iter().map(|end| (format!("libquo.{end}"), format!("libquo-usequo.{end}"))),
        );
    }
    for (to, name) in links {
        items.push(Item { path: format!("lib/{name}"), content: Content::Link { to } });
    }
    Ok(())
}

/// Adds the modules for compilers that cannot read gfortran's `.mod` files, and the files to build
/// them with.
fn fortran_sources(items: &mut Vec<Item>, values: &Values) -> Result<()> {
    const PLACE: &str = "share/quo/fortran";
    let sources = fortran::sources()?;
    let names: Vec<String> = sources.iter().map(|source| name(source) + "\n").collect();
    for source in sources.into_iter().chain(fortran::included()?) {
        items.push(copy(&source, PLACE, 0o644)?);
    }
    items.push(text(&format!("{PLACE}/SOURCES"), names.concat()));
    for file in files(&project::root().join("packaging/fortran"))? {
        let path = format!("{PLACE}/{}", name(&file).trim_end_matches(".in"));
        items.push(text(&path, template::filled(&file, values)?));
    }
    Ok(())
}

/// Adds manual pages and shell completions, which programs write from their own definitions.
fn generated_by(items: &mut Vec<Item>, program: &Path, folder: &Path) -> Result<()> {
    let _absent = fs::remove_dir_all(folder);
    run::captured(Command::new(program).arg("--generate").arg(folder))
        .context("writing manual pages and completions")?;
    for path in project::files_below(folder)? {
        let below = path.strip_prefix(folder)?.parent().unwrap_or(Path::new(""));
        items.push(copy(&path, &format!("share/{}", below.display()), 0o644)?);
    }
    Ok(())
}

fn values(parts: &Parts, prefix: &Path) -> Result<Values> {
    let mpi = parts.mpi;
    let hwloc = Command::new("pkg-config").args(["--variable=libdir", "hwloc"]).output()?;
    let mpicxx = project::find_program(&quo_tests::mpicxx().to_string_lossy()).unwrap_or_default();
    let mpifort =
        project::find_program(&quo_tests::mpifort().to_string_lossy()).unwrap_or_default();
    let compiler = parts.fortran.map_or("", |modules| &modules.compiler.version);
    Ok(Values::new([
        ("VERSION", VERSION.to_owned()),
        ("API_VERSION", api_version()?),
        ("INTERFACE", INTERFACE.to_owned()),
        ("MPI", mpi.name.clone()),
        ("MPICC", mpi.mpicc.display().to_string()),
        ("MPICXX", mpicxx.display().to_string()),
        ("MPIFORT", mpifort.display().to_string()),
        ("MPI_LIBRARIES", mpi.link_flags.join(" ")),
        ("RUST_LIBRARIES", library::RUST_LIBRARIES.to_owned()),
        ("HWLOC_FOLDER", String::from_utf8_lossy(&hwloc.stdout).trim().to_owned()),
        ("GFORTRAN", compiler.to_owned()),
        ("RUN_PATH", run_path(prefix).to_owned()),
    ]))
}

/// Returns the linker option in pkg-config files by which a program finds the library without a
/// modulefile. The loader searches the system's own folders by default.
fn run_path(prefix: &Path) -> &'static str {
    if is_of_system(prefix) { "" } else { "-Wl,-rpath,${libdir}" }
}

/// Returns true if the prefix is that of system packages.
fn is_of_system(prefix: &Path) -> bool {
    prefix == Path::new("/usr")
}

/// Returns the QUO interface version that the header declares.
fn api_version() -> Result<String> {
    let header = project::root().join("bindings-c/include/quo.h");
    let text =
        fs::read_to_string(&header).with_context(|| format!("reading {}", header.display()))?;
    version_in(&text).with_context(|| format!("{} defines no QUO_API_VERSION", header.display()))
}

fn version_in(header: &str) -> Option<String> {
    let start = "#define QUO_API_VERSION 0x";
    let digits = header.lines().find_map(|line| line.strip_prefix(start))?;
    let number = u32::from_str_radix(digits.trim(), 16).ok()?;
    Some(format!("{}.{}.{}", number >> 16, number >> 8 & 0xff, number & 0xff))
}

/// Returns the licences, and the pages of the site with all files that they, the commands and the
/// README name, as paths below the checkout.
fn papers(root: &Path) -> Result<BTreeSet<PathBuf>> {
    let mut papers = book::files(root)?;
    let licences = files(root)?.into_iter().filter(|file| name(file).starts_with("LICENSE-"));
    let findings = files(&root.join("findings"))?;
    let others = licences.chain(findings);
    papers.extend(others.filter_map(|file| Some(file.strip_prefix(root).ok()?.to_owned())));
    Ok(papers)
}

/// Returns the files directly in a folder, in order.
fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}

fn name(file: &Path) -> String {
    file.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn copy(file: &Path, folder: &str, mode: u32) -> Result<Item> {
    let bytes = fs::read(file).with_context(|| format!("reading {}", file.display()))?;
    let path = format!("{folder}/{}", name(file));
    Ok(Item { path, content: Content::File { bytes, mode } })
}

fn text(path: &str, text: String) -> Item {
    let content = Content::File { bytes: text.into_bytes(), mode: 0o644 };
    Item { path: path.to_owned(), content }
}

/// Returns a program without debug information.
fn program(file: &Path, work: &Path, path: &str) -> Result<Item> {
    let stripped = work.join(name(file));
    run::captured(Command::new("strip").arg("-g").arg("-o").arg(&stripped).arg(file))?;
    let bytes = fs::read(&stripped).with_context(|| format!("reading {}", stripped.display()))?;
    Ok(Item { path: path.to_owned(), content: Content::File { bytes, mode: 0o755 } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_path_is_left_out_of_the_systems_own_prefix() {
        assert_eq!(run_path(Path::new("/usr")), "");
        assert_eq!(run_path(Path::new("/opt/quo")), "-Wl,-rpath,${libdir}");
    }

    #[test]
    fn the_header_tells_the_interface() {
        assert_eq!(version_in("#define QUO_API_VERSION 0x00010401\n").as_deref(), Some("1.4.1"));
        assert_eq!(version_in("#define LIBQUO 1\n"), None);
        assert_eq!(api_version().unwrap(), "1.4.1");
    }
}
