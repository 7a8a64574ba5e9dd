/**
 * @file memprof.h
 * Memory per component and time in MPI at run time, and named regions, for programs that run under `memprof run`.
 *
 * Link with -lmemprof. Without the profiler every call returns #MEMPROF_NOT_ACTIVE and costs one load
 * and one branch, so a program can keep its calls in production. No MPI is needed.
 *
 * Threads: every function may be called by any thread at any time after the start of main(), but not in
 * a signal handler. Regions belong to the process: they nest in the order in which threads begin and end
 * them, so begin and end them where one thread is in charge, for example between parallel parts. In a
 * child after fork() nothing is recorded without `memprof run --all`.
 *
 * Numbers: `owned` counts the bytes that a component has allocated or mapped, exactly and at once; threads
 * add theirs in steps of at most 256 KiB. `resident` is the part of the component's memory that was resident
 * at the last sample, at `sample_time_ns` since the start of recording; memprof_flush() takes a sample now.
 */

#ifndef MEMPROF_H_INCLUDED
#define MEMPROF_H_INCLUDED

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Success. */
#define MEMPROF_OK 0
/** The process does not run under the profiler, or under one of another version. */
#define MEMPROF_NOT_ACTIVE 1
/** The value is not known: there is no such component, or no sample yet. */
#define MEMPROF_NOT_KNOWN 2
/** An argument is a null pointer. */
#define MEMPROF_BAD_ARGUMENT 3

/** Memory of one component, in bytes. */
typedef struct memprof_component_t {
    /** Name as in reports: "app.exe", "mpi.dep:libopen-pal.so.40". */
    char name[96];
    /** Bytes allocated or mapped now, and their peak. */
    uint64_t owned, owned_peak;
    /** Bytes resident at the last sample, and the highest at any sample. */
    uint64_t resident, resident_peak;
    /** Time of the last sample. */
    uint64_t sample_time_ns;
} memprof_component_t;

/** Memory of the process, in bytes. */
typedef struct memprof_totals_t {
    /** Bytes resident at the last sample, and the highest at any sample. */
    uint64_t resident, resident_peak;
    /** Part of `resident` that no component owns. */
    uint64_t unattributed;
    /** Bytes allocated or mapped now. */
    uint64_t owned;
    /** Time of the last sample. */
    uint64_t sample_time_ns;
} memprof_totals_t;

/**
 * Times of the thread that began MPI since MPI was ready, in nanoseconds: `elapsed` is the sum of `useful` outside of
 * MPI, `mpi`, and `lent`, the time in quo's barrier in which other threads used its processors.
 */
typedef struct memprof_time_t {
    uint64_t elapsed, useful, mpi, lent;
    /** Parts of `mpi` in sends, receives and probes; collective operations; window operations; file operations. */
    uint64_t point_to_point, collective, one_sided, file;
    /** Parts of `mpi` in waiting for and testing requests; and in other functions. */
    uint64_t wait, other;
    /** Number of MPI calls. */
    uint64_t calls;
} memprof_time_t;

/** A loop that calls MPI, identified by its calls. Times are in nanoseconds. */
typedef struct memprof_loop_t {
    /** Equal in all processes that run the same loop. */
    uint64_t id;
    /** Number of calls from its first call site. */
    uint64_t iterations;
    /** Time of the measured iterations, and its part in MPI; the same for the last ten to twenty seconds. */
    uint64_t elapsed, mpi, recent_elapsed, recent_mpi;
} memprof_loop_t;

/** Returns 1 if the process runs under the profiler, else 0. */
int memprof_active(void);

/**
 * Returns one more than the highest index of a component; 0 without the profiler. The number only grows. Some
 * indexes below it may have no component.
 */
uint32_t memprof_component_count(void);

/**
 * Writes the memory of the component with an index; returns #MEMPROF_NOT_KNOWN if there is none. Here and below,
 * `out` is written on #MEMPROF_OK only.
 */
int memprof_component(uint32_t index, memprof_component_t *out);

/** Writes the memory of the component with a name. */
int memprof_component_named(const char *name, memprof_component_t *out);

/** Writes the memory of the process. */
int memprof_totals(memprof_totals_t *out);

/**
 * Writes the times of this process until now. Local: makes no MPI call. Returns #MEMPROF_NOT_KNOWN if times are not
 * measured, as without `memprof run --mpi-time`, and before MPI is ready.
 */
int memprof_time(memprof_time_t *out);

/**
 * Begins a region: a separate phase in reports, with the peaks inside it. Regions nest; names longer than 47
 * bytes are cut. Returns the argument for memprof_region_end(); 0 if the region is not recorded.
 */
uint32_t memprof_region_begin(const char *name);

/** Ends a region and all regions that are open inside it. Does nothing for 0. */
void memprof_region_end(uint32_t region);

/**
 * Takes a sample now, in the calling thread, which costs milliseconds in a process with much memory.
 * Returns #MEMPROF_NOT_KNOWN if nothing is recorded, or recording is paused.
 */
int memprof_flush(void);

/**
 * Table of the profiler's functions, for libraries that are not linked with libmemprof. The object in the process
 * exports memprof_hooks(), which is found with dlsym(RTLD_DEFAULT, "memprof_hooks"), or by a weak reference, which
 * also works in static programs. It returns null for a version that it does not have, and if no recording was
 * requested. Later versions of the profiler append to the table; `size` is the size of the table.
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
    /** Present if the table is large enough. */
    int (*time)(memprof_time_t *out);
    /** Begins and ends the time in which the calling thread lends its processors to others, as in a barrier of quo. */
    void (*lend_begin)(void);
    void (*lend_end)(void);
    /**
     * Controls which MPI calls of the calling thread, the one that began MPI, count for loops: from now on none (1); all
     * again (0); none until 0, and the times of loops start again (2), as after a change of the number of ranks; or
     * forgets all loops (3).
     */
    void (*loops)(uint32_t action);
    /** Number of times that loops were copied, for the next function; only the thread that began MPI writes it. */
    const uint64_t *loop_copies;
    /**
     * Writes the outermost loops of the last copy, up to `room` of them, in descending order of time. Returns their
     * number, or -1 where loops are not searched for or not available now.
     */
    int (*outermost_loops)(memprof_loop_t *out, uint32_t room);
} memprof_hooks_t;

/** The type of memprof_hooks(); call it with version 1. */
typedef const memprof_hooks_t *(*memprof_hooks_function_t)(uint32_t version);

#ifdef __cplusplus
}
#endif

#endif
