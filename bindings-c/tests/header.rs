//! The headers are written by hand; this test compares them with the library: every function with
//! its arguments, every constant, every structure, in C99 and in C++17.
#![allow(clippy::unwrap_used)] // Helpers of tests are not seen as tests.

use std::collections::{BTreeMap, BTreeSet};
use std::mem::{offset_of, size_of};
use std::path::{Path, PathBuf};
use std::process::Command;

use quo_c::Code;
use quo_c::create::QUO_create_options_t;
use quo_c::phase::{QUO_phase_metrics_t, QUO_phase_spec_t, QUO_worker_t};
use quo_c::reshape::QUO_reshape_topology_t;
use quo_c::world::arrays::{QUO_array_part_t, QUO_array_spec_t, QUO_halo_t};
use quo_c::world::carry::{QUO_carry_t, QUO_seats_t};
use quo_c::world::events::QUO_event_t;
use quo_c::world::matrices::QUO_matrix_part_t;
use quo_c::world::options::{QUO_slurm_options_t, QUO_world_options_t};
use quo_c::world::program::{QUO_element_t, QUO_program_t};
use quo_c::world::psets::{QUO_pset_change_t, QUO_pset_info_t, QUO_pset_view_t};
use quo_c::world::requests::{QUO_progress_t, QUO_request_spec_t};
use quo_c::world::window::QUO_move_metrics_t;
use quo_c::xpm::QUO_xpm_view_t;

const HEADERS: [&str; 5] = [
    include_str!("../include/quo.h"),
    include_str!("../include/quo-xpm.h"),
    include_str!("../include/quo-elastic.h"),
    include_str!("../include/quo-reshape.h"),
    include_str!("../include/quo-program.h"),
];

const SOURCES: [&str; 27] = [
    include_str!("../src/barriers.rs"),
    include_str!("../src/bind.rs"),
    include_str!("../src/collective.rs"),
    include_str!("../src/create.rs"),
    include_str!("../src/devices.rs"),
    include_str!("../src/fortran.rs"),
    include_str!("../src/fortran_helpers.rs"),
    include_str!("../src/lending.rs"),
    include_str!("../src/mask.rs"),
    include_str!("../src/memory_policy.rs"),
    include_str!("../src/members.rs"),
    include_str!("../src/phase.rs"),
    include_str!("../src/query.rs"),
    include_str!("../src/reshape.rs"),
    include_str!("../src/scope.rs"),
    include_str!("../src/version.rs"),
    include_str!("../src/world/arrays.rs"),
    include_str!("../src/world/matrices.rs"),
    include_str!("../src/world/carry.rs"),
    include_str!("../src/world/events.rs"),
    include_str!("../src/world/mod.rs"),
    include_str!("../src/world/program.rs"),
    include_str!("../src/world/psets.rs"),
    include_str!("../src/world/requests.rs"),
    include_str!("../src/world/run.rs"),
    include_str!("../src/world/window.rs"),
    include_str!("../src/xpm.rs"),
];

/// Functions of QUO 1.4.1 with this order of arguments; they must never change.
const COMPATIBLE: [&str; 28] = [
    "QUO_version(int *, int *)",
    "QUO_create(QUO_context *, MPI_Comm)",
    "QUO_create_with_flags(QUO_context *, MPI_Comm, QUO_create_flags_t)",
    "QUO_free(QUO_context)",
    "QUO_nobjs_by_type(QUO_context, QUO_obj_type_t, int *)",
    "QUO_nobjs_in_type_by_type(QUO_context, QUO_obj_type_t, int, QUO_obj_type_t, int *)",
    "QUO_cpuset_in_type(QUO_context, QUO_obj_type_t, int, int *)",
    "QUO_qids_in_type(QUO_context, QUO_obj_type_t, int, int *, int **)",
    "QUO_nnumanodes(QUO_context, int *)",
    "QUO_nsockets(QUO_context, int *)",
    "QUO_ncores(QUO_context, int *)",
    "QUO_npus(QUO_context, int *)",
    "QUO_nnodes(QUO_context, int *)",
    "QUO_nqids(QUO_context, int *)",
    "QUO_id(QUO_context, int *)",
    "QUO_bound(QUO_context, int *)",
    "QUO_stringify_cbind(QUO_context, char **)",
    "QUO_bind_push(QUO_context, QUO_bind_push_policy_t, QUO_obj_type_t, int)",
    "QUO_bind_pop(QUO_context)",
    "QUO_barrier(QUO_context)",
    "QUO_auto_distrib(QUO_context, QUO_obj_type_t, int, int *)",
    "QUO_get_mpi_comm_by_type(QUO_context, QUO_obj_type_t, MPI_Comm *)",
    "QUO_xpm_allocate(QUO_context, size_t, QUO_xpm_context *)",
    "QUO_xpm_allocate_by_qids(QUO_context, int *, int, size_t, QUO_xpm_context *)",
    "QUO_xpm_free(QUO_xpm_context)",
    "QUO_xpm_view_local(QUO_xpm_context, QUO_xpm_view_t *)",
    "QUO_xpm_view_by_qid(QUO_xpm_context, int, QUO_xpm_view_t *)",
    "QUO_xpm_view_by_qid_range(QUO_xpm_context, int, int, QUO_xpm_view_t *)",
];

