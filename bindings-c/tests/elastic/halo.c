/* Arrays with ghost cells while a loop that the library owns grows and shrinks: cells and edges keep
 * their values, an exchange fills the ghost cells, and wrong calls are refused. Four processes. */
#include "../check.h"
#include "quo-elastic.h"

#define ROWS 7
#define COLUMNS 10
#define LAYERS 3

/* An element of several numbers. */
typedef struct {
    double place;
    long long steps;
} cell_t;

/* What joiners receive. */
static struct {
    int step;
    int reached; /* index of the size that is requested */
} state;

static const int sizes[] = {4, 1, 3, 2, 4};
static const int count_of_sizes = sizeof(sizes) / sizeof(sizes[0]);
static int asked = -1;

static QUO_array_part_t
part_of(QUO_world w, const char *name)
{
    QUO_array_part_t part = QUO_ARRAY_PART_INIT;
    CHECK_OK(QUO_world_array_part(w, name, &part));
    CHECK(part.element == (0 == strcmp(name, "box") ? sizeof(float) : sizeof(cell_t)));
    return part;
}

static double
value(long long layer, long long row, long long column)
{
    return (double)((layer * 100 + row) * 100 + column);
}

/* The number of a cell that memory begins with, without its ghost cells: negative in an edge. */
static long long
wrapped(size_t first, size_t index, size_t before, size_t extent, int periodic)
{
    const long long at = (long long)(first + index) - (long long)before;
    return periodic ? (at + (long long)extent) % (long long)extent : at;
}

/* The plate is periodic along its columns and has an edge above and below. */
static void
fill_plate(QUO_world w)
{
    const QUO_array_part_t part = part_of(w, "plate");
    cell_t *cells = part.data;
    for (size_t row = 0; row < part.all_rows; ++row) {
        for (size_t column = 0; column < part.all_columns; ++column) {
            cell_t *cell = &cells[row * part.all_columns + column];
            cell->place = value(0, wrapped(part.first_row, row, 1, ROWS, 0),
                                wrapped(part.first_column, column, 2, COLUMNS, 1));
            cell->steps = 0;
        }
    }
}

static void
check_plate(QUO_world w, long long steps)
{
    const QUO_array_part_t part = part_of(w, "plate");
    const cell_t *cells = part.data;
    for (size_t row = 0; row < part.all_rows; ++row) {
        const long long global = wrapped(part.first_row, row, 1, ROWS, 0);
        const int is_edge = global < 0 || global >= ROWS;
        for (size_t column = 0; column < part.all_columns; ++column) {
            const cell_t *cell = &cells[row * part.all_columns + column];
            CHECK(cell->place ==
                  value(0, global, wrapped(part.first_column, column, 2, COLUMNS, 1)));
            CHECK((is_edge ? 0 : steps) == cell->steps);
        }
    }
}

/* Own cells are one step further. */
static void
advance_plate(QUO_world w)
{
    const QUO_array_part_t part = part_of(w, "plate");
    cell_t *cells = part.data;
    CHECK(0 == part.rows || (1 == part.before_rows && 2 == part.before_columns));
    for (size_t row = 1; row <= part.rows; ++row)
        for (size_t column = 2; column < part.columns + 2; ++column)
            ++cells[row * part.all_columns + column].steps;
}

/* The box is stored by columns: an element of a layer is at row + column * all_rows. */
static void
check_box(QUO_world w, int fills)
{
    const QUO_array_part_t part = part_of(w, "box");
    float *cells = part.data;
    for (size_t layer = 0; layer < part.all_layers; ++layer) {
        for (size_t row = 0; row < part.all_rows; ++row) {
            for (size_t column = 0; column < part.all_columns; ++column) {
                float *cell = &cells[(layer * part.all_columns + column) * part.all_rows + row];
                const float right =
                    (float)value(wrapped(part.first_layer, layer, 1, LAYERS, 1),
                                 wrapped(part.first_row, row, 1, ROWS, 1), (long long)(part.first_column + column));
                if (fills) *cell = right;
                CHECK(*cell == right);
            }
        }
    }
}

