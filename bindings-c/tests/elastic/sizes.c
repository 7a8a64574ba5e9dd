/* A world changes through a list of sizes: `sizes MOST START SIZE...`. After each change the content of its arrays and
 * the adapted context are checked on every rank. MOST beyond the launched ranks starts
 * processes; a size with a `!` is aborted by the highest rank. */
#include "../check.h"
#include "quo-elastic.h"

enum { ELEMENTS = 1003, ROWS = 37, COLUMNS = 26, BLOCK = 4, TABLE = 11, PILE = 60 };

static QUO_world w = NULL;
static QUO_context q = NULL;

/* Data that the program moves itself: numbers from 0 on, each on the rank number % size. */
static struct pile {
    int now[PILE], count;
    int next[PILE], coming;
} pile;

static int
give(void *data, const QUO_seats_t *seats)
{
    const struct pile *mine = data;
    for (int i = 0; i < mine->count; ++i) {
        int number = mine->now[i];
        if (QUO_SUCCESS != QUO_carry_give(number % seats->new_size, &number, sizeof(number))) return 1;
    }
    return 0;
}

static int
take(void *data, const QUO_seats_t *seats, int old_rank, const void *bytes, size_t length)
{
    struct pile *mine = data;
    if (old_rank >= seats->old_size || length > sizeof(mine->next)) return 2;
    memcpy(mine->next + mine->coming, bytes, length);
    mine->coming += (int)(length / sizeof(int));
    return 0;
}

static void
end_transfer(void *data, int committed)
{
    struct pile *mine = data;
    if (committed) {
        memcpy(mine->now, mine->next, sizeof(mine->next));
        mine->count = mine->coming;
    }
    mine->coming = 0;
}

static int
turn_of(const char *word, int *is_given_up)
{
    *is_given_up = NULL != strchr(word, '!');
    return atoi(word);
}

static void
add_arrays(int rank, int size)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    void *data = NULL;
    size_t rows = 0, columns = 0, row = 0, column = 0;

    spec.columns = ELEMENTS;
    REQUIRE_OK(QUO_world_array_add(w, "vector", &spec));
    REQUIRE_OK(QUO_world_array(w, "vector", &data, &rows, &columns));
    CHECK_INT(rows, 1);
    for (size_t i = 0; i < columns; ++i) {
        REQUIRE_OK(QUO_world_array_origin(w, "vector", i, NULL, &column));
        ((double *)data)[i] = (double)column / 2;
    }
    spec.kind = QUO_ARRAY_CHECKERBOARD;
    spec.storage = QUO_ARRAY_BY_COLUMNS;
    spec.element = sizeof(int);
    spec.rows = ROWS;
    spec.columns = COLUMNS;
    spec.block_rows = spec.block_columns = BLOCK;
    REQUIRE_OK(QUO_world_array_add(w, "matrix", &spec));
    REQUIRE_OK(QUO_world_array(w, "matrix", &data, &rows, &columns));
    for (size_t i = 0; i < rows * columns; ++i) {
        REQUIRE_OK(QUO_world_array_origin(w, "matrix", i, &row, &column));
        ((int *)data)[i] = (int)(row * 1000 + column);
    }
    spec = (QUO_array_spec_t)QUO_ARRAY_SPEC_INIT;
    spec.kind = QUO_ARRAY_REPLICATED;
    spec.element = 1;
    spec.columns = TABLE;
    REQUIRE_OK(QUO_world_array_add(w, "table", &spec));
    REQUIRE_OK(QUO_world_array(w, "table", &data, NULL, NULL));
    memcpy(data, "everywhere", TABLE);
    for (int number = rank; number < PILE; number += size) pile.now[pile.count++] = number;
}

static void
check_arrays(int rank, int size)
{
    void *data = NULL;
    size_t rows = 0, columns = 0, row = 0, column = 0;
    unsigned char seen[PILE] = {0};
    long long held = 0, all = 0;
    MPI_Comm comm = MPI_COMM_NULL;

    REQUIRE_OK(QUO_world_array(w, "vector", &data, &rows, &columns));
    held += (long long)columns;
    for (size_t i = 0; i < columns; ++i) {
        REQUIRE_OK(QUO_world_array_origin(w, "vector", i, NULL, &column));
        CHECK(((double *)data)[i] == (double)column / 2);
    }
    REQUIRE_OK(QUO_world_array(w, "matrix", &data, &rows, &columns));
    held += (long long)(rows * columns);
    for (size_t i = 0; i < rows * columns; ++i) {
        REQUIRE_OK(QUO_world_array_origin(w, "matrix", i, &row, &column));
        CHECK_INT(((int *)data)[i], row * 1000 + column);
    }
    REQUIRE_OK(QUO_world_array(w, "table", &data, &rows, &columns));
    CHECK_INT(columns, TABLE);
    CHECK_STRING((const char *)data, "everywhere");
    for (int i = 0; i < pile.count; ++i) {
        CHECK_INT(pile.now[i] % size, rank);
        CHECK(!seen[pile.now[i]]);
        seen[pile.now[i]] = 1;
    }
    held += pile.count;
    REQUIRE_OK(QUO_world_comm(w, &comm));
    MPI_Allreduce(&held, &all, 1, MPI_LONG_LONG, MPI_SUM, comm);
    CHECK_INT(all, ELEMENTS + ROWS * COLUMNS + PILE);
}