/// Rust types of C types; a pointer to int may also be an array to read.
const TYPES: &[(&str, &str)] = &[
    ("int", "c_int"),
    ("double", "c_double"),
    ("double", "f64"),
    ("size_t", "usize"),
    ("void *", "*mut c_void"),
    ("int *", "RawOut<c_int>"),
    ("int *", "Qids"),
    ("const int *", "Qids"),
    ("const int *", "Ints"),
    ("int **", "RawOut<*mut c_int>"),
    ("char **", "RawOut<*mut c_char>"),
    ("char **", "*mut *mut c_char"),
    ("const QUO_program_t *", "In<QUO_program_t>"),
    ("const char *", "Text"),
    ("MPI_Comm", "MPI_Comm"),
    ("MPI_Comm *", "CommPtr"),
    ("QUO_fint_t", "Fint"),
    ("QUO_fint_t *", "FintPtr"),
    ("QUO_context", "*mut QUO_t"),
    ("QUO_t *", "*mut QUO_t"),
    ("void *", "Bytes"),
    ("const void *", "Bytes"),
    ("const void *", "*const c_void"),
    ("QUO_memory_policy_t", "c_int"),
    ("void **", "RawOut<*mut c_void>"),
    ("void **", "HeapPtr"),
    ("QUO_reshape_scheduler_t", "QUO_reshape_scheduler_t"),
    ("QUO_reshape_valid_t", "QUO_reshape_valid_t"),
    ("const QUO_reshape_topology_t *", "In<QUO_reshape_topology_t>"),
    ("long long", "c_longlong"),
    ("long long *", "RawOut<c_longlong>"),
    ("size_t *", "RawOut<usize>"),
    ("const size_t *", "Sizes"),
    ("const size_t **", "RawOut<*const usize>"),
    ("QUO_world", "*mut QUO_world_t"),
    ("QUO_world *", "RawOut<*mut QUO_world_t>"),
    ("const QUO_world_options_t *", "In<QUO_world_options_t>"),
    ("const QUO_array_spec_t *", "In<QUO_array_spec_t>"),
    ("const QUO_carry_t *", "In<QUO_carry_t>"),
    ("const QUO_request_spec_t *", "In<QUO_request_spec_t>"),
    ("const QUO_progress_t *", "In<QUO_progress_t>"),
    ("const QUO_pset_change_t *", "In<QUO_pset_change_t>"),
    ("QUO_pset_info_t *", "RawOut<QUO_pset_info_t>"),
    ("QUO_pset_view_t *", "RawOut<QUO_pset_view_t>"),
    ("const long long *", "Longs"),
    ("long long **", "RawOut<*mut c_longlong>"),
    ("QUO_event_t *", "RawOut<QUO_event_t>"),
    ("QUO_event_handler_t", "QUO_event_handler_t"),
    ("QUO_move_metrics_t *", "RawOut<QUO_move_metrics_t>"),
    ("QUO_array_part_t *", "RawOut<QUO_array_part_t>"),
    ("QUO_owner_t", "QUO_owner_t"),
    ("QUO_owners_t", "QUO_owners_t"),
    ("QUO_matrix_part_t *", "RawOut<QUO_matrix_part_t>"),
    ("QUO_step_t", "QUO_step_t"),
    ("QUO_context *", "RawOut<*mut QUO_t>"),
    ("QUO_t **", "RawOut<*mut QUO_t>"),
    ("QUO_obj_type_t", "c_int"),
    ("QUO_device_kind_t", "c_int"),
    ("QUO_bind_push_policy_t", "c_int"),
    ("QUO_create_flags_t", "c_int"),
    ("QUO_distrib_policy_t", "c_int"),
    ("const QUO_create_options_t *", "In<QUO_create_options_t>"),
    ("const QUO_phase_spec_t *", "In<QUO_phase_spec_t>"),
    ("QUO_phase_metrics_t *", "RawOut<QUO_phase_metrics_t>"),
    ("QUO_phase_work_t", "QUO_phase_work_t"),
    ("QUO_xpm_view_t *", "RawOut<QUO_xpm_view_t>"),
    ("QUO_phase", "*mut QUO_phase_t"),
    ("QUO_named_barrier", "*mut QUO_named_barrier_t"),
    ("QUO_xpm_context", "*mut quo_xpm_t"),
];

