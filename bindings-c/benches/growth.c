/* How the cost of the calls grows with the number of ranks.
 *
 *     mpirun -n 8 ./growth
 *
 * prints one JSON object: microseconds per call as rank 0 sees it ("wall"), and CPU time per call
 * and rank ("cpu"). Uses only what QUO 1.4.1 has, so that the same source measures any
 * implementation of it.
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

enum { OPERATIONS = 4, CREATES = 5 };
static const char *const names[OPERATIONS] = {"create", "distribute", "barrier", "query"};
static double wall[OPERATIONS], cpu[OPERATIONS];

static double
cpu_now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

#define MEASURE(operation, calls, statement)                                                       \
    do {                                                                                           \
        double start = bench_now(), used = cpu_now();                                              \
        for (int call = 0; call < (calls); ++call) statement;                                      \
        cpu[operation] = (cpu_now() - used) / (calls);                                             \
        wall[operation] = (bench_now() - start) / (calls);                                         \
    } while (0)

int
main(int argc, char **argv)
{
    QUO_context q, later[CREATES];
    int rank = 0, size = 0, out = 0, calls = 0;
    double sums[OPERATIONS];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    calls = 4000 / size > 20 ? 4000 / size : 20;
    OK(QUO_create(&q, MPI_COMM_WORLD));
    MPI_Barrier(MPI_COMM_WORLD);
    MEASURE(0, CREATES, OK(QUO_create(&later[call], MPI_COMM_WORLD)));
    OK(QUO_auto_distrib(q, QUO_OBJ_CORE, 1, &out));
    MEASURE(1, calls, OK(QUO_auto_distrib(q, QUO_OBJ_CORE, 1, &out)));
    OK(QUO_barrier(q));
    MEASURE(2, calls, OK(QUO_barrier(q)));
    MEASURE(3, rank == 0 ? calls : 1, {
        int *list = NULL;
        OK(QUO_qids_in_type(q, QUO_OBJ_MACHINE, 0, &out, &list));
        free(list);
    });
    OK(QUO_barrier(q));
    /* Only rank 0 repeats the query. */
    if (0 != rank) cpu[3] = 0;
    MPI_Reduce(cpu, sums, OPERATIONS, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("{\"ranks\": %d, \"wall\": {", size);
        for (int i = 0; i < OPERATIONS; ++i) {
            printf("%s\"%s\": %.3f", 0 == i ? "" : ", ", names[i], wall[i]);
        }
        printf("}, \"cpu\": {");
        for (int i = 0; i < OPERATIONS; ++i) {
            printf("%s\"%s\": %.3f", 0 == i ? "" : ", ", names[i], sums[i] / (3 == i ? 1 : size));
        }
        printf("}}\n");
    }
    for (int i = 0; i < CREATES; ++i) OK(QUO_free(later[i]));
    OK(QUO_free(q));
    MPI_Finalize();
    return EXIT_SUCCESS;
}
