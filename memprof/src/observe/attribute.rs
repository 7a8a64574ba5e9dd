//! Owners of the mappings of a process, as far as they can be determined without a record of the
//! allocations.

use super::objects::Loaded;
use super::smaps::Mapping;
use memprof_trace::classify;
use serde::Serialize;

/// Component of memory from `malloc` and of mappings without a file: the callers were not recorded.
pub const HEAP: &str = "heap";
/// Stacks of threads but the main one.
pub const STACKS: &str = "stack:threads";
/// Data files.
pub const FILES: &str = "files";
/// More is no guard of a stack.
const GUARD: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// What a component holds. Bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Held {
    /// `app.lib:libz.so.1`, or one of the words above.
    pub name: String,
    /// Bytes in memory.
    pub resident: u64,
    /// Of that, in pages that other processes map, too.
    pub shared: u64,
    /// Bytes swapped out.
    pub swapped: u64,
    /// Addresses.
    pub mapped: u64,
}

/// Adds up all mappings by component, largest first. `stacks` are addresses in stacks of threads;
/// where the kernel does not report them, `threads` other than the main one have stacks behind
/// guards.
pub fn components(
    mappings: &[Mapping],
    objects: &[Loaded],
    stacks: &[u64],
    threads: usize,
) -> Vec<Held> {
    let mut sums = Sums::default();
    for (index, mapping) in mappings.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| mappings.get(before));
        let object = objects
            .iter()
            .find(|object| (object.start..object.end).contains(&mapping.start))
            .filter(|object| mapping.path == object.path || mapping.is_anonymous());
        let (name, own) = match object {
            // Behind the data of an object the kernel may have put memory of another into the same mapping.
            Some(object) => {
                let end = object.end.next_multiple_of(PAGE);
                (&*object.component, mapping.resident.min(end - mapping.start))
            }
            None if is_stack(mapping, before, stacks, threads) => (STACKS, mapping.resident),
            None => (of_mapping(mapping), mapping.resident),
        };
        let held = sums.of(name);
        held.swapped = held.swapped.saturating_add(mapping.swapped);
        held.mapped = held.mapped.saturating_add(mapping.size());
        held.hold(own, mapping.in_common);
        if own < mapping.resident {
            sums.of(HEAP).hold(mapping.resident - own, 0);
        }
    }
    let Sums(mut held) = sums;
    held.retain(|one| one.resident > 0 || one.swapped > 0);
    held.sort_by(|a, b| b.resident.cmp(&a.resident).then_with(|| a.name.cmp(&b.name)));
    held
}

#[derive(Default)]
struct Sums(Vec<Held>);

impl Sums {
    fn of(&mut self, name: &str) -> &mut Held {
        let known = self.0.iter().position(|held| held.name == name);
        let at = known.unwrap_or_else(|| {
            self.0.push(Held { name: name.to_owned(), ..Held::default() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }
}

impl Held {
    fn hold(&mut self, resident: u64, shared: u64) {
        self.resident = self.resident.saturating_add(resident);
        self.shared = self.shared.saturating_add(shared.min(resident));
    }
}

/// Returns the component of a mapping that belongs to no object.
fn of_mapping(mapping: &Mapping) -> &'static str {
    match &*mapping.path {
        "[stack]" => "stack:main",
        "[heap]" => HEAP,
        path if path.starts_with('[') && !path.starts_with("[anon") => "kernel",
        _ if mapping.is_anonymous() => HEAP,
        // Huge pages without a file.
        path if path.starts_with("/anon_hugepage") && !mapping.shared => HEAP,
        path if mapping.shared && classify::is_window_memory(path.as_bytes()) => "mpi.for_user",
        path if mapping.shared && classify::is_mpi_memory(path.as_bytes()) => "mpi.shm",
        path if mapping.shared => {
            let of_memory =
                ["/dev/shm/", "/run/shm/", "/memfd:", "/SYSV", "/dev/zero", "/anon_hugepage"];
            let is_memory =
                path.is_empty() || of_memory.iter().any(|start| path.starts_with(start));
            if is_memory { "app.shm" } else { FILES }
        }
        _ => FILES,
    }
}

fn is_stack(mapping: &Mapping, before: Option<&Mapping>, stacks: &[u64], threads: usize) -> bool {
    let is_writable = mapping.rights[1] && mapping.is_anonymous();
    if !is_writable {
        return false;
    }
    if stacks.iter().any(|address| (mapping.start..mapping.end).contains(address)) {
        return true;
    }
    // The stack is not reported; a mapping above a guard is one.
    let on_guard = before.is_some_and(|guard| {
        guard.is_guard() && guard.end == mapping.start && guard.size() <= GUARD
    });
    stacks.len() < threads && on_guard
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapping(start: u64, pages: u64, path: &str, resident: u64) -> Mapping {
        Mapping {
            start: start << 12,
            end: (start + pages) << 12,
            rights: [true, true, false],
            inode: u64::from(path.starts_with('/')),
            path: path.to_owned(),
            resident: resident << 12,
            ..Mapping::default()
        }
    }

    fn amounts(held: &[Held]) -> Vec<(&str, u64)> {
        held.iter().map(|held| (&*held.name, held.resident >> 12)).collect()
    }

    #[test]
    fn mappings_are_their_objects_or_what_they_say() {
        let shared =
            |start, path, resident| Mapping { shared: true, ..mapping(start, 8, path, resident) };
        let all = [
            mapping(1, 8, "/usr/bin/app", 5),
            // Data without a file, and memory of others behind it.
            mapping(9, 8, "", 7),
            mapping(20, 8, "[heap]", 8),
            mapping(40, 8, "/usr/share/data", 1),
            shared(50, "/dev/shm/mine", 2),
            shared(60, "/dev/shm/vader_segment.x", 3),
            mapping(70, 8, "[stack]", 4),
            mapping(80, 1, "[vdso]", 1),
        ];
        let object = Loaded {
            path: "/usr/bin/app".into(),
            start: 1 << 12,
            end: 12 << 12,
            component: "app.exe:app".into(),
        };
        let found = components(&all, &[object], &[], 0);
        let expected = [
            ("heap", 12),
            ("app.exe:app", 8),
            ("stack:main", 4),
            ("mpi.shm", 3),
            ("app.shm", 2),
            ("files", 1),
            ("kernel", 1),
        ];
        assert_eq!(amounts(&found), expected);
        let sum: u64 = all.iter().map(|mapping| mapping.resident).sum();
        assert_eq!(found.iter().map(|held| held.resident).sum::<u64>(), sum);
    }

    #[test]
    fn stacks_are_told_by_their_threads_or_by_guards() {
        let guard = Mapping { rights: [false; 3], ..mapping(9, 1, "", 0) };
        let all = [guard, mapping(10, 8, "", 3), mapping(30, 8, "", 2), mapping(50, 8, "", 1)];
        let told = components(&all, &[], &[(31 << 12) + 5], 1);
        assert_eq!(amounts(&told), [("heap", 4), ("stack:threads", 2)]);
        let guessed = components(&all, &[], &[], 1);
        assert_eq!(amounts(&guessed), [("heap", 3), ("stack:threads", 3)]);
        assert_eq!(amounts(&components(&all, &[], &[], 0)), [("heap", 6)]);
    }
}
