/* Parallel regions of known time: one before the region "solve" and several in it, with serial
 * work between them, and with an MPI call by the main thread in each, which is not part of its
 * time. A nested region is part of the outer one. Every rank prints what its main thread has
 * read from the clock itself: nanoseconds in "solve", nanoseconds in parallel regions, and their
 * number. */
#define _GNU_SOURCE
#include <mpi.h>
#include <omp.h>
#include <stdint.h>
#include <stdio.h>

#include "../../../tests/programs/clock.h"

int main(int argc, char **argv)
{
    int provided, rank;
    uint64_t in_mpi = 0, parallel = 0, regions = 0;
    double sum = 0;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    omp_set_num_threads(2);
#pragma omp parallel
    compute(1000000u);
    MPI_Pcontrol(3, "solve");
    const uint64_t begin = now();
    for (int step = 0; step < 5; ++step) {
        uint64_t from = now();
#pragma omp parallel reduction(+ : sum)
        {
            sum += compute(8000000u);
            if (omp_get_thread_num() == 0) {
                const uint64_t entered = now();
                compute(rank == 0 ? 4000000u : 0);
                const uint64_t called = now();
                MPI_Barrier(MPI_COMM_WORLD);
                in_mpi += now() - called;
                sum += (double)(called - entered);
            }
#pragma omp parallel
            compute(1000000u);
        }
        parallel += now() - from;
        ++regions;
        compute(6000000u);
        from = now();
        /* With bounds known only at run time, and separate words for many variables. */
        double a = rank, b = sum, c = step, d = 1, e = 2, f = 3, g = 4, h = 5;
#pragma omp parallel for schedule(dynamic) reduction(+ : sum, a, b, c, d, e, f, g, h)
        for (int each = 0; each < 4 + rank; ++each) {
            sum += compute(2000000u);
            a += 1, b += a, c += b, d += c, e += d, f += e, g += f, h += g;
        }
        sum += a + b + c + d + e + f + g + h;
        parallel += now() - from;
        ++regions;
    }
    const uint64_t whole = now() - begin;
    MPI_Pcontrol(3, "solve");
    printf("truth %d solve %llu %llu %llu\n", rank, (unsigned long long)whole, (unsigned long long)(parallel - in_mpi),
           (unsigned long long)regions);
    if (sum == 0.5) printf("%f\n", sum);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
