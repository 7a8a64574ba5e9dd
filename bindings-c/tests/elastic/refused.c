/* Wrong arguments and calls out of place are refused with their code and a text, and a world that
 * refused wrong calls still works. Two processes, one of them parked at first. */
#include "../check.h"
#include "quo-elastic.h"

static QUO_world w = NULL;

static QUO_world
handle(unsigned long long bits)
{
    volatile unsigned long long hidden = bits;
    return (QUO_world)(size_t)hidden;
}

static void
before_there_is_a_world(void)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    int number = -7;

    CHECK_CODE(QUO_world_create(NULL, NULL), QUO_ERR_INVLD_ARG);
    options.initial_ranks = -2;
    CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_world_create: initial_ranks is -2");
    /* A rank with valid options gets an error about another one's. */
    options.initial_ranks = 0 == check_rank ? 1 : 2;
    CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_DISAGREE);
    CHECK(NULL == w);
    options.initial_ranks = 0 == check_rank ? -1 : 1;
    if (0 == check_rank) {
        CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_INVLD_ARG);
    } else {
        CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_DISAGREE);
        CHECK_ERROR_NAMES("rank 0");
    }
    options.initial_ranks = 1;
    options.plan = "at noon: lunch";
    CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the plan");
    options.plan = NULL;
    options.start_timeout = -1;
    CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_INVLD_ARG);
    options.start_timeout = 0;
    options.size = 3;
    CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_world_options_t");
    CHECK_CODE(QUO_world_size(NULL, &number), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_size(handle(0x1234567), &number), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_world_end(handle(0x1234567)), QUO_ERR_INVLD_HANDLE);
    CHECK_OK(QUO_world_end(NULL));
    CHECK_CODE(QUO_carry_give(0, &number, sizeof(number)), QUO_ERR_STATE);
    CHECK_INT(number, -7);
}

