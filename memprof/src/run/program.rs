//! Kind of a program, determined from its file: whether something can be loaded into it.

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Whether and how something can be loaded into a program.
#[derive(Debug, PartialEq, Eq)]
pub enum Kind {
    /// The system's loader starts it.
    Dynamic,
    /// Another loader starts it, that of musl.
    Musl,
    /// No loader starts it, and its C library is GNU's.
    Static,
    /// No loader starts it, and Go's linker made it.
    StaticGo,
    /// No loader starts it, and it contains no GNU C library: musl's, or none.
    StaticOther,
    /// It is for another machine, with this name.
    Foreign(String),
    /// A script, or a file of unknown kind.
    Other,
}

/// Reads as much of an ELF file as shows whether it has an interpreter.
pub fn kind(program: &Path) -> Kind {
    let mut start = Vec::new();
    let read = File::open(program).and_then(|file| file.take(64 << 10).read_to_end(&mut start));
    if read.is_err() || !start.starts_with(b"\x7fELF") {
        return Kind::Other;
    }
    kind_of(&start)
}

/// Returns true if a file is of the kind that shells refuse to take for a script: it has a zero in its first line.
pub fn is_binary(program: &Path) -> bool {
    let mut start = Vec::new();
    let read = File::open(program).and_then(|file| file.take(4096).read_to_end(&mut start));
    let line = start.split(|&byte| byte == b'\n').next().unwrap_or_default();
    read.is_err() || line.contains(&0)
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
    let mut found = Kind::StaticOther;
    for index in 0..usize::from(count) {
        let at = usize::try_from(offset)
            .ok()
            .and_then(|offset| offset.checked_add(index.checked_mul(usize::from(size))?));
        let Some(bytes) = at.and_then(|at| start.get(at..at.checked_add(16)?)) else {
            return Kind::Other;
        };
        const INTERPRETER: [u8; 4] = 3u32.to_le_bytes();
        if bytes[..4] == INTERPRETER {
            let at = at.and_then(|at| long(at + 8)).and_then(|at| usize::try_from(at).ok());
            let path = at.and_then(|at| start.get(at..)).unwrap_or_default();
            let path = path.split(|&byte| byte == 0).next().unwrap_or_default();
            let name = path.rsplit(|&byte| byte == b'/').next().unwrap_or_default();
            return if name.starts_with(b"ld-musl") { Kind::Musl } else { Kind::Dynamic };
        }
        const NOTES: [u8; 4] = 4u32.to_le_bytes();
        if bytes[..4] == NOTES {
            let place = |more: usize| {
                let word = at.and_then(|at| long(at + more));
                word.and_then(|word| usize::try_from(word).ok())
            };
            let notes = place(8).and_then(|from| {
                let length = place(32)?;
                start.get(from..from.saturating_add(length).min(start.len()))
            });
            found = match maker(notes.unwrap_or_default()) {
                Kind::StaticOther => found,
                known => known,
            };
        }
    }
    found
}

/// Determines the producer of a static program from its notes: Go's linker signs its output, and
/// the GNU C library names the kernel that it needs.
fn maker(mut notes: &[u8]) -> Kind {
    const ABI_TAG: u32 = 1;
    while let Some((head, rest)) = notes.split_at_checked(12) {
        let word = |at: usize| head[at..at + 4].try_into().map_or(0, u32::from_le_bytes);
        let (name, length) = (word(0) as usize, word(4) as usize);
        let whole = |bytes: usize| bytes.min(rest.len()).next_multiple_of(4);
        match rest.get(..name) {
            Some(b"Go\0\0") => return Kind::StaticGo,
            Some(b"GNU\0") if word(8) == ABI_TAG => return Kind::Static,
            _ => {}
        }
        let next = whole(name).saturating_add(whole(length));
        notes = rest.get(next..).unwrap_or_default();
    }
    Kind::StaticOther
}

/// Returns true if the compiler of Rust has made a program.
pub fn is_rust(program: &Path) -> bool {
    const MARK: &[u8] = b"/rustc/";
    let Ok(mut file) = File::open(program) else { return false };
    let (mut piece, mut kept) = (vec![0; 1 << 20], 0);
    while let Ok(count @ 1..) = file.read(&mut piece[kept..]) {
        let end = kept + count;
        if piece[..end].windows(MARK.len()).any(|bytes| bytes == MARK) {
            return true;
        }
        // The mark may cross the boundary of two pieces.
        let from = end.saturating_sub(MARK.len() - 1);
        piece.copy_within(from..end, 0);
        kept = end - from;
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_program_is_dynamic_and_a_script_is_none() {
        let own = std::env::current_exe().expect("this test");
        assert_eq!(kind(&own), Kind::Dynamic);
        assert_eq!(kind(Path::new("/proc/self/cmdline")), Kind::Other);
        assert_eq!(kind(Path::new("/nowhere")), Kind::Other);
    }

    #[test]
    fn static_programs_are_told_apart_by_their_notes() {
        let note = |name: &[u8; 4], kind: u32| {
            let mut note = [4_u32.to_le_bytes(), 8_u32.to_le_bytes(), kind.to_le_bytes()].concat();
            note.extend(name);
            note.extend([0; 8]);
            note
        };
        assert_eq!(maker(&note(b"GNU\0", 1)), Kind::Static);
        assert_eq!(maker(&note(b"Go\0\0", 4)), Kind::StaticGo);
        assert_eq!(maker(&note(b"GNU\0", 3)), Kind::StaticOther);
        assert_eq!(maker(&[note(b"GNU\0", 3), note(b"GNU\0", 1)].concat()), Kind::Static);
        assert_eq!(maker(&[0xff; 40]), Kind::StaticOther);
        assert_eq!(maker(b"short"), Kind::StaticOther);
    }

    #[test]
    fn program_without_interpreter_is_static_and_garbage_is_not_trusted() {
        let own = std::env::current_exe().expect("this test");
        let mut start = std::fs::read(own).expect("read");
        start.truncate(64 << 10);
        let mut none = start.clone();
        none[56..58].copy_from_slice(&0u16.to_le_bytes());
        assert_eq!(kind_of(&none), Kind::StaticOther);
        let loader = start.windows(9).position(|bytes| bytes == b"/ld-linux").expect("a loader");
        let mut other = start.clone();
        other[loader..loader + 9].copy_from_slice(b"/ld-musl-");
        assert_eq!(kind_of(&other), Kind::Musl);
        for at in 0..64 {
            let mut broken = start.clone();
            broken[at] = 0xff;
            kind_of(&broken);
            kind_of(&start[..at]);
        }
    }
}
