//! Initialisation, after the object has been loaded and before the program starts.

#![allow(unsafe_code)]

use crate::{job, lending, mpi, openmp, patch, presence};

#[used]
#[unsafe(link_section = ".init_array")]
static LOADED: extern "C" fn() = loaded;

extern "C" fn loaded() {
    // Launchers, their daemons and shells load the object too.
    let Some(place) = job::Place::read() else { return };
    openmp::be_main();
    openmp::start();
    let own = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let is_bound = binds_threads(|name| std::env::var(name).ok());
    lending::set_room(own, if is_bound { 0 } else { others(own) });
    mpi::start();
    patch::everything();
    if let Some(place) = mpi::keep_place(place) {
        presence::announce(place);
    }
}

/// Returns true if OpenMP is configured to bind its threads: it would keep them on the rank's own
/// CPUs.
fn binds_threads(value: impl Fn(&str) -> Option<String>) -> bool {
    let binds = value("OMP_PROC_BIND").is_some_and(|text| !text.eq_ignore_ascii_case("false"));
    // Intel's variable also has kinds that bind nothing.
    let intel = value("KMP_AFFINITY")
        .is_some_and(|text| !["none", "disabled"].iter().any(|kind| text.contains(kind)));
    let places = ["OMP_PLACES", "GOMP_CPU_AFFINITY"];
    binds || intel || places.iter().any(|name| value(name).is_some())
}

/// Returns the number of CPUs of the machine that are not this rank's own.
fn others(own: usize) -> usize {
    // SAFETY: no arguments that are read.
    let all = usize::try_from(unsafe { libc::sysconf(libc::_SC_NPROCESSORS_ONLN) }).unwrap_or(1);
    all.saturating_sub(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_that_openmp_binds_borrow_nothing() {
        let binds = |name: &str, text: &str| {
            binds_threads(|asked| (asked == name).then(|| text.to_owned()))
        };
        assert!(binds("OMP_PROC_BIND", "close") && binds("OMP_PLACES", "cores"));
        assert!(binds("KMP_AFFINITY", "granularity=fine,compact"));
        assert!(!binds("KMP_AFFINITY", "verbose,none"));
        assert!(!binds("OMP_PROC_BIND", "FALSE") && !binds("HOME", "/"));
    }
}
