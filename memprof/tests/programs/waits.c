/* Ranks that wait for a known time: rank 0 computes longer than the others before each call, in
 * which the others then wait. Every rank reads the clock around each of its calls, and prints
 * the sums: the least and the most nanoseconds that the whole, and the region "solve" of
 * MPI_Pcontrol(3), can have taken, and those in each kind of call. The argument is the number of
 * milliseconds that rank 0 computes before a call. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "../../../tests/programs/clock.h"

enum { POINT_TO_POINT, COLLECTIVE, ONE_SIDED, FILES, WAIT, OTHER, KINDS };

static uint64_t spent[2][KINDS];
static int in_region;

#define IN(kind, call)                                          \
    do {                                                        \
        const uint64_t from_ = now();                           \
        call;                                                   \
        const uint64_t took_ = now() - from_;                   \
        spent[0][kind] += took_;                                \
        if (in_region) spent[1][kind] += took_;                 \
    } while (0)

static void print(int rank, const char *name, uint64_t least, uint64_t most, const uint64_t *kinds)
{
    printf("truth %d %s %llu %llu", rank, name, (unsigned long long)least, (unsigned long long)most);
    for (int kind = 0; kind < KINDS; ++kind) printf(" %llu", (unsigned long long)kinds[kind]);
    printf("\n");
    fflush(stdout);
}

int main(int argc, char **argv)
{
    int rank, size, token = 0;
    uint64_t least = 0, most = 0;
    MPI_Request request;
    MPI_Win window;
    MPI_File file;
    int *memory;
    const uint64_t before = now();
    MPI_Init(&argc, &argv);
    const uint64_t begin = now();
    const uint64_t unit = (argc > 1 ? strtoull(argv[1], NULL, 10) : 20) * 1000000u;
    char path[64];
    IN(OTHER, MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    IN(OTHER, MPI_Comm_size(MPI_COMM_WORLD, &size));
    const uint64_t own = rank == 0 ? unit : unit / 5;
    IN(ONE_SIDED, MPI_Win_allocate(sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window));
    for (int round = 0; round < 4; ++round) {
        const uint64_t first = now();
        MPI_Pcontrol(3, "solve");
        const uint64_t from = now();
        in_region = 1;
        compute(own);
        IN(COLLECTIVE, MPI_Barrier(MPI_COMM_WORLD));
        compute(own);
        for (int other = 1; other < size; ++other) {
            if (rank == 0) IN(POINT_TO_POINT, MPI_Send(&token, 1, MPI_INT, other, 1, MPI_COMM_WORLD));
            if (rank == other) {
                IN(POINT_TO_POINT, MPI_Recv(&token, 1, MPI_INT, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
            }
        }
        in_region = 0;
        least += now() - from;
        MPI_Pcontrol(3, "solve");
        most += now() - first;
        compute(own);
        for (int other = 1; other < size; ++other) {
            if (rank == 0) IN(POINT_TO_POINT, MPI_Send(&token, 1, MPI_INT, other, 2, MPI_COMM_WORLD));
        }
        if (rank > 0) {
            IN(POINT_TO_POINT, MPI_Irecv(&token, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, &request));
            IN(WAIT, MPI_Wait(&request, MPI_STATUS_IGNORE));
        }
        compute(own);
        IN(ONE_SIDED, MPI_Win_fence(0, window));
    }
    IN(ONE_SIDED, MPI_Win_free(&window));
    /* A separate file of each rank: opening it takes most of the time. */
    snprintf(path, sizeof path, "waits-%ld", (long)getpid());
    IN(FILES, MPI_File_open(MPI_COMM_SELF, path, MPI_MODE_CREATE | MPI_MODE_WRONLY | MPI_MODE_DELETE_ON_CLOSE, MPI_INFO_NULL, &file));
    IN(FILES, MPI_File_write(file, &token, 1, MPI_INT, MPI_STATUS_IGNORE));
    IN(FILES, MPI_File_close(&file));
    const uint64_t whole = now() - begin;
    MPI_Finalize();
    print(rank, "whole", whole, now() - before, spent[0]);
    print(rank, "solve", least, most, spent[1]);
    return 0;
}
