/* What an MPI call that does nothing costs, in nanoseconds. Prints one JSON object. With `calls N`: only that many calls, and what the process then has of
 * memory. With `mappings`: only pairs of mmap and munmap, their median and the slowest of them. With `timed`: only the
 * calls, beside two readings of the processor's clock. With `looped`: only calls from two places in turns.
 *
 * Linked with the fake MPI, whose calls cost nothing themselves. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#if defined __x86_64__
#include <x86intrin.h>
#endif

#include "fakempi.h"

static double now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

#define REPEATS 31

/* The median of several measurements of so many operations each, in time of the processor: others may
 * want it too. */
#define MEDIAN_OF(operations, body)                                                                \
    ({                                                                                             \
        double measured_[REPEATS];                                                                 \
        for (int repeat_ = 0; repeat_ < REPEATS; repeat_++) {                                      \
            double start_ = now(CLOCK_THREAD_CPUTIME_ID);                                                                 \
            for (long number_ = 0; number_ < (operations); number_++) { body; }                    \
            measured_[repeat_] = (now(CLOCK_THREAD_CPUTIME_ID) - start_) / (operations);                                  \
        }                                                                                          \
        qsort(measured_, REPEATS, sizeof *measured_, compare);                                     \
        measured_[REPEATS / 2];                                                                    \
    })

static int rank;

/* So much resident that a walk over it takes its time. */
static char *field(void)
{
    size_t bytes = 256u << 20;
    char *all = malloc(bytes);
    memset(all, 1, bytes);
    return all;
}

static void mappings(void)
{
    enum { PAIRS = 100000, TOLD = PAIRS / 50 };
    static double measured[PAIRS];
    char *all = field();
    for (int pair = 0; pair < PAIRS; pair++) {
        double start = now(CLOCK_MONOTONIC);
        char *mapped = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        mapped[0] = 1;
        munmap(mapped, 1 << 16);
        measured[pair] = now(CLOCK_MONOTONIC) - start;
    }
    free(all);
    qsort(measured, PAIRS, sizeof *measured, compare);
    printf("{\"mappings\": %d, \"mmap_munmap_median_ns\": %.0f, \"slowest_mappings_ns\": [", PAIRS,
           measured[PAIRS / 2]);
    for (int told = 0; told < TOLD; told++)
        printf("%s%.0f", told ? ", " : "", measured[PAIRS - 1 - told]);
    printf("]}\n");
}

static long status_kib(const char *field)
{
    char line[256];
    long value = -1;
    FILE *file = fopen("/proc/self/status", "r");
    while (file && fgets(line, sizeof line, file)) {
        if (!strncmp(line, field, strlen(field))) value = atol(line + strlen(field) + 1);
    }
    if (file) fclose(file);
    return value;
}

static volatile uint64_t seen;

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (argc > 2 && !strcmp(argv[1], "calls")) {
        long calls = atol(argv[2]);
        for (long call = 0; call < calls; call++) MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        printf("{\"calls\": %ld, \"rss_kib\": %ld}\n", calls, status_kib("VmRSS"));
        MPI_Finalize();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "mappings")) {
        mappings();
        MPI_Finalize();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "timed")) {
        double call = MEDIAN_OF(1000000L, MPI_Comm_rank(MPI_COMM_WORLD, &rank));
        double deep = MEDIAN_OF(1000000L, MPI_Send(&rank, 0, NULL, 0, 0, MPI_COMM_WORLD));
#if defined __x86_64__
        double clocks = MEDIAN_OF(1000000L, (seen = __rdtsc(), seen = __rdtsc()));
#else
        double clocks = MEDIAN_OF(1000000L, (now(CLOCK_MONOTONIC), now(CLOCK_MONOTONIC)));
#endif
        printf("{\"timed_call_ns\": %.2f, \"timed_call_6_words_ns\": %.2f, \"two_clocks_ns\": %.2f}\n", call,
               deep, clocks);
        MPI_Finalize();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "looped")) {
        /* Two places in turns, so that each call follows a known edge. */
        double call = MEDIAN_OF(500000L, (MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_rank(MPI_COMM_WORLD, &rank)));
        printf("{\"looped_call_ns\": %.2f}\n", call / 2);
        MPI_Finalize();
        return 0;
    }
    char *all = field();
    double call = MEDIAN_OF(1000000L, MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    double deep = MEDIAN_OF(1000000L, MPI_Send(&rank, 0, NULL, 0, 0, MPI_COMM_WORLD));
    printf("{\"mpi_call_ns\": %.2f, \"mpi_call_6_words_ns\": %.2f}\n", call, deep);
    free(all);
    MPI_Finalize();
    return 0;
}
