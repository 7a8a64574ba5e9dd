//! A rayon pool as wide as the current binding allows.

/// Error of a rayon pool that could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PoolError {
    /// Threads could not be started.
    #[error("rayon_pool: a pool of {threads} threads could not be started")]
    Start {
        /// Number of threads requested.
        threads: usize,
        /// Error of rayon.
        source: rayon::ThreadPoolBuildError,
    },
}

/// Builds a rayon pool of `threads` threads (at least 1) that run on the CPUs of the calling
/// thread's current mask. Local; call it from the bound thread, after the push.
///
/// On Linux a new thread inherits the mask of the thread that starts it, and all threads of the
/// pool are started here. A pool built inside a phase is meant to be used and dropped inside it.
///
/// # Errors
///
/// [`PoolError::Start`] if the system refuses the threads.
///
/// ```
/// let pool = quo::phase::rayon_pool(2)?;
/// assert_eq!(pool.install(|| rayon::current_num_threads()), 2);
/// # Ok::<(), quo::phase::PoolError>(())
/// ```
pub fn rayon_pool(threads: usize) -> Result<rayon::ThreadPool, PoolError> {
    // Rayon takes 0 threads as "use the environment's number", which the caller did not request.
    let threads = threads.max(1);
    rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|index| format!("quo-rayon-{index}"))
        .build()
        .map_err(|source| PoolError::Start { threads, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    #[test]
    fn pool_threads_run_where_the_caller_may_run() {
        // On a separate thread, so that the mask of the test runner stays as it is.
        let masks = std::thread::spawn(|| {
            let mine = sched_getaffinity(None).unwrap();
            let last = (0..CpuSet::MAX_CPU).rfind(|&cpu| mine.is_set(cpu)).unwrap();
            let mut narrow = CpuSet::new();
            narrow.set(last);
            sched_setaffinity(None, &narrow).unwrap();
            let masks = rayon_pool(3).unwrap().broadcast(|_| sched_getaffinity(None).unwrap());
            (narrow, masks)
        });
        let (narrow, masks) = masks.join().unwrap();
        assert_eq!(masks.len(), 3);
        assert!(masks.iter().all(|mask| *mask == narrow));
    }

    #[test]
    fn a_pool_of_no_threads_has_one() {
        assert_eq!(rayon_pool(0).unwrap().current_num_threads(), 1);
    }
}
