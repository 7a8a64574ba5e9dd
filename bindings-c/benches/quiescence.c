/* How much a threaded phase loses to the ranks that wait for it.
 *
 *     mpirun -n 2 --bind-to core ./quiescence ideal|quo|mpi [work]
 *
 * Rank 0 widens to the machine and runs an OpenMP kernel of a fixed amount of work; the others
 * wait: ideal sleeps on a signal, quo in QUO_barrier (environment QUO_WAIT=futex|pthread|mpi), mpi
 * in MPI_Barrier. Prints one JSON object. One launch per mode: an OpenMP pool keeps the binding it
 * was born with, so a second mode in one process would measure the first. Build with -fopenmp.
 */
#define _POSIX_C_SOURCE 200112L
#include <omp.h>
#include <signal.h>
#include <unistd.h>

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

static double
cpu_seconds(void)
{
    struct timespec time;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Threads in step, as a solver's are: a core that is taken away holds all of them up. */
static double
kernel(int threads, int steps)
{
    double total = 0;
#pragma omp parallel num_threads(threads) reduction(+ : total)
    {
        double value = 1.0 + omp_get_thread_num();
        for (int step = 0; step < steps; ++step) {
            for (int i = 0; i < 400000; ++i) value = value * 0.999999 + 0.000001;
#pragma omp barrier
        }
        total += value;
    }
    return total;
}

int
main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    const int work = argc > 2 ? atoi(argv[2]) : 1000;
    int rank = 0, size = 0, nqids = 0, threads = 0, ideal = 0, quo = 0, mpi = 0;
    double seconds = 0, share = 0, highest = 0, result = 0, start = 0, cpu = 0;
    QUO_context q = NULL;
    long pid = (long)getpid(), *pids = NULL;
    sigset_t signals;

    ideal = 0 == strcmp(mode, "ideal");
    quo = 0 == strcmp(mode, "quo");
    mpi = 0 == strcmp(mode, "mpi");
    sigemptyset(&signals);
    sigaddset(&signals, SIGUSR1);
    sigprocmask(SIG_BLOCK, &signals, NULL);

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (!(ideal || quo || mpi) || work < 1) {
        if (0 == rank) fprintf(stderr, "say ideal, quo or mpi, and how much work (1000)\n");
        MPI_Finalize();
        return EXIT_FAILURE;
    }
    OK(QUO_create(&q, MPI_COMM_WORLD));
    OK(QUO_nqids(q, &nqids));
    OK(QUO_npus(q, &threads));
    pids = calloc((size_t)size, sizeof(*pids));
    if (nqids != size || NULL == pids) {
        if (0 == rank) fprintf(stderr, "all ranks must be on one node\n");
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Allgather(&pid, 1, MPI_LONG, pids, 1, MPI_LONG, MPI_COMM_WORLD);

    OK(QUO_barrier(q));
    start = bench_now();
    cpu = cpu_seconds();
    if (0 == rank) {
        OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
        result = kernel(threads, work);
        OK(QUO_bind_pop(q));
        seconds = (bench_now() - start) * 1e-6;
    }
    if (quo) OK(QUO_barrier(q));
    if (mpi) MPI_Barrier(MPI_COMM_WORLD);
    if (ideal) {
        int signal = 0;
        for (int other = 1; 0 == rank && other < size; ++other) kill((pid_t)pids[other], SIGUSR1);
        if (0 != rank) sigwait(&signals, &signal);
    }
    if (0 != rank) share = (cpu_seconds() - cpu) / ((bench_now() - start) * 1e-6);
    MPI_Reduce(&share, &highest, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    OK(QUO_free(q));

    if (0 == rank) {
        const char *wait = getenv("QUO_WAIT");
        printf("{\"mode\": \"%s\", \"wait\": \"%s\", \"ranks\": %d, \"threads\": %d, "
               "\"seconds\": %.4f, \"waiter_cpu_share\": %.6f, \"check\": %.3f}\n",
               mode, quo && NULL != wait ? wait : "default", size, threads, seconds, highest,
               result);
    }
    free(pids);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
