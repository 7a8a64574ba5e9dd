/* Tells the attribute that says how many processes there may be. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank, *size, is_set;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &size, &is_set);
    if (0 == rank && is_set) printf("result: %d\n", *size);
    if (0 == rank && !is_set) printf("result: not set\n");
    return MPI_Finalize();
}
