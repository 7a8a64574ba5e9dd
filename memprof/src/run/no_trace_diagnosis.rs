//! Diagnosis of why nothing was recorded.

use super::program::{Kind, is_rust, kind};
use crate::model;
use std::fs::OpenOptions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Returns possible reasons, the likeliest first; never empty.
pub fn reasons(folder: &Path, program: &Path, without_mpi: bool) -> Vec<String> {
    let name = program.display();
    let mut reasons = of_the_folder(folder);
    if !reasons.is_empty() {
        return reasons;
    }
    if program.metadata().is_ok_and(|data| data.permissions().mode() & 0o6000 != 0) {
        reasons.push(format!("{name} is set-user-ID: the system preloads nothing into it"));
    }
    match kind(program) {
        Kind::Static => reasons
            .push(format!("{name} is linked statically: link it with what `memprof flags` prints")),
        Kind::StaticGo => reasons.push(format!(
            "{name} was linked by Go, which loads no library: build it with `go build -ldflags=-linkmode=external`, or \
             see a running one with `memprof live --pid`"
        )),
        Kind::StaticOther if is_rust(program) => reasons.push(format!(
            "{name} is linked statically without the GNU C library: build it for the target \
             {}-unknown-linux-gnu, or see a running one with `memprof live --pid`",
            std::env::consts::ARCH
        )),
        Kind::StaticOther => reasons.push(format!(
            "{name} is linked statically without the GNU C library, as by musl: build it with the GNU C library, or \
             see a running one with `memprof live --pid`"
        )),
        Kind::Foreign(machine) => {
            reasons.push(format!("{name} is for another kind of machine ({machine})"));
        }
        Kind::Musl => {
            reasons.push(format!("{name} uses musl; the profiler needs the GNU C library: build it with that, or see a running one with \
                 `memprof live --pid`"))
        }
        Kind::Dynamic | Kind::Other => {}
    }
    if reasons.is_empty() && !without_mpi {
        reasons.push(format!(
            "no process called MPI_Init (--all records every process, MPI or not), or the ranks ran without \
             LD_PRELOAD and MEMPROF_DIR (a wrapper that clears the environment), or where {} is not there",
            folder.display()
        ));
    }
    if reasons.is_empty() {
        reasons.push(
            "the processes did not load the profiler, or could not write to its folder; lines \
             beginning with `memprof:` or `ERROR: ld.so` above would say so"
                .to_owned(),
        );
    }
    reasons
}

/// Returns the reasons why nothing can be written to the folder: what the ranks reported, and the
/// facts visible from here.
fn of_the_folder(folder: &Path) -> Vec<String> {
    let mut reasons = model::told(&model::refused(folder));
    let shown = folder.display();
    match folder.metadata() {
        Err(error) => reasons.push(format!("{shown}, the folder for the traces, is gone: {error}")),
        Ok(data) if !data.is_dir() => reasons.push(format!("{shown} is no folder any more")),
        Ok(_) => {
            let trial = folder.join(".memprof-trial");
            let tried = OpenOptions::new().write(true).create_new(true).open(&trial);
            let _ = std::fs::remove_file(&trial);
            if let Err(error) = tried {
                reasons.push(format!("{shown} cannot be written: {error}"));
            }
        }
    }
    reasons
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn there_is_always_a_reason() {
        let place = tempfile::tempdir().expect("a folder");
        let of = |folder: &Path, all| reasons(folder, Path::new("/nowhere"), all);
        assert!(of(place.path(), false)[0].contains("MPI_Init"));
        assert!(!of(place.path(), true).is_empty());
        assert!(of(&place.path().join("gone"), false)[0].contains("is gone"));
        std::fs::write(place.path().join("node.1.2.0.28.missing"), "").expect("written");
        std::fs::write(place.path().join("node.3.4.1.28.missing"), "").expect("written");
        let said = of(place.path(), false);
        assert!(said[0].contains("in rank 0, 1: No space left"), "{said:?}");
        assert!(!place.path().join(".memprof-trial").exists());
    }

    #[test]
    fn a_program_that_nothing_is_preloaded_into_is_named() {
        let place = tempfile::tempdir().expect("a folder");
        let program = place.path().join("program");
        std::fs::write(&program, "").expect("written");
        std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("permitted");
        let said = reasons(place.path(), &program, false);
        assert!(said[0].contains("set-user-ID"), "{said:?}");
    }
}
