/* What the kernel allows: the floor under the operations of quo, measured the same way.
 *
 *     ./kernel
 *
 * prints one JSON object, times in microseconds. Starts a second process itself and needs two CPUs.
 * Link with -lhwloc.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <hwloc.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

/* What the two processes share; each part on cache lines of its own. */
struct shared {
    _Alignas(128) atomic_int arrived;
    _Alignas(128) atomic_int sense;
    _Alignas(128) atomic_int word;
    _Alignas(128) atomic_int last;
    _Alignas(128) double came[BENCH_MOST_ROUNDS];
    _Alignas(128) double left[BENCH_MOST_ROUNDS];
};

static void
fail(const char *what)
{
    perror(what);
    exit(EXIT_FAILURE);
}

static void
pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (0 != sched_setaffinity(0, sizeof(set), &set)) fail("sched_setaffinity");
}

static void
spin_barrier(struct shared *shared)
{
    int sense = atomic_load_explicit(&shared->sense, memory_order_relaxed);
    if (1 == atomic_fetch_add(&shared->arrived, 1)) {
        atomic_store_explicit(&shared->arrived, 0, memory_order_relaxed);
        atomic_store_explicit(&shared->sense, sense + 1, memory_order_release);
    } else {
        while (atomic_load_explicit(&shared->sense, memory_order_acquire) == sense) {}
    }
}

static long
futex(atomic_int *word, int operation, int value)
{
    return syscall(SYS_futex, word, operation, value, NULL, NULL, 0);
}

/* The child sleeps on a futex, the parent wakes it: from before the wake to after the sleep. */
static void
wakes(struct shared *shared, int parent, double sleep_us, int rounds, double *median,
      double *waker_median)
{
    double woken[BENCH_MOST_ROUNDS], paid[BENCH_MOST_ROUNDS];
    for (int round = 0; round < rounds; ++round) {
        /* Read before the parent may change it: a child that loses its core behind the barrier
         * would read the new value and wait for one that never comes. */
        int seen = atomic_load(&shared->word);
        spin_barrier(shared);
        if (parent) {
            bench_spin(sleep_us);
            shared->came[round] = bench_now();
            atomic_fetch_add(&shared->word, 1);
            futex(&shared->word, FUTEX_WAKE, INT_MAX);
            paid[round] = bench_now() - shared->came[round];
        } else {
            while (atomic_load(&shared->word) == seen) futex(&shared->word, FUTEX_WAIT, seen);
            shared->left[round] = bench_now();
        }
        spin_barrier(shared);
    }
    if (!parent) return;
    for (int round = 0; round < rounds; ++round) {
        woken[round] = shared->left[round] - shared->came[round];
    }
    *median = bench_median(woken, rounds);
    *waker_median = bench_median(paid, rounds);
}

/* A rank of Open MPI has two threads besides its own that follow its binding. */
enum { FOLLOWERS = 2 };

struct follower {
    pthread_t thread;
    atomic_int *word;
    _Atomic pid_t id;
};

static void *
follow(void *data)
{
    struct follower *follower = data;
    atomic_store(&follower->id, (pid_t)syscall(SYS_gettid));
    while (0 == atomic_load(follower->word)) futex(follower->word, FUTEX_WAIT, 0);
    return NULL;
}

/* As widen and restore of one thread, for a process with sleeping threads besides. */
static double
widen_restore_all(const cpu_set_t *wide, const cpu_set_t *narrow)
{
    struct follower followers[FOLLOWERS];
    atomic_int word = 0;
    double result = 0;
    for (int i = 0; i < FOLLOWERS; ++i) {
        followers[i].word = &word;
        atomic_init(&followers[i].id, 0);
        if (0 != pthread_create(&followers[i].thread, NULL, follow, &followers[i])) fail("thread");
        while (0 == atomic_load(&followers[i].id)) sched_yield();
    }
    BENCH_CALLS(result, 200, {
        for (int step = 0; step < 2; ++step) {
            const cpu_set_t *mask = 0 == step ? wide : narrow;
            if (0 != sched_setaffinity(0, sizeof(*mask), mask)) fail("sched_setaffinity");
            for (int i = 0; i < FOLLOWERS; ++i) {
                if (0 != sched_setaffinity(atomic_load(&followers[i].id), sizeof(*mask), mask)) {
                    fail("sched_setaffinity");
                }
            }
        }
    });
    atomic_store(&word, 1);
    futex(&word, FUTEX_WAKE, INT_MAX);
    for (int i = 0; i < FOLLOWERS; ++i) pthread_join(followers[i].thread, NULL);
    return result;
}

