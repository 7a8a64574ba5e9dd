//! House rules that no compiler checks. Each finding is one line: the place, then how to fix it.

mod dependencies;
mod english;
mod figures;
mod floors;
mod index;
mod links;
mod names;
mod situations;
pub mod summary;
mod surface;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::{project, run};

/// The only files that may allow `unsafe`: at the boundary to the kernel, shared memory, C and MPI.
/// The workspace denies it everywhere else.
const UNSAFE_FILES: &[&str] = &[
    "bindings-c/src/barriers.rs",
    "bindings-c/src/collective.rs",
    "bindings-c/src/create.rs",
    "bindings-c/src/failures.rs",
    "bindings-c/src/fortran.rs",
    "bindings-c/src/fortran_helpers.rs",
    "bindings-c/src/guard.rs",
    "bindings-c/src/handle.rs",
    "bindings-c/src/phase.rs",
    "bindings-c/src/reshape.rs",
    "bindings-c/src/types.rs",
    "bindings-c/src/types/sized.rs",
    "bindings-c/src/world/arrays.rs",
    "bindings-c/src/world/carry.rs",
    "bindings-c/src/world/events.rs",
    "bindings-c/src/world/matrices.rs",
    "bindings-c/src/world/mod.rs",
    "bindings-c/src/world/open.rs",
    "bindings-c/src/world/options.rs",
    "bindings-c/src/world/program.rs",
    "bindings-c/src/world/psets.rs",
    "bindings-c/src/world/requests.rs",
    "bindings-c/src/world/run.rs",
    "bindings-c/src/world/window.rs",
    "elastic/command/src/run.rs",
    "elastic/src/data/block.rs",
    "elastic/src/data/element.rs",
    "elastic/src/node/guard.rs",
    "elastic/src/node/mailbox/words.rs",
    "elastic/src/node/free_memory.rs",
    "elastic/src/manager/control/peer.rs",
    "elastic/src/manager/notices/signal.rs",
    "elastic/src/observe/measured.rs",
    "elastic/src/spawn/starter/disconnect.rs",
    "examples/coupled/src/couple/shared.rs",
    "examples/coupled/src/l1/mod.rs",
    "memprof/api/src/c.rs",
    "memprof/api/src/hooks.rs",
    "memprof/boundary/src/elf.rs",
    "memprof/boundary/src/slots.rs",
    "memprof/boundary/src/thread.rs",
    "memprof/boundary/src/thunks/aarch64.rs",
    "memprof/boundary/src/thunks/tests.rs",
    "memprof/boundary/src/thunks/x86_64.rs",
    "memprof/boundary/tests/timed.rs",
    "memprof/hooks/src/lent.rs",
    "memprof/hooks/src/lib.rs",
    "memprof/hooks/src/region.rs",
    "memprof/preload/src/base/arch.rs",
    "memprof/preload/src/base/dictionary.rs",
    "memprof/preload/src/base/diagnostics.rs",
    "memprof/preload/src/base/kernel.rs",
    "memprof/preload/src/base/lock.rs",
    "memprof/preload/src/base/memory.rs",
    "memprof/preload/src/base/pagemap.rs",
    "memprof/preload/src/base/registered.rs",
    "memprof/preload/src/base/reserved_fds.rs",
    "memprof/preload/src/base/seqlock.rs",
    "memprof/preload/src/base/symbols.rs",
    "memprof/preload/src/base/thread.rs",
    "memprof/preload/src/interpose/archive.rs",
    "memprof/preload/src/interpose/ending.rs",
    "memprof/preload/src/interpose/runtimes/gpu.rs",
    "memprof/preload/src/interpose/hooked.rs",
    "memprof/preload/src/interpose/loader.rs",
    "memprof/preload/src/interpose/mappings.rs",
    "memprof/preload/src/interpose/mod.rs",
    "memprof/preload/src/interpose/runtimes/openmp.rs",
    "memprof/preload/src/interpose/patch.rs",
    "memprof/preload/src/interpose/mpi_calls.rs",
    "memprof/preload/src/interpose/mpi_handles.rs",
    "memprof/preload/src/interpose/ucx_events.rs",
    "memprof/preload/src/interpose/threads.rs",
    "memprof/preload/src/ledger/call_stacks/mod.rs",
    "memprof/preload/src/ledger/call_stacks/seen.rs",
    "memprof/preload/src/ledger/call_stacks/unwind.rs",
    "memprof/preload/src/ledger/gpu/mod.rs",
    "memprof/preload/src/ledger/gpu/table.rs",
    "memprof/preload/src/ledger/handles/mod.rs",
    "memprof/preload/src/ledger/handles/table.rs",
    "memprof/preload/src/ledger/heap/any_address.rs",
    "memprof/preload/src/ledger/heap/blocks.rs",
    "memprof/preload/src/ledger/heap/calls.rs",
    "memprof/preload/src/ledger/heap/bootstrap.rs",
    "memprof/preload/src/ledger/heap/exports.rs",
    "memprof/preload/src/ledger/heap/fast_path.rs",
    "memprof/preload/src/ledger/heap/granules.rs",
    "memprof/preload/src/ledger/heap/malloc_family.rs",
    "memprof/preload/src/ledger/heap/mod.rs",
    "memprof/preload/src/ledger/heap/next_allocator.rs",
    "memprof/preload/src/ledger/heap/operators.rs",
    "memprof/preload/src/ledger/heap/registry.rs",
    "memprof/preload/src/ledger/heap/thread_counters.rs",
    "memprof/preload/src/ledger/ranges/map.rs",
    "memprof/preload/src/ledger/ranges/mod.rs",
    "memprof/preload/src/lifecycle/fork.rs",
    "memprof/preload/src/lifecycle/hooks.rs",
    "memprof/preload/src/lifecycle/start.rs",
    "memprof/preload/src/owners/dladdr.rs",
    "memprof/preload/src/owners/known.rs",
    "memprof/preload/src/owners/mod.rs",
    "memprof/preload/src/owners/overrides.rs",
    "memprof/preload/src/owners/refresh_lock.rs",
    "memprof/preload/src/owners/symbols.rs",
    "memprof/preload/src/owners/walk.rs",
    "memprof/preload/src/recording/conflicts.rs",
    "memprof/preload/src/recording/mpi_position.rs",
    "memprof/preload/src/recording/mpi_time/loops.rs",
    "memprof/preload/src/recording/mpi_time/mod.rs",
    "memprof/preload/src/recording/phases.rs",
    "memprof/preload/src/recording/writer.rs",
    "memprof/preload/src/sampling/faults/mod.rs",
    "memprof/preload/src/sampling/faults/perf.rs",
    "memprof/preload/src/sampling/sampler/list.rs",
    "memprof/preload/src/sampling/sampler/mod.rs",
    "memprof/preload/src/sampling/sampler/publish.rs",
    "memprof/preload/src/sampling/sampler/sources.rs",
    "memprof/preload/src/sampling/sampler/thread.rs",
    "memprof/preload/src/sampling/sampler/state.rs",
    "memprof/preload/src/sampling/sampler/world.rs",
    "packaging/terminal/src/child.rs",
    "memprof/command/tests/large_jobs.rs",
    "memprof/trace/src/write/memory.rs",
    "memprof/trace/tests/killed.rs",
    "quo/mpi/src/comm.rs",
    "quo/mpi/src/communicator/mod.rs",
    "quo/mpi/src/communicator/start.rs",
    "quo/mpi/src/group.rs",
    "quo/mpi/src/operation.rs",
    "quo/mpi/src/process.rs",
    "quo/mpi/src/program.rs",
    "quo/mpi/src/raw.rs",
    "quo/mpi/src/transfer.rs",
    "quo/info/preload/src/lib.rs",
    "quo/run/preload/src/mpi.rs",
    "quo/run/preload/src/openmp.rs",
    "quo/run/preload/src/ompt.rs",
    "quo/run/preload/src/patch.rs",
    "quo/run/preload/src/places.rs",
    "quo/run/preload/src/start.rs",
    "quo/src/affinity/kernel.rs",
    "quo/src/affinity/memory.rs",
    "quo/src/node/exchange.rs",
    "quo/src/node/fork.rs",
    "quo/src/node/layout.rs",
    "quo/src/node/liveness.rs",
    "quo/src/node/mapping.rs",
    "quo/src/node/memory.rs",
    "quo/src/node/pthread.rs",
    "quo/src/node/tests.rs",
    "quo/src/node/wait.rs",
    "quo/src/phase/remap.rs",
    "quo/src/threading/loaded.rs",
    "quo/src/threading/openmp_places.rs",
    "quo/src/threading/openmp_runtime.rs",
    "quo/src/threading/thread_controls.rs",
    "quo/tests/openmp_start.rs",
    "quo/tests/thread_controls.rs",
    "quo/tests/thread_controls_openmp.rs",
    "quo/tests/thread_controls_pinned.rs",
    "quo/tests/thread_controls_runtimes.rs",
    "tests/faults/src/process.rs",
    "tests/model/src/model.rs",
    "tools/coupled-demo/src/launch.rs",
];

