//! Class of each loaded object: a pure function of names, needed libraries and definitions.
//!
//! An object is MPI's if it defines MPI functions or predefined handles, or if only such objects
//! need or open it; an object that the program also reaches in another way is the program's. A few
//! names are known before any graph.

use crate::layout::Class;

/// An object as a node of the graph.
#[derive(Copy, Clone, Debug)]
pub struct Node<'a> {
    /// Class by its name or its definitions.
    pub known: Option<Class>,
    /// Objects that it needs, by index.
    pub needs: &'a [u16],
    /// True if MPI opened it while the program ran.
    pub opened_by_mpi: bool,
    /// True if the program opened it.
    pub opened_by_program: bool,
}

/// Mark of an object that another object needs.
const NEEDED: u8 = 1;
/// Mark of an object that MPI needs, directly or indirectly.
const OF_MPI: u8 = 2;

/// Sets the class of each node. `marks` has the same length and is working memory.
pub fn classify<'a>(node: impl Fn(usize) -> Node<'a>, classes: &mut [Class], marks: &mut [u8]) {
    let count = classes.len().min(marks.len());
    marks.fill(0);
    let mut any_mpi = false;
    for (index, class) in classes.iter_mut().enumerate().take(count) {
        let this = node(index);
        any_mpi |= matches!(this.known, Some(Class::MpiCore | Class::MpiDependency));
        *class = this.known.unwrap_or(Class::MpiDependency);
        for &need in this.needs {
            if usize::from(need) != index
                && let Some(mark) = marks.get_mut(usize::from(need))
            {
                *mark |= NEEDED;
            }
        }
    }
    // An object that the program opened is the program's, and so is everything else while there is
    // no MPI.
    for (index, class) in classes.iter_mut().enumerate().take(count) {
        let this = node(index);
        if this.known.is_none() && (!any_mpi || this.opened_by_program) {
            *class = Class::AppLibrary;
        }
    }
    if !any_mpi {
        return;
    }
    spread(&node, &mut classes[..count]);
    mark_mpi(&node, &mut marks[..count]);
    // An object that no other needs was preloaded, or opened before the opener could be determined.
    // It is MPI's if it needs something that only MPI needs: a plugin needs the library that it
    // extends.
    for index in 0..count {
        let this = node(index);
        if this.known.is_none() && !this.opened_by_mpi && marks[index] & NEEDED == 0 {
            let plugin = this.needs.iter().map(|&need| usize::from(need)).any(|need| {
                need < count && classes[need] == Class::MpiDependency && marks[need] & OF_MPI != 0
            });
            if !plugin {
                classes[index] = Class::AppLibrary;
            }
        }
    }
    spread(&node, &mut classes[..count]);
}

/// Marks the objects that MPI needs, directly or indirectly.
fn mark_mpi<'a>(node: &impl Fn(usize) -> Node<'a>, marks: &mut [u8]) {
    let mut again = true;
    while again {
        again = false;
        for index in 0..marks.len() {
            let this = node(index);
            let root = this.opened_by_mpi
                || matches!(this.known, Some(Class::MpiCore | Class::MpiDependency));
            if !root && marks[index] & OF_MPI == 0 {
                continue;
            }
            for need in this.needs.iter().map(|&need| usize::from(need)) {
                if need < marks.len() && marks[need] & OF_MPI == 0 {
                    marks[need] |= OF_MPI;
                    again |= need < index;
                }
            }
        }
    }
}

/// Spreads the program's class to the objects that it needs, but not through MPI.
fn spread<'a>(node: &impl Fn(usize) -> Node<'a>, classes: &mut [Class]) {
    let count = classes.len();
    let mut again = true;
    while again {
        again = false;
        for index in 0..count {
            if matches!(classes[index], Class::MpiCore | Class::MpiDependency | Class::Tool) {
                continue;
            }
            for &need in node(index).needs {
                let need = usize::from(need);
                if need < count
                    && classes[need] == Class::MpiDependency
                    && node(need).known.is_none()
                {
                    classes[need] = Class::AppLibrary;
                    // An object that was passed already has to spread its class as well.
                    again |= need < index;
                }
            }
        }
    }
}

/// MPI symbols that an object defines.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum OfMpi {
    /// None.
    #[default]
    Nothing,
    /// Predefined handles without the functions: programs need the object only for their addresses.
    Handles,
    /// Functions for C or Fortran.
    Functions,
}

/// Function that a library with the MPI functions for C defines, and a library for other languages
/// does not.
pub const FUNCTION_IN_C: &str = "PMPI_Init";