const HANDLE_PLACES: [(&str, &str); 3] = [
    ("QUO_phase *", "RawOut<*mut QUO_phase_t>"),
    ("QUO_named_barrier *", "RawOut<*mut QUO_named_barrier_t>"),
    ("QUO_xpm_context *", "RawOut<*mut quo_xpm_t>"),
];

/// A function: its arguments as type and name, and its result.
#[derive(Debug, PartialEq, Eq)]
struct Function {
    arguments: Vec<(String, String)>,
    result: String,
}

fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn without_comments(text: &str) -> String {
    let mut left = text;
    let mut out = String::new();
    while let Some((before, after)) = left.split_once("/*") {
        out += before;
        left = after.split_once("*/").expect("a comment that ends").1;
    }
    out + left
}

/// Returns the prototypes of the headers.
fn declared() -> BTreeMap<String, Function> {
    let mut functions = BTreeMap::new();
    for header in HEADERS {
        let text = without_comments(header);
        let code: Vec<&str> =
            text.lines().filter(|line| !line.starts_with('#') && !line.ends_with('\\')).collect();
        for statement in code.join("\n").split(';') {
            let statement = words(statement.trim_start_matches(['{', '}', '\n', ' ']));
            let Some((head, arguments)) = statement.split_once('(') else { continue };
            if head.contains("typedef") {
                continue;
            }
            let start = head.find("QUO_").expect("a function of the interface");
            let arguments = arguments.trim_end_matches(')');
            let arguments = if arguments == "void" { "" } else { arguments };
            let split = |argument: &str| {
                let argument = argument.trim();
                let end = argument.rfind([' ', '*']).expect("a type and a name") + 1;
                (argument[..end].trim().to_owned(), argument[end..].to_owned())
            };
            functions.insert(
                head[start..].to_owned(),
                Function {
                    arguments: arguments.split(',').filter(|a| !a.is_empty()).map(split).collect(),
                    result: head[..start].trim().trim_start_matches("extern \"C\" {").trim().into(),
                },
            );
        }
    }
    functions
}

/// Returns the functions that the Rust sources define for C.
fn defined() -> BTreeMap<String, Function> {
    let mut functions = BTreeMap::new();
    for source in SOURCES {
        for text in source.split("#[unsafe(no_mangle)]\npub extern \"C\" fn ").skip(1) {
            let (name, text) = text.split_once('(').unwrap();
            let (arguments, text) = text.split_once(") -> ").unwrap();
            let arguments = words(arguments);
            let split = |argument: &str| {
                let (name, kind) = argument.split_once(':').unwrap();
                (kind.trim().to_owned(), name.trim().trim_start_matches("r#").to_owned())
            };
            functions.insert(
                name.to_owned(),
                Function {
                    arguments: arguments
                        .split(',')
                        .filter(|argument| !argument.trim().is_empty())
                        .map(split)
                        .collect(),
                    result: text.split_once(" {").unwrap().0.to_owned(),
                },
            );
        }
    }
    functions
}