/// Public headers are complete manuals and have no limit on their length.
const MANUALS: &str = "bindings-c/include/";

const LONGEST_FILE: usize = 700;
const LONG_FILE: usize = 600;

/// Words that mark unfinished work. Split, so that this file does not match itself.
const UNFINISHED: &[&str] = &[
    concat!("to", "do!"),
    concat!("un", "implemented!"),
    concat!("FIX", "ME"),
    concat!("#[ig", "nore"),
];

const SLEEPS: &[&str] = &[
    concat!("thread::sl", "eep"),
    concat!("usl", "eep("),
    concat!("nanosl", "eep("),
    concat!(" sl", "eep("),
];

/// Beginning of the line above a sleep that is necessary, as before a kill at a random moment.
const SLEEP_REASON: &str = "// Sleeps:";

/// Findings of the rules.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Findings {
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

/// Lists the files of the checkout that git tracks or would add, each followed by a NUL.
fn listed(root: &Path) -> Result<String> {
    run::captured(Command::new("git").current_dir(root).args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))
}

/// Writes the index of suites and returns its path.
pub fn write_index() -> Result<PathBuf> {
    let root = project::root();
    let listed = listed(root)?;
    let suites = listed.split('\0').filter(|name| index::is_suite(name));
    let mut promises = BTreeMap::new();
    for name in suites.filter(|name| root.join(name).is_file()) {
        promises.insert(name.to_owned(), index::promise(&fs::read_to_string(root.join(name))?));
    }
    let path = root.join(index::PAGE);
    fs::write(&path, index::page(&promises))
        .with_context(|| format!("writing {}", path.display()))?;
    situations::write(root)?;
    Ok(path)
}

