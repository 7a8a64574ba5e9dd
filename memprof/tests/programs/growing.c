/* Holds more memory in each step, or not: `growing KIND BYTES STEPS`. Each rank
 *   leak    keeps a block of BYTES in every step;
 *   cache   keeps one in each step of the first half, and replaces the oldest in the second;
 *   none    frees all that it allocates in a step.
 * Each kind also allocates and frees a buffer in every step. Ten steps are a region
 * of the profiler. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define BUFFER (3 << 20)

struct kept {
    struct kept *next;
};

static struct kept *all;

static void keep_record(size_t bytes)
{
    struct kept *record = malloc(bytes);
    memset(record, 1, bytes);
    record->next = all;
    all = record;
}

static void remember(char **place, size_t bytes)
{
    free(*place);
    *place = malloc(bytes);
    memset(*place, 1, bytes);
}

static void work(int step)
{
    size_t bytes = BUFFER / (1 + step % 3);
    char *buffer = malloc(bytes);
    memset(buffer, step, bytes);
    free(buffer);
}

int main(int argc, char **argv)
{
    const struct timespec pause = {.tv_nsec = 8000000};
    MPI_Init(&argc, &argv);
    if (argc != 4) MPI_Abort(MPI_COMM_WORLD, 2);
    size_t bytes = strtoul(argv[2], NULL, 10);
    int steps = atoi(argv[3]), room = steps / 2 + 1;
    char **cache = calloc(room, sizeof *cache);
    for (int step = 0; step < steps; step++) {
        if (step % 10 == 0) MPI_Pcontrol(1, "ten steps");
        work(step);
        if (argv[1][0] == 'l') keep_record(bytes);
        if (argv[1][0] == 'c') remember(&cache[step % room], bytes);
        // Sleeps: stands for the rest of a step.
        nanosleep(&pause, NULL);
        MPI_Allreduce(MPI_IN_PLACE, &step, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (step % 10 == 9) MPI_Pcontrol(-1, "ten steps");
    }
    MPI_Finalize();
    return 0;
}
