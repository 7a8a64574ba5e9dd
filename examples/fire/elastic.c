/* A fire that wind drives through dry grass, in blocks of cells on a grid of MPI ranks, which may change.
 * Heat spreads with one thread on each rank. Cells burn with all threads of a processor on one of its ranks, while
 * the others sleep: hot cells take more work than cold ones.
 * usage: ./elastic ROWS COLUMNS STEPS FILE */
#include <quo-elastic.h>
#include <quo-xpm.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double heat, fuel;
} cell_t;

static QUO_world world;
static MPI_Comm comm;
static QUO_array_part_t part = QUO_ARRAY_PART_INIT;
static QUO_context quo;
static QUO_phase burning;
static QUO_xpm_context memory;
static cell_t *next;
static int done, steps;
static long long epoch = -1;

/* Ends the job if a call has failed. */
static void check(int code)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s\n", QUO_last_error());
    MPI_Abort(MPI_COMM_WORLD, code);
}

/* Returns a cell of this rank; its own begin in row 1 and column 1. */
static cell_t *at(size_t row, size_t column)
{
    cell_t *cells = part.data;
    return &cells[row * part.all_columns + column];
}

/* Finds the cells of this rank, which resizes move. */
static void find(void)
{
    check(QUO_world_comm(world, &comm));
    check(QUO_world_array_part(world, "cells", &part));
}

/* Begins with grass that burns in one corner, and with cold edges. */
static void start(size_t rows, size_t columns)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    spec.kind = QUO_ARRAY_HALO;
    spec.element = sizeof(cell_t);
    spec.rows = rows;
    spec.columns = columns;
    spec.halo_rows = spec.halo_columns = (QUO_halo_t){1, 1, 0};
    check(QUO_world_array_add(world, "cells", &spec));
    find();
    for (size_t row = 0; row < part.rows; ++row) {
        for (size_t column = 0; column < part.columns; ++column) {
            const size_t r = part.first_row + row, c = part.first_column + column;
            at(row + 1, column + 1)->heat = r < rows / 4 && c < columns / 4 ? 2 : 0;
            at(row + 1, column + 1)->fuel = 1 + 0.5 * sin(0.3 * (double)r) * sin(0.2 * (double)c);
        }
    }
}

/* Makes the phase and the memory that the ranks of a node share. */
static void prepare(void)
{
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT; /* one worker for each processor */
    QUO_xpm_view_t own;
    if (NULL == quo) check(QUO_create(&quo, comm));
    check(QUO_phase_free(burning));
    check(QUO_xpm_free(memory));
    check(QUO_xpm_allocate(quo, part.rows * part.columns * sizeof(cell_t), &memory));
    check(QUO_xpm_view_local(memory, &own));
    next = own.base;
    spec.name = "burning";
    check(QUO_phase_create(quo, &spec, &burning));
}

/* Spreads the heat of the cells of this rank. */
static void spread(void)
{
    cell_t *cell = next;
    for (size_t row = 1; row <= part.rows; ++row) {
        for (size_t column = 1; column <= part.columns; ++column) {
            const double left = at(row, column - 1)->heat, right = at(row, column + 1)->heat;
            const double around = at(row - 1, column)->heat + at(row + 1, column)->heat + left + right;
            *cell = *at(row, column);
            cell->heat += 0.1 * (around - 4 * cell->heat) + 0.2 * (left - cell->heat);
            ++cell;
        }
    }
}

/* Burns a cell, in more and smaller parts of the step if it is hot. */
static void burn(cell_t *cell)
{
    const int parts = 1 + (int)(8 * cell->heat);
    for (int done_parts = 0; done_parts < parts; ++done_parts) {
        const double burnt = 0.2 / parts * cell->fuel * exp(-1 / (cell->heat + 0.05));
        cell->fuel -= burnt;
        cell->heat += 6 * burnt - 0.02 / parts * cell->heat;
    }
}

/* Burns the cells of all ranks that this worker works for. */
static void burn_all(int threads)
{
    QUO_xpm_view_t view;
    int first, ranks;
    check(QUO_phase_qids(burning, &first, &ranks));
    check(QUO_xpm_view_by_qid_range(memory, first, first + ranks - 1, &view));
    cell_t *cells = view.base;
    const long count = (long)(view.extent / sizeof(cell_t));
#pragma omp parallel for num_threads(threads) schedule(dynamic, 64)
    for (long i = 0; i < count; ++i) burn(&cells[i]);
}

/* Takes the burnt cells over, and prints the heat of the hottest one. */
static void take_over(void)
{
    const cell_t *cell = next;
    double own = 0, most;
    int rank;
    for (size_t row = 1; row <= part.rows; ++row) {
        for (size_t column = 1; column <= part.columns; ++column) {
            own = fmax(own, cell->heat);
            *at(row, column) = *cell++;
        }
    }
    MPI_Comm_rank(comm, &rank);
    MPI_Allreduce(&own, &most, 1, MPI_DOUBLE, MPI_MAX, comm);
    if (0 == rank && 0 == done % 100) printf("step %d: at most %g\n", done, most);
}

/* Makes a step. Returns 1 if another one follows. */
static int step(QUO_world w, void *data)
{
    const long long before = epoch;
    int works, threads;
    (void)data;
    find();
    check(QUO_world_epoch(w, &epoch));
    if (epoch != before) prepare();
    check(QUO_world_exchange_halo(w, "cells"));
    spread();
    check(QUO_barrier(quo)); /* the heat has spread on all ranks of the node */
    check(QUO_phase_begin(burning, &works, &threads));
    if (works) burn_all(threads);
    check(QUO_phase_end(burning));
    take_over();
    return ++done < steps;
}

/* Writes the cells of all ranks into one file, row by row. */
static void write(size_t columns, const char *name)
{
    MPI_File file;
    MPI_File_open(comm, name, MPI_MODE_CREATE | MPI_MODE_WRONLY, MPI_INFO_NULL, &file);
    for (size_t row = 0; row < part.rows; ++row) {
        const size_t place = (part.first_row + row) * columns + part.first_column;
        MPI_File_write_at(file, (MPI_Offset)(place * sizeof(cell_t)), at(row + 1, 1),
                          (int)(part.columns * sizeof(cell_t)), MPI_BYTE, MPI_STATUS_IGNORE);
    }
    MPI_File_close(&file);
}

int main(int argc, char **argv)
{
    int level, status;
    if (argc != 5) return EXIT_FAILURE;
    const size_t rows = strtoul(argv[1], NULL, 10), columns = strtoul(argv[2], NULL, 10);
    steps = atoi(argv[3]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    check(QUO_world_create(&world, NULL));
    check(QUO_world_status(world, &status));
    if (QUO_WORLD_NEW == status) start(rows, columns);
    check(QUO_world_run(world, step, NULL, &done, sizeof(done)));
    check(QUO_world_comm(world, &comm));
    if (MPI_COMM_NULL != comm) write(columns, argv[4]);
    check(QUO_phase_free(burning));
    check(QUO_xpm_free(memory));
    check(QUO_free(quo));
    check(QUO_world_end(world));
    return MPI_Finalize();
}