#[test]
fn every_declared_function_is_defined_with_the_same_arguments() {
    let (declared, defined) = (declared(), defined());
    let names =
        |functions: &BTreeMap<String, Function>| functions.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&declared), names(&defined));
    for (name, c) in &declared {
        let rust = &defined[name];
        assert_eq!(c.arguments.len(), rust.arguments.len(), "{name}: {c:?} and {rust:?}");
        for ((c_type, c_name), (rust_type, rust_name)) in c.arguments.iter().zip(&rust.arguments) {
            assert_eq!(c_name, rust_name, "{name}");
            let known = TYPES.iter().chain(&HANDLE_PLACES);
            let mut known = known.filter(|(from, _)| from == c_type).map(|(_, to)| to);
            assert!(known.any(|to| to == rust_type), "{name}: {c_type} is {rust_type}");
        }
        let result = match c.result.as_str() {
            "int" => "c_int",
            "const char *" => "*const c_char",
            "MPI_Comm" => "MPI_Comm",
            other => panic!("{name} returns {other}"),
        };
        assert_eq!(result, rust.result, "{name}");
    }
}

/// Returns the texts between backticks.
fn quoted(text: &str) -> Vec<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

/// Returns the rows of the first table of the guide after a heading, as the quoted words of each
/// column.
fn table(guide: &str, heading: &str) -> Vec<Vec<Vec<String>>> {
    let start = guide.find(heading).expect("a table with this heading");
    let rows = guide[start..].lines().skip(2).take_while(|line| line.starts_with('|'));
    let columns = |row: &str| row.trim_matches('|').split(" | ").map(names_in).collect();
    rows.map(columns).collect()
}

fn names_in(column: &str) -> Vec<String> {
    quoted(column).into_iter().map(str::to_owned).collect()
}

/// The names of the functions of the crate `elastic`, and of the crates over it that C sees.
fn in_rust() -> BTreeSet<String> {
    let elastic = Path::new(env!("CARGO_MANIFEST_DIR")).join("../elastic");
    let mut folders = ["src", "program/src", "reshape/src"].map(|at| elastic.join(at)).to_vec();
    let mut found = BTreeSet::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let text = std::fs::read_to_string(path).unwrap();
            for start in text.split(" fn ").skip(1) {
                let end = start.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(0);
                found.insert(start[..end].to_owned());
            }
        }
    }
    found
}

#[test]
fn guide_lists_every_call_of_the_world_in_three_languages() {
    let guide = include_str!("../../docs/elastic-reference.md");
    let rust = in_rust();
    let mut listed = BTreeSet::new();
    for row in table(guide, "| Rust | C |") {
        let [in_rust, in_c] = &row[..] else { panic!("{row:?}") };
        for name in in_rust {
            let method = name.split("::").nth(1).unwrap();
            assert!(rust.contains(method), "{name} is not in Rust");
        }
        listed.extend(in_c.iter().cloned());
    }
    let of_the_world = |name: &String| {
        let families = ["QUO_world_", "QUO_window_", "QUO_pset_", "QUO_carry_"];
        families.iter().any(|family| name.starts_with(family)) && !name.ends_with("_f2c")
    };
    let declared: BTreeSet<String> = declared().into_keys().filter(of_the_world).collect();
    assert_eq!(listed, declared);
}

#[test]
fn guide_lists_every_option_of_the_world() {
    let guide = include_str!("../../docs/elastic-reference.md");
    let header = without_comments(HEADERS[2]);
    let (_, fields) = header.split_once("typedef struct QUO_world_options_t {").unwrap();
    let (fields, _) = fields.split_once('}').unwrap();
    let name = |field: &str| field.rsplit([' ', '*']).next().unwrap().trim().to_owned();
    let mut fields: BTreeSet<String> =
        fields.split(';').map(str::trim).filter(|field| !field.is_empty()).map(name).collect();
    fields.remove("size");
    let rows = table(guide, "| `WorldOptions` in Rust |");
    let listed: BTreeSet<String> = rows.iter().flat_map(|row| row[1].clone()).collect();
    assert_eq!(listed, fields);
    let rust = include_str!("../../elastic/src/world/options.rs");
    let methods = rust.split("    pub fn ").skip(1).map(|text| text.split('(').next().unwrap());
    let methods: BTreeSet<String> =
        methods.map(str::to_owned).filter(|name| name != "new").collect();
    let mut listed: BTreeSet<String> = rows.iter().flat_map(|row| row[0].clone()).collect();
    listed.remove("Registry::via");
    assert_eq!(listed, methods);
}