/// Checks every file of the checkout that git tracks or would add.
pub fn check() -> Result<Findings> {
    let root = project::root();
    let listed = listed(root)?;
    let mut findings = Findings::default();
    let mut tests = BTreeSet::new();
    let mut promises = BTreeMap::new();
    let mut turns = 0;
    for name in listed.split('\0').filter(|name| !name.is_empty()) {
        // Pictures and other binary files have no lines; a deleted file is listed until it is
        // staged.
        if let Ok(text) = fs::read_to_string(root.join(name)) {
            check_file(name, &text, &mut findings);
            turns += english::turns(name, &text);
            if name.ends_with(".rs") {
                names::collect(&text, &mut tests);
                let long = names::too_long(&text).into_iter();
                let shorten = |test| format!("{name}: {test}: at most ten words: shorten the name");
                findings.errors.extend(long.map(shorten));
            }
            if index::is_suite(name) {
                promises.insert(name.to_owned(), index::promise(&text));
            }
        }
    }
    for page in names::CHECKLISTS {
        let text = fs::read_to_string(root.join(page)).unwrap_or_default();
        findings.errors.extend(names::unknown(page, &text, &tests));
    }
    findings.errors.extend(english::wrong(turns));
    check_unsafe_list(root, &mut findings);
    check_lints_apply(root, &mut findings);
    findings.errors.extend(links::broken(root));
    findings.errors.extend(summary::wrong(root));
    findings.errors.extend(index::wrong(root, &promises));
    findings.errors.extend(situations::wrong(root));
    findings.errors.extend(crate::findings::wrong(root)?);
    findings.errors.extend(floors::wrong(root, listed.split('\0').map(Path::new))?);
    findings.errors.extend(figures::wrong(root));
    findings.errors.extend(surface::wrong(root));
    findings.errors.extend(dependencies::wrong(root)?);
    Ok(findings)
}

fn check_file(name: &str, text: &str, findings: &mut Findings) {
    if name.ends_with(".rs")
        || name.ends_with(".c")
        || name.ends_with(".h")
        || name.ends_with(".hpp")
        || name.ends_with(".f90")
        || name.ends_with(".F90")
    {
        check_source(name, text, findings);
    }
    if name != "Cargo.lock" {
        check_paths(name, text, findings);
    }
}

fn check_source(name: &str, text: &str, findings: &mut Findings) {
    let lines = if name.starts_with(MANUALS) { 0 } else { text.lines().count() };
    if lines > LONGEST_FILE {
        findings.warnings.push(format!("{name}: {lines} lines, at most {LONGEST_FILE}: split it"));
    } else if lines > LONG_FILE {
        findings.warnings.push(format!("{name}: {lines} lines, soon too long"));
    }
    let mut in_tests = is_test_file(name);
    let mut previous = "";
    for (number, line) in text.lines().enumerate() {
        let place = format!("{name}:{}", number + 1);
        in_tests |= line.trim_start().starts_with("#[cfg(test)]");
        if let Some(word) = UNFINISHED.iter().find(|word| line.contains(**word)) {
            findings.errors.push(format!("{place}: {word}: finish it"));
        }
        let explained = previous.trim_start().starts_with(SLEEP_REASON);
        if in_tests && !explained && SLEEPS.iter().any(|word| line.contains(word)) {
            findings.errors.push(format!(
                "{place}: a test sleeps: wait for the event, \
                 or say above why there is none to wait for: {SLEEP_REASON} ..."
            ));
        }
        previous = line;
        if line.contains("allow(unsafe_code)") && name.ends_with(".rs") && !may_be_unsafe(name) {
            findings.errors.push(format!(
                "{place}: unsafe outside the list in xtask/src/rules.rs: use an edge module"
            ));
        }
    }
}

