/* Ends the second rank in the way that is named. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int rank, number = 0, ends_by_itself = 0 == strcmp(argv[1], "exit");

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    if (ends_by_itself) return MPI_Finalize() ? 1 : 3 * rank;
    if (1 == rank && 0 == strcmp(argv[1], "abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (1 == rank) raise(SIGKILL);
    if (0 == strcmp(argv[1], "survive")) {
        sleep(2);
        puts("result: yes");
        fflush(stdout);
        _exit(0);
    }
    return MPI_Recv(&number, 1, MPI_INT, 1, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}
