/* Checks whether one rank reads what another has written into a shared window. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm node;
    MPI_Win window;
    MPI_Aint size;
    int rank, ranks, unit, *mine = NULL, *theirs = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Comm_size(node, &ranks);
    if (ranks != 2) {
        fprintf(stderr, "%d ranks share memory, not 2\n", ranks);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Win_allocate_shared(sizeof(int), sizeof(int), MPI_INFO_NULL, node, &mine, &window);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    *mine = 4200 + rank;
    MPI_Win_sync(window);
    MPI_Barrier(node);
    MPI_Win_sync(window);
    MPI_Win_shared_query(window, 1 - rank, &size, &unit, &theirs);
    int right = *theirs == 4200 + 1 - rank, all = 0;
    MPI_Allreduce(&right, &all, 1, MPI_INT, MPI_MIN, node);
    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    if (rank == 0) printf("result: %s\n", all ? "yes" : "no");
    return MPI_Finalize();
}
