/* Known loops: ten times rank 0 computes longer than the others before a broadcast, and five
 * times inside, rank 0 sends to all others, which receive, and all reduce. Rank 0 alone asks for
 * its name four times. Every rank prints what it has read from the clock itself: nanoseconds
 * from the first broadcast to the last, and those in MPI calls in between. The steps are a
 * region as in programs for IPM. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#include "../../../tests/programs/clock.h"

enum { STEPS = 10, SWEEPS = 5 };

static uint64_t in_mpi;

#define IN(call)                       \
    do {                               \
        const uint64_t from_ = now();  \
        call;                          \
        in_mpi += now() - from_;       \
    } while (0)

int main(int argc, char **argv)
{
    int rank, size, length, token = 0, sum;
    uint64_t first = 0, last = 0, measured = 0;
    char name[MPI_MAX_PROCESSOR_NAME];
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Pcontrol(1, "steps");
    for (int step = 0; step < STEPS; ++step) {
        compute(rank == 0 ? 20000000u : 5000000u);
        last = now();
        if (step == 0) first = last;
        measured = in_mpi;
        IN(MPI_Bcast(&token, 1, MPI_INT, 0, MPI_COMM_WORLD));
        for (int sweep = 0; sweep < SWEEPS; ++sweep) {
            if (rank == 0) {
                for (int other = 1; other < size; ++other) IN(MPI_Send(&token, 1, MPI_INT, other, 1, MPI_COMM_WORLD));
            } else {
                IN(MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
            compute(1000000u);
            IN(MPI_Allreduce(&token, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD));
        }
    }
    MPI_Pcontrol(-1, "steps");
    for (int again = 0; rank == 0 && again < 4; ++again) MPI_Get_processor_name(name, &length);
    printf("truth %d outer %llu %llu\n", rank, (unsigned long long)(last - first), (unsigned long long)measured);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
