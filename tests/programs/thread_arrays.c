/*
 * A sum by threads with one array element each, on rank 0, while rank 1 waits in MPI_Barrier: an unmodified program for
 * `quo-run`. Like many programs, it sizes the array by omp_get_max_threads and adds all elements: with more or fewer
 * threads the sum differs.
 *
 *     thread_arrays THREADS
 *
 * Rank 0 prints the sum, the number returned by OpenMP, the fewest and the most threads of its teams, and the most CPUs
 * that a thread could use.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum { REGIONS = 2000, CELLS = 20000 };

int main(int argc, char **argv)
{
    int rank;

    if (argc > 1) omp_set_num_threads(atoi(argv[1]));
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 == rank) {
        const int told = omp_get_max_threads();
        double *places = calloc((size_t)told, sizeof *places), sum = 0;
        int fewest = 1 << 20, most = 0, cpus = 0;
        for (int region = 0; region < REGIONS; ++region) {
            for (int place = 0; place < told; ++place) places[place] = -1;
#pragma omp parallel
            {
                const int team = omp_get_num_threads(), own = omp_get_thread_num();
                double part = 0;
#pragma omp for schedule(static)
                for (int cell = 0; cell < CELLS; ++cell) part += (cell + region) % 7;
                if (own < told) places[own] = part;
#pragma omp single
                {
                    cpu_set_t mine;
                    sched_getaffinity(0, sizeof mine, &mine);
                    if (team < fewest) fewest = team;
                    if (team > most) most = team;
                    if (CPU_COUNT(&mine) > cpus) cpus = CPU_COUNT(&mine);
                }
            }
            for (int place = 0; place < told; ++place) sum += places[place];
        }
        printf("sum %.0f, told %d, teams of %d to %d, at most %d CPUs\n", sum, told, fewest, most, cpus);
        free(places);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
