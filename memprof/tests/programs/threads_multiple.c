/* Four threads in each rank that send, receive, allocate and free concurrently; one thread
 * allocates a block and another frees it. */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define THREADS 4

static int rank, size;
static _Atomic(char *) shelf[THREADS];

static void *work(void *number)
{
    int tag = (int)(intptr_t)number, right = (rank + 1) % size, left = (rank + size - 1) % size;
    for (int round = 0; round < 200; round++) {
        int bytes = 1 + (round * 7919 + tag * 104729) % 200000;
        char *in = malloc((size_t)bytes), *out = malloc((size_t)bytes);
        memset(out, tag, (size_t)bytes);
        MPI_Sendrecv(out, bytes, MPI_BYTE, right, tag, in, bytes, MPI_BYTE, left, tag, MPI_COMM_WORLD,
                     MPI_STATUS_IGNORE);
        if (in[0] != tag || in[bytes - 1] != tag) abort();
        free(out);
        free(atomic_exchange(&shelf[(tag + 1) % THREADS], in));
    }
    return NULL;
}

int main(int argc, char **argv)
{
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int count = provided == MPI_THREAD_MULTIPLE ? THREADS : 1;
    pthread_t threads[THREADS];
    for (intptr_t number = 0; number < count; number++)
        pthread_create(&threads[number], NULL, work, (void *)number);
    for (int number = 0; number < count; number++) pthread_join(threads[number], NULL);
    for (int number = 0; number < THREADS; number++) free(shelf[number]);
    MPI_Finalize();
    if (rank == 0) printf("%d threads\n", count);
    return 0;
}
