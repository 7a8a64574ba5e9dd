//! The program and libraries that a process has mapped, and the component of each.

use super::smaps::Mapping;
use memprof_trace::classify::{self, Node, OfMpi};
use memprof_trace::layout::Class;
use object::elf::{DT_NEEDED, DT_SONAME, DynamicTag, FileHeader64};
use object::read::elf::{Dyn, ElfFile};
use object::{Endianness, Object as _, ObjectSegment, ObjectSymbol, ReadCache};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// What the file of an object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What it defines of MPI.
    pub of_mpi: OfMpi,
    /// The name by which others need it, which the loader opens it by.
    pub name: Option<String>,
    /// Names of those it needs.
    pub needs: Vec<String>,
    /// Addresses that it takes, from the first to the end of its data without a file.
    pub extent: u64,
}

/// An object of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loaded {
    /// Its path.
    pub path: String,
    /// Where it begins.
    pub start: u64,
    /// Behind its data.
    pub end: u64,
    /// `app.lib:libz.so.1`
    pub component: String,
}

/// Looks objects of one process up, and remembers what their files say.
#[derive(Debug)]
pub struct Objects {
    root: PathBuf,
    program: String,
    known: HashMap<String, Facts>,
}

impl Objects {
    /// Creates the table for the process with this folder in `/proc`, which runs a program with
    /// this path.
    pub fn of(process: &Path, program: &str) -> Objects {
        Objects { root: process.join("root"), program: program.to_owned(), known: HashMap::new() }
    }

    /// Returns all mapped objects: files with an executable mapping.
    pub fn loaded(&mut self, mappings: &[Mapping]) -> Vec<Loaded> {
        let mut found: Vec<Loaded> = Vec::new();
        for mapping in mappings.iter().filter(|mapping| mapping.inode != 0) {
            match found.iter_mut().find(|loaded| loaded.path == mapping.path) {
                Some(loaded) => loaded.end = loaded.end.max(mapping.end),
                None => found.push(Loaded {
                    path: mapping.path.clone(),
                    start: mapping.start,
                    end: mapping.end,
                    component: String::new(),
                }),
            }
        }
        let is_code =
            |path: &str| mappings.iter().any(|mapping| mapping.path == path && mapping.rights[2]);
        found.retain(|loaded| is_code(&loaded.path));
        let facts: Vec<Facts> = found.iter().map(|loaded| self.facts(&loaded.path)).collect();
        for (loaded, facts) in found.iter_mut().zip(&facts) {
            loaded.end = loaded.end.max(loaded.start.saturating_add(facts.extent));
        }
        let named: Vec<_> = (found.iter().zip(&facts))
            .map(|(loaded, facts)| (name(&loaded.path, facts), loaded.path == self.program))
            .collect();
        let classes = classes(&named, &facts);
        let components: Vec<String> = named
            .iter()
            .zip(classes)
            .map(|((name, _), class)| format!("{}:{name}", class.name()))
            .collect();
        for (loaded, component) in found.iter_mut().zip(components) {
            loaded.component = component;
        }
        found
    }

    /// Returns the facts in the file; none if it cannot be read, or is for another kind of machine.
    fn facts(&mut self, path: &str) -> Facts {
        if let Some(facts) = self.known.get(path) {
            return facts.clone();
        }
        // Behind the root of the process, which may be in a container.
        let file = self.root.join(path.trim_start_matches('/'));
        let facts = read(&file).unwrap_or_default();
        self.known.insert(path.to_owned(), facts.clone());
        facts
    }
}

/// Returns the name by which the loader knows an object: `libz.so.1` for `/usr/lib/libz.so.1.2.13`.
/// The kernel marks removed files.
fn name<'a>(path: &'a str, facts: &'a Facts) -> &'a str {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let name = path.rsplit('/').next().unwrap_or(path);
    facts.name.as_deref().filter(|own| name.starts_with(own)).unwrap_or(name)
}

