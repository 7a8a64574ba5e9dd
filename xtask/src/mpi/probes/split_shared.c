/* Checks whether the ranks of a node find each other. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm node;
    int rank, ranks, sum = 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, node);
    if (rank == 0) printf("result: %s\n", ranks == 2 && sum == 1 ? "yes" : "no");
    MPI_Comm_free(&node);
    return MPI_Finalize();
}
