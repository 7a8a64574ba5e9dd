/* A fire that wind drives through dry grass, in blocks of cells on a grid of MPI ranks.
 * Heat spreads with one thread on each rank. Cells burn with all threads of a processor on one of its ranks, while
 * the others sleep: hot cells take more work than cold ones.
 * usage: ./plain ROWS COLUMNS STEPS FILE */
#include <quo-xpm.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
    double heat, fuel;
} cell_t;

/* The cells of this rank; around them one cell of each neighbour, or of the edge. */
typedef struct {
    cell_t *data;
    size_t rows, columns, first_row, first_column, all_columns;
} part_t;

static MPI_Comm comm;
static MPI_Datatype type, column_type;
static part_t part;
static QUO_context quo;
static QUO_phase burning;
static QUO_xpm_context memory;
static cell_t *next;
static int done, steps;

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

/* Divides cells among the ranks along one dimension. */
static void divide(size_t cells, int place, int places, size_t *first, size_t *count)
{
    const size_t number = (size_t)place, all = (size_t)places;
    *first = cells / all * number + (number < cells % all ? number : cells % all);
    *count = cells / all + (number < cells % all);
}

/* Makes the grid of ranks and the part of this one. */
static void lay_out(size_t rows, size_t columns)
{
    int size, rank, grid[2] = {0, 0}, place[2];
    const int periods[2] = {0, 0};
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Dims_create(size, 2, grid);
    MPI_Cart_create(MPI_COMM_WORLD, 2, grid, periods, 0, &comm);
    MPI_Comm_rank(comm, &rank);
    MPI_Cart_coords(comm, rank, 2, place);
    divide(rows, place[0], grid[0], &part.first_row, &part.rows);
    divide(columns, place[1], grid[1], &part.first_column, &part.columns);
    part.all_columns = part.columns + 2;
    part.data = calloc((part.rows + 2) * part.all_columns, sizeof(cell_t));
    MPI_Type_contiguous(sizeof(cell_t), MPI_BYTE, &type);
    MPI_Type_commit(&type);
    MPI_Type_vector((int)part.rows, 1, (int)part.all_columns, type, &column_type);
    MPI_Type_commit(&column_type);
}

/* Begins with grass that burns in one corner, and with cold edges. */
static void start(size_t rows, size_t columns)
{
    lay_out(rows, columns);
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
    check(QUO_create(&quo, comm));
    check(QUO_xpm_allocate(quo, part.rows * part.columns * sizeof(cell_t), &memory));
    check(QUO_xpm_view_local(memory, &own));
    next = own.base;
    spec.name = "burning";
    check(QUO_phase_create(quo, &spec, &burning));
}

/* Sends cells to one neighbour and gets those of the opposite one. */
static void pass(cell_t *from, int to, cell_t *into, int source, int count, MPI_Datatype cells)
{
    MPI_Sendrecv(from, count, cells, to, 0, into, count, cells, source, 0, comm, MPI_STATUS_IGNORE);
}

/* Gets the cells of the four neighbours. */
static void exchange(void)
{
    int up, down, left, right;
    MPI_Cart_shift(comm, 0, 1, &up, &down);
    MPI_Cart_shift(comm, 1, 1, &left, &right);
    pass(at(1, 1), up, at(part.rows + 1, 1), down, (int)part.columns, type);
    pass(at(part.rows, 1), down, at(0, 1), up, (int)part.columns, type);
    pass(at(1, 1), left, at(1, part.columns + 1), right, 1, column_type);
    pass(at(1, part.columns), right, at(1, 0), left, 1, column_type);
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

/* Makes a step. */
static void step(void)
{
    int works, threads;
    exchange();
    spread();
    check(QUO_barrier(quo)); /* the heat has spread on all ranks of the node */
    check(QUO_phase_begin(burning, &works, &threads));
    if (works) burn_all(threads);
    check(QUO_phase_end(burning));
    take_over();
    ++done;
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
    int level;
    if (argc != 5) return EXIT_FAILURE;
    const size_t rows = strtoul(argv[1], NULL, 10), columns = strtoul(argv[2], NULL, 10);
    steps = atoi(argv[3]);
    MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &level);
    start(rows, columns);
    prepare();
    while (done < steps) step();
    write(columns, argv[4]);
    check(QUO_phase_free(burning));
    check(QUO_xpm_free(memory));
    check(QUO_free(quo));
    MPI_Type_free(&column_type);
    MPI_Type_free(&type);
    free(part.data);
    return MPI_Finalize();
}