static void
add_arrays(QUO_world w)
{
    QUO_array_spec_t plate = QUO_ARRAY_SPEC_INIT, box = QUO_ARRAY_SPEC_INIT;
    plate.kind = QUO_ARRAY_HALO;
    plate.element = sizeof(cell_t);
    plate.rows = ROWS;
    plate.columns = COLUMNS;
    plate.halo_rows = (QUO_halo_t){1, 1, 0};
    plate.halo_columns = (QUO_halo_t){2, 1, 1};
    CHECK_OK(QUO_world_array_add(w, "plate", &plate));
    CHECK_OK(QUO_world_array_add(w, "next", &plate));
    box.kind = QUO_ARRAY_HALO;
    box.storage = QUO_ARRAY_BY_COLUMNS;
    box.element = sizeof(float);
    box.layers = LAYERS;
    box.rows = ROWS;
    box.columns = COLUMNS;
    box.grid_columns = 1;
    box.halo_layers = (QUO_halo_t){1, 1, 1};
    box.halo_rows = (QUO_halo_t){1, 0, 1};
    CHECK_OK(QUO_world_array_add(w, "box", &box));
    fill_plate(w);
    check_box(w, 1);

    /* Patterns without ghost cells have none; grids have as many places as there are ranks. */
    plate.kind = QUO_ARRAY_BLOCK_GRID;
    CHECK_CODE(QUO_world_array_add(w, "grid", &plate), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_ARRAY_HALO");
    box.grid_rows = 5;
    CHECK_CODE(QUO_world_array_add(w, "five", &box), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("five");
}

static void
check_refusals(QUO_world w)
{
    QUO_array_part_t part = QUO_ARRAY_PART_INIT;
    CHECK_CODE(QUO_world_exchange_halo(w, "none"), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_world_exchange_halo(w, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_exchange_halo_end(w, "plate"), QUO_ERR_STATE);
    CHECK_ERROR_NAMES("plate");
    CHECK_OK(QUO_world_exchange_halo_begin(w, "plate"));
    CHECK_CODE(QUO_world_exchange_halo_begin(w, "plate"), QUO_ERR_STATE);
    CHECK_CODE(QUO_world_array_swap(w, "next", "plate"), QUO_ERR_STATE);
    CHECK_OK(QUO_world_exchange_halo_end(w, "plate"));
    CHECK_CODE(QUO_world_array_swap(w, "box", "plate"), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_array_swap(w, "plate", "none"), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_world_array_part(w, "none", &part), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_world_array_part(w, "plate", NULL), QUO_ERR_INVLD_ARG);
    part.size = 8;
    CHECK_CODE(QUO_world_array_part(w, "plate", &part), QUO_ERR_INVLD_ARG);
}

static int
step(QUO_world w, void *data)
{
    int size;
    (void)data;
    CHECK_OK(QUO_world_size(w, &size));
    /* Two exchanges at once, after cells have changed. */
    CHECK_OK(QUO_world_exchange_halo_begin(w, "plate"));
    CHECK_OK(QUO_world_exchange_halo_begin(w, "box"));
    CHECK_OK(QUO_world_exchange_halo_end(w, "plate"));
    CHECK_OK(QUO_world_exchange_halo_end(w, "box"));
    check_plate(w, state.step);
    check_box(w, 0);
    advance_plate(w);
    CHECK_OK(QUO_world_array_swap(w, "plate", "next"));
    CHECK_OK(QUO_world_array_swap(w, "next", "plate"));
    if (0 == state.step) check_refusals(w);
    ++state.step;
    if (size == sizes[state.reached]) {
        if (0 == check_rank) printf("step with %d ranks\n", size);
        if (++state.reached == count_of_sizes) return 0;
    }
    if (0 == check_rank && asked != state.reached) {
        asked = state.reached;
        CHECK_OK(QUO_world_request(w, sizes[asked], NULL));
    }
    return 1;
}

/* Returns an error on one of two ranks, which ends the loop there. */
static int
fail(QUO_world w, void *data)
{
    (void)w;
    return *(int *)data;
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_world w = NULL;
    int status, error = -7, done = 0;

    check_init(&argc, &argv);
    options.initial_ranks = 2;
    REQUIRE_OK(QUO_world_create(&w, &options));
    CHECK_OK(QUO_world_status(w, &status));
    CHECK_CODE(QUO_world_run(w, NULL, NULL, NULL, 0), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_run(w, step, NULL, NULL, 4), QUO_ERR_INVLD_ARG);
    if (QUO_WORLD_NEW == status) {
        add_arrays(w);
        CHECK_CODE(QUO_world_run(w, fail, &error, NULL, 0), QUO_ERR_WORK_FAILED);
        CHECK_ERROR_NAMES("-7");
        CHECK_OK(QUO_world_run(w, fail, &done, NULL, 0));
    }
    CHECK_OK(QUO_world_run(w, step, NULL, &state, sizeof(state)));
    CHECK_OK(QUO_world_end(w));
    return check_finish();
}
