/* Moves that are given up halfway: by an abort, and by the end of the world. Two processes, one of them parked at
 * first; each process is identified by its initial rank. */
#include "../check.h"
#include "quo-elastic.h"

enum { ELEMENTS = 2000000 };

static QUO_world w = NULL;

/* Both enter a window whose arrays are being moved. */
static void
meet(void)
{
    int status = 0, enters = 0;
    REQUIRE_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_PARKED == status) {
        REQUIRE_OK(QUO_world_wait(w, &enters));
        CHECK_INT(enters, 1);
    } else {
        REQUIRE_OK(QUO_world_request(w, 2, NULL));
        while (!enters) REQUIRE_OK(QUO_world_probe(w, &enters));
    }
    REQUIRE_OK(QUO_world_begin(w));
    REQUIRE_OK(QUO_window_move_begin(w));
}

/* The array is whole on the one rank. */
static void
check_vector(void)
{
    void *data = NULL;
    size_t columns = 0;
    REQUIRE_OK(QUO_world_array(w, "vector", &data, NULL, &columns));
    CHECK_INT(columns, ELEMENTS);
    for (size_t i = 0; i < columns; i += 1000) CHECK(((double *)data)[i] == (double)i);
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    int done = 0, status = 0, joins = 1;
    void *data = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    options.initial_ranks = 1;
    REQUIRE_OK(QUO_world_create(&w, &options));
    if (0 == check_rank) {
        spec.columns = ELEMENTS;
        REQUIRE_OK(QUO_world_array_add(w, "vector", &spec));
        REQUIRE_OK(QUO_world_array(w, "vector", &data, NULL, NULL));
        for (int i = 0; i < ELEMENTS; ++i) ((double *)data)[i] = i;
    }
    /* One process aborts the resize. */
    meet();
    if (0 == check_rank) {
        check_vector();
        CHECK_OK(QUO_world_abort(w, "it is not wanted"));
        check_vector();
    } else {
        REQUIRE_OK(QUO_window_move_test(w, &done));
        CHECK_CODE(QUO_window_move_end(w), QUO_ERR);
        CHECK_CODE(QUO_world_commit(w), QUO_ERR_ABORTED);
        REQUIRE_OK(QUO_world_status(w, &status));
        CHECK_INT(status, QUO_WORLD_PARKED);
    }
    /* The world ends while arrays are being moved. */
    meet();
    if (0 != check_rank) {
        CHECK_CODE(QUO_world_commit(w), QUO_ERR_ABORTED);
        REQUIRE_OK(QUO_world_wait(w, &joins));
        CHECK_INT(joins, 0);
    }
    REQUIRE_OK(QUO_world_end(w));
    if (0 == check_rank && 0 == check_failures) printf("ok\n");
    MPI_Finalize();
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
