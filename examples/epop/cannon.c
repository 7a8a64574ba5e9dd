/* Cannon's product of matrices as a program of elements, A := A B modulo 97 repeatedly:
 * `mpirun -n 4 cannon --initial-ranks 1 -- 3:4 6:1` has four ranks from product 3 on, and one from product 6 on.
 * Numbers stay whole, so that their sums are exact in any order. `cannon --serial` is the same in one process, without
 * MPI. */

#include <string.h>

#include "epop.h"

enum { PRODUCTS = 9 };

static int
add_matrix(QUO_world w, const char *name, int squares)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    void *part;
    size_t rows, columns;
    spec.kind = QUO_ARRAY_BLOCK_GRID;
    spec.rows = spec.columns = N;
    if (QUO_world_array_add(w, name, &spec) || QUO_world_array(w, name, &part, &rows, &columns)) return 1;
    for (size_t at = 0; at < rows * columns; ++at) {
        size_t row, column;
        if (QUO_world_array_origin(w, name, at, &row, &column)) return 1;
        size_t place = row * N + column;
        ((double *)part)[at] = (double)(squares ? place * place % 5 : place % 7);
    }
    return 0;
}

static int
init(QUO_world w, int argc, char **argv, void **data)
{
    struct work *work = calloc(1, sizeof(*work));
    int status;
    if (NULL == work || read_sizes(work, argc, argv) || QUO_world_status(w, &status)) return 1;
    *data = work;
    return QUO_WORLD_NEW == status && (add_matrix(w, "a", 0) || add_matrix(w, "b", 1));
}

static int
side_of(int size)
{
    int side = 1;
    while (side * side < size) ++side;
    return side;
}

static void
shift(double *block, int length, int to, int from, int rank, MPI_Comm ranks)
{
    if (to == rank) return;
    MPI_Sendrecv_replace(block, length, MPI_DOUBLE, to, 0, from, 0, ranks, MPI_STATUS_IGNORE);
}

static int
multiply(QUO_world w, void *data)
{
    struct work *work = data;
    MPI_Comm ranks;
    int rank, size, waits;
    if (wait_for_size(w, work, &waits)) return 1;
    if (waits) return 0;
    if (QUO_world_comm(w, &ranks) || QUO_world_size(w, &size) || QUO_world_rank(w, &rank)) return 1;
    int side = side_of(size), row = rank / side, column = rank % side, wide = N / side, length = wide * wide;
    double a[N * N], b[N * N], c[N * N] = {0}, *own = part_of(w, "a");
    memcpy(a, own, (size_t)length * sizeof(double));
    memcpy(b, part_of(w, "b"), (size_t)length * sizeof(double));
    shift(a, length, row * side + (column + side - row) % side, row * side + (column + row) % side, rank, ranks);
    shift(b, length, (row + side - column) % side * side + column, (row + column) % side * side + column, rank, ranks);
    for (int turn = 0; turn < side; ++turn) {
        for (int i = 0; i < wide; ++i) {
            for (int k = 0; k < wide; ++k) {
                for (int j = 0; j < wide; ++j) c[i * wide + j] += a[i * wide + k] * b[k * wide + j];
            }
        }
        shift(a, length, row * side + (column + side - 1) % side, row * side + (column + 1) % side, rank, ranks);
        shift(b, length, (row + side - 1) % side * side + column, (row + 1) % side * side + column, rank, ranks);
    }
    for (int at = 0; at < length; ++at) own[at] = (double)((long long)c[at] % 97);
    ++work->now.step;
    return 0;
}

static int
has_products(void *data)
{
    return ((struct work *)data)->now.step < PRODUCTS;
}

static int
report(QUO_world w, void *data)
{
    MPI_Comm ranks;
    int rank, size;
    double sum = 0, *own = part_of(w, "a");
    (void)data;
    if (QUO_world_comm(w, &ranks) || QUO_world_size(w, &size) || QUO_world_rank(w, &rank)) return 1;
    for (size_t at = 0; at < (size_t)(N * N / size); ++at) {
        size_t row, column;
        if (QUO_world_array_origin(w, "a", at, &row, &column)) return 1;
        sum += own[at] * (double)(row * N + column + 1);
    }
    if (MPI_COMM_NULL != ranks) MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_DOUBLE, MPI_SUM, ranks);
    if (0 == rank) printf("cannon: %d products, checksum %.0f\n", PRODUCTS, sum);
    return 0;
}

static const QUO_element_t elements[] = {
    {QUO_ELEMENT_INIT, "init", init, NULL, NULL, NULL, NULL},
    {QUO_ELEMENT_ELASTIC, "multiply", NULL, multiply, tell_progress, has_products, NULL},
    {QUO_ELEMENT_RIGID, "report", NULL, report, NULL, NULL, NULL},
};

const QUO_program_t QUO_program = QUO_PROGRAM(elements);

int
main(int argc, char **argv)
{
    int code = QUO_program_main(&QUO_program, argc, argv);
    if (QUO_SUCCESS != code) fprintf(stderr, "%s\n", QUO_last_error());
    return QUO_SUCCESS != code;
}