fn read(path: &Path) -> Option<Facts> {
    let cache = ReadCache::new(File::open(path).ok()?);
    let file = ElfFile::<FileHeader64<Endianness>, _>::parse(&cache).ok()?;
    let defined = file.dynamic_symbols().filter(ObjectSymbol::is_definition);
    let told = defined.filter_map(|symbol| Some(OfMpi::of_symbol(symbol.name_bytes().ok()?)));
    let of_mpi = told.max().unwrap_or_default();
    let ends = file.segments().map(|segment| segment.address().saturating_add(segment.size()));
    let low = file.segments().map(|segment| segment.address() & !0xfff).min()?;
    let extent = ends.max()?.saturating_sub(low);
    let needs = texts(&file, DT_NEEDED);
    Some(Facts { of_mpi, name: texts(&file, DT_SONAME).pop(), needs, extent })
}

/// Returns the texts of the dynamic entries of a kind.
fn texts<'d>(
    file: &ElfFile<'d, FileHeader64<Endianness>, &'d ReadCache<File>>,
    kind: DynamicTag,
) -> Vec<String> {
    let (endian, data) = (file.endian(), file.data());
    let sections = file.elf_section_table();
    let Ok(Some((entries, link))) = sections.dynamic(endian, data) else { return Vec::new() };
    let Ok(strings) = sections.strings(endian, data, link) else { return Vec::new() };
    let needed = entries.iter().filter(|entry| entry.tag(endian) == kind);
    let names = needed.filter_map(|entry| entry.string(endian, strings).ok());
    names.map(|name| String::from_utf8_lossy(name).into_owned()).collect()
}

/// Returns the class of each object, given its file name and whether it is the program.
fn classes(named: &[(&str, bool)], facts: &[Facts]) -> Vec<Class> {
    let place = |need: &String| named.iter().position(|(name, _)| name == need);
    let needs: Vec<Vec<u16>> = facts
        .iter()
        .map(|facts| facts.needs.iter().filter_map(place).map(|place| place as u16).collect())
        .collect();
    let mut classes = vec![Class::Unattributed; named.len()];
    let mut marks = vec![0; named.len()];
    let node = |index: usize| {
        let (name, is_program) = named[index];
        Node {
            known: classify::known(name, is_program, false, facts[index].of_mpi),
            needs: &needs[index],
            opened_by_mpi: false,
            opened_by_program: false,
        }
    };
    classify::classify(node, &mut classes, &mut marks);
    classes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_of_a_program_tells_its_needs_and_extent() {
        let own = std::env::current_exe().expect("this test");
        let facts = read(&own).expect("read");
        assert!(facts.needs.iter().any(|name| name.starts_with("libc.so")), "{facts:?}");
        assert!(facts.extent > 4096 && facts.of_mpi == OfMpi::Nothing, "{facts:?}");
        assert_eq!(read(Path::new("/proc/self/cmdline")), None);
    }

    #[test]
    fn what_only_mpi_needs_is_a_part_of_mpi() {
        let facts = |needs: &[&str], of_mpi| Facts {
            needs: needs.iter().map(|need| (*need).to_owned()).collect(),
            of_mpi,
            ..Facts::default()
        };
        let named = [("a.out", true), ("libmpi.so.40", false), ("libown.so.1", false)];
        let all = [
            facts(&["libmpi.so.40"], OfMpi::Nothing),
            facts(&["libown.so.1"], OfMpi::Functions),
            facts(&[], OfMpi::Nothing),
        ];
        let expected = [Class::AppExecutable, Class::MpiCore, Class::MpiDependency];
        assert_eq!(classes(&named, &all), expected);
    }

    #[test]
    fn objects_have_the_names_that_the_loader_knows_them_by() {
        let own = |name: &str| Facts { name: Some(name.to_owned()), ..Facts::default() };
        let zlib = "/usr/lib/libz.so.1.2.13 (deleted)";
        assert_eq!(name(zlib, &own("libz.so.1")), "libz.so.1");
        assert_eq!(name(zlib, &own("other.so")), "libz.so.1.2.13");
        assert_eq!(name("plain", &Facts::default()), "plain");
    }
}