/* The context has the ranks of the world, and selects one of them for the machine. */
static void
check_context(int size)
{
    int ranks = 0, selected = 0, all = 0;
    MPI_Comm comm = MPI_COMM_NULL;

    REQUIRE_OK(QUO_world_comm(w, &comm));
    if (NULL == q) REQUIRE_OK(QUO_create(&q, comm));
    CHECK_OK(QUO_barrier(q));
    CHECK_OK(QUO_nqids(q, &ranks));
    CHECK_INT(ranks, size);
    CHECK_OK(QUO_auto_distrib(q, QUO_OBJ_MACHINE, 1, &selected));
    MPI_Allreduce(&selected, &all, 1, MPI_INT, MPI_SUM, comm);
    CHECK_INT(all, 1);
    CHECK_OK(QUO_barrier(q));
}

/* The communicators of the window have the sizes given by its counts. */
static void
check_window(int status, int stay, int leave, int join)
{
    MPI_Comm comm = MPI_COMM_NULL;
    int number = 0;

    CHECK_OK(QUO_window_comm(w, QUO_WINDOW_ALL_RANKS, &comm));
    MPI_Comm_size(comm, &number);
    CHECK_INT(number, stay + leave + join);
    CHECK_OK(QUO_window_comm(w, QUO_WINDOW_OLD, &comm));
    CHECK((MPI_COMM_NULL == comm) == (QUO_WORLD_JOINING == status));
    if (MPI_COMM_NULL != comm) {
        MPI_Comm_size(comm, &number);
        CHECK_INT(number, stay + leave);
    }
    CHECK_OK(QUO_window_comm(w, QUO_WINDOW_NEW, &comm));
    CHECK((MPI_COMM_NULL == comm) == (QUO_WORLD_LEAVING == status));
    if (MPI_COMM_NULL != comm) {
        MPI_Comm_size(comm, &number);
        CHECK_INT(number, stay + join);
    }
    CHECK_OK(QUO_window_comm(w, QUO_WINDOW_BETWEEN, &comm));
    CHECK((MPI_COMM_NULL == comm) == (0 == join));
    if (MPI_COMM_NULL != comm) {
        MPI_Comm_remote_size(comm, &number);
        CHECK_INT(number, QUO_WORLD_JOINING == status ? stay + leave : join);
        MPI_Comm_free(&comm);
    }
}

/* An MPI that cannot start processes refuses all sizes, and nothing is moved. */
static int has_moved = 0;

