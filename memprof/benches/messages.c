/* Bandwidth and message rate of several pairs of ranks: the first half sends windows of messages to the
 * second, which answers each window with one byte. Prints one JSON object.
 *
 * messages [size:milliseconds...]
 *
 * Without sizes: from one byte to 4 MiB, each four times the one before. With `none`: none. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define WINDOW 64
#define LARGEST (4 << 20)

static int rank, ranks;
static char *memory;
static MPI_Request requests[WINDOW];

static void window(int bytes, int peer, int sends)
{
    char answer = 0;
    /* Large messages share a buffer, as the field's benchmarks do. */
    for (int number = 0; number < WINDOW; number++) {
        char *buffer = bytes <= 8192 ? memory + number * 8192 : memory;
        if (sends) MPI_Isend(buffer, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[number]);
        else MPI_Irecv(buffer, bytes, MPI_BYTE, peer, 1, MPI_COMM_WORLD, &requests[number]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    if (sends) MPI_Recv(&answer, 1, MPI_BYTE, peer, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else MPI_Send(&answer, 1, MPI_BYTE, peer, 2, MPI_COMM_WORLD);
}

static double seconds_for(int bytes, long windows, int peer, int sends)
{
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    for (long number = 0; number < windows; number++) window(bytes, peer, sends);
    double mine = MPI_Wtime() - start, slowest;
    MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return slowest;
}

enum { BLOCKS = 16 };

static int compare(const void *a, const void *b)
{
    double left = *(const double *)a, right = *(const double *)b;
    return (left > right) - (left < right);
}

/* Finds how many windows fill a block of the time, which warms up, and measures so many blocks. The rate is
 * that of the block which a quarter of them are faster than: others on the machine slow some down, by times. */
static void measure(int bytes, double wanted, int pairs, int peer, int sends)
{
    static int sizes;
    double block = wanted / BLOCKS, all[BLOCKS];
    long windows = 4;
    double took = seconds_for(bytes, windows, peer, sends);
    while (took < block / 4) {
        windows *= 2;
        took = seconds_for(bytes, windows, peer, sends);
    }
    windows = (long)((double)windows * block / took) + 1;
    MPI_Bcast(&windows, 1, MPI_LONG, 0, MPI_COMM_WORLD);
    for (int number = 0; number < BLOCKS; number++)
        all[number] = seconds_for(bytes, windows, peer, sends);
    qsort(all, BLOCKS, sizeof *all, compare);
    double rate = (double)windows * WINDOW * pairs / all[BLOCKS / 4];
    if (rank == 0) printf("%s\"%d\": %.0f", sizes++ ? ", " : "", bytes, rate);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int pairs = ranks / 2, sends = rank < pairs, peer = sends ? rank + pairs : rank - pairs;
    if (ranks % 2) {
        if (rank == 0) fprintf(stderr, "messages: wants pairs of ranks\n");
        MPI_Finalize();
        return 2;
    }
    memory = malloc(LARGEST);
    memset(memory, 1, LARGEST);
    if (rank == 0) printf("{\"pairs\": %d, \"messages_per_second\": {", pairs);
    if (argc > 1) {
        for (int number = 1; number < argc; number++) {
            int bytes, milliseconds;
            if (sscanf(argv[number], "%d:%d", &bytes, &milliseconds) == 2 && bytes <= LARGEST)
                measure(bytes, milliseconds / 1e3, pairs, peer, sends);
        }
    } else {
        for (int bytes = 1; bytes <= LARGEST; bytes *= 4) measure(bytes, 0.3, pairs, peer, sends);
    }
    if (rank == 0) printf("}}\n");
    free(memory);
    MPI_Finalize();
    return 0;
}
