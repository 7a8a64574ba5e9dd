/* Tells how many of the machine's CPUs the launcher left to a rank. */
#define _GNU_SOURCE
#include <mpi.h>
#include <sched.h>
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    cpu_set_t mine;
    int rank;

    sched_getaffinity(0, sizeof mine, &mine);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 == rank) printf("result: %d of %ld CPUs\n", CPU_COUNT(&mine), sysconf(_SC_NPROCESSORS_ONLN));
    return MPI_Finalize();
}
