/* Regions that end in another order than they begin, that were never begun, and that never end. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Pcontrol(1, "outer");
    MPI_Pcontrol(1, "inner");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Pcontrol(-1, "outer");
    MPI_Pcontrol(-1, "inner");
    MPI_Pcontrol(-1, "never");
    MPI_Pcontrol(1, "open");
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (rank == 0) printf("done\n");
    return 0;
}
