/* Checks whether a running rank can start another one and exchange numbers with it. */
#include <mpi.h>
#include <stdio.h>

static void send(int number, MPI_Comm other) { MPI_Send(&number, 1, MPI_INT, 0, 0, other); }

static int received(MPI_Comm other)
{
    int number = 0;
    MPI_Recv(&number, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
    return number;
}

int main(int argc, char **argv)
{
    MPI_Comm other;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&other);
    if (other != MPI_COMM_NULL) {
        send(received(other) + 1, other);
    } else {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other,
                       MPI_ERRCODES_IGNORE);
        send(41, other);
        printf("result: %s\n", received(other) == 42 ? "yes" : "no");
        fflush(stdout);
    }
    MPI_Comm_disconnect(&other);
    return MPI_Finalize();
}
