/*
 * An MPI+OpenMP program without quo, with different amounts of work on its ranks.
 *
 *     imbalance STEPS WORK...
 *
 * Each step of a rank is a number of parallel regions, WORK of them by rank (the last number is for all others), and a
 * sum over all ranks. `quo-run -- mpirun -n 2 --bind-to core ./imbalance 20 60 20` gives the threads of rank 0 the core
 * on which rank 1 waits. Rank 0 prints the seconds, the seconds of the least disturbed step, and
 * the sum, which does not depend on the threads.
 */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { BLOCKS = 64, LENGTH = 4000 };

/* Sum of one block: some ten microseconds. */
static unsigned long block(unsigned long seed)
{
    unsigned long sum = 0;
    for (int i = 0; i < LENGTH; ++i) {
        seed = seed * 6364136223846793005UL + 1442695040888963407UL;
        sum += seed >> 33;
    }
    return sum;
}

int main(int argc, char **argv)
{
    int rank, most = 0;
    unsigned long own = 0, all = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (argc < 3) {
        if (0 == rank) fprintf(stderr, "usage: imbalance STEPS WORK...\n");
        MPI_Finalize();
        return 2;
    }
    const int steps = atoi(argv[1]);
    const int work = atoi(argv[rank + 2 < argc ? rank + 2 : argc - 1]);

    MPI_Barrier(MPI_COMM_WORLD);
    const double began = MPI_Wtime();
    double fastest = 1e9;
    for (int step = 0; step < steps; ++step) {
        const double step_began = MPI_Wtime();
        for (int region = 0; region < work; ++region) {
#pragma omp parallel
            {
#pragma omp single nowait
                if (omp_get_num_threads() > most) most = omp_get_num_threads();
#pragma omp for schedule(dynamic) reduction(+ : own)
                for (int i = 0; i < BLOCKS; ++i) own += block((unsigned long)(step * work + region) * BLOCKS + i);
            }
        }
        MPI_Allreduce(&own, &all, 1, MPI_UNSIGNED_LONG, MPI_SUM, MPI_COMM_WORLD);
        const double took = MPI_Wtime() - step_began;
        if (took < fastest) fastest = took;
    }
    const double seconds = MPI_Wtime() - began;
    int widest = 0;
    MPI_Reduce(&most, &widest, 1, MPI_INT, MPI_MAX, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("%.4f s, fastest step %.5f s, sum %lu, at most %d threads\n", seconds, fastest, all, widest);
    }
    MPI_Finalize();
    return 0;
}