fn is_test_file(name: &str) -> bool {
    name.split('/').any(|part| part == "tests") || name.ends_with("/tests.rs")
}

fn may_be_unsafe(name: &str) -> bool {
    // This file contains the attribute it looks for.
    name == "xtask/src/rules.rs" || UNSAFE_FILES.contains(&name)
}

fn check_paths(name: &str, text: &str, findings: &mut Findings) {
    let homes = [concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];
    for (number, line) in text.lines().enumerate() {
        if homes.iter().any(|home| line.contains(home)) {
            findings.errors.push(format!("{name}:{}: names somebody's home folder", number + 1));
        }
    }
}

/// Reports a listed file that no longer needs `unsafe`.
fn check_unsafe_list(root: &Path, findings: &mut Findings) {
    for name in UNSAFE_FILES {
        let text = fs::read_to_string(root.join(name)).unwrap_or_default();
        if !text.contains("allow(unsafe_code)") {
            findings
                .errors
                .push(format!("xtask/src/rules.rs: {name} is listed but needs no unsafe"));
        }
    }
}

/// Checks for packages without `[lints] workspace = true`, which would escape every lint of the
/// workspace.
fn check_lints_apply(root: &Path, findings: &mut Findings) {
    let workspace = fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let members = workspace.lines().find_map(|line| line.trim().strip_prefix("members = ["));
    for member in members.unwrap_or_default().split('"').skip(1).step_by(2) {
        let manifest = fs::read_to_string(root.join(member).join("Cargo.toml")).unwrap_or_default();
        if !manifest.contains("[lints]\nworkspace = true") {
            findings.errors.push(format!("{member}/Cargo.toml: add [lints] workspace = true"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        check_file(name, text, &mut findings);
        findings.errors
    }

    #[test]
    fn a_clean_file_has_no_findings() {
        assert!(found("quo/src/plan.rs", "//! Plans.\n\nfn plan() {}\n").is_empty());
    }

    #[test]
    fn length_warns_before_it_fails() {
        let mut findings = Findings::default();
        check_file("a.rs", &"\n".repeat(LONG_FILE + 1), &mut findings);
        check_file("a.rs", &"\n".repeat(LONGEST_FILE + 1), &mut findings);
        assert_eq!((findings.errors.len(), findings.warnings.len()), (0, 2));
        assert!(findings.warnings[1].contains("split it"));
        assert!(found("data.xml", &"\n".repeat(LONGEST_FILE + 1)).is_empty());
    }

    #[test]
    fn unfinished_work_is_found_with_its_line() {
        for word in UNFINISHED {
            let errors = found("quo/src/a.rs", &format!("fn a() {{}}\n// {word}\n"));
            assert!(errors[0].starts_with("quo/src/a.rs:2"), "{errors:?}");
        }
    }

    #[test]
    fn sleeps_are_found_in_tests_only() {
        let sleep = format!("    {}(one_second);\n", SLEEPS[0]);
        assert!(found("quo/src/a.rs", &sleep).is_empty());
        for name in ["tests/tests/install.rs", "bindings-c/tests/a.c", "quo/src/node/tests.rs"] {
            assert_eq!(found(name, &sleep).len(), 1, "{name}");
        }
        let explained = format!("    {SLEEP_REASON} the kill is to land anywhere.\n{sleep}");
        assert!(found("tests/tests/install.rs", &explained).is_empty());
        let unit = format!("fn a() {{}}\n#[cfg(test)]\nmod tests {{\n{sleep}}}\n");
        assert_eq!(found("quo/src/a.rs", &unit).len(), 1);
    }

    #[test]
    fn unsafe_outside_the_list_is_found() {
        let text = "#![allow(unsafe_code)]\n";
        assert_eq!(found("quo/src/plan/mod.rs", text).len(), 1);
        assert!(found("quo/docs/unsafe.md", text).is_empty());
    }

    #[test]
    fn home_folders_are_found_in_any_text() {
        let text = format!("see {}someone/file\n", concat!("/ho", "me/"));
        assert_eq!(found("README.md", &text).len(), 1);
        assert!(found("README.md", "see ~/file or $HOME/file\n").is_empty());
    }
}