/// Symbols that identify an object.
const SYMBOLS: [(&str, OfMpi); 5] = [
    (FUNCTION_IN_C, OfMpi::Functions),
    ("pmpi_init_", OfMpi::Functions),
    ("pmpi_init_f08_", OfMpi::Functions),
    ("mpi_init_f08_", OfMpi::Functions),
    ("ompi_mpi_comm_world", OfMpi::Handles),
];

impl OfMpi {
    /// Classifies an object: `defines` is called with each identifying symbol.
    pub fn of_object(mut defines: impl FnMut(&str) -> bool) -> OfMpi {
        let defined = SYMBOLS.into_iter().filter(|(name, _)| defines(name));
        defined.map(|(_, of_mpi)| of_mpi).max().unwrap_or_default()
    }

    /// Returns what a symbol shows about the object that defines it.
    #[must_use]
    pub fn of_symbol(symbol: &[u8]) -> OfMpi {
        let found = SYMBOLS.into_iter().find(|(name, _)| name.as_bytes() == symbol);
        found.map_or(OfMpi::Nothing, |(_, of_mpi)| of_mpi)
    }
}

/// Form of an MPI library's handles.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum HandleForm {
    /// Not known.
    #[default]
    Unknown = 0,
    /// Integers of 32 bits, of which the highest bit is set in those made at run time; files are
    /// addresses.
    Integers = 1,
    /// Addresses; predefined handles point to data of the library.
    Addresses = 2,
    /// Addresses, and small numbers for predefined handles: the standard binary interface.
    Standard = 3,
}

impl HandleForm {
    /// Determines the form from the file name of the library, and the symbols that it defines.
    pub fn of_library(name: &str, mut defines: impl FnMut(&str) -> bool) -> HandleForm {
        if name.starts_with("libmpi_abi") {
            HandleForm::Standard
        } else if defines("ompi_mpi_comm_world") {
            HandleForm::Addresses
        } else if defines("MPIR_Dup_fn") {
            HandleForm::Integers
        } else {
            HandleForm::Unknown
        }
    }
}

/// Returns true if the path of a shared mapping is one that an MPI library gives to a window of the program.
#[must_use]
pub fn is_window_memory(path: &[u8]) -> bool {
    contains_any(path, &[b"osc_sm", b"osc_rdma"])
}

fn contains_any(path: &[u8], names: &[&[u8]]) -> bool {
    names.iter().any(|name| path.windows(name.len()).any(|window| window == *name))
}

/// Returns true if the path of a shared mapping is one that an MPI library, or what serves it, gives to its own memory.
#[must_use]
pub fn is_mpi_memory(path: &[u8]) -> bool {
    const NAMES: &[&[u8]] = &[
        b"vader_segment",
        b"sm_segment",
        b"mpich_shm",
        b"Intel_MPI",
        b"ucx_shm_posix",
        b"psm2_shm",
        b"psm3_shm",
        b"psm_shm",
        b"pmix",
        b"PMIX",
        b"open_mpi",
        b"openmpi",
        b"/fi_shm",
        b"mpi_shm",
    ];
    contains_any(path, NAMES)
}

/// Returns true if the file name shows that a library serves an MPI and hardly anything else. Used
/// where MPI is linked into the program, so that no graph shows which objects need the library.
#[must_use]
pub fn serves_mpi(name: &str) -> bool {
    is_any(
        stem(name),
        &["libucp", "libucs", "libuct", "libucm", "libfabric", "libpmix", "libpsm2", "libpsm3"],
    )
}

/// Returns the class that follows from the file name alone, or from the MPI symbols that the object
/// defines.
#[must_use]
pub fn known(name: &str, executable: bool, tool: bool, of_mpi: OfMpi) -> Option<Class> {
    if tool {
        return Some(Class::Tool);
    }
    if executable {
        return Some(Class::AppExecutable);
    }
    let stem = stem(name);
    if is_system(name, stem) {
        return Some(Class::System);
    }
    if is_any(stem, &["libgomp", "libomp", "libiomp5"]) {
        return Some(Class::OpenMp);
    }
    match stem {
        "libquo" => return Some(Class::Runtime),
        "libmemprof" | "libmemprof_preload" => return Some(Class::Tool),
        _ => {}
    }
    if of_mpi == OfMpi::Functions || is_mpi_part(name, stem) {
        return Some(Class::MpiCore);
    }
    let inner = of_mpi == OfMpi::Handles
        || ["libopen-pal", "libopen-rte", "libmpl", "libopa"].contains(&stem)
        || stem.starts_with("libmca_common_")
        || stem.starts_with("mca_");
    inner.then_some(Class::MpiDependency)
}