static void
of_a_rank(void)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    QUO_move_metrics_t moved = {.size = sizeof(moved)};
    QUO_progress_t progress = QUO_PROGRESS_INIT;
    int number = -7;
    long long request = -7;
    void *data = &number;
    MPI_Comm comm = MPI_COMM_NULL;

    CHECK_CODE(QUO_world_status(w, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_wait(w, &number), QUO_ERR_STATE);
    CHECK_CODE(QUO_world_begin(w), QUO_ERR_STATE);
    CHECK_CODE(QUO_world_commit(w), QUO_ERR_STATE);
    CHECK_CODE(QUO_world_abort(w, NULL), QUO_ERR_STATE);
    CHECK_CODE(QUO_window_move_data(w), QUO_ERR_STATE);
    CHECK_CODE(QUO_window_broadcast(w, &number, sizeof(number)), QUO_ERR_STATE);
    CHECK_CODE(QUO_window_counts(w, NULL, NULL, NULL), QUO_ERR_STATE);
    CHECK_CODE(QUO_window_comm(w, QUO_WINDOW_NEW, &comm), QUO_ERR_STATE);
    CHECK_CODE(QUO_world_request(w, 0, &request), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_request(w, 3, &request), QUO_ERR_REFUSED);
    CHECK_ERROR_NAMES("there can be 1 to 2");
    CHECK_INT(request, -7);
    CHECK_CODE(QUO_world_request_state(w, 99, &number, NULL), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_world_report_iteration(w, -1), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_report_progress(w, NULL), QUO_ERR_INVLD_ARG);
    progress.iteration = -1;
    CHECK_CODE(QUO_world_report_progress(w, &progress), QUO_ERR_INVLD_ARG);
    progress.iteration = 1;
    progress.mpi_ratio = -0.5;
    CHECK_CODE(QUO_world_report_progress(w, &progress), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("mpi_ratio is -0.5");
    progress.mpi_ratio = 0.5;
    progress.bytes_per_rank = -2;
    CHECK_CODE(QUO_world_report_progress(w, &progress), QUO_ERR_INVLD_ARG);
    progress.bytes_per_rank = 4096;
    CHECK_CODE(QUO_world_report_progress(w, &progress), QUO_SUCCESS);
    CHECK_CODE(QUO_world_last_move(w, &moved), QUO_ERR_NOT_FOUND);
    moved.size = 2;
    CHECK_CODE(QUO_world_last_move(w, &moved), QUO_ERR_INVLD_ARG);

    spec.columns = 10;
    CHECK_CODE(QUO_world_array_add(w, NULL, &spec), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_array_add(w, "one", NULL), QUO_ERR_INVLD_ARG);
    spec.kind = 70;
    CHECK_CODE(QUO_world_array_add(w, "one", &spec), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("70");
    spec.kind = QUO_ARRAY_BLOCK_CYCLIC;
    spec.block_columns = 0;
    CHECK_CODE(QUO_world_array_add(w, "one", &spec), QUO_ERR_INVLD_ARG);
    spec.kind = QUO_ARRAY_BLOCK;
    spec.rows = 2;
    CHECK_CODE(QUO_world_array_add(w, "one", &spec), QUO_ERR_INVLD_ARG);
    spec.rows = 1;
    spec.element = 0;
    CHECK_CODE(QUO_world_array_add(w, "one", &spec), QUO_ERR_INVLD_ARG);
    spec.element = 8;
    spec.columns = (size_t)-1 / 2;
    CHECK_CODE(QUO_world_array_add(w, "one", &spec), QUO_ERR_INVLD_ARG);
    spec.columns = 10;
    CHECK_CODE(QUO_world_array(w, "one", &data, NULL, NULL), QUO_ERR_NOT_FOUND);
    CHECK_ERROR_NAMES("`one`");
    CHECK(NULL == data);
    CHECK_OK(QUO_world_array_add(w, "one", &spec));
    CHECK_CODE(QUO_world_array_add(w, "one", &spec), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_array_origin(w, "one", 10, NULL, NULL), QUO_ERR_INVLD_ARG);
    spec.columns = 11;
    CHECK_CODE(QUO_world_array_lay_out(w, "one", &spec), QUO_ERR_INVLD_ARG);
    CHECK_OK(QUO_world_array_remove(w, "one"));
    CHECK_CODE(QUO_world_array_remove(w, "one"), QUO_ERR_NOT_FOUND);
}

/* In a resize: calls that do not fit it are refused, and the resize still succeeds. */
static void
of_a_resize(void)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    MPI_Comm comm = MPI_COMM_NULL, everybody = MPI_COMM_NULL;
    int rank = 0, number = 0, told = 5;

    CHECK_OK(QUO_world_begin(w));
    CHECK_CODE(QUO_world_begin(w), QUO_ERR_STATE);
    CHECK_CODE(QUO_world_probe(w, &number), QUO_ERR_STATE);
    CHECK_CODE(QUO_window_comm(w, 9, &comm), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_window_comm(w, QUO_WINDOW_NEW, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_array_add(w, "two", &spec), QUO_ERR_STATE);
    CHECK_OK(QUO_window_comm(w, QUO_WINDOW_ALL_RANKS, &everybody));
    MPI_Comm_rank(everybody, &rank);
    if (0 == rank) {
        CHECK_OK(QUO_window_broadcast(w, &told, sizeof(told)));
    } else {
        CHECK_CODE(QUO_window_broadcast(w, &told, 1), QUO_ERR_DISAGREE);
    }
    CHECK_OK(QUO_world_commit(w));
}

/* A busy context is not adapted to other ranks: its own rank gets an error, and a retry succeeds once it is free. */
static void
of_a_context(QUO_context *q)
{
    MPI_Comm comm = MPI_COMM_NULL;

    CHECK_OK(QUO_world_comm(w, &comm));
    if (NULL == *q) CHECK_OK(QUO_create(q, comm));
    CHECK_CODE(QUO_adapt(NULL, comm), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_adapt(*q, MPI_COMM_NULL), QUO_ERR_INVLD_ARG);
    CHECK_OK(QUO_barrier(*q));
    CHECK_OK(QUO_bind_push(*q, QUO_BIND_PUSH_PROVIDED, QUO_OBJ_MACHINE, 0));
    CHECK_CODE(QUO_adapt(*q, comm), QUO_ERR_BUSY);
    CHECK_CODE(QUO_retire(*q), QUO_ERR_BUSY);
    CHECK_OK(QUO_bind_pop(*q));
    CHECK_OK(QUO_adapt(*q, comm));
    CHECK_OK(QUO_barrier(*q));
    CHECK_OK(QUO_retire(*q));
    CHECK_CODE(QUO_barrier(*q), QUO_ERR_DETACHED);
    CHECK_OK(QUO_adapt(*q, comm));
    CHECK_OK(QUO_barrier(*q));
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_context q = NULL;
    int status = 0, number = 0;
    MPI_Comm comm = MPI_COMM_NULL;
    size_t rows;
    void *data;

    CHECK_CODE(QUO_world_create(&w, NULL), QUO_ERR_CALL_BEFORE_INIT);
    check_init(&argc, &argv);
    before_there_is_a_world();
    options.initial_ranks = 1;
    REQUIRE_OK(QUO_world_create(&w, &options));
    CHECK_OK(QUO_world_capacity(w, &number));
    CHECK_INT(number, 2);
    REQUIRE_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_PARKED == status) {
        CHECK_CODE(QUO_world_probe(w, &number), QUO_ERR_STATE);
        CHECK_CODE(QUO_world_request(w, 2, NULL), QUO_ERR_STATE);
        CHECK_CODE(QUO_world_array(w, "one", &data, &rows, NULL), QUO_ERR_NOT_FOUND);
        CHECK_OK(QUO_world_comm(w, &comm));
        CHECK(MPI_COMM_NULL == comm);
        REQUIRE_OK(QUO_world_wait(w, &number));
        CHECK_INT(number, 1);
    } else {
        of_a_rank();
        REQUIRE_OK(QUO_world_request(w, 2, NULL));
        do {
            REQUIRE_OK(QUO_world_probe(w, &number));
        } while (!number);
    }
    of_a_resize();
    of_a_context(&q);
    CHECK_OK(QUO_free(q));
    CHECK_OK(QUO_world_end(w));
    CHECK_CODE(QUO_world_status(w, &status), QUO_ERR_INVLD_HANDLE);
    CHECK_CODE(QUO_world_end(w), QUO_ERR_INVLD_HANDLE);
    return check_finish();
}
