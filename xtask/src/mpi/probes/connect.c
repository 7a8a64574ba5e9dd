/* Whether two jobs that were started apart find each other through a port. Without an argument it
   accepts, and writes the name of its port; with one it connects to that port. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME] = "";
    MPI_Comm other;
    int number = 0;

    MPI_Init(&argc, &argv);
    if (argc > 1) {
        MPI_Comm_connect(argv[1], MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        MPI_Recv(&number, 1, MPI_INT, 0, 0, other, MPI_STATUS_IGNORE);
        printf("result: %s\n", number == 42 ? "yes" : "no");
    } else {
        MPI_Open_port(MPI_INFO_NULL, port);
        printf("port: %s\n", port);
        fflush(stdout);
        MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        number = 42;
        MPI_Send(&number, 1, MPI_INT, 0, 0, other);
        MPI_Close_port(port);
    }
    MPI_Comm_disconnect(&other);
    return MPI_Finalize();
}
