//! Owners of the objects that programs of every MPI were observed to load. Each file is a process:
//! one object per line, with the MPI functions it defines, whether the MPI opened it at run time,
//! and the objects it needs.
#![allow(clippy::unwrap_used)]

use memprof_trace::classify::{self, Node, OfMpi};
use memprof_trace::layout::Class;

struct Object {
    name: String,
    of_mpi: OfMpi,
    opened: bool,
    needs: Vec<String>,
}

fn parsed(text: &str) -> Vec<Object> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let (object, needs) = line.split_once(':').unwrap();
            let mut words = object.split(' ');
            let name = words.next().unwrap().to_owned();
            let marks: Vec<&str> = words.collect();
            let of_mpi = match &marks[..] {
                marks if marks.contains(&"(functions)") => OfMpi::Functions,
                marks if marks.contains(&"(handles)") => OfMpi::Handles,
                _ => OfMpi::Nothing,
            };
            let opened = marks.contains(&"(opened)");
            let needs = needs.split_whitespace().map(str::to_owned).collect();
            Object { name, of_mpi, opened, needs }
        })
        .collect()
}

/// Returns the class of each object; the first is the program.
fn classes(objects: &[Object]) -> Vec<Class> {
    let place = |need: &String| objects.iter().position(|object| object.name == *need);
    let needs: Vec<Vec<u16>> = objects
        .iter()
        .map(|object| object.needs.iter().filter_map(place).map(|place| place as u16).collect())
        .collect();
    let node = |index: usize| {
        let Object { name, of_mpi, opened, .. } = &objects[index];
        Node {
            known: classify::known(name, index == 0, false, *of_mpi),
            needs: &needs[index],
            opened_by_mpi: *opened,
            opened_by_program: false,
        }
    };
    let (mut classes, mut marks) =
        (vec![Class::Unattributed; objects.len()], vec![0; objects.len()]);
    classify::classify(node, &mut classes, &mut marks);
    classes
}

/// Calls `each` with every recorded process.
fn each(each: impl Fn(&str, Vec<Object>)) {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/graphs");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        each(text.lines().next().unwrap(), parsed(&text));
        count += 1;
    }
    assert!(count > 0);
}

#[test]
fn nothing_but_the_program_is_the_programs() {
    each(|about, objects| {
        let classes = classes(&objects);
        assert_eq!(classes[0], Class::AppExecutable, "{about}");
        for (object, class) in objects.iter().zip(&classes).skip(1) {
            let is_expected = match object.of_mpi {
                OfMpi::Functions => *class == Class::MpiCore,
                OfMpi::Handles => *class == Class::MpiDependency,
                OfMpi::Nothing => {
                    matches!(class, Class::MpiDependency | Class::System | Class::MpiCore)
                }
            };
            assert!(is_expected, "{about} {}: {}", object.name, class.name());
        }
        assert!(classes.contains(&Class::MpiCore), "{about}");
    });
}

#[test]
fn library_that_the_program_needs_as_well_is_the_programs() {
    each(|about, mut objects| {
        let Some(shared) = objects.iter().position(|object| object.name == "libnuma.so.1") else {
            return;
        };
        objects[0].needs.push("libnuma.so.1".to_owned());
        let classes = classes(&objects);
        assert_eq!(classes[shared], Class::AppLibrary, "{about}");
        let of_program = classes.iter().filter(|class| **class == Class::AppLibrary).count();
        assert_eq!(of_program, 1, "{about}");
    });
}
