//! Static libraries of one object, which can be linked with other libraries written in Rust.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::run;

/// Joins the objects of cargo's static library and others into one, with the same visible names as
/// the shared library.
///
/// Rust's own objects also contain LLVM bitcode. If binutils has a plugin of an older LLVM, it
/// cannot read them, and an archive made by `ar` or `strip` would lack their index. The linker can
/// read them, and the bitcode is removed.
pub fn archive(archive: &Path, objects: &[PathBuf], shared: &Path, library: &Path) -> Result<()> {
    let told = run::captured(Command::new("nm").args(["-D", "-P", "--defined-only"]).arg(shared))?;
    let names: Vec<&str> = told.lines().filter_map(|line| line.split(' ').next()).collect();
    let (keep, whole) = (library.with_extension("keep"), library.with_extension("whole.o"));
    fs::write(&keep, names.join("\n") + "\n")
        .with_context(|| format!("writing {}", keep.display()))?;
    let mut linker = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    linker.args(["-r", "-nostdlib", "-Wl,--gc-sections", "-Wl,--strip-debug"]);
    linker.arg("-Wl,--force-group-allocation").arg("-o").arg(&whole);
    linker.args(names.iter().map(|name| format!("-Wl,--undefined={name}")));
    linker.arg("-Wl,--whole-archive").arg(archive).arg("-Wl,--no-whole-archive");
    linker.args(objects);
    run::captured(&mut linker).with_context(|| format!("linking {}", whole.display()))?;

    // Its name in the archive follows the library's: quo.o of libquo.a.
    let stem = library.file_stem().unwrap_or_default().to_string_lossy();
    let object = library.with_file_name(format!("{}.o", stem.trim_start_matches("lib")));
    let mut objcopy = Command::new("objcopy");
    objcopy.args(["--remove-section=.llvmbc", "--remove-section=.llvmcmd"]);
    objcopy.arg(format!("--keep-global-symbols={}", keep.display())).arg(&whole).arg(&object);
    run::captured(&mut objcopy).with_context(|| format!("making {}", object.display()))?;
    if library.exists() {
        fs::remove_file(library).with_context(|| format!("removing {}", library.display()))?;
    }
    // Deterministic: the same objects give the same bytes.
    run::captured(Command::new("ar").arg("qcsD").arg(library).arg(&object))
        .with_context(|| format!("filling {}", library.display()))?;
    Ok(())
}