#[test]
fn the_functions_of_quo_1_4_1_have_not_changed() {
    let declared = declared();
    for expected in COMPATIBLE {
        let name = expected.split_once('(').unwrap().0;
        let function = declared.get(name).unwrap_or_else(|| panic!("{name} is gone"));
        let types: Vec<&str> = function.arguments.iter().map(|(kind, _)| kind.as_str()).collect();
        assert_eq!(format!("{name}({})", types.join(", ")), expected);
        assert_eq!(function.result, "int");
    }
}

#[test]
fn shared_library_exports_exactly_the_declared_functions() {
    let executable = std::env::current_exe().unwrap();
    let library = executable.ancestors().nth(2).unwrap().join("libquo_c.so");
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(&library).output().unwrap();
    assert!(output.status.success(), "nm {}: {output:?}", library.display());
    let text = String::from_utf8(output.stdout).unwrap();
    let exported: BTreeSet<String> =
        text.lines().filter_map(|line| Some(line.split_whitespace().nth(2)?.to_owned())).collect();
    assert_eq!(exported, declared().into_keys().collect());
}

fn folder() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

fn include() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("include")
}

fn compile(compiler: &str, source: &str, flags: &[&str], target: &str) -> PathBuf {
    let target = folder().join(target);
    let file = folder().join(format!("{}-{}", std::process::id(), source.len()));
    std::fs::write(&file, source).unwrap();
    let language = if compiler.ends_with("xx") { "c++" } else { "c" };
    let output = Command::new(compiler)
        .args(["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-I"])
        .arg(include())
        .args(["-x", language])
        .arg(&file)
        .args(flags)
        .arg("-o")
        .arg(&target)
        .output()
        .unwrap_or_else(|error| panic!("{compiler}: {error}"));
    std::fs::remove_file(&file).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    target
}

fn wrapper(variable: &str, default: &str) -> String {
    std::env::var(variable).unwrap_or_else(|_| default.to_owned())
}

#[test]
fn the_headers_are_clean_c99_and_cpp17() {
    let source = "#include \"quo-elastic.h\"\n#include \"quo-xpm.h\"\n#include \"quo.h\"\n\
        #include \"quo-xpm.h\"\n#include \"quo-reshape.h\"\n#include \"quo-program.h\"\n\
        static const QUO_element_t e[1] = {{QUO_ELEMENT_BRANCH, NULL, NULL, NULL, NULL, NULL, NULL}};\n\
        extern int use(void);\nint use(void) {\n\
        QUO_create_options_t o = QUO_CREATE_OPTIONS_INIT;\n\
        QUO_phase_spec_t s = QUO_PHASE_SPEC_INIT;\n\
        QUO_world_options_t w = QUO_WORLD_OPTIONS_INIT;\n\
        QUO_slurm_options_t l = QUO_SLURM_OPTIONS_INIT;\n\
        QUO_request_spec_t r = QUO_REQUEST_SPEC_INIT;\n\
        QUO_progress_t g = QUO_PROGRESS_INIT;\n\
        QUO_pset_change_t n = QUO_PSET_CHANGE_INIT;\n\
        QUO_array_spec_t a = QUO_ARRAY_SPEC_INIT;\n\
        QUO_array_part_t b = QUO_ARRAY_PART_INIT;\n\
        QUO_matrix_part_t x = QUO_MATRIX_PART_INIT;\n\
        QUO_carry_t c = QUO_CARRY_INIT;\n\
        QUO_program_t m = QUO_PROGRAM(e);\n\
        struct ProcessorTopology p = QUO_RESHAPE_TOPOLOGY_INIT;\n\
        return (int)(o.size + s.size + w.size + l.size + r.size + g.size + n.size + a.size + b.size + x.size + c.size + m.size + p.size) + (QUO_API_VERSION > 0) + LIBQUO;\n}\n";
    compile(&wrapper("MPICC", "mpicc"), source, &["-std=c99", "-c"], "header-c99.o");
    // The MPI library's own C++ classes, long removed from MPI, cause warnings.
    let flags = ["-std=c++17", "-DOMPI_SKIP_MPICXX", "-DMPICH_SKIP_MPICXX", "-c"];
    let source = format!("{source}\n/* not the length of the C source */");
    compile(&wrapper("MPICXX", "mpicxx"), &source, &flags, "header-cpp17.o");
}

