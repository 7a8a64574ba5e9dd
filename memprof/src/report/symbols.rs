//! Names of functions and lines, from the objects on this machine.
//!
//! A path in a trace is only a hint: the build id must show that the file there is the one that was
//! loaded, since its names would otherwise be misleading. Where neither has a build id, the file
//! must not have changed since the job began. Work is bounded, since debug information can be
//! large.

use crate::model::{Frame, Object};
use object::Object as _;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};

/// Time after which the rest is shown as addresses.
const PATIENCE: Duration = Duration::from_secs(20);
/// Larger files are not opened.
const LARGEST: u64 = 4 << 30;
/// Maximum number of functions for one address: the deepest useful inlining.
const INLINED: usize = 16;
/// Parts of the paths of sources that are distributed with a compiler and compiled into programs.
const OF_COMPILERS: [&str; 6] = [
    "/rustc/",
    "/lib/rustlib/src/",
    "/library/alloc/src/",
    "/library/core/src/",
    "/library/std/src/",
    "/include/c++/",
];
/// Namespaces of the functions in these sources.
const SPACES: [&str; 4] = ["std::", "core::", "alloc::", "__gnu_cxx::"];

/// A function at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name {
    /// Its name, and file and line or object.
    pub text: String,
    /// True if the function is the compiler's: `Vec`, `std::vector`. Its caller is more
    /// informative.
    pub is_of_compiler: bool,
}

/// Lookup of names.
pub struct Symbols<'a> {
    objects: &'a [Object],
    began_ns: u64,
    loaded: HashMap<u32, Option<addr2line::Loader>>,
    names: HashMap<Frame, Vec<Name>>,
    until: Instant,
}

