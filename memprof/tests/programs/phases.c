/* Phases by MPI_Pcontrol: number 3 has 20 MiB, a named one 10 MiB more, and nothing is recorded
 * between 0 and 1. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char *filled(size_t bytes)
{
    char *memory = malloc(bytes);
    memset(memory, 1, bytes);
    return memory;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Pcontrol(3);
    char *first = filled(20 << 20);
    MPI_Pcontrol(4, "solve");
    char *second = filled(10 << 20);
    MPI_Pcontrol(2);
    free(second);
    free(first);
    MPI_Pcontrol(5);
    MPI_Pcontrol(0);
    free(filled(5 << 20));
    MPI_Pcontrol(1);
    MPI_Finalize();
    if (rank == 0) printf("done\n");
    return 0;
}
