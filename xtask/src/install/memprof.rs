//! The memory profiler's part of an installation: the command, the object that it loads into ranks,
//! and libmemprof for programs that query figures themselves. None of it depends on an MPI.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};

use super::library::RUST_LIBRARIES;
use super::place::{Content, Item};
use super::template::{self, Values};
use super::{copy, files, generated_by, name, object, program, text};
use crate::{project, run};

/// Interface number of libmemprof.
pub const INTERFACE: &str = "0";

/// Adds all of it: the command, and the rest from the folder that cargo built into.
pub fn everything(
    items: &mut Vec<Item>,
    built: &Path,
    command: &Path,
    work: &Path,
    values: &Values,
    is_static_wanted: bool,
) -> Result<()> {
    let root = project::root();
    let archive = built.join("libmemprof_api.a");
    let full = format!("libmemprof.so.{INTERFACE}.0.0");
    let short = format!("libmemprof.so.{INTERFACE}");
    link(&archive, &work.join(&full))?;
    items.push(copy(&work.join(&full), "lib", 0o755)?);
    for (to, name) in [(full.clone(), short.clone()), (short, "libmemprof.so".to_owned())] {
        items.push(Item { path: format!("lib/{name}"), content: Content::Link { to } });
    }
    if is_static_wanted {
        let library = work.join("libmemprof.a");
        object::archive(&archive, &[], &work.join(&full), &library)?;
        items.push(copy(&library, "lib", 0o644)?);
        // For programs without dynamic loading: `memprof flags` prints how to link it.
        items.push(copy(&built.join("libmemprof_static.a"), "lib", 0o644)?);
    }
    let preload = program(&built.join("libmemprof_preload.so"), work, "lib/libmemprof_preload.so")?;
    items.push(preload);
    items.push(program(command, work, "bin/memprof")?);
    for header in files(&root.join("memprof/api/include"))? {
        items.push(copy(&header, "include", 0o644)?);
    }
    for page in files(&root.join("memprof/docs"))? {
        if name(&page).ends_with(".md") {
            items.push(copy(&page, "share/doc/memprof", 0o644)?);
        }
    }
    generated_by(items, command, &work.join("generated-memprof"))?;
    let description = template::filled(&root.join("packaging/memprof/memprof.pc.in"), values)?;
    items.push(text("lib/pkgconfig/memprof.pc", description));
    Ok(())
}

/// Links the shared library, with its own name and exports.
fn link(archive: &Path, library: &Path) -> Result<()> {
    let script = library.with_extension("map");
    let exports = "{\n  global: memprof_*;\n  local: *;\n};\n";
    std::fs::write(&script, exports).with_context(|| format!("writing {}", script.display()))?;
    let mut linker = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    linker.arg("-shared").arg("-o").arg(library);
    linker.arg(format!("-Wl,-soname,libmemprof.so.{INTERFACE}"));
    linker.arg(format!("-Wl,--version-script={}", script.display()));
    linker.args(["-Wl,-z,defs", "-Wl,-z,relro", "-Wl,-z,now", "-Wl,-z,noexecstack"]);
    linker.args(["-Wl,--gc-sections", "-Wl,--strip-debug", "-Wl,--as-needed", "-Wl,-O1"]);
    linker.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    linker.args(RUST_LIBRARIES.split(' '));
    run::captured(&mut linker).with_context(|| format!("linking {}", library.display()))?;
    Ok(())
}
