/* A window of 64 MiB that ranks touch completely one after the other, and hold together for a
 * while. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BYTES (64 << 20)

int main(int argc, char **argv)
{
    int rank, unit;
    MPI_Init(&argc, &argv);
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &rank);
    MPI_Win window;
    char *mine, *all;
    MPI_Aint length;
    MPI_Win_allocate_shared(rank == 0 ? BYTES : 0, 1, MPI_INFO_NULL, node, &mine, &window);
    MPI_Win_shared_query(window, 0, &length, &unit, &all);
    if (rank == 0) memset(all, 1, BYTES);
    MPI_Pcontrol(2);
    MPI_Barrier(node);
    // Sleeps: the samples of the ranks must be of different moments, without an event.
    usleep(30000 * rank);
    int sum = 0;
    for (MPI_Aint at = 0; at < length; at += 4096) sum += ((volatile char *)all)[at];
    MPI_Pcontrol(2);
    MPI_Barrier(node);
    // Sleeps: the ranks hold the window together for a while.
    usleep(100000);
    MPI_Pcontrol(2);
    MPI_Win_free(&window);
    MPI_Comm_free(&node);
    MPI_Finalize();
    if (rank == 0) printf("done %d\n", sum);
    return 0;
}