/// Returns the name before `.so`.
fn stem(name: &str) -> &str {
    name.find(".so").map_or(name, |end| &name[..end])
}

/// Returns true for one of the names, also with a build's suffix (`libgomp-a34b3233`).
fn is_any(stem: &str, names: &[&str]) -> bool {
    names.iter().any(|name| {
        stem.strip_prefix(name).is_some_and(|rest| {
            rest.is_empty()
                || rest.strip_prefix('-').is_some_and(|mark| {
                    mark.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'.')
                })
        })
    })
}

/// Returns true for other bindings of an MPI, some of which define no MPI function.
fn is_mpi_part(name: &str, stem: &str) -> bool {
    is_any(
        stem,
        &[
            "libmpi",
            "libmpi_abi",
            "libmpi_cxx",
            "libmpi_f77",
            "libmpi_f90",
            "libmpi_java",
            "libmpi_mpifh",
            "libmpi_usempi",
            "libmpi_usempi_ignore_tkr",
            "libmpi_usempif08",
            "libmpi_ilp64",
            "libmpich",
            "libmpichcxx",
            "libmpichfort",
            "libmpicxx",
            "libmpifort",
            "libmpifort_abi",
            "libmpijava",
        ],
    ) && name.contains(".so")
}

fn is_system(name: &str, stem: &str) -> bool {
    const NAMES: &[&str] = &[
        "libc",
        "libm",
        "libmvec",
        "libpthread",
        "libdl",
        "librt",
        "libresolv",
        "libutil",
        "libanl",
        "libnsl",
        "libthread_db",
        "libgcc_s",
        "libstdc++",
        "libc++",
        "libc++abi",
        "libgfortran",
        "libquadmath",
        "linux-vdso",
        "linux-gate",
    ];
    is_any(stem, NAMES) || name.starts_with("libnss_") || is_loader(name)
}

fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl", "ld64.so", "ld-2.", "ld.so"].iter().any(|start| name.starts_with(start))
}

/// Returns true for an object that allocates for its callers, which determine the owner.
#[must_use]
pub fn is_neutral(name: &str) -> bool {
    const NAMES: &[&str] = &[
        "libc",
        "libpthread",
        "libdl",
        "librt",
        "libgcc_s",
        "libstdc++",
        "libc++",
        "libc++abi",
        "libgfortran",
    ];
    is_any(stem(name), NAMES)
        || is_loader(name)
        || name.starts_with("libpython")
        || is_trampoline(name)
}

