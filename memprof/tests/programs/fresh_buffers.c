/* Ten times: an untouched receive buffer of 40 MiB, a message into it, and free. The send buffer
 * is the other 40 MiB of the application, which never has more than 80. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BYTES (40 << 20)

int main(int argc, char **argv)
{
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = malloc(BYTES);
    memset(out, rank, BYTES);
    int peer = size > 1 ? rank ^ 1 : rank, right = 1;
    for (int round = 0; round < 10; round++) {
        char *in = malloc(BYTES);
        MPI_Sendrecv(out, BYTES, MPI_BYTE, peer, 0, in, BYTES, MPI_BYTE, peer, 0, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        right &= in[0] == peer && in[BYTES - 1] == peer;
        free(in);
    }
    free(out);
    MPI_Finalize();
    if (!right) return 1;
    if (rank == 0) printf("received\n");
    return 0;
}
