/* The skeleton program of ReSHAPE (Sudarsan 2009, figures 2.3 and 2.4) in C, with a matrix that
 * verifies itself: `mpirun -n 4 skeleton 1 4 2` changes to the next size at each resize point.
 * Ranks beyond the launched ones are started if the MPI can. */

#include <stdio.h>
#include <stdlib.h>

#include "quo-reshape.h"

enum { ITERATIONS = 60, EVERY = 10, ROWS = 96, COLUMNS = 72, BLOCK = 4 };

static double *matrix = NULL;
static size_t count = 0;

static void
need(int code)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s\n", QUO_last_error());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

/* The remaining sizes. */
struct sizes {
    char **words;
};

static int
next_size(void *data, int size, int iteration, double seconds)
{
    struct sizes *left = data;
    (void)iteration;
    (void)seconds;
    return NULL == *left->words ? size : atoi(*left->words++);
}

/* Returns the initial value of the element at a place of this rank's part; each iteration adds one. */
static double
first(size_t offset)
{
    int rows, columns, rank;
    need(reshape_getNewProcessorDimensions(&rows, &columns));
    MPI_Comm_rank(RESHAPE_COMM_WORLD, &rank);
    /* Number of columns of the ranks in this column of the grid. */
    size_t wide = 0;
    for (int column = 0; column < COLUMNS; ++column) {
        if (column / BLOCK % columns == rank % columns) ++wide;
    }
    size_t row = offset / wide, column = offset % wide;
    row = (row / BLOCK * (size_t)rows + (size_t)(rank / columns)) * BLOCK + row % BLOCK;
    column = (column / BLOCK * (size_t)columns + (size_t)(rank % columns)) * BLOCK + column % BLOCK;
    return (double)(row * 1000 + column);
}

static void
check(int loop)
{
    long long mine = (long long)count, all = 0;
    for (size_t i = 0; i < count; ++i) {
        if (matrix[i] == first(i) + loop) continue;
        fprintf(stderr, "iteration %d: element %zu is %g, not %g\n", loop, i, matrix[i], first(i) + loop);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    MPI_Allreduce(&mine, &all, 1, MPI_LONG_LONG, MPI_SUM, RESHAPE_COMM_WORLD);
    if (all != ROWS * COLUMNS) MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
redistribute(int loop, const char *why)
{
    int rows, columns, rank;
    need(reshape_Redistribute2D((void **)&matrix, &count, sizeof(double), ROWS, COLUMNS, BLOCK,
                                QUO_ARRAY_BY_ROWS));
    need(reshape_getNewProcessorDimensions(&rows, &columns));
    MPI_Comm_rank(RESHAPE_COMM_WORLD, &rank);
    if (0 == rank) printf("iteration %d: %s %dx%d\n", loop, why, rows, columns);
}

static void
compute(int seat)
{
    int loop, decision, rank;
    need(reshape_getIterCount(&loop)); /* joiners enter here */
    while (loop < ITERATIONS && RESHAPE_ENDED != seat) {
        need(reshape_getSchedulerDecision(&decision));
        if (REMAP_EXPAND == decision) redistribute(loop, "grown to");
        double begun = MPI_Wtime();
        check(loop);
        for (size_t i = 0; i < count; ++i) matrix[i] += 1;
        if (EVERY - 1 == loop % EVERY) {
            need(reshape_ContactScheduler(MPI_Wtime() - begun, loop, &decision));
            if (REMAP_SHRINK == decision) redistribute(loop, "about to leave");
            need(reshape_Resize(decision));
            need(reshape_getSeat(&seat));
            if (RESHAPE_JOINS == seat) {
                need(reshape_getIterCount(&loop));
                continue;
            }
        }
        ++loop;
    }
    if (RESHAPE_ENDED == seat) return;
    check(ITERATIONS);
    MPI_Comm_rank(RESHAPE_COMM_WORLD, &rank);
    if (0 == rank) printf("right after %d iterations\n", ITERATIONS);
}

int
main(int argc, char **argv)
{
    struct ProcessorTopology topology = QUO_RESHAPE_TOPOLOGY_INIT;
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    struct sizes left = {argv + 2};
    int seat, provided, size = argc > 1 ? atoi(argv[1]) : 1;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    topology.kind = RESHAPE_RECTANGULAR;
    topology.ndims = 2;
    topology.dims[1] = size;
    for (int i = 1; i < argc; ++i) {
        if (atoi(argv[i]) > options.max_ranks) options.max_ranks = atoi(argv[i]);
    }
    options.allow_oversubscribe = 1;
    need(reshape_InitWith(&topology, &options, argc > 1 ? next_size : NULL, &left));
    need(reshape_getSeat(&seat));
    if (RESHAPE_STAYS == seat) {
        int rank;
        MPI_Comm_rank(RESHAPE_COMM_WORLD, &rank);
        size_t wide = 0;
        for (int column = 0; column < COLUMNS; ++column) {
            if (column / BLOCK % size == rank) ++wide;
        }
        count = wide * ROWS;
        matrix = malloc((count > 0 ? count : 1) * sizeof(double));
        if (NULL == matrix) MPI_Abort(MPI_COMM_WORLD, 1);
        for (size_t i = 0; i < count; ++i) matrix[i] = first(i);
    }
    compute(seat);
    need(reshape_Exit());
    free(matrix);
    MPI_Finalize();
    return 0;
}
