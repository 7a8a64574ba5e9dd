/* Owns 3 MiB, and 64 KiB for each rank of the job. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int size;
    MPI_Init(&argc, &argv);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    size_t bytes = (3 << 20) + ((size_t)size << 16);
    char *block = malloc(bytes);
    if (block == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    memset(block, 1, bytes);
    MPI_Bcast(block, 1, MPI_CHAR, 0, MPI_COMM_WORLD);
    free(block);
    MPI_Finalize();
    return 0;
}
