//! Why nothing was recorded, as far as it can be told afterwards.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// Possible reasons, the likeliest first; never empty.
pub fn reasons(program: &Path, all: bool) -> Vec<String> {
    let name = program.display();
    let mut reasons = Vec::new();
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
        assert!(reasons(Path::new("/nowhere"), false)[0].contains("MPI_Init"));
        assert!(!reasons(Path::new("/nowhere"), true).is_empty());
    }
}
