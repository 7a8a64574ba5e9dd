/* Gaussian elimination as a program of elements: `mpirun -n 4 gauss --initial-ranks 1 -- 3:4 12:2` has four ranks from
 * column 3 on, and two from column 12 on. `gauss --serial` is the same program in one process, without MPI. */

#include <stdint.h>
#include <string.h>

#include "epop.h"

enum { WIDTH = N + 1 };

static int
init(QUO_world w, int argc, char **argv, void **data)
{
    struct work *work = calloc(1, sizeof(*work));
    int status;
    if (NULL == work || read_sizes(work, argc, argv) || QUO_world_status(w, &status)) return 1;
    *data = work;
    if (QUO_WORLD_NEW != status) return 0;
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    void *part;
    size_t rows;
    spec.kind = QUO_ARRAY_BLOCK_ROWS;
    spec.rows = N;
    spec.columns = WIDTH;
    if (QUO_world_array_add(w, "matrix", &spec) || QUO_world_array(w, "matrix", &part, &rows, NULL)) return 1;
    for (size_t at = 0; at < rows * WIDTH; ++at) {
        size_t row, column;
        if (QUO_world_array_origin(w, "matrix", at, &row, &column)) return 1;
        ((double *)part)[at] = (row == column ? N : 0) + 1.0 / (double)(1 + row + 2 * column);
    }
    return 0;
}

static int
eliminate(QUO_world w, void *data)
{
    struct work *work = data;
    MPI_Comm ranks;
    int rank, size, waits;
    double top[WIDTH], *matrix = part_of(w, "matrix");
    if (wait_for_size(w, work, &waits)) return 1;
    if (waits) return 0;
    if (QUO_world_comm(w, &ranks) || QUO_world_size(w, &size) || QUO_world_rank(w, &rank)) return 1;
    int each = (N + size - 1) / size, first = rank * each, pivot = work->now.step;
    int last = first + each < N ? first + each : N;
    if (pivot / each == rank) memcpy(top, matrix + (pivot - first) * WIDTH, sizeof(top));
    if (MPI_COMM_NULL != ranks) MPI_Bcast(top, WIDTH, MPI_DOUBLE, pivot / each, ranks);
    for (int row = first; row < last; ++row) {
        if (row <= pivot) continue;
        double *line = matrix + (row - first) * WIDTH, factor = line[pivot] / top[pivot];
        for (int column = pivot; column < WIDTH; ++column) line[column] -= factor * top[column];
    }
    ++work->now.step;
    return 0;
}

static int
has_columns(void *data)
{
    return ((struct work *)data)->now.step < N - 1;
}

static int
solve(QUO_world w, void *data)
{
    MPI_Comm ranks;
    int rank, size;
    double all[N * WIDTH], solution[N], *own = part_of(w, "matrix");
    uint64_t sum = 0, bits;
    (void)data;
    if (QUO_world_comm(w, &ranks) || QUO_world_size(w, &size) || QUO_world_rank(w, &rank)) return 1;
    int each = (N + size - 1) / size;
    memset(all, 0, sizeof(all));
    for (int row = rank * each; row < N && row < (rank + 1) * each; ++row) {
        memcpy(all + row * WIDTH, own + (row - rank * each) * WIDTH, WIDTH * sizeof(double));
    }
    /* Each element belongs to one rank, and is 0 elsewhere. */
    if (MPI_COMM_NULL != ranks) MPI_Allreduce(MPI_IN_PLACE, all, N * WIDTH, MPI_DOUBLE, MPI_SUM, ranks);
    for (int row = N - 1; row >= 0; --row) {
        double known = 0;
        for (int column = row + 1; column < N; ++column) known += all[row * WIDTH + column] * solution[column];
        solution[row] = (all[row * WIDTH + N] - known) / all[row * WIDTH + row];
    }
    for (int row = 0; row < N; ++row) {
        memcpy(&bits, &solution[row], sizeof(bits));
        sum = (sum << 7 | sum >> 57) ^ bits;
    }
    if (0 == rank) printf("gauss: %d rows, bits %016llx\n", N, (unsigned long long)sum);
    return 0;
}

static const QUO_element_t elements[] = {
    {QUO_ELEMENT_INIT, "init", init, NULL, NULL, NULL, NULL},
    {QUO_ELEMENT_ELASTIC, "eliminate", NULL, eliminate, tell_progress, has_columns, NULL},
    {QUO_ELEMENT_RIGID, "solve", NULL, solve, NULL, NULL, NULL},
};

const QUO_program_t QUO_program = QUO_PROGRAM(elements);

int
main(int argc, char **argv)
{
    int code = QUO_program_main(&QUO_program, argc, argv);
    if (QUO_SUCCESS != code) fprintf(stderr, "%s\n", QUO_last_error());
    return QUO_SUCCESS != code;
}
