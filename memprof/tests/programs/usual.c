/* Typical uses of an MPI: messages of all sizes, collectives, windows, memory from MPI,
 * communicators. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, size;

static void messages(void)
{
    int right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int bytes = 1; bytes <= 1 << 22; bytes *= 4) {
        char *out = calloc((size_t)bytes, 1), *in = malloc((size_t)bytes);
        for (int round = 0; round < 8; round++) {
            MPI_Request request;
            MPI_Irecv(in, bytes, MPI_BYTE, left, 1, MPI_COMM_WORLD, &request);
            MPI_Send(out, bytes, MPI_BYTE, right, 1, MPI_COMM_WORLD);
            MPI_Wait(&request, MPI_STATUS_IGNORE);
        }
        free(out);
        free(in);
    }
}

static void collectives(void)
{
    enum { NUMBERS = 100000 };
    double *mine = malloc(NUMBERS * sizeof *mine), *sum = malloc(NUMBERS * sizeof *sum);
    for (int number = 0; number < NUMBERS; number++) mine[number] = number;
    MPI_Allreduce(mine, sum, NUMBERS, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
    if (sum[NUMBERS - 1] != (double)(NUMBERS - 1) * size) MPI_Abort(MPI_COMM_WORLD, 1);
    MPI_Bcast(mine, NUMBERS, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    double *all = malloc((size_t)size * 1000 * sizeof *all);
    MPI_Allgather(mine, 1000, MPI_DOUBLE, all, 1000, MPI_DOUBLE, MPI_COMM_WORLD);
    free(all);
    free(sum);
    free(mine);
}

static void windows(void)
{
    MPI_Comm node;
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Win shared, own;
    char *here, *memory;
    MPI_Win_allocate_shared(1 << 20, 1, MPI_INFO_NULL, node, &here, &shared);
    memset(here, 1, 1 << 20);
    MPI_Win_allocate(1 << 20, 1, MPI_INFO_NULL, node, &memory, &own);
    memset(memory, 2, 1 << 20);
    MPI_Win_fence(0, own);
    MPI_Win_fence(0, own);
    MPI_Win_free(&own);
    MPI_Win_free(&shared);
    MPI_Comm_free(&node);
    MPI_Alloc_mem(3 << 20, MPI_INFO_NULL, &memory);
    memset(memory, 3, 3 << 20);
    /* It must not be a new peak, which would be looked at. */
    MPI_Pcontrol(2);
    MPI_Free_mem(memory);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *volatile kept = malloc(30 << 20);
    memset(kept, 1, 30 << 20);
    if (kept[rank] != 1) MPI_Abort(MPI_COMM_WORLD, 1);
    messages();
    collectives();
    windows();
    MPI_Barrier(MPI_COMM_WORLD);
    free(kept);
    MPI_Finalize();
    if (rank == 0) printf("done\n");
    return 0;
}
