//! Why nothing was recorded, as far as it can be told afterwards.

use crate::model;
use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Possible reasons, the likeliest first; never empty.
pub fn reasons(folder: &Path, program: &Path, all: bool) -> Vec<String> {
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
        Kind::Foreign(machine) => {
            reasons.push(format!("{name} is for another kind of machine ({machine})"));
        }
        Kind::Dynamic | Kind::Other => {}
    }
    if reasons.is_empty() && !all {
        reasons
            .push("no process called MPI_Init; --all records every process, MPI or not".to_owned());
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

/// Why nothing can be written there: what ranks said, and what can be seen from here.
fn of_the_folder(folder: &Path) -> Vec<String> {
    let refused = model::refused(folder);
    let groups = refused.chunk_by(|a, b| a.why == b.why);
    let mut reasons: Vec<String> = groups
        .map(|group| {
            let ranks: Vec<String> = group
                .iter()
                .filter_map(|word| word.rank)
                .take(8)
                .map(|rank| rank.to_string())
                .collect();
            match ranks.is_empty() {
                true => format!("no trace could be made: {}", group[0].why),
                false => {
                    format!("no trace could be made in rank {}: {}", ranks.join(", "), group[0].why)
                }
            }
        })
        .collect();
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

#[derive(Debug, PartialEq, Eq)]
enum Kind {
    Dynamic,
    Static,
    Foreign(String),
    Other,
}

/// Reads as much of an ELF file as says whether it has an interpreter.
fn kind(program: &Path) -> Kind {
    let mut start = Vec::new();
    let read = File::open(program).and_then(|file| file.take(64 << 10).read_to_end(&mut start));
    if read.is_err() || !start.starts_with(b"\x7fELF") {
        return Kind::Other;
    }
    kind_of(&start)
}

fn kind_of(start: &[u8]) -> Kind {
    let word = |at: usize| start.get(at..at + 2).map(|b| u16::from_le_bytes([b[0], b[1]]));
    let long = |at: usize| {
        let bytes = start.get(at..at + 8)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?))
    };
    let wide = start.get(4) == Some(&2) && start.get(5) == Some(&1);
    if !wide {
        return Kind::Foreign("not 64 bits, little end first".to_owned());
    }
    let machine = match std::env::consts::ARCH {
        "x86_64" => 62,
        "aarch64" => 183,
        "powerpc64" => 21,
        "riscv64" => 243,
        _ => return Kind::Other,
    };
    if word(18) != Some(machine) {
        return Kind::Foreign(format!("ELF machine {}", word(18).unwrap_or(0)));
    }
    let (Some(offset), Some(size), Some(count)) = (long(32), word(54), word(56)) else {
        return Kind::Other;
    };
    for index in 0..usize::from(count) {
        let at = usize::try_from(offset)
            .ok()
            .and_then(|offset| offset.checked_add(index.checked_mul(usize::from(size))?));
        let Some(bytes) = at.and_then(|at| start.get(at..at.checked_add(4)?)) else {
            return Kind::Other;
        };
        const INTERPRETER: [u8; 4] = 3u32.to_le_bytes();
        if bytes == INTERPRETER {
            return Kind::Dynamic;
        }
    }
    Kind::Static
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;

    #[test]
    fn a_program_of_the_system_is_dynamic_and_a_script_is_no_program() {
        let own = std::env::current_exe().expect("this test");
        assert_eq!(kind(&own), Kind::Dynamic);
        assert_eq!(kind(Path::new("/proc/self/cmdline")), Kind::Other);
        assert_eq!(kind(Path::new("/nowhere")), Kind::Other);
    }

    #[test]
    fn without_an_interpreter_it_is_static_and_garbage_is_not_trusted() {
        let own = std::env::current_exe().expect("this test");
        let mut start = std::fs::read(own).expect("read");
        start.truncate(64 << 10);
        let mut none = start.clone();
        none[56..58].copy_from_slice(&0u16.to_le_bytes());
        assert_eq!(kind_of(&none), Kind::Static);
        for at in 0..64 {
            let mut broken = start.clone();
            broken[at] = 0xff;
            kind_of(&broken);
            kind_of(&start[..at]);
        }
    }

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
        std::fs::copy(std::env::current_exe().expect("this test"), &program).expect("copied");
        std::fs::set_permissions(&program, Permissions::from_mode(0o4755)).expect("permitted");
        let said = reasons(place.path(), &program, false);
        assert!(said[0].contains("set-user-ID"), "{said:?}");
    }
}