impl<'a> Symbols<'a> {
    /// Creates the lookup for these objects, loaded in a job that began `began_ns` nanoseconds
    /// after 1970.
    pub fn new(objects: &'a [Object], began_ns: u64) -> Symbols<'a> {
        Symbols {
            objects,
            began_ns,
            loaded: HashMap::new(),
            names: HashMap::new(),
            until: Instant::now() + PATIENCE,
        }
    }

    /// Returns the names of a return address, the innermost inlined function first; at least one.
    pub fn names(&mut self, frame: Frame) -> Vec<Name> {
        if let Some(names) = self.names.get(&frame) {
            return names.clone();
        }
        let names = match self.objects.get(frame.object as usize) {
            None => vec![plain(format!("{:#x}", frame.offset))],
            Some(object) => {
                let found = match Instant::now() < self.until {
                    true => self.find(frame, object),
                    false => Vec::new(),
                };
                match found.is_empty() {
                    true => vec![plain(format!("{}+{:#x}", short(&object.path), frame.offset))],
                    false => found,
                }
            }
        };
        self.names.insert(frame, names.clone());
        names
    }

    fn find(&mut self, frame: Frame, object: &Object) -> Vec<Name> {
        let loaded = self.loaded.entry(frame.object).or_insert_with(|| load(object, self.began_ns));
        let Some(loader) = loaded else {
            return Vec::new();
        };
        // The call lies before its return address.
        let probe = frame.offset.saturating_sub(1);
        let mut names = Vec::new();
        if let Ok(mut frames) = loader.find_frames(probe) {
            while let Ok(Some(found)) = frames.next() {
                let Some(function) = &found.function else {
                    continue;
                };
                let Ok(name) = function.demangle() else {
                    continue;
                };
                // The name of an inlined Rust closure does not contain the function that it is in.
                let name = if name.starts_with("{closure") { "closure".into() } else { name };
                let place =
                    found.location.and_then(|location| Some((location.file?, location.line)));
                names.push(match place {
                    Some((file, line)) => Name {
                        text: format!("{name}  {}:{}", source(Path::new(file)), line.unwrap_or(0)),
                        is_of_compiler: OF_COMPILERS.iter().any(|part| file.contains(part)),
                    },
                    None => bare(&name, object),
                });
                if names.len() == INLINED {
                    break;
                }
            }
        }
        if names.is_empty()
            && let Some(symbol) = loader.find_symbol(probe)
        {
            let name = addr2line::demangle_auto(symbol.into(), None);
            names.push(bare(&name, object));
        }
        names
    }
}

fn plain(text: String) -> Name {
    Name { text, is_of_compiler: false }
}

/// Returns the name of a function whose source location is not known.
fn bare(name: &str, object: &Object) -> Name {
    let is_of_compiler = is_compilers(name);
    Name { text: format!("{name}  {}", short(&object.path)), is_of_compiler }
}

/// Returns true if a function is distributed with a compiler, by its name in C++ or Rust.
fn is_compilers(name: &str) -> bool {
    let is_below = |path: &str| SPACES.iter().any(|space| path.starts_with(space));
    // Rust's `<Type as Trait>::function`, which is the compiler's only if both are.
    if let Some(inside) = name.strip_prefix('<') {
        return inside.split(" as ").all(|path| is_below(path.trim_start_matches(['<', '&'])));
    }
    // The name follows the result type, if there is one; the contents of brackets are skipped.
    let (mut depth, mut function) = (0_u32, String::new());
    for letter in name.chars() {
        match letter {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            '(' if depth == 0 => break,
            ' ' if depth == 0 => function.clear(),
            _ if depth == 0 => function.push(letter),
            _ => {}
        }
    }
    is_below(&function)
}

/// Returns the last part of a source path, with the folder where the file name is common.
fn source(path: &Path) -> String {
    let name = short(path);
    let folder = path.parent().and_then(Path::file_name);
    match folder.filter(|_| matches!(&*name, "mod.rs" | "lib.rs" | "main.rs")) {
        Some(folder) => format!("{}/{name}", folder.to_string_lossy()),
        None => name,
    }
}

/// Returns the last part of a path.
fn short(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Opens an object if it is the loaded one.
fn load(object: &Object, began_ns: u64) -> Option<addr2line::Loader> {
    let data = object.path.metadata().ok()?;
    if !data.is_file() || data.len() > LARGEST {
        return None;
    }
    let found = build_id(&object.path)?;
    if found.as_str() != &*object.build_id || found.is_empty() && changed_ns(&data) > began_ns {
        return None;
    }
    addr2line::Loader::new(&object.path).ok()
}

/// Returns the time of the last change of a file or its status, which copies do not inherit.
fn changed_ns(data: &std::fs::Metadata) -> u64 {
    let ns = i128::from(data.ctime()) * 1_000_000_000 + i128::from(data.ctime_nsec());
    u64::try_from(ns.max(0)).unwrap_or(u64::MAX)
}

/// Returns the build id in hexadecimal; `None` if there is none.
fn build_id(path: &Path) -> Option<String> {
    let file = BufReader::new(File::open(path).ok()?);
    let cache = object::ReadCache::new(file);
    let parsed = object::File::parse(&cache).ok()?;
    let id = parsed.build_id().ok()?.unwrap_or_default();
    Some(id.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn here() -> Object {
        let path = std::env::current_exe().expect("this test");
        Object { build_id: build_id(&path).expect("an object").into(), path }
    }

    fn offsets_of(function: &str) -> Vec<u64> {
        use object::ObjectSymbol;
        let content = std::fs::read(here().path).expect("read");
        let file = object::File::parse(&*content).expect("an object");
        let symbols = file.symbols();
        let own = symbols.filter(|s| s.name().is_ok_and(|n| n.contains(function)));
        own.map(|symbol| symbol.address()).collect()
    }

    fn offset_of_a_function() -> u64 {
        offsets_of("offset_of_a_function").into_iter().max().expect("itself")
    }

    #[test]
    fn ambiguous_source_names_are_shown_with_their_folder() {
        let named = |path: &str| source(Path::new(path));
        assert_eq!(named("/build/solver/src/fields/mod.rs"), "fields/mod.rs");
        assert_eq!(named("/build/solver/src/fields/cells.c"), "cells.c");
        assert_eq!(named("main.rs"), "main.rs");
    }

    #[test]
    fn compiler_sources_are_told_from_the_programs_own() {
        let objects = [here()];
        let mut symbols = Symbols::new(&objects, u64::MAX);
        let mut names = |function: &str| -> Vec<Name> {
            let offsets = offsets_of(function).into_iter();
            offsets.map(|at| symbols.names(Frame { object: 0, offset: at + 2 }).remove(0)).collect()
        };
        let (of_compiler, own) = (names("raw_vec"), names("compiler_sources_are_told"));
        // Some of them have no line, where a library was built without lines.
        assert!(of_compiler.iter().any(|name| name.text.contains(".rs:")), "{of_compiler:?}");
        let told = of_compiler.iter().filter(|name| name.text.contains(".rs:"));
        assert!(told.into_iter().all(|name| name.is_of_compiler), "{of_compiler:?}");
        // So do functions that the compiler's own libraries were built from.
        let mut own = own.iter().filter(|name| name.text.starts_with("memprof::")).peekable();
        assert!(own.peek().is_some());
        assert!(own.all(|name| !name.is_of_compiler));
    }

    #[test]
    fn without_lines_it_is_told_by_its_name() {
        for name in [
            "std::vector<double, std::allocator<double> >::_M_default_append(unsigned long)",
            "void std::vector<solver::Cell>::_M_realloc_insert<solver::Cell const&>(solver::Cell*)",
            "__gnu_cxx::new_allocator<double>::allocate(unsigned long, void const*)",
            "alloc::raw_vec::RawVec<T,A>::grow_one",
            "<alloc::vec::Vec<T> as core::clone::Clone>::clone",
            "core::ptr::drop_in_place<solver::Cell>",
        ] {
            assert!(is_compilers(name), "{name}");
        }
        for name in [
            "solver::fill(std::vector<double, std::allocator<double> >&)",
            "std::vector<double> solver::cells<int>(int)",
            "<solver::Cell as core::clone::Clone>::clone",
            "<alloc::vec::Vec<T> as solver::Fill>::fill",
            "main",
            "stdlib_wrap",
            "operator new(unsigned long)",
            "a < b > > c",
            "",
        ] {
            assert!(!is_compilers(name), "{name}");
        }
    }

    #[test]
    fn a_function_of_this_program_is_found_by_name() {
        let objects = [here()];
        let frame = Frame { object: 0, offset: offset_of_a_function() + 2 };
        let names = Symbols::new(&objects, u64::MAX).names(frame);
        assert!(names.iter().any(|name| name.text.contains("offset_of_a_function")), "{names:?}");
    }

    #[test]
    fn file_other_than_the_loaded_one_gives_addresses() {
        let other = Object { build_id: "00ff".into(), ..here() };
        let frame = Frame { object: 0, offset: offset_of_a_function() + 2 };
        let names = Symbols::new(std::slice::from_ref(&other), u64::MAX).names(frame);
        assert_eq!(names, [plain(format!("{}+{:#x}", short(&other.path), frame.offset))]);
    }

    #[test]
    fn file_rebuilt_after_the_start_gives_addresses_without_build_id() {
        let place = tempfile::tempdir().expect("a folder");
        let path = place.path().join("object");
        let mut content = std::fs::read(here().path).expect("read");
        // The note of the linker, changed to another kind.
        let note = [4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, b'G', b'N', b'U', 0];
        let at = content.windows(note.len()).position(|bytes| bytes == note).expect("a note");
        content[at + 8] = 0x33;
        std::fs::write(&path, content).expect("written");
        assert_eq!(build_id(&path).as_deref(), Some(""));
        let object = [Object { path, build_id: "".into() }];
        let frame = Frame { object: 0, offset: offset_of_a_function() + 2 };
        let before = Symbols::new(&object, u64::MAX).names(frame);
        assert!(before.iter().any(|name| name.text.contains("offset_of_a_function")), "{before:?}");
        let after = Symbols::new(&object, 1).names(frame);
        assert_eq!(after, [plain(format!("object+{:#x}", frame.offset))]);
    }

    #[test]
    fn paths_that_are_no_objects_are_survived() {
        for path in ["/dev/zero", "/nowhere", "/proc/self/cmdline", "/"] {
            let object = Object { path: path.into(), build_id: "".into() };
            let frame = Frame { object: 0, offset: 16 };
            assert!(Symbols::new(&[object], u64::MAX).names(frame)[0].text.ends_with("+0x10"));
        }
        assert_eq!(
            Symbols::new(&[], 0).names(Frame { object: 9, offset: 1 }),
            [plain("0x1".into())]
        );
    }
}
