//! Situations of libraries that a program loads.

use super::Collector;
use crate::doctor::facts::{Facts, Process};

/// Beginnings of file names: situation, object, name for people.
const LOADED: [(&str, &str, &str); 18] = [
    ("blas-openblas-openmp", "libopenblaso", "OpenBLAS over OpenMP"),
    ("blas-openblas", "libopenblasp", "OpenBLAS with threads of its own"),
    ("blas-openblas", "libscipy_openblas", "OpenBLAS of a Python package"),
    ("blas-openblas", "libopenblas64_p", "OpenBLAS of a Python package"),
    ("blas-blis", "libblis", "BLIS"),
    ("blas-mkl", "libmkl_", "oneMKL"),
    ("tbb", "libtbb.so", "TBB"),
    ("libnuma", "libnuma.so", "libnuma"),
    ("allocator", "libjemalloc", "jemalloc"),
    ("allocator", "libmimalloc", "mimalloc"),
    ("allocator", "libtcmalloc", "tcmalloc"),
    ("sanitizer", "libasan.so", "AddressSanitizer"),
    ("sanitizer", "libtsan.so", "ThreadSanitizer"),
    ("sanitizer", "liblsan.so", "LeakSanitizer"),
    ("sanitizer", "libclang_rt.", "a sanitizer of clang"),
    ("other-profiler", "libheaptrack", "heaptrack"),
    ("other-profiler", "libbytehound", "bytehound"),
    ("other-profiler", "libmemusage", "memusage"),
];

pub fn recognise(facts: &Facts, found: &mut Collector) {
    let mut ids: Vec<&str> = LOADED.iter().map(|(id, ..)| *id).collect();
    ids.dedup();
    for id in ids {
        found.each(facts, id, |process| names(process, id));
    }
    found.each(facts, "two-hwlocs", |process| {
        let mut all: Vec<&str> = process.objects("libhwloc.so").collect();
        all.sort_unstable();
        all.dedup();
        (all.len() > 1).then(|| all.join(" and "))
    });
}

/// Returns the loaded libraries of this situation.
fn names(process: &Process, id: &str) -> Option<String> {
    // MPIs load libnuma themselves.
    if id == "libnuma" && process.mpi.is_some() {
        return None;
    }
    let loaded = LOADED.iter().filter(|(its, start, _)| *its == id && process.has_object(start));
    let mut names: Vec<&str> = loaded.map(|(.., name)| *name).collect();
    names.dedup();
    (!names.is_empty()).then(|| names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::super::examples::{load, recognised};
    use super::*;

    #[test]
    fn library_is_recognised_by_its_file_name() {
        for (id, start, _) in LOADED {
            let name = format!("{start}.1");
            assert_eq!(recognised(|facts| load(facts, &[&name])), [id], "{name}");
        }
        assert_eq!(recognised(|facts| load(facts, &["libm.so.6", "libblas.so.3"])), [""; 0]);
    }

    #[test]
    fn second_hwloc_is_recognised_and_one_is_not() {
        assert_eq!(recognised(|facts| load(facts, &["libhwloc.so.15.6.1"])), [""; 0]);
        let two = ["libhwloc.so.15.6.1", "libhwloc.so.5.7.6"];
        assert_eq!(recognised(|facts| load(facts, &two)), ["two-hwlocs"]);
    }
}
