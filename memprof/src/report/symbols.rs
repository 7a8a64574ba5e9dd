//! Names of functions and lines, from the objects on this machine.
//!
//! A path in a trace is only a hint: the file there has to be the one that was loaded, by its build
//! id, or its names would mislead. Work is bounded, since debug information can be large.

use crate::model::{Frame, Object};
use object::Object as _;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::time::{Duration, Instant};

/// After so long the rest is shown as addresses.
const PATIENCE: Duration = Duration::from_secs(20);
/// Larger files are not opened.
const LARGEST: u64 = 4 << 30;
/// Functions shown for one address: the deepest inlining worth reading.
const INLINED: usize = 6;

/// Looks names up.
pub struct Symbols<'a> {
    objects: &'a [Object],
    loaded: HashMap<u32, Option<addr2line::Loader>>,
    names: HashMap<Frame, Vec<String>>,
    until: Instant,
}

impl<'a> Symbols<'a> {
    /// Of these objects.
    pub fn new(objects: &'a [Object]) -> Symbols<'a> {
        Symbols {
            objects,
            loaded: HashMap::new(),
            names: HashMap::new(),
            until: Instant::now() + PATIENCE,
        }
    }

    /// Lines for a return address, the innermost inlined function first; at least one.
    pub fn names(&mut self, frame: Frame) -> Vec<String> {
        if let Some(names) = self.names.get(&frame) {
            return names.clone();
        }
        let names = match self.objects.get(frame.object as usize) {
            None => vec![format!("{:#x}", frame.offset)],
            Some(object) => {
                let found = match Instant::now() < self.until {
                    true => self.find(frame, object),
                    false => Vec::new(),
                };
                match found.is_empty() {
                    true => vec![format!("{}+{:#x}", short(&object.path), frame.offset)],
                    false => found,
                }
            }
        };
        self.names.insert(frame, names.clone());
        names
    }

    fn find(&mut self, frame: Frame, object: &Object) -> Vec<String> {
        let loaded = self.loaded.entry(frame.object).or_insert_with(|| load(object));
        let Some(loader) = loaded else {
            return Vec::new();
        };
        // The call is before the address it returns to.
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
                let place = found.location.and_then(|location| {
                    let file = location.file?;
                    Some(format!("{}:{}", short(Path::new(file)), location.line.unwrap_or(0)))
                });
                names.push(match place {
                    Some(place) => format!("{name}  {place}"),
                    None => format!("{name}  {}", short(&object.path)),
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
            names.push(format!("{name}  {}", short(&object.path)));
        }
        names
    }
}

/// The last part of a path.
fn short(path: &Path) -> String {
    let name = path.file_name().unwrap_or(path.as_os_str());
    name.to_string_lossy().into_owned()
}

/// Opens an object if it is the one that was loaded.
fn load(object: &Object) -> Option<addr2line::Loader> {
    let data = object.path.metadata().ok()?;
    if !data.is_file() || data.len() > LARGEST {
        return None;
    }
    if build_id(&object.path)?.as_str() != &*object.build_id {
        return None;
    }
    addr2line::Loader::new(&object.path).ok()
}

/// In hexadecimal; empty where there is none.
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

    fn offset_of_a_function() -> u64 {
        use object::ObjectSymbol;
        let content = std::fs::read(here().path).expect("read");
        let file = object::File::parse(&*content).expect("an object");
        let symbols = file.symbols();
        let own = symbols.filter(|s| s.name().is_ok_and(|n| n.contains("offset_of_a_function")));
        own.map(|symbol| symbol.address()).max().expect("itself")
    }

    #[test]
    fn a_function_of_this_program_is_found_by_name() {
        let objects = [here()];
        let frame = Frame { object: 0, offset: offset_of_a_function() + 2 };
        let names = Symbols::new(&objects).names(frame);
        assert!(names.iter().any(|name| name.contains("offset_of_a_function")), "{names:?}");
    }

    #[test]
    fn a_file_that_is_not_the_one_loaded_gives_addresses_not_wrong_names() {
        let other = Object { build_id: "00ff".into(), ..here() };
        let frame = Frame { object: 0, offset: offset_of_a_function() + 2 };
        let names = Symbols::new(std::slice::from_ref(&other)).names(frame);
        assert_eq!(names, [format!("{}+{:#x}", short(&other.path), frame.offset)]);
    }

    #[test]
    fn paths_that_are_no_objects_are_survived() {
        for path in ["/dev/zero", "/nowhere", "/proc/self/cmdline", "/"] {
            let object = Object { path: path.into(), build_id: "".into() };
            let frame = Frame { object: 0, offset: 16 };
            assert!(Symbols::new(&[object]).names(frame)[0].ends_with("+0x10"));
        }
        assert_eq!(Symbols::new(&[]).names(Frame { object: 9, offset: 1 }), ["0x1"]);
    }
}
