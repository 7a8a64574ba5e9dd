/* A sparse matrix in rows, and its vectors, go from each number of ranks to each other one and back: each rank checks its
 * rows and ghosts, and multiplies, after each resize. Six processes; some ranks have no rows. */
#include "../check.h"
#include "quo-elastic.h"

enum { ROWS = 25, MOST = 128 };

/* An element of a vector: of more than one number. */
typedef struct {
    double number;
    long long row;
} element_t;

/* What joiners receive. */
static struct {
    int next;
    int asked;
} walk;

static int sizes[MOST], count_of_sizes;

/* Row i has i % 4 elements, in columns near and far. */
static size_t
column(size_t row, size_t number)
{
    return (row * 7 + number * (row % 5 + 1) * 11) % ROWS;
}

static double
value(size_t row, size_t number)
{
    return (double)(row * 10 + number) + 0.5;
}

static void
add(QUO_world w)
{
    int rank, size;
    size_t pointers[ROWS + 1] = {0}, columns[4 * ROWS], rows = 0;
    double values[4 * ROWS];
    CHECK_OK(QUO_world_rank(w, &rank));
    CHECK_OK(QUO_world_size(w, &size));
    const size_t each = (ROWS + (size_t)size - 1) / (size_t)size;
    for (size_t row = (size_t)rank * each; row < ROWS && rows < each; ++row, ++rows) {
        pointers[rows + 1] = pointers[rows] + row % 4;
        for (size_t number = 0; number < row % 4; ++number) {
            columns[pointers[rows] + number] = column(row, number);
            values[pointers[rows] + number] = value(row, number);
        }
    }
    CHECK_CODE(QUO_world_vector_add(w, "x", sizeof(element_t), "A"), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_world_matrix_add(w, "A", 8, ROWS, rows + 1, pointers, columns, values), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("pointers; ");
    CHECK_CODE(QUO_world_matrix_add(w, "A", 8, ROWS, rows, NULL, columns, values), QUO_ERR_INVLD_ARG);
    columns[0] += ROWS;
    if (pointers[rows] > 0) {
        CHECK_CODE(QUO_world_matrix_add(w, "A", 8, ROWS, rows, pointers, columns, values), QUO_ERR_INVLD_ARG);
        CHECK_ERROR_NAMES("columns are 0 to 24");
    }
    columns[0] -= ROWS;
    CHECK_OK(QUO_world_matrix_add(w, "A", 8, ROWS, rows, pointers, columns, values));
    CHECK_OK(QUO_world_vector_add(w, "x", sizeof(element_t), "A"));
    CHECK_OK(QUO_world_vector_add(w, "y", sizeof(element_t), "A"));
    CHECK_CODE(QUO_world_vector_add(w, "x", 8, "A"), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_array_remove(w, "A"), QUO_ERR_STATE);
    element_t *x;
    QUO_array_part_t part = QUO_ARRAY_PART_INIT;
    CHECK_OK(QUO_world_array_part(w, "x", &part));
    CHECK(part.columns == rows && part.first_column == (rows ? (size_t)rank * each : part.first_column));
    x = part.data;
    for (size_t row = 0; row < rows; ++row) {
        x[row].row = (long long)(part.first_column + row);
        x[row].number = (double)x[row].row * 1.25;
    }
}

/* Checks the rows, fills the ghosts, and multiplies. */
static void
check_all(QUO_world w)
{
    QUO_matrix_part_t a = QUO_MATRIX_PART_INIT;
    void *data;
    size_t length;
    CHECK_OK(QUO_world_matrix(w, "A", &a));
    CHECK_OK(QUO_world_array(w, "x", &data, NULL, &length));
    CHECK(length == a.rows + a.ghosts);
    element_t *x = data;
    double *values = a.values;
    for (size_t ghost = 0; ghost < a.ghosts; ++ghost) x[a.rows + ghost].row = -1;
    CHECK_OK(QUO_world_exchange_halo(w, "x"));
    for (size_t ghost = 0; ghost < a.ghosts; ++ghost) {
        CHECK(x[a.rows + ghost].row == (long long)a.ghost_columns[ghost]);
        CHECK(ghost == 0 || a.ghost_columns[ghost - 1] < a.ghost_columns[ghost]);
    }
    for (size_t row = 0; row < a.rows; ++row) {
        const size_t whole = a.first_row + row;
        double found = 0, right = 0;
        CHECK(a.pointers[row + 1] - a.pointers[row] == whole % 4);
        for (size_t number = 0; number < whole % 4; ++number) {
            const size_t at = a.pointers[row] + number;
            CHECK(x[a.columns[at]].row == (long long)column(whole, number));
            found += values[at] * x[a.columns[at]].number;
            right += value(whole, number) * (double)column(whole, number) * 1.25;
        }
        CHECK(found == right);
    }
    /* The other vector is exchanged over the same plan, in two calls, after a swap and back. */
    CHECK_OK(QUO_world_array_swap(w, "x", "y"));
    CHECK_OK(QUO_world_exchange_halo_begin(w, "y"));
    CHECK_CODE(QUO_world_exchange_halo_begin(w, "y"), QUO_ERR_STATE);
    CHECK_OK(QUO_world_exchange_halo_end(w, "y"));
    CHECK_OK(QUO_world_array_swap(w, "x", "y"));
}

static int
step(QUO_world w, void *data)
{
    int rank, size;
    (void)data;
    CHECK_OK(QUO_world_rank(w, &rank));
    CHECK_OK(QUO_world_size(w, &size));
    check_all(w);
    if (size == sizes[walk.next]) {
        ++walk.next;
        walk.asked = 0;
    }
    if (walk.next == count_of_sizes) {
        return 0;
    }
    if (!walk.asked && 0 == rank) CHECK_OK(QUO_world_request(w, sizes[walk.next], NULL));
    walk.asked = 1;
    return 1;
}

int
main(int argc, char **argv)
{
    QUO_world w;
    int status, most;
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    check_init(&argc, &argv);
    options.initial_ranks = 3;
    REQUIRE_OK(QUO_world_create(&w, &options));
    CHECK_OK(QUO_world_capacity(w, &most));
    for (int p = 2; p <= most; ++p) {
        sizes[count_of_sizes++] = p;
        for (int q = 1; q < p; ++q) {
            sizes[count_of_sizes++] = q;
            sizes[count_of_sizes++] = p;
        }
    }
    CHECK_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_NEW == status) add(w);
    CHECK_OK(QUO_world_run(w, step, NULL, &walk, sizeof(walk)));
    CHECK_OK(QUO_world_end(w));
    return check_finish();
}
