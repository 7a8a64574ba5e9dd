/**
 * @file memprof.h
 * Memory per component and time in MPI at run time, and named regions, for programs that run under `memprof run`.
 *
 * Link with -lmemprof. Without the profiler every call answers #MEMPROF_NOT_ACTIVE and costs one load
 * and one branch, so a program can keep its calls in production. No MPI is needed.
 *
 * Threads: every function may be called by any thread at any time after the start of main(), but not in
 * a signal handler. Regions are those of the process: they nest in the order in which threads begin and
 * end them, so begin and end them where one thread is in charge, as between parallel parts. In a child
 * after fork() nothing is recorded unless `memprof run --all` was said.
 *
 * Numbers: `owned` is what a component has allocated or mapped, to the byte and at once; threads add
 * theirs in steps of at most 256 KiB. `resident` is what of it was in memory when the sampler last looked, at
 * `sample_time_ns` since the start of recording; memprof_flush() takes a look now.
 */

#ifndef MEMPROF_H_INCLUDED
#define MEMPROF_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Done. */
#define MEMPROF_OK 0
/** The process does not run under the profiler, or under one of another version. */
#define MEMPROF_NOT_ACTIVE 1
/** The profiler has no answer: no such component, or no sample yet. */
#define MEMPROF_NOT_KNOWN 2
/** A null pointer. */
#define MEMPROF_BAD_ARGUMENT 3

/** What one component holds, in bytes. */
typedef struct memprof_component_t {
    /** As in reports: "app.exe", "mpi.dep:libopen-pal.so.40". */
    char name[96];
    /** Allocated or mapped now, and the most that it ever was. */
    uint64_t owned, owned_peak;
    /** In memory at the last sample, and the most at any. */
    uint64_t resident, resident_peak;
    /** When the last sample was taken. */
    uint64_t sample_time_ns;
} memprof_component_t;

/** What the process holds, in bytes. */
typedef struct memprof_totals_t {
    /** In memory at the last sample, and the most at any. */
    uint64_t resident, resident_peak;
    /** What of `resident` no component owns. */
    uint64_t unattributed;
    /** Allocated or mapped now. */
    uint64_t owned;
    /** When the last sample was taken. */
    uint64_t sample_time_ns;
} memprof_totals_t;

/**
 * Where the thread that began MPI has spent its time since MPI was ready, in nanoseconds: `elapsed` is the sum of
 * `useful` outside of MPI, `mpi`, and `lent`, in which it was in quo's barrier and others used its processors.
 */
typedef struct memprof_time_t {
    uint64_t elapsed, useful, mpi, lent;
    /** What of `mpi` was in sends, receives and probes; in collective operations; in operations of windows; of files. */
    uint64_t point_to_point, collective, one_sided, file;
    /** What of `mpi` was waiting for and testing requests; and in other functions. */
    uint64_t wait, other;
    /** Calls of MPI. */
    uint64_t calls;
} memprof_time_t;

/** A loop that calls MPI, by its calls. Times are in nanoseconds. */
typedef struct memprof_loop_t {
    /** Equal in the processes that are in one loop. */
    uint64_t id;
    /** Calls of the first place in it. */
    uint64_t iterations;
    /** Time of the iterations that were measured, and the part of it in MPI; the same of the last ten to twenty seconds. */
    uint64_t elapsed, mpi, recent_elapsed, recent_mpi;
} memprof_loop_t;

/** Whether the process runs under the profiler: 1 or 0. */
int memprof_active(void);

/**
 * One more than the greatest index of a component; 0 without the profiler. It only grows. Some indices
 * below it may have no component.
 */
uint32_t memprof_component_count(void);

/**
 * What the component at an index holds; #MEMPROF_NOT_KNOWN where the index has none. `out` is written on
 * #MEMPROF_OK only, here and below.
 */
int memprof_component(uint32_t index, memprof_component_t *out);

/** What the component of that name holds. */
int memprof_component_named(const char *name, memprof_component_t *out);

/** What the process holds. */
int memprof_totals(memprof_totals_t *out);

/**
 * The time of this process, up to now. Local: it is no MPI call. #MEMPROF_NOT_KNOWN where no times are taken, as without
 * `memprof run --time`, and before MPI is ready.
 */
int memprof_time(memprof_time_t *out);

/**
 * Begins a region: a phase of its own in reports, with the peaks inside it. Regions nest; names longer
 * than 47 bytes are cut. Returns what memprof_region_end() takes; 0 when it is not recorded.
 */
uint32_t memprof_region_begin(const char *name);

/** Ends a region, and those that were begun inside it and not ended. 0 means nothing. */
void memprof_region_end(uint32_t region);

/**
 * Takes a sample now, in the calling thread, which costs milliseconds in a process that holds much.
 * MEMPROF_NOT_KNOWN when nothing is recorded, or recording pauses.
 */
int memprof_flush(void);

/**
 * For libraries that are not linked with libmemprof: the profiler's own table. The object in the process
 * exports memprof_hooks(), to be looked up with dlsym(RTLD_DEFAULT, "memprof_hooks"), or by a weak reference, which
 * works in static programs, too. It returns null for a version that it does not have, and where nobody asked for
 * a recording. Later versions of the profiler append to the table; `size` is its own.
 */
typedef struct memprof_hooks_t {
    uint32_t version, size;
    /** Kind 0: a region of the program; 1: one of quo. */
    uint32_t (*region_begin)(const char *name, size_t length, uint32_t kind);
    void (*region_end)(uint32_t region);
    uint32_t (*component_count)(void);
    /** 0 on success, here and below. */
    int (*component)(uint32_t index, memprof_component_t *out);
    int (*totals)(memprof_totals_t *out);
    int (*flush)(void);
    /** In tables that are large enough. */
    int (*time)(memprof_time_t *out);
    /** The calling thread lends its processors to others from now on, as in a barrier of quo; and no more. */
    void (*lend_begin)(void);
    void (*lend_end)(void);
    /**
     * Calls of MPI by the calling thread, the one that began MPI, are no part of loops from now on (1), are again (0), or
     * are not until 0 and the times of loops begin anew (2), as after a change of the number of ranks, or all loops are
     * forgotten (3).
     */
    void (*loops)(uint32_t action);
    /** How often loops were copied, which the next function tells of; the thread that began MPI writes it. */
    const uint64_t *loop_copies;
    /**
     * The outermost loops of the last copy, as many as there is room for, those with most time first: their number, or -1
     * where loops are not looked for or cannot be told now.
     */
    int (*outermost_loops)(memprof_loop_t *out, uint32_t room);
} memprof_hooks_t;

/** The type of memprof_hooks(); call it with version 1. */
typedef const memprof_hooks_t *(*memprof_hooks_function_t)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
