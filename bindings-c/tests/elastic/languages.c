/* The elastic world as one program in Rust, C and Fortran, which prints the same in each: options, requests, events,
 * a move in the background, process sets, and resizes by them. Four processes, two of them parked at first.
 * In Rust: elastic/examples/languages.rs; in Fortran: tests/programs/elastic_languages.F90. */
#include <signal.h>

#include "../check.h"
#include "quo-elastic.h"

enum { ELEMENTS = 1000, MOST_EVENTS = 200 };
static const double PATIENCE = 60;
static const char *MAIN = "mpi://app/parity";

static QUO_world w = NULL;
static int seen = 0;

/* Joins the lines of a text of the library. */
static char *
one_line(char *text)
{
    for (char *c = text; '\0' != *c; ++c) if ('\n' == *c) *c = ' ';
    return text;
}

static int
rank(void)
{
    int mine = 0;
    REQUIRE_OK(QUO_world_rank(w, &mine));
    return mine;
}

static MPI_Comm
comm(void)
{
    MPI_Comm all = MPI_COMM_NULL;
    REQUIRE_OK(QUO_world_comm(w, &all));
    return all;
}

static void
on_event(void *data, const QUO_event_t *event)
{
    (void)event;
    ++*(int *)data;
}

static void
add_vector(void)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    void *data = NULL;
    size_t columns = 0, column = 0;
    spec.columns = ELEMENTS;
    REQUIRE_OK(QUO_world_array_add(w, "vector", &spec));
    REQUIRE_OK(QUO_world_array(w, "vector", &data, NULL, &columns));
    for (size_t i = 0; i < columns; ++i) {
        REQUIRE_OK(QUO_world_array_origin(w, "vector", i, NULL, &column));
        ((double *)data)[i] = (double)(column + 1);
    }
}

static double
own_sum(void)
{
    void *data = NULL;
    size_t columns = 0;
    double sum = 0;
    REQUIRE_OK(QUO_world_array(w, "vector", &data, NULL, &columns));
    for (size_t i = 0; i < columns; ++i) sum += ((double *)data)[i];
    return sum;
}

/* Output of every rank after a resize. */
static void
say_world(void)
{
    double mine = own_sum(), all = 0;
    long long epoch = 0;
    int size = 0;
    MPI_Allreduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, comm());
    REQUIRE_OK(QUO_world_epoch(w, &epoch));
    REQUIRE_OK(QUO_world_size(w, &size));
    if (0 == rank()) printf("epoch %lld: %d ranks, sum %.0f\n", epoch, size, all);
}

static void
say_set(const char *set)
{
    QUO_pset_info_t info = {.size = sizeof(info)};
    long long *members = NULL;
    int count = 0;
    REQUIRE_OK(QUO_pset_info(w, set, &info));
    REQUIRE_OK(QUO_pset_members(w, set, &members, &count));
    printf("%s: version %lld, epoch %lld, active %d, dynamic %d, included %d, members %lld:", set, info.version,
           info.epoch, info.active, info.dynamic, info.included, info.members);
    for (int i = 0; i < count; ++i) printf(" %lld", members[i]);
    printf("\n");
    free(members);
}