/// Returns true for an object that calls functions for others through pointers, with arguments that
/// are known only at run time: its caller owns what such a function allocates.
#[must_use]
pub fn is_trampoline(name: &str) -> bool {
    is_any(stem(name), &["libffi"])
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Object {
        name: &'static str,
        needs: Vec<&'static str>,
        mpi: OfMpi,
        opened: bool,
    }

    fn object(name: &'static str, needs: &[&'static str]) -> Object {
        Object { name, needs: needs.to_vec(), mpi: OfMpi::Nothing, opened: false }
    }

    fn mpi(name: &'static str, needs: &[&'static str]) -> Object {
        Object { mpi: OfMpi::Functions, ..object(name, needs) }
    }

    fn opened(name: &'static str, needs: &[&'static str]) -> Object {
        Object { opened: true, ..object(name, needs) }
    }

    fn classes(objects: &[Object]) -> Vec<(&'static str, &'static str)> {
        let needs: Vec<Vec<u16>> = objects
            .iter()
            .map(|object| {
                let index = |need: &&str| objects.iter().position(|other| other.name == *need);
                object.needs.iter().filter_map(index).map(|index| index as u16).collect()
            })
            .collect();
        let mut classes = vec![Class::Unattributed; objects.len()];
        let mut marks = vec![0; objects.len()];
        classify(
            |index| {
                let Object { name, mpi, opened, .. } = objects[index];
                let known = known(name, index == 0, false, mpi);
                Node {
                    known,
                    needs: &needs[index],
                    opened_by_mpi: opened,
                    opened_by_program: false,
                }
            },
            &mut classes,
            &mut marks,
        );
        objects.iter().zip(classes).map(|(object, class)| (object.name, class.name())).collect()
    }

    #[test]
    fn a_c_program_with_open_mpi_4() {
        let found = classes(&[
            object("ring", &["libmpi.so.40", "libhwloc.so.15", "libc.so.6"]),
            object("libmemprof_preload.so", &["libc.so.6", "ld-linux-x86-64.so.2"]),
            mpi("libmpi.so.40", &["libopen-rte.so.40", "libopen-pal.so.40", "libhwloc.so.15"]),
            object("libopen-rte.so.40", &["libopen-pal.so.40", "libevent_core-2.1.so.7"]),
            object("libopen-pal.so.40", &["libhwloc.so.15", "libevent_core-2.1.so.7", "libz.so.1"]),
            object("libevent_core-2.1.so.7", &["libc.so.6"]),
            object("libhwloc.so.15", &["libudev.so.1", "libm.so.6"]),
            object("libudev.so.1", &["libc.so.6"]),
            object("libz.so.1", &["libc.so.6"]),
            object("libm.so.6", &["libc.so.6"]),
            object("libc.so.6", &["ld-linux-x86-64.so.2"]),
            object("ld-linux-x86-64.so.2", &[]),
            opened("mca_pmix_ext3x.so", &["libpmix.so.2"]),
            object("libpmix.so.2", &["libc.so.6"]),
            opened("mca_btl_vader.so", &["libopen-pal.so.40"]),
            object("libquo.so.0", &["libhwloc.so.15"]),
            object("libgomp.so.1", &["libc.so.6"]),
        ]);
        let class = |name| found.iter().find(|entry| entry.0 == name).map(|entry| entry.1);
        assert_eq!(class("ring"), Some("app.exe"));
        assert_eq!(class("libmemprof_preload.so"), Some("tool"));
        assert_eq!(class("libmpi.so.40"), Some("mpi.core"));
        for name in
            ["libopen-rte.so.40", "libopen-pal.so.40", "libevent_core-2.1.so.7", "libz.so.1"]
        {
            assert_eq!(class(name), Some("mpi.dep"), "{name}");
        }
        for name in ["mca_pmix_ext3x.so", "libpmix.so.2", "mca_btl_vader.so"] {
            assert_eq!(class(name), Some("mpi.dep"), "{name}");
        }
        // The program needs it, too.
        assert_eq!(class("libhwloc.so.15"), Some("app.lib"));
        assert_eq!(class("libudev.so.1"), Some("app.lib"));
        assert_eq!(class("libc.so.6"), Some("system"));
        assert_eq!(class("ld-linux-x86-64.so.2"), Some("system"));
        assert_eq!(class("libquo.so.0"), Some("runtime"));
        assert_eq!(class("libgomp.so.1"), Some("omp"));
    }

    #[test]
    fn a_fortran_program_with_open_mpi_4() {
        let found = classes(&[
            object("solver", &["libmpi_usempif08.so.40", "libmpi_mpifh.so.40", "libgfortran.so.5"]),
            mpi("libmpi_usempif08.so.40", &["libmpi_mpifh.so.40", "libmpi.so.40"]),
            object("libmpi_usempi_ignore_tkr.so.40", &["libmpi_mpifh.so.40"]),
            mpi("libmpi_mpifh.so.40", &["libmpi.so.40"]),
            mpi("libmpi.so.40", &["libopen-pal.so.40", "libc.so.6"]),
            object("libopen-pal.so.40", &[]),
            object("libgfortran.so.5", &["libquadmath.so.0"]),
            object("libquadmath.so.0", &[]),
        ]);
        let classes: Vec<_> = found.iter().map(|entry| entry.1).collect();
        assert_eq!(
            classes,
            [
                "app.exe", "mpi.core", "mpi.core", "mpi.core", "mpi.core", "mpi.dep", "system",
                "system"
            ]
        );
    }

    #[test]
    fn a_c_program_with_mpich() {
        let found = classes(&[
            object("a.out", &["libmpich.so.12"]),
            mpi(
                "libmpich.so.12",
                &["libfabric.so.1", "libucp.so.0", "libhwloc.so.15", "libslurm.so.38"],
            ),
            object("libfabric.so.1", &["libpsm2.so.2", "librdmacm.so.1"]),
            object("librdmacm.so.1", &["libibverbs.so.1"]),
            object("libibverbs.so.1", &["libnl-3.so.200"]),
            object("libnl-3.so.200", &[]),
            object("libpsm2.so.2", &["libnuma.so.1"]),
            object("libnuma.so.1", &[]),
            object("libucp.so.0", &["libucs.so.0"]),
            object("libucs.so.0", &[]),
            object("libhwloc.so.15", &[]),
            object("libslurm.so.38", &[]),
        ]);
        assert!(found[2..].iter().all(|entry| entry.1 == "mpi.dep"), "{found:?}");
    }

    #[test]
    fn plugins_that_constructors_open_are_of_what_they_plug_into() {
        let found = classes(&[
            object("a.out", &["libmpi.so.12"]),
            object("libtool_of_the_site.so", &["libc.so.6"]),
            mpi("libmpi.so.12", &["libuct.so.0", "libucs.so.0", "libucm.so.0"]),
            object("libuct.so.0", &["libucs.so.0"]),
            object("libucs.so.0", &["libucm.so.0"]),
            object("libucm.so.0", &["libc.so.6"]),
            object("libuct_ib.so.0", &["libuct.so.0", "libucs.so.0", "libibverbs.so.1"]),
            object("libibverbs.so.1", &["libnl-3.so.200"]),
            object("libnl-3.so.200", &["libc.so.6"]),
        ]);
        assert_eq!(found[1].1, "app.lib");
        assert!(found[3..].iter().all(|entry| entry.1 == "mpi.dep"), "{found:?}");
    }

    #[test]
    fn python_with_mpi4py() {
        let found = classes(&[
            object("python3.11", &["libpython3.11.so.1.0", "libc.so.6"]),
            object("libpython3.11.so.1.0", &["libm.so.6"]),
            object("MPI.mpich.cpython-311-x86_64-linux-gnu.so", &["libmpi.so.12", "libc.so.6"]),
            mpi("libmpi.so.12", &["libucp-64ea5ba1.so.0"]),
            object("libucp-64ea5ba1.so.0", &[]),
            object("_multiarray_umath.cpython-311-x86_64-linux-gnu.so", &["libopenblas64-abc.so"]),
            object("libopenblas64-abc.so", &["libgfortran-040039e1.so.5.0.0", "libz.so.1"]),
            object("libgfortran-040039e1.so.5.0.0", &[]),
            object("libz.so.1", &[]),
        ]);
        let classes: Vec<_> = found.iter().map(|entry| entry.1).collect();
        assert_eq!(
            classes,
            [
                "app.exe", "app.lib", "app.lib", "mpi.core", "mpi.dep", "app.lib", "app.lib",
                "system", "app.lib"
            ]
        );
    }

    #[test]
    fn names_tell_what_serves_an_mpi_inside_the_program() {
        for name in ["libucp.so.0", "libucs-64ea5ba1.so.0", "libfabric.so.1"] {
            assert!(serves_mpi(name), "{name}");
        }
        for name in ["libhwloc.so.15", "libucptures.so", "libm.so.6"] {
            assert!(!serves_mpi(name), "{name}");
        }
    }

    #[test]
    fn without_mpi_everything_is_the_programs() {
        let found = classes(&[
            object("a.out", &["libevent.so.7"]),
            object("libevent.so.7", &["libcrypto.so.3"]),
            object("libcrypto.so.3", &[]),
            object("libmpfr.so.6", &[]),
            object("libmpiP.so.3", &[]),
        ]);
        assert!(found[1..].iter().all(|entry| entry.1 == "app.lib"), "{found:?}");
    }

    #[test]
    fn shared_needs_are_the_programs_in_any_order() {
        // In the worst order for a single pass: needed objects precede those that need them.
        let names = ["l0.so", "l1.so", "l2.so", "l3.so", "l4.so"];
        let mut objects = vec![object("a.out", &["libmpi.so.40", "l4.so"])];
        for (index, name) in names.into_iter().enumerate() {
            let need = if index == 0 { "libc.so.6" } else { names[index - 1] };
            objects.push(object(name, &[need]));
        }
        objects.push(mpi("libmpi.so.40", &["l0.so", "libown.so"]));
        objects.push(object("libown.so", &[]));
        let found = classes(&objects);
        assert!(found[1..6].iter().all(|entry| entry.1 == "app.lib"), "{found:?}");
        assert_eq!(found[7].1, "mpi.dep");
    }

    #[test]
    fn neutral_are_those_that_allocate_for_others() {
        for name in [
            "libc.so.6",
            "libc-2.31.so",
            "ld-linux-x86-64.so.2",
            "libstdc++.so.6.0.30",
            "libgfortran-040039e1.so.5.0.0",
            "libpython3.11.so.1.0",
        ] {
            assert!(is_neutral(name), "{name}");
        }
        for name in ["libcrypto.so.3", "libm.so.6", "libmpi.so.40", "a.out", "libcurl.so.4"] {
            assert!(!is_neutral(name), "{name}");
        }
    }
}