static void
change(int count, char **words, int *turn)
{
    int status = 0, stay = 0, leave = 0, join = 0, is_given_up = 0, rank = 0, size = 0, code;
    MPI_Comm everybody = MPI_COMM_NULL;
    long long epoch = 0;

    REQUIRE_OK(QUO_world_begin(w));
    REQUIRE_OK(QUO_window_broadcast(w, turn, sizeof(*turn)));
    REQUIRE_OK(QUO_world_status(w, &status));
    REQUIRE_OK(QUO_window_counts(w, &stay, &leave, &join));
    check_window(status, stay, leave, join);
    if (*turn < count) turn_of(words[*turn], &is_given_up);
    REQUIRE_OK(QUO_window_comm(w, QUO_WINDOW_ALL_RANKS, &everybody));
    MPI_Comm_rank(everybody, &rank);
    MPI_Comm_size(everybody, &size);
    if (is_given_up && rank + 1 == size) {
        CHECK_OK(QUO_world_abort(w, "it does not fit"));
    } else if (is_given_up) {
        code = QUO_world_commit(w);
        CHECK_CODE(code, QUO_ERR_ABORTED);
        CHECK_ERROR_NAMES("it does not fit");
    } else {
        if (join > 0) CHECK_OK(QUO_window_move_data(w));
        REQUIRE_OK(QUO_world_commit(w));
        has_moved = 1;
    }
    ++*turn;
    REQUIRE_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_PARKED == status || QUO_WORLD_ENDED == status) {
        /* A leaver keeps its handle. */
        int ranks = 0;
        if (NULL != q) CHECK_OK(QUO_nqids(q, &ranks));
        if (NULL != q) CHECK_CODE(QUO_retire(q), QUO_SUCCESS_ALREADY_DONE);
        return;
    }
    REQUIRE_OK(QUO_world_rank(w, &rank));
    REQUIRE_OK(QUO_world_size(w, &size));
    REQUIRE_OK(QUO_world_epoch(w, &epoch));
    if (0 == rank) {
        printf("epoch %lld size %d: %d stay, %d leave, %d join\n", epoch, size, stay, leave, join);
        fflush(stdout);
    }
    check_arrays(rank, size);
    check_context(size);
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_carry_t callbacks = QUO_CARRY_INIT;
    QUO_move_metrics_t moved = {.size = sizeof(moved)};
    int provided, status = 0, enters, turn = 3, rank = 0, size = 0, is_given_up = 0, all = 0;
    int started = 0, state;
    long long asked = 0;
    MPI_Comm comm = MPI_COMM_NULL;
    char *text = NULL;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    options.max_ranks = atoi(argv[1]);
    options.initial_ranks = atoi(argv[2]);
    options.allow_oversubscribe = 1;
    options.start_timeout = 20;
    REQUIRE_OK(QUO_world_create(&w, &options));
    callbacks.give = give;
    callbacks.take = take;
    callbacks.end_transfer = end_transfer;
    callbacks.data = &pile;
    REQUIRE_OK(QUO_world_carry(w, "pile", &callbacks));
    REQUIRE_OK(QUO_world_status(w, &status));
    REQUIRE_OK(QUO_world_was_started(w, &started));
    if (QUO_WORLD_NEW == status) {
        REQUIRE_OK(QUO_world_rank(w, &rank));
        REQUIRE_OK(QUO_world_size(w, &size));
        CHECK_INT(size, options.initial_ranks);
        if (0 == rank) {
            REQUIRE_OK(QUO_world_back_end(w, &text));
            printf("with %s\n", text);
            free(text);
        }
        add_arrays(rank, size);
        check_arrays(rank, size);
        check_context(size);
    }
    for (;;) {
        REQUIRE_OK(QUO_world_status(w, &status));
        REQUIRE_OK(QUO_world_rank(w, &rank));
        CHECK((MPI_UNDEFINED == rank) == (QUO_WORLD_NEW != status && QUO_WORLD_STAYING != status));
        if (QUO_WORLD_ENDED == status) break;
        if (QUO_WORLD_PARKED == status) {
            REQUIRE_OK(QUO_world_wait(w, &enters));
            if (!enters) break;
        } else if (QUO_WORLD_JOINING == status) {
            enters = 1;
        } else {
            REQUIRE_OK(QUO_world_probe(w, &enters));
        }
        if (enters) {
            change(argc, argv, &turn);
            asked = 0;
            continue;
        }
        REQUIRE_OK(QUO_world_rank(w, &rank));
        REQUIRE_OK(QUO_world_comm(w, &comm));
        if (0 == rank && 0 != asked) {
            REQUIRE_OK(QUO_world_request_state(w, asked, &state, &text));
            if (QUO_REQUEST_FAILED == state) {
                printf("failed: %s\n", text);
                ++turn;
                asked = 0;
            }
            free(text);
        }
        if (0 == rank && 0 == asked && turn < argc) {
            int wanted = turn_of(argv[turn], &is_given_up);
            if (QUO_SUCCESS != QUO_world_request(w, wanted, &asked)) {
                printf("refused: %s\n", QUO_last_error());
                ++turn;
            }
        }
        /* A step of the program. */
        MPI_Bcast(&turn, 1, MPI_INT, 0, comm);
        if (turn >= argc) break;
    }
    REQUIRE_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_NEW == status || QUO_WORLD_STAYING == status) {
        if (0 == rank && has_moved) {
            CHECK_OK(QUO_world_last_move(w, &moved));
            CHECK_INT(moved.arrays, 4);
        }
        REQUIRE_OK(QUO_world_comm(w, &comm));
        MPI_Allreduce(&check_failures, &all, 1, MPI_INT, MPI_SUM, comm);
        if (0 == rank && 0 == all) printf("all is right\n");
    }
    if (NULL != q) CHECK_OK(QUO_free(q));
    CHECK_OK(QUO_world_end(w));
    MPI_Finalize();
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