/* On rank 0: the algebra of sets, hints, and published values. */
static void
sets(void)
{
    QUO_pset_change_t change = QUO_PSET_CHANGE_INIT;
    const char *others = "mpi://app/parity/others", *parts = "mpi://app/parity/parts";
    long long member = -1, version = 0, publisher = -1;
    const long long sizes[] = {1, 1};
    size_t length = 0;
    char *text = NULL;
    void *data = NULL;

    REQUIRE_OK(QUO_pset_member(w, &member));
    REQUIRE_OK(QUO_pset_names(w, &text));
    printf("member %lld sees %s\n", member, one_line(text));
    free(text);
    say_set(MAIN);
    change.active = -1;
    change.hints = "mpi_ps_sched_opt=2\nmpi_ps_sched_note=a b";
    REQUIRE_OK(QUO_pset_operate(w, QUO_PSET_DIFFERENCE, MAIN, "mpi://SELF", others, &change, &text));
    printf("made %s\n", text);
    free(text);
    say_set(others);
    REQUIRE_OK(QUO_pset_hint(w, others, "mpi_ps_sched_note", &text));
    printf("hint %s\n", text);
    free(text);
    change.active = 1;
    change.hints = "mpi_ps_sched_note";
    REQUIRE_OK(QUO_pset_update(w, others, &change));
    CHECK_CODE(QUO_pset_hint(w, others, "mpi_ps_sched_note", &text), QUO_ERR_NOT_FOUND);
    REQUIRE_OK(QUO_pset_operate(w, QUO_PSET_UNION, others, "mpi://SELF", others, NULL, NULL));
    say_set(others);
    CHECK_CODE(QUO_pset_operate(w, QUO_PSET_DIFFERENCE, others, MAIN, NULL, NULL, NULL), QUO_ERR_REFUSED);
    REQUIRE_OK(QUO_pset_split(w, MAIN, sizes, 2, parts, &text));
    printf("parts %s\n", one_line(text));
    free(text);
    CHECK_CODE(QUO_pset_split(w, MAIN, sizes, 1, parts, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_prune(w, MAIN), QUO_ERR_REFUSED);
    CHECK_CODE(QUO_pset_members(w, "mpi://app/parity/none", NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_update(w, "mpi://app/parity/none", NULL), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_pset_update(w, "none", NULL), QUO_ERR_INVLD_ARG);
    REQUIRE_OK(QUO_pset_publish(w, MAIN, "greeting", "hello", 5, &version));
    REQUIRE_OK(QUO_pset_lookup(w, MAIN, "greeting", 0, &data, &length, &version, &publisher));
    printf("found %.*s, version %lld of %lld\n", (int)length, (char *)data, version, publisher);
    free(data);
    REQUIRE_OK(QUO_pset_withdraw(w, MAIN, "greeting"));
    CHECK_CODE(QUO_pset_lookup(w, MAIN, "greeting", 0.01, &data, &length, NULL, NULL), QUO_ERR_TIMEOUT);
}

/* On rank 0, while no rank probes. */
static void
ask(void)
{
    QUO_request_spec_t spec = QUO_REQUEST_SPEC_INIT;
    long long request = 0, after = -1;
    int step = 0, state = -1;
    char *cause = NULL;

    spec.ranks = 3;
    CHECK_CODE(QUO_world_ask(w, &spec, &request, NULL), QUO_ERR_REFUSED);
    REQUIRE_OK(QUO_world_request_state(w, request, &state, &cause));
    printf("request %lld failed: %s\n", request, cause);
    free(cause);
    REQUIRE_OK(QUO_world_note(w, QUO_CAUSE_MANAGER, "a word"));
    spec.kind = QUO_REQUEST_GROW;
    spec.ranks = 2;
    spec.grace = 600;
    spec.origin = "program";
    REQUIRE_OK(QUO_world_ask(w, &spec, &request, &after));
    printf("request %lld comes after %lld\n", request, after);
    do {
        REQUIRE_OK(QUO_world_request_step(w, request, &step));
    } while (step < QUO_EVENT_ANNOUNCED);
    spec.kind = QUO_REQUEST_SHRINK;
    REQUIRE_OK(QUO_world_ask(w, &spec, &request, &after));
    printf("request %lld comes after %lld\n", request, after);
    REQUIRE_OK(QUO_world_cancel(w, request));
    REQUIRE_OK(QUO_world_request_state(w, request, &state, &cause));
    printf("request %lld failed: %s\n", request, cause);
    free(cause);
    CHECK_CODE(QUO_world_cancel(w, request), QUO_ERR_REFUSED);
    CHECK_CODE(QUO_world_cancel(w, 99), QUO_ERR_NOT_FOUND);
}

/* The window of a resize; in the first one the arrays move in the background. */
static void
change(int is_first, int is_old)
{
    int stay = 0, leave = 0, join = 0, turn = is_old ? 7 : 0, done = 0, node = -1;
    double before = 0;
    REQUIRE_OK(QUO_world_begin(w));
    REQUIRE_OK(QUO_window_counts(w, &stay, &leave, &join));
    REQUIRE_OK(QUO_window_broadcast(w, &turn, sizeof(turn)));
    CHECK_INT(turn, 7);
    REQUIRE_OK(QUO_world_node(w, &node));
    CHECK_INT(node, 0);
    if (is_first) {
        REQUIRE_OK(QUO_window_move_begin(w));
        do {
            if (is_old) before += own_sum();
            REQUIRE_OK(QUO_window_move_test(w, &done));
        } while (!done);
        CHECK(before > 0 || !is_old);
        REQUIRE_OK(QUO_window_move_end(w));
    }
    REQUIRE_OK(QUO_world_commit(w));
    REQUIRE_OK(QUO_world_status(w, &done));
    if (QUO_WORLD_STAYING != done) return;
    if (0 == rank()) printf("window: %d stay, %d leave, %d join\n", stay, leave, join);
    say_world();
}

/* A resize by process sets: it is complete at the end. */
static void
resize(int kind)
{
    QUO_request_spec_t spec = QUO_REQUEST_SPEC_INIT;
    QUO_pset_view_t view = {.size = sizeof(view)};
    int grows = QUO_REQUEST_GROW == kind, acceptance = QUO_ACCEPT_PENDING;
    char *delta = NULL, *set = NULL;

    if (0 == rank()) {
        spec.kind = kind;
        spec.ranks = 2;
        REQUIRE_OK(QUO_world_ask(w, &spec, NULL, NULL));
        do {
            free(delta);
            REQUIRE_OK(QUO_pset_query(w, MAIN, &view, &delta));
        } while (QUO_PSET_NO_CHANGE == view.kind);
        printf("request %lld is of kind %d at step %d, included %d\n", view.request, view.kind, view.step,
               view.included);
        REQUIRE_OK(QUO_pset_operate(w, grows ? QUO_PSET_UNION : QUO_PSET_DIFFERENCE, MAIN, delta, MAIN, NULL, NULL));
    }
    MPI_Barrier(comm());
    REQUIRE_OK(QUO_world_accept(w, NULL == delta ? "" : delta, MAIN, PATIENCE, &acceptance, &set));
    CHECK_INT(acceptance, QUO_ACCEPT_ENTERS);
    if (0 == rank()) printf("entered with %s\n", set);
    free(delta);
    free(set);
    change(0, 1);
}

/* On rank 0, at the end: the steps of each request, and the notice. */
static void
events(void)
{
    QUO_event_t event = {.size = sizeof(event)};
    QUO_progress_t progress = QUO_PROGRESS_INIT;
    int found = 0, count = 0, kinds[MOST_EVENTS];
    long long requests[MOST_EVENTS];
    char *report = NULL;
    for (;;) {
        REQUIRE_OK(QUO_world_next_event(w, &event, &found));
        if (!found || MOST_EVENTS == count) break;
        if (QUO_EVENT_NOTICE == event.kind) printf("notice %d: %s\n", event.cause, event.text);
        kinds[count] = event.kind;
        requests[count++] = event.request;
    }
    /* As a set: their order may vary. */
    for (long long request = 1; request <= 5; ++request) {
        printf("request %lld:", request);
        for (int kind = 0; kind <= QUO_EVENT_ABORTED; ++kind) {
            found = 0;
            for (int i = 0; i < count; ++i) found |= requests[i] == request && kinds[i] == kind;
            if (found) printf(" %d", kind);
        }
        printf("\n");
    }
    printf("all events were brought: %d\n", seen == count);
    progress.iteration = 20;
    progress.iteration_seconds = -0.5;
    printf("refused: %d\n", QUO_ERR_INVLD_ARG == QUO_world_report_progress(w, &progress));
    progress.iteration_seconds = 1.5;
    progress.mpi_ratio = 0.25;
    REQUIRE_OK(QUO_world_report_progress(w, &progress));
    REQUIRE_OK(QUO_world_job_status(w, &report));
    printf("measured: %d\n", NULL != strstr(report, "\"report\":{\"iteration\":20,\"iteration_seconds\":1.5,") &&
                                 NULL != strstr(report, "\"redistribution_seconds\":") &&
                                 NULL != strstr(report, "\"mpi_ratio\":0.25,") &&
                                 NULL == strstr(report, "\"remaining_seconds\""));
    printf("limits: %d\n", NULL != strstr(report, "\"limits\":{\"min\":2,\"max\":4,\"allowed\":{\"one_of\":[2,4]}}"));
    /* The signal is a notice. */
    raise(SIGTERM);
    printf("reported: %d\n", NULL != strstr(report, "\"job\":\"parity\"") && NULL != strstr(report, "\"size\":4"));
    free(report);
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_slurm_options_t slurm = QUO_SLURM_OPTIONS_INIT;
    int status = 0, enters = 0, size = 0, most = 0;
    long long epoch = 0;
    char *set = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    options.initial_ranks = 2;
    options.name = "parity";
    options.process_sets = 1;
    options.min_size = 2;
    options.max_size = 4;
    options.allowed_sizes = "2,4";
    options.hosts = "n1:2,n2:2";
    options.connect_timeout = 1;
    slurm.wait = 10;
    options.slurm = &slurm;
    options.term_notice = 600;
    options.notice_folder = "/";
    CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("notices: the folder /");
    options.notice_folder = NULL;
    options.placement = "random";
    CHECK_CODE(QUO_world_create(&w, &options), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("stack, round-robin or least-loaded");
    options.placement = "least-loaded";
    REQUIRE_OK(QUO_world_create(&w, &options));
    REQUIRE_OK(QUO_world_on_event(w, on_event, &seen));
    REQUIRE_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_NEW == status) {
        REQUIRE_OK(QUO_world_size(w, &size));
        REQUIRE_OK(QUO_world_capacity(w, &most));
        if (0 == rank()) printf("world: %d of %d ranks\n", size, most);
        add_vector();
        if (0 == rank()) sets();
        if (0 == rank()) ask();
        MPI_Barrier(comm());
    }
    for (;;) {
        REQUIRE_OK(QUO_world_status(w, &status));
        REQUIRE_OK(QUO_world_epoch(w, &epoch));
        if (QUO_WORLD_PARKED == status) {
            REQUIRE_OK(QUO_world_wait(w, &enters));
            if (!enters) break;
            REQUIRE_OK(QUO_world_epoch(w, &epoch));
            if (2 == epoch) {
                REQUIRE_OK(QUO_world_confirm(w, PATIENCE, &set));
                CHECK_STRING(set, MAIN);
                free(set);
            }
            change(0 == epoch, 0);
        } else if (1 == epoch || 2 == epoch) {
            resize(1 == epoch ? QUO_REQUEST_SHRINK : QUO_REQUEST_GROW);
        } else {
            REQUIRE_OK(QUO_world_probe(w, &enters));
            if (enters) change(1, 1);
            else if (3 == epoch) break;
        }
    }
    if (QUO_WORLD_PARKED != status && 0 == rank()) events();
    CHECK_OK(QUO_world_end(w));
    MPI_Finalize();
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
