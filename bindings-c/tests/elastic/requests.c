/* Requests, events and a move in the background while the program computes. Three processes, two of them parked at
 * first. */
#include "../check.h"
#include "quo-elastic.h"

enum { ELEMENTS = 100000 };

static QUO_world w = NULL;

/* What the function for events has seen. */
static struct seen {
    int count, ends, asks;
    long long waiting;
} seen;

static void
look(void *data, const QUO_event_t *event)
{
    struct seen *all = data;
    CHECK_INT(event->number, all->count);
    CHECK(NULL != strstr(event->json, "\"sequence\""));
    ++all->count;
    if (QUO_EVENT_FINALIZED == event->kind && 0 == all->asks) {
        /* A manager provided by the program: continues after the last request has ended. */
        QUO_request_spec_t spec = QUO_REQUEST_SPEC_INIT;
        spec.kind = QUO_REQUEST_SHRINK;
        spec.ranks = 2;
        spec.origin = "handler";
        ++all->asks;
        CHECK_OK(QUO_world_ask(w, &spec, NULL, NULL));
    }
    if (QUO_EVENT_FINALIZED == event->kind || QUO_EVENT_ABORTED == event->kind
        || QUO_EVENT_REFUSED == event->kind) ++all->ends;
}

/* On rank 0, before any rank probes. */
static void
ask(void)
{
    QUO_request_spec_t spec = QUO_REQUEST_SPEC_INIT;
    long long request = 0, after = -1;
    int step = 0;
    char *report = NULL;

    CHECK_CODE(QUO_world_ask(w, NULL, NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_ask(w, &spec, NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("ranks is 0");
    spec.kind = 5;
    CHECK_CODE(QUO_world_ask(w, &spec, NULL, NULL), QUO_ERR_INVLD_ARG);
    spec.kind = QUO_REQUEST_LEAVE;
    spec.from = "nowhere";
    CHECK_CODE(QUO_world_ask(w, &spec, &request, NULL), QUO_ERR_REFUSED);
    CHECK_ERROR_NAMES("nowhere");
    CHECK_INT(request, 1);
    CHECK_OK(QUO_world_request_step(w, request, &step));
    CHECK_INT(step, QUO_EVENT_REFUSED);
    spec.kind = QUO_REQUEST_GROW;
    spec.from = NULL;
    spec.ranks = 2;
    spec.nodes = 1;
    CHECK_CODE(QUO_world_ask(w, &spec, NULL, NULL), QUO_ERR_REFUSED);
    spec.nodes = 0;
    spec.grace = -1;
    CHECK_CODE(QUO_world_ask(w, &spec, NULL, NULL), QUO_ERR_INVLD_ARG);
    spec.grace = 600;
    CHECK_OK(QUO_world_ask(w, &spec, &request, &after));
    CHECK_INT(request, 3);
    CHECK_INT(after, 0);
    /* Until it is under way, a later request would replace it. */
    do {
        REQUIRE_OK(QUO_world_request_step(w, request, &step));
    } while (step < QUO_EVENT_ANNOUNCED);
    /* This request waits, and is cancelled. */
    spec.kind = QUO_REQUEST_SIZE;
    CHECK_OK(QUO_world_ask(w, &spec, &seen.waiting, &after));
    CHECK_INT(after, 3);
    CHECK_OK(QUO_world_cancel(w, seen.waiting));
    CHECK_OK(QUO_world_request_step(w, seen.waiting, &step));
    CHECK_INT(step, QUO_EVENT_ABORTED);
    CHECK_CODE(QUO_world_cancel(w, seen.waiting), QUO_ERR_REFUSED);
    CHECK_CODE(QUO_world_cancel(w, 99), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_world_request_step(w, 99, &step), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_world_note(w, QUO_CAUSE_NONE, "nothing"), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_note(w, QUO_CAUSE_OTHER + 1, "nothing"), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_note(w, QUO_CAUSE_OTHER, NULL), QUO_ERR_INVLD_ARG);
    CHECK_OK(QUO_world_note(w, QUO_CAUSE_MANAGER, "a word"));
    REQUIRE_OK(QUO_world_job_status(w, &report));
    CHECK(NULL != strstr(report, "\"job\":\"asked\"") && NULL != strstr(report, "\"under_way\":3"));
    free(report);
}

/* All events one by one, after the end: how each request ended. */
static void
events(void)
{
    QUO_event_t event;
    int found = 0, count = 0, notices = 0;
    event.size = 3;
    CHECK_CODE(QUO_world_next_event(w, &event, &found), QUO_ERR_INVLD_ARG);
    event.size = sizeof(event);
    for (;;) {
        REQUIRE_OK(QUO_world_next_event(w, &event, &found));
        if (!found) break;
        CHECK_INT(event.number, count);
        if (0 == count) CHECK_INT(event.kind, QUO_EVENT_STARTED);
        if (QUO_EVENT_NOTICE == event.kind) {
            CHECK_INT(event.cause, QUO_CAUSE_MANAGER);
            CHECK(NULL != strstr(event.text, "a word"));
            ++notices;
        }
        if (QUO_EVENT_REFUSED == event.kind) CHECK(event.cause != QUO_CAUSE_NONE && '\0' != event.text[0]);
        if (QUO_EVENT_ABORTED == event.kind) {
            CHECK_INT(event.request, seen.waiting);
            CHECK_INT(event.cause, QUO_CAUSE_CANCELLED);
        }
        if (QUO_EVENT_ANNOUNCED == event.kind && 3 == event.request) CHECK_INT(event.joining, 2);
        if (QUO_EVENT_MOVED == event.kind && 3 == event.request) CHECK(event.bytes > 0);
        if (QUO_EVENT_FINALIZED == event.kind && 3 == event.request) CHECK_INT(event.ranks, 3);
        ++count;
    }
    CHECK_INT(notices, 1);
    CHECK_INT(seen.count, count);
    /* Two refused, one cancelled, two done. */
    CHECK_INT(seen.ends, 5);
}

/* Arrays move in the background of the program, which can read them. */
static void
move(int is_old)
{
    void *data = NULL;
    size_t columns = 0;
    int done = 0, number = -7;

    CHECK_CODE(QUO_window_move_test(w, &done), QUO_ERR_STATE);
    CHECK_CODE(QUO_window_move_end(w), QUO_ERR_STATE);
    REQUIRE_OK(QUO_window_move_begin(w));
    CHECK_CODE(QUO_window_move_begin(w), QUO_ERR_STATE);
    CHECK_CODE(QUO_world_size(w, &number), QUO_ERR_STATE);
    CHECK_ERROR_NAMES("on their way");
    CHECK_CODE(QUO_window_broadcast(w, &number, sizeof(number)), QUO_ERR_STATE);
    if (is_old) {
        REQUIRE_OK(QUO_world_array(w, "vector", &data, NULL, &columns));
        CHECK(columns > 0 && ((double *)data)[columns - 1] > 0);
    }
    while (!done) REQUIRE_OK(QUO_window_move_test(w, &done));
}

static void
check_vector(void)
{
    void *data = NULL;
    size_t columns = 0, column = 0;
    REQUIRE_OK(QUO_world_array(w, "vector", &data, NULL, &columns));
    for (size_t i = 0; i < columns; ++i) {
        REQUIRE_OK(QUO_world_array_origin(w, "vector", i, NULL, &column));
        CHECK(((double *)data)[i] == (double)(column + 1));
    }
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    int status = 0, enters = 0, node = -1;
    long long epoch = 0;
    void *data = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    options.initial_ranks = 1;
    options.name = "asked";
    REQUIRE_OK(QUO_world_create(&w, &options));
    REQUIRE_OK(QUO_world_node(w, &node));
    CHECK_INT(node, 0);
    REQUIRE_OK(QUO_world_on_event(w, look, &seen));
    if (0 == check_rank) {
        spec.columns = ELEMENTS;
        REQUIRE_OK(QUO_world_array_add(w, "vector", &spec));
        REQUIRE_OK(QUO_world_array(w, "vector", &data, NULL, NULL));
        for (int i = 0; i < ELEMENTS; ++i) ((double *)data)[i] = i + 1;
        ask();
    } else {
        CHECK_CODE(QUO_world_ask(w, NULL, NULL, NULL), QUO_ERR_INVLD_ARG);
        CHECK_CODE(QUO_world_cancel(w, 1), QUO_ERR_STATE);
        CHECK_CODE(QUO_world_note(w, QUO_CAUSE_OTHER, "no"), QUO_ERR_STATE);
    }
    while (epoch < 2) {
        REQUIRE_OK(QUO_world_status(w, &status));
        if (QUO_WORLD_PARKED == status) {
            REQUIRE_OK(QUO_world_wait(w, &enters));
            if (!enters) break;
        } else {
            REQUIRE_OK(QUO_world_probe(w, &enters));
        }
        if (!enters) continue;
        REQUIRE_OK(QUO_world_begin(w));
        REQUIRE_OK(QUO_world_node(w, &node));
        CHECK_INT(node, 0);
        if (0 == epoch) move(QUO_WORLD_PARKED != status);
        /* The commit ends a move as well. */
        if (2 == check_rank && 0 == epoch) REQUIRE_OK(QUO_window_move_end(w));
        REQUIRE_OK(QUO_world_commit(w));
        REQUIRE_OK(QUO_world_epoch(w, &epoch));
        REQUIRE_OK(QUO_world_status(w, &status));
        if (QUO_WORLD_PARKED != status) check_vector();
    }
    if (0 == check_rank) {
        int count = seen.count;
        events();
        /* The handler gets no more events. */
        REQUIRE_OK(QUO_world_on_event(w, NULL, NULL));
        CHECK_OK(QUO_world_note(w, QUO_CAUSE_OTHER, "unheard"));
        REQUIRE_OK(QUO_world_probe(w, &enters));
        CHECK_INT(seen.count, count);
    } else if (QUO_WORLD_PARKED != status) {
        REQUIRE_OK(QUO_world_probe(w, &enters));
    }
    if (0 != check_rank) CHECK_INT(seen.count, 0);
    REQUIRE_OK(QUO_world_end(w));
    if (0 == check_rank && 0 == check_failures) printf("ok\n");
    MPI_Finalize();
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
