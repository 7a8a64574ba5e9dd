/* One loop until a file exists: `steps_until FILE`. Rank 0 looks for it in each step and
 * broadcasts the result. */
#define _GNU_SOURCE
#include <mpi.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = 1000000};
    int rank, stop = 0;
    MPI_Init(&argc, &argv);
    if (argc != 2) MPI_Abort(MPI_COMM_WORLD, 2);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (!stop) {
        // Sleeps: stands for a step.
        nanosleep(&pause, NULL);
        stop = rank == 0 && access(argv[1], F_OK) == 0;
        MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    MPI_Finalize();
    return 0;
}
