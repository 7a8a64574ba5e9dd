/*
 * Numbers of threads of regions on rank 0, while rank 1 waits in MPI_Barrier: an unmodified program for `quo-run`.
 *
 *     thread_counts asks     queries its number of threads first, like programs that divide their work by it
 *     thread_counts clause   sets the number of each region
 *     thread_counts free     leaves the number to OpenMP, until a region has more than one thread
 *     thread_counts dies     as free, and then ends by a signal
 *     thread_counts thread   as free, and rank 1 initialises MPI on another thread, without the variable of quo-run
 *
 * Rank 0 prints the fewest and the most threads of all regions, and the number returned by OpenMP.
 */
#include <mpi.h>
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REGIONS = 300, LIMIT = 20000 };

/* Some hundred microseconds. */
static void work(void)
{
    for (volatile int i = 0; i < 100000; ++i) continue;
}

static int team(int asked)
{
    int threads = 0;
#pragma omp parallel num_threads(asked) if (asked > 0)
    {
        work();
#pragma omp single
        threads = omp_get_num_threads();
    }
    return threads;
}

static int free_team(void)
{
    int threads = 0;
#pragma omp parallel
    {
        work();
#pragma omp single
        threads = omp_get_num_threads();
    }
    return threads;
}

static void *begin(void *unused)
{
    int provided;
    MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &provided);
    return unused;
}

/* By Open MPI's variable, or by other MPIs'. */
static int is_rank_1(void)
{
    const char *rank = getenv("OMPI_COMM_WORLD_RANK");
    if (NULL == rank) rank = getenv("PMI_RANK");
    return NULL != rank && 0 == strcmp(rank, "1");
}

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "free";
    const int asks = 0 == strcmp(how, "asks"), clause = 0 == strcmp(how, "clause");
    int rank;

    if (0 == strcmp(how, "thread") && is_rank_1()) {
        pthread_t thread;
        unsetenv("QUO_RUN_JOB");
        if (0 != pthread_create(&thread, NULL, begin, NULL)) return 1;
        pthread_join(thread, NULL);
    } else {
        MPI_Init(&argc, &argv);
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 == rank) {
        const int told = asks ? omp_get_max_threads() : 0;
        int fewest = LIMIT, most = 0;
        for (int region = 0; region < (asks || clause ? REGIONS : LIMIT); ++region) {
            const int threads = clause ? team(2) : free_team();
            if (threads < fewest) fewest = threads;
            if (threads > most) most = threads;
            if (!asks && !clause && most > 1) break;
        }
        printf("fewest %d, most %d, told %d\n", fewest, most, told);
        fflush(stdout);
        if (0 == strcmp(how, "dies")) raise(SIGKILL);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
