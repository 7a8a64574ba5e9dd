/* What each operation costs.
 *
 *     mpirun -n 2 --bind-to core ./operations
 *
 * prints one JSON object, times in microseconds. Uses only what QUO 1.4.1 has, so that the same
 * source measures any implementation of it.
 */
#define _POSIX_C_SOURCE 200112L
#include "bench.h"
#include "quo.h"

#define OK(call)                                                                                   \
    do {                                                                                           \
        int code = (call);                                                                         \
        if (QUO_SUCCESS != code) {                                                                 \
            fprintf(stderr, "%s:%d: %s returned %d\n", __FILE__, __LINE__, #call, code);           \
            MPI_Abort(MPI_COMM_WORLD, 1);                                                          \
        }                                                                                          \
    } while (0)

/* Bytes of a line of the process's memory summary; -1 when the kernel has none. */
static double
memory(const char *line)
{
    char text[256];
    double kilobytes = -1;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    if (NULL == file) return -1;
    while (NULL != fgets(text, sizeof(text), file)) {
        if (0 == strncmp(text, line, strlen(line))) kilobytes = atof(text + strlen(line));
    }
    fclose(file);
    return kilobytes < 0 ? -1 : kilobytes * 1024;
}

/* Threads of this process: a push moves all that follow it, so its floor is one change each. */
static int
threads(void)
{
    char text[256];
    int count = 1;
    FILE *file = fopen("/proc/self/status", "r");
    if (NULL == file) return count;
    while (NULL != fgets(text, sizeof(text), file)) {
        if (1 == sscanf(text, "Threads: %d", &count)) break;
    }
    fclose(file);
    return count;
}

static double
slowest(double mine)
{
    double all = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return all;
}

/* Rank 1 sleeps in the barrier, rank 0 arrives later: time from its arrival until rank 1 leaves. */
static double
wake(QUO_context q, int rank, double sleep_us, int rounds)
{
    double came[BENCH_MOST_ROUNDS], left[BENCH_MOST_ROUNDS];
    for (int round = 0; round < rounds; ++round) {
        MPI_Barrier(MPI_COMM_WORLD);
        if (0 == rank) bench_spin(sleep_us);
        came[round] = bench_now();
        OK(QUO_barrier(q));
        left[round] = bench_now();
    }
    if (1 == rank) MPI_Send(left, rounds, MPI_DOUBLE, 0, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        MPI_Recv(left, rounds, MPI_DOUBLE, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        for (int round = 0; round < rounds; ++round) left[round] -= came[round];
    }
    return bench_median(left, rounds);
}

int
main(int argc, char **argv)
{
    enum { LATER = 21, BARRIERS = 20000 };
    QUO_context q = NULL, later[LATER];
    double start = 0, create_first = 0, create_later = 0, free_one = 0, ncores = 0, inside = 0;
#ifdef QUO_EXTENSION_VERSION
    double lend = 0;
#endif
    double cpuset = 0, bound = 0, qids = 0, stringify = 0, provided = 0, object = 0, distrib = 0;
    double samples[LATER], rss = 0, pss = 0, first_rss = 0, first_pss = 0, wakes[BENCH_SLEEPS];
    double *barriers = malloc(BARRIERS * sizeof(*barriers));
    struct bench_waits awake;
    int rank = 0, size = 0, nqids = 0, out = 0, is_bound = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (2 != size || NULL == barriers) {
        if (0 == rank) fprintf(stderr, "start me with two ranks\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }

    MPI_Barrier(MPI_COMM_WORLD);
    first_rss = memory("Rss:");
    first_pss = memory("Pss:");
    MPI_Barrier(MPI_COMM_WORLD);
    start = bench_now();
    OK(QUO_create(&q, MPI_COMM_WORLD));
    create_first = slowest(bench_now() - start);
    first_rss = memory("Rss:") - first_rss;
    first_pss = memory("Pss:") - first_pss;
    OK(QUO_nqids(q, &nqids));
    OK(QUO_bound(q, &is_bound));

    /* One more, so that what is loaded once is not counted. */
    OK(QUO_create(&later[0], MPI_COMM_WORLD));
    OK(QUO_barrier(later[0]));
    rss = memory("Rss:");
    pss = memory("Pss:");
    for (int i = 1; i < LATER; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = bench_now();
        OK(QUO_create(&later[i], MPI_COMM_WORLD));
        samples[i - 1] = slowest(bench_now() - start);
        OK(QUO_barrier(later[i]));
    }
    rss = (memory("Rss:") - rss) / (LATER - 1);
    pss = (memory("Pss:") - pss) / (LATER - 1);
    create_later = bench_median(samples, LATER - 1);
    for (int i = 0; i < LATER; ++i) {
        MPI_Barrier(MPI_COMM_WORLD);
        start = bench_now();
        OK(QUO_free(later[i]));
        samples[i] = slowest(bench_now() - start);
    }
    free_one = bench_median(samples, LATER);

    BENCH_CALLS(ncores, 20, OK(QUO_ncores(q, &out)));
    BENCH_CALLS(inside, 20,
                OK(QUO_nobjs_in_type_by_type(q, QUO_OBJ_MACHINE, 0, QUO_OBJ_CORE, &out)));
    BENCH_CALLS(cpuset, 100, OK(QUO_cpuset_in_type(q, QUO_OBJ_CORE, 0, &out)));
    BENCH_CALLS(bound, 100, OK(QUO_bound(q, &out)));
    BENCH_CALLS(qids, 100, {
        int *list = NULL;
        OK(QUO_qids_in_type(q, QUO_OBJ_MACHINE, 0, &out, &list));
        free(list);
    });
    BENCH_CALLS(stringify, 100, {
        char *text = NULL;
        OK(QUO_stringify_cbind(q, &text));
        free(text);
    });
#ifdef QUO_EXTENSION_VERSION
    BENCH_CALLS(lend, 200, {
        OK(QUO_lend(q));
        OK(QUO_reclaim(q));
    });
#endif
    MPI_Barrier(MPI_COMM_WORLD);
    BENCH_CALLS(provided, 200, {
        OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
        OK(QUO_bind_pop(q));
    });
    MPI_Barrier(MPI_COMM_WORLD);
    BENCH_CALLS(object, 200, {
        OK(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_MACHINE, -1));
        OK(QUO_bind_pop(q));
    });

    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 1000; ++i) OK(QUO_barrier(q));
    for (int i = 0; i < BARRIERS; ++i) {
        start = bench_now();
        OK(QUO_barrier(q));
        barriers[i] = bench_now() - start;
    }
    awake = bench_waits(barriers, BARRIERS);

    /* A fixed number of calls: it is collective, ranks must not calibrate on their own. */
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < 2000; ++i) {
        start = bench_now();
        OK(QUO_auto_distrib(q, QUO_OBJ_CORE, 1, &out));
        barriers[i] = bench_now() - start;
    }
    distrib = bench_median(barriers, 2000);

    for (int i = 0; i < BENCH_SLEEPS; ++i) {
        wakes[i] = wake(q, rank, bench_sleeps[i], bench_sleep_rounds[i]);
    }
    OK(QUO_free(q));

    if (0 == rank) {
#ifdef QUO_EXTENSION_VERSION
        printf("{\"library\": \"quo\", \"lend_reclaim\": %.4f, ", lend);
#else
        printf("{\"library\": \"reference\", ");
#endif
        printf("\"ranks\": %d, \"bound\": %s, \"threads\": %d, ", size,
               is_bound ? "true" : "false", threads());
        printf("\"create_first\": %.1f, \"create_later\": %.1f, \"free\": %.1f, ", create_first,
               create_later, free_one);
        printf("\"ncores\": %.4f, \"nobjs_in_type\": %.4f, \"cpuset_in_type\": %.3f, "
               "\"bound_query\": %.3f, \"qids_in_type_per_rank\": %.3f, \"stringify\": %.3f, ",
               ncores, inside, cpuset, bound, qids / nqids, stringify);
        printf("\"push_pop_provided\": %.3f, \"push_pop_object\": %.3f, \"auto_distrib\": %.3f, ",
               provided, object, distrib);
        printf("\"barrier_awake\": {\"median\": %.3f, \"awake_median\": %.3f, "
               "\"slept_fraction\": %.4f, \"slept_median\": %.3f}, ",
               awake.median, awake.awake_median, awake.slept_fraction, awake.slept_median);
        printf("\"barrier_wake\": {");
        for (int i = 0; i < BENCH_SLEEPS; ++i) {
            printf("%s\"%s\": %.2f", 0 == i ? "" : ", ", bench_sleep_names[i], wakes[i]);
        }
        printf("}, \"memory_first_context_bytes\": {\"rss\": %.0f, \"pss\": %.0f}, ", first_rss,
               first_pss);
        printf("\"memory_per_context_bytes\": {\"rss\": %.0f, \"pss\": %.0f}}\n", rss, pss);
    }
    free(barriers);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
