//! The kernel's initial files: the first process and the drivers.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};

use crate::archive::Archive;
use crate::kernel::{Kernel, content};

const INIT: &str = include_str!("../guest/init.c");

/// Returns the archive, from the cache if it was made from the same contents.
pub(crate) fn first_files(cache: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let mut identity = INIT.to_owned();
    for driver in &kernel.drivers {
        identity.push_str(&driver.display().to_string());
    }
    let file = cache.join(format!("first-files-{}-{:016x}", kernel.version, hash(&identity)));
    if file.exists() {
        return Ok(file);
    }
    fs::create_dir_all(cache).with_context(|| format!("making {}", cache.display()))?;
    let mut archive = Archive::default();
    archive.folder("dev");
    archive.device("dev/console", (5, 1));
    archive.folder("drivers");
    for (place, driver) in kernel.drivers.iter().enumerate() {
        archive.file(&format!("drivers/{place:02}"), 0o644, &content(driver)?);
    }
    archive.file("init", 0o755, &compile(cache)?);
    let mut written = tempfile::NamedTempFile::new_in(cache)?;
    written.write_all(&archive.finish())?;
    // Renamed only when complete: other processes may be looking for it.
    written.persist(&file).with_context(|| format!("keeping {}", file.display()))?;
    Ok(file)
}

/// Compiles the first process, statically since no libraries exist yet.
fn compile(cache: &Path) -> Result<Vec<u8>> {
    let program = tempfile::NamedTempFile::new_in(cache)?.into_temp_path();
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(&compiler);
    command.args(["-std=gnu11", "-O1", "-static", "-x", "c", "-", "-o"]).arg(&program);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let name = compiler.to_string_lossy();
    let mut child = command.spawn().with_context(|| format!("starting {name}"))?;
    if let Some(mut input) = child.stdin.take() {
        let _the_compiler_says_why = input.write_all(INIT.as_bytes());
    }
    let output = child.wait_with_output()?;
    ensure!(
        output.status.success(),
        "{name} -static: {}; is there a static C library?\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    fs::read(&program).context("reading the compiled first process")
}

/// Hashes a text with FNV-1a, which is the same in every build.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