static double
discover(void)
{
    hwloc_topology_t topology;
    double start = bench_now(), took = 0;
    if (0 != hwloc_topology_init(&topology)) fail("hwloc_topology_init");
    if (0 != hwloc_topology_load(topology)) fail("hwloc_topology_load");
    took = bench_now() - start;
    hwloc_topology_destroy(topology);
    return took;
}

int
main(void)
{
    enum { BARRIERS = 20000, DISCOVERIES = 15 };
    cpu_set_t before, narrow;
    double discover_first = 0, again[DISCOVERIES], get = 0, set = 0, set_all = 0;
    double woken[BENCH_SLEEPS] = {0};
    double paid[BENCH_SLEEPS] = {0}, *barriers = malloc(BARRIERS * sizeof(*barriers));
    struct shared *shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
                                 MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct bench_waits spinning = {0, 0, 0, 0};
    double began = 0;
    int cpus[2], found = 0, status = 0, passed = 0;
    pid_t child = 0;

    if (MAP_FAILED == (void *)shared || NULL == barriers) fail("memory");
    if (0 != sched_getaffinity(0, sizeof(before), &before)) fail("sched_getaffinity");
    for (int cpu = 0; cpu < CPU_SETSIZE && found < 2; ++cpu) {
        if (CPU_ISSET(cpu, &before)) cpus[found++] = cpu;
    }
    if (found < 2) {
        fprintf(stderr, "two CPUs are needed\n");
        return EXIT_FAILURE;
    }

    discover_first = discover();
    for (int i = 0; i < DISCOVERIES; ++i) again[i] = discover();

    pin(cpus[0]);
    if (0 != sched_getaffinity(0, sizeof(narrow), &narrow)) fail("sched_getaffinity");
    BENCH_CALLS(get, 100, {
        cpu_set_t mask;
        if (0 != sched_getaffinity(0, sizeof(mask), &mask)) fail("sched_getaffinity");
    });
    BENCH_CALLS(set, 200, {
        if (0 != sched_setaffinity(0, sizeof(before), &before)) fail("sched_setaffinity");
        if (0 != sched_setaffinity(0, sizeof(narrow), &narrow)) fail("sched_setaffinity");
    });

    set_all = widen_restore_all(&before, &narrow);

    atomic_store(&shared->last, BARRIERS);
    child = fork();
    if (child < 0) fail("fork");
    pin(cpus[0 == child]);
    for (int i = 0; i < 100; ++i) spin_barrier(shared);
    /* On a busy machine a spinning barrier crawls: after two seconds the parent says, before a
     * barrier, that it is the last one. */
    began = bench_now();
    for (passed = 0; passed < atomic_load(&shared->last);) {
        double start = bench_now();
        if (0 != child && start - began > 2e6) atomic_store(&shared->last, passed + 1);
        spin_barrier(shared);
        barriers[passed++] = bench_now() - start;
    }
    spinning = bench_waits(barriers, passed);
    for (int i = 0; i < BENCH_SLEEPS; ++i) {
        wakes(shared, 0 != child, bench_sleeps[i], bench_sleep_rounds[i], &woken[i], &paid[i]);
    }
    if (0 == child) _exit(EXIT_SUCCESS);
    if (waitpid(child, &status, 0) < 0 || 0 != status) fail("the second process");

    printf("{\"sched_getaffinity\": %.4f, \"widen_restore\": %.3f, ", get, set);
    printf("\"widen_restore_of_threads\": {\"%d\": %.3f}, ", 1 + FOLLOWERS, set_all);
    printf("\"spin_barrier\": {\"median\": %.3f, \"awake_median\": %.3f, \"slept_fraction\": %.4f, "
           "\"slept_median\": %.3f}, ",
           spinning.median, spinning.awake_median, spinning.slept_fraction, spinning.slept_median);
    printf("\"futex_wake\": {");
    for (int i = 0; i < BENCH_SLEEPS; ++i) {
        printf("%s\"%s\": %.2f", 0 == i ? "" : ", ", bench_sleep_names[i], woken[i]);
    }
    printf("}, \"futex_waker\": {");
    for (int i = 0; i < BENCH_SLEEPS; ++i) {
        printf("%s\"%s\": %.2f", 0 == i ? "" : ", ", bench_sleep_names[i], paid[i]);
    }
    printf("}, \"hwloc_discovery_first\": %.1f, \"hwloc_discovery\": %.1f}\n", discover_first,
           bench_median(again, DISCOVERIES));
    free(barriers);
    return EXIT_SUCCESS;
}
