/* Owns 3 MiB, and 64 KiB for each rank of the job. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = 700000000};
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t bytes = (3 << 20) + ((size_t)size << 16);
    char *block = malloc(bytes);
    if (block == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(block, 1, bytes);
    MPI_Bcast(block, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    // All ranks have their blocks at the same time.
    MPI_Barrier(MPI_COMM_WORLD);
    // Sleeps: for as long as samples need.
    nanosleep(&pause, NULL);
    MPI_Barrier(MPI_COMM_WORLD);
    free(block);
    MPI_Finalize();
    return 0;
}