#[test]
fn constants_and_structures_are_the_same_on_both_sides() {
    let mut expected: Vec<(String, usize)> = Code::ALL
        .into_iter()
        .map(|code| (code.name().to_owned(), usize::try_from(code as i32).unwrap()))
        .collect();
    let mut constant = |name: &str, value: usize| expected.push((name.to_owned(), value));
    let types = ["MACHINE", "NUMANODE", "PACKAGE", "SOCKET", "CORE", "PU"];
    let more = ["DIE", "L3CACHE", "L2CACHE", "L1CACHE"];
    for (value, name) in types.into_iter().chain(more).enumerate() {
        constant(&format!("QUO_OBJ_{name}"), value);
    }
    constant("QUO_BIND_PUSH_PROVIDED", 0);
    constant("QUO_BIND_PUSH_OBJ", 1);
    constant("QUO_CREATE_NO_FLAGS", 0);
    constant("QUO_CREATE_NO_MT", 1);
    constant("QUO_CREATE_LEND", 2);
    constant("QUO_CREATE_IGNORE_QUOTA", 4);
    constant("QUO_DISTRIB_SPREAD", 0);
    constant("QUO_DISTRIB_LIBQUO_COMPAT", 1);
    constant("QUO_THREADS_KEEP", 0);
    constant("QUO_THREADS_OPENMP", 1);
    constant("QUO_DEVICE_GPU", 0);
    constant("QUO_DEVICE_NETWORK", 1);
    constant("QUO_DEVICE_STORAGE", 2);
    constant("QUO_SHARING_OVERLAP", 0);
    constant("QUO_SHARING_WAIT", 1);
    constant("QUO_SHARING_LEFT", 2);
    constant("QUO_PINNING_ENVIRONMENT", 0);
    constant("QUO_PINNING_NONE", 1);
    constant("QUO_PINNING_CLOSE", 2);
    constant("QUO_PINNING_SPREAD", 3);
    constant("QUO_CORES_ALL", 0);
    constant("QUO_CORES_FASTEST", 1);
    let families: [(&str, &[&str]); 15] = [
        ("RESHAPE", &["ARBITRARY", "POWER_OF_TWO", "RECTANGULAR"]),
        ("RESHAPE", &["CONTINUE", "EXPAND", "SHRINK"]),
        ("RESHAPE", &["STAYS", "JOINS", "ENDED"]),
        ("WORLD", &["NEW", "JOINING", "STAYING", "LEAVING", "PARKED", "ENDED"]),
        ("REQUEST", &["OPEN", "DONE", "FAILED"]),
        ("REQUEST", &["SIZE", "GROW", "SHRINK", "LEAVE", "MOVE"]),
        (
            "EVENT",
            &[
                "STARTED",
                "NOTICE",
                "OVERDUE",
                "REQUESTED",
                "REFUSED",
                "ACCEPTED",
                "ANNOUNCED",
                "LAUNCHED",
                "READY",
                "PENDING",
                "CONFIRMED",
                "AGREED",
                "BEGUN",
                "MOVED",
                "FINALIZED",
                "ABORTED",
            ],
        ),
        (
            "CAUSE",
            &[
                "NONE",
                "NO_CAPACITY",
                "NOT_ALLOWED",
                "UNSUPPORTED",
                "UNREACHABLE",
                "SPAWN_FAILED",
                "JOINER_LOST",
                "MEMBER_LOST",
                "DATA_LOST",
                "REJECTED",
                "DEADLINE",
                "SUPERSEDED",
                "CANCELLED",
                "MANAGER",
                "OTHER",
            ],
        ),
        ("PSET", &["UNION", "DIFFERENCE", "INTERSECTION"]),
        ("PSET", &["NO_CHANGE", "ADD", "SUB", "REPLACE"]),
        ("ACCEPT", &["PENDING", "ENTERS", "ABORTED"]),
        ("WINDOW", &["ALL_RANKS", "OLD", "NEW", "BETWEEN"]),
        ("ARRAY", &["BLOCK", "BLOCK_CYCLIC", "BLOCK_ROWS", "BLOCK_COLUMNS", "BLOCK_GRID"]),
        ("ARRAY_BY", &["ROWS", "COLUMNS"]),
        ("ELEMENT", &["INIT", "RIGID", "ELASTIC", "BRANCH"]),
    ];
    for (family, names) in families {
        for (value, name) in names.iter().enumerate() {
            constant(&format!("QUO_{family}_{name}"), value);
        }
    }
    constant("QUO_ARRAY_CHECKERBOARD", 5);
    constant("QUO_ARRAY_REPLICATED", 6);
    constant("QUO_ARRAY_HALO", 7);
    constant("QUO_API_VERSION", 0x0001_0401);
    constant("QUO_HAS_API_VERSIONING", 1);
    constant("LIBQUO", 1);
    macro_rules! structure {
        ($name:ident, $($field:ident as $c:literal),*) => {
            constant(concat!("sizeof(", stringify!($name), ")"), size_of::<$name>());
            $(constant(
                concat!("offsetof(", stringify!($name), ", ", $c, ")"),
                offset_of!($name, $field),
            );)*
        };
    }
    structure!(QUO_create_options_t, size as "size", flags as "flags");
    structure!(QUO_phase_spec_t, size as "size", r#type as "type",
        max_per_object as "max_per_object", threads as "threads", name as "name", cores as "cores",
        sharing as "sharing", sharing_limit as "sharing_limit",
        pinning as "pinning");
    structure!(QUO_worker_t, threads as "threads", first_qid as "first_qid", nqids as "nqids",
        cpuset as "cpuset");
    structure!(QUO_phase_metrics_t, size as "size", selected as "selected", threads as "threads",
        run_seconds as "run_seconds", quiesced_seconds as "quiesced_seconds",
        remap_seconds as "remap_seconds");
    structure!(QUO_world_options_t, size as "size", initial_ranks as "initial_ranks", max_ranks as "max_ranks",
        processes_per_spawn as "processes_per_spawn", allow_oversubscribe as "allow_oversubscribe",
        control as "control", messages as "messages",
        start_timeout as "start_timeout", name as "name", log as "log", plan as "plan",
        process_sets as "process_sets", no_spawn_helper as "no_spawn_helper", min_size as "min_size",
        max_size as "max_size", step as "step", allowed_sizes as "allowed_sizes", allows as "allows",
        allows_data as "allows_data", hosts as "hosts", connect_timeout as "connect_timeout",
        remote_shell as "remote_shell", spawn_command as "spawn_command", spawn_info as "spawn_info",
        control_folder as "control_folder", slurm as "slurm",
        abort_on_death as "abort_on_death", term_notice as "term_notice",
        notice_folder as "notice_folder", placement as "placement");
    structure!(QUO_slurm_options_t, size as "size", wait as "wait",
        command_limit as "command_limit", grace as "grace", linger as "linger",
        watch as "watch", least as "least", submit as "submit");
    structure!(QUO_array_spec_t, size as "size", kind as "kind", storage as "storage",
        element as "element", rows as "rows", columns as "columns", block_rows as "block_rows",
        block_columns as "block_columns", grid_rows as "grid_rows",
        grid_columns as "grid_columns", layers as "layers", grid_layers as "grid_layers",
        halo_layers as "halo_layers", halo_rows as "halo_rows",
        halo_columns as "halo_columns");
    structure!(QUO_halo_t, before as "before", after as "after", periodic as "periodic");
    structure!(QUO_array_part_t, size as "size", data as "data", layers as "layers",
        rows as "rows", columns as "columns", first_layer as "first_layer",
        first_row as "first_row", first_column as "first_column", all_layers as "all_layers",
        all_rows as "all_rows", all_columns as "all_columns",
        before_layers as "before_layers", before_rows as "before_rows",
        before_columns as "before_columns");
    structure!(QUO_matrix_part_t, size as "size", rows as "rows", first_row as "first_row",
        ghosts as "ghosts", pointers as "pointers", columns as "columns", values as "values",
        ghost_columns as "ghost_columns", element as "element");
    structure!(QUO_move_metrics_t, size as "size", arrays as "arrays", steps as "steps",
        sent as "sent", shared as "shared", kept as "kept", all_sent as "all_sent",
        all_shared as "all_shared", all_kept as "all_kept", seconds as "seconds");
    structure!(QUO_request_spec_t, size as "size", kind as "kind", ranks as "ranks",
        nodes as "nodes", on as "on", from as "from", grace as "grace", origin as "origin");
    structure!(QUO_progress_t, size as "size", iteration as "iteration",
        iteration_seconds as "iteration_seconds", mpi_ratio as "mpi_ratio",
        remaining_seconds as "remaining_seconds", bytes_per_rank as "bytes_per_rank");
    structure!(QUO_event_t, size as "size", number as "number", time as "time", kind as "kind",
        cause as "cause", request as "request", epoch as "epoch", ranks as "ranks",
        target as "target", joining as "joining", leaving as "leaving", round as "round",
        bytes as "bytes", text as "text", json as "json");
    structure!(QUO_pset_change_t, size as "size", active as "active", hints as "hints");
    structure!(QUO_pset_info_t, size as "size", active as "active", dynamic as "dynamic",
        included as "included", members as "members", version as "version", epoch as "epoch");
    structure!(QUO_pset_view_t, size as "size", kind as "kind", included as "included",
        step as "step", request as "request");
    structure!(QUO_seats_t, old_size as "old_size", new_size as "new_size",
        old_rank as "old_rank", new_rank as "new_rank");
    structure!(QUO_carry_t, size as "size", give as "give", take as "take", end_transfer as "end_transfer",
        data as "data");
    structure!(QUO_reshape_topology_t, size as "size", kind as "kind", ndims as "ndims",
        dims as "dims", total as "total", increment as "increment");
    structure!(QUO_program_t, size as "size", element as "element", count as "count",
        elements as "elements");
    structure!(QUO_element_t, r#type as "type", name as "name", init as "init",
        compute as "compute", redistribute as "redistribute", again as "again",
        branch as "branch");
    structure!(QUO_xpm_view_t, base as "base", extent as "extent");

    let mut source = String::from(
        "#include <stddef.h>\n#include <stdio.h>\n#include \"quo-reshape.h\"\n\
        #include \"quo-program.h\"\n#include \"quo-xpm.h\"\nint main(void) {\n",
    );
    for (name, _) in &expected {
        source += &format!("    printf(\"%lu\\n\", (unsigned long)({name}));\n");
    }
    source += "    return 0;\n}\n";
    let program = compile(&wrapper("MPICC", "mpicc"), &source, &["-std=c99"], "header-constants");
    let output = Command::new(program).output().unwrap();
    let values: Vec<usize> =
        String::from_utf8(output.stdout).unwrap().lines().map(|l| l.parse().unwrap()).collect();
    assert_eq!(values.len(), expected.len());
    for ((name, expected), value) in expected.into_iter().zip(values) {
        assert_eq!(value, expected, "{name}");
    }
}

#[test]
fn every_code_of_the_header_says_whether_it_is_fatal() {
    let enumeration = HEADERS[0].split("enum {\n").nth(1).unwrap().split("};").next().unwrap();
    for code in Code::ALL.into_iter().filter(|code| *code > Code::AlreadyDone) {
        let place = enumeration
            .find(&format!("    {},", code.name()))
            .or_else(|| enumeration.find(&format!("    {} ", code.name())))
            .or_else(|| enumeration.find(&format!("    {}\n", code.name())))
            .unwrap_or_else(|| panic!("{} is not in the header", code.name()));
        let comment = &enumeration[enumeration[..place].rfind("/**").unwrap()..place];
        assert!(comment.contains("atal"), "{}: {comment}", code.name());
    }
}
