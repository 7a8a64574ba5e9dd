/* Waits in quo's barrier: rank 0 computes for the milliseconds of the argument, four times, and
 * the others arrive at once. Every rank prints its nanoseconds in the barrier, and since MPI was
 * ready. */
#define _GNU_SOURCE
#include "../../../tests/programs/clock.h"
#include "../../api/tests/check.h"
#include <memprof.h>
#include <mpi.h>
#include <quo.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    QUO_context quo = NULL;
    memprof_time_t before, after;
    int rank;
    uint64_t waited = 0, begin;
    MPI_Init(&argc, &argv);
    begin = now();
    const uint64_t unit = (argc > 1 ? strtoull(argv[1], NULL, 10) : 20) * 1000000u;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(QUO_create(&quo, MPI_COMM_WORLD) == QUO_SUCCESS);
    CHECK(memprof_time(&before) == MEMPROF_OK);
    for (int round = 0; round < 4; ++round) {
        const uint64_t end = now() + (rank == 0 ? unit : 0);
        while (now() < end) {
        }
        const uint64_t from = now();
        CHECK(QUO_barrier(quo) == QUO_SUCCESS);
        waited += now() - from;
    }
    CHECK(memprof_time(&after) == MEMPROF_OK);
    CHECK(after.elapsed == after.useful + after.mpi + after.lent);
    CHECK(after.mpi - before.mpi < unit / 4);
    CHECK(QUO_free(quo) == QUO_SUCCESS);
    const uint64_t whole = now() - begin;
    MPI_Finalize();
    printf("truth %d whole %llu %llu\n", rank, (unsigned long long)whole, (unsigned long long)waited);
    fflush(stdout);
    return failures != 0;
}
