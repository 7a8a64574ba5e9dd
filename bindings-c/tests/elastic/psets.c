/* Calls of process sets with wrong arguments, or out of place: collective calls fail on all ranks. Two ranks. */
#include "../check.h"
#include "quo-elastic.h"

static QUO_world w = NULL;

static void
without_sets(void)
{
    QUO_pset_info_t info = {.size = sizeof(info)};
    int acceptance = -7;
    REQUIRE_OK(QUO_world_create(&w, NULL));
    CHECK_CODE(QUO_pset_info(w, "mpi://WORLD", &info), QUO_ERR_STATE);
    CHECK_ERROR_NAMES("process_sets");
    CHECK_CODE(QUO_world_accept(w, "mpi://a", "mpi://b", 0, &acceptance, NULL), QUO_ERR_STATE);
    CHECK_INT(acceptance, -7);
    REQUIRE_OK(QUO_world_end(w));
}

static void
wrong(void)
{
    QUO_pset_info_t info = {.size = 3};
    QUO_pset_view_t view = {.size = sizeof(view)};
    QUO_pset_change_t change = QUO_PSET_CHANGE_INIT;
    long long member = -7;
    const long long sizes[] = {-1, 3};
    int count = -7;
    long long *members = &member;
    size_t length = 7;
    void *data = &info;
    char *text = (char *)&info;

    CHECK_CODE(QUO_pset_member(w, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_names(w, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_info(w, "mpi://WORLD", &info), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("QUO_pset_info_t");
    CHECK_CODE(QUO_pset_info(w, NULL, &info), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_members(w, "world", &members, &count), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("begin with mpi://");
    CHECK(NULL == members);
    CHECK_INT(count, -7);
    CHECK_CODE(QUO_pset_members(w, "mpi://none", &members, &count), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_pset_operate(w, 3, "mpi://WORLD", "mpi://SELF", NULL, NULL, &text), QUO_ERR_INVLD_ARG);
    CHECK(NULL == text);
    change.hints = "other=1";
    CHECK_CODE(QUO_pset_operate(w, QUO_PSET_UNION, "mpi://WORLD", "mpi://SELF", NULL, &change, NULL),
               QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("mpi_ps_sched_");
    CHECK_CODE(QUO_pset_split(w, "mpi://WORLD", sizes, 2, "mpi://app/sets/parts", NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_split(w, "mpi://WORLD", NULL, 2, "mpi://app/sets/parts", NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_publish(w, "mpi://SELF", "key", "a", 1, NULL), QUO_ERR_NOT_FOUND);
    CHECK_CODE(QUO_pset_publish(w, "mpi://WORLD", "key", NULL, 1, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_pset_lookup(w, "mpi://WORLD", "key", -1, &data, &length, NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK(NULL == data);
    REQUIRE_OK(QUO_pset_query(w, "mpi://WORLD", &view, &text));
    CHECK_INT(view.kind, QUO_PSET_NO_CHANGE);
    CHECK_STRING(text, "");
    free(text);
    CHECK_CODE(QUO_world_confirm(w, 0, &text), QUO_ERR_STATE);
    CHECK(NULL == text);
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    int acceptance = -7, is_first, enters = 0;
    char *set = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    is_first = 0 == check_rank;
    without_sets();
    options.process_sets = 1;
    options.name = "sets";
    REQUIRE_OK(QUO_world_create(&w, &options));
    wrong();
    /* Only the arguments of rank 0 count; wrong ones fail on both. */
    CHECK_CODE(QUO_world_accept(w, is_first ? "no delta" : "mpi://SELF", "mpi://app/sets", 1, &acceptance, &set),
               is_first ? QUO_ERR_INVLD_ARG : QUO_ERR_REFUSED);
    CHECK_CODE(QUO_world_accept(w, "mpi://SELF", "mpi://app/sets", is_first ? -1 : 1, &acceptance, &set),
               is_first ? QUO_ERR_INVLD_ARG : QUO_ERR_REFUSED);
    CHECK_CODE(QUO_world_accept(w, is_first ? "mpi://WORLD" : NULL, "mpi://app/sets", is_first ? 0 : -1, &acceptance,
                                &set), QUO_ERR_REFUSED);
    if (!is_first) CHECK_ERROR_NAMES("mpi://WORLD is no delta");
    CHECK_INT(acceptance, -7);
    CHECK(NULL == set);
    /* A resize that has ended, or never was, is no error. */
    REQUIRE_OK(QUO_world_accept(w, "mpi://rte/sets/delta/9", "mpi://app/sets", 1, &acceptance, &set));
    CHECK_INT(acceptance, QUO_ACCEPT_ABORTED);
    CHECK_STRING(set, "");
    free(set);
    REQUIRE_OK(QUO_world_probe(w, &enters));
    CHECK_INT(enters, 0);
    REQUIRE_OK(QUO_world_end(w));
    if (0 == check_rank && 0 == check_failures) printf("ok\n");
    MPI_Finalize();
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
