/* Lists of items while the world grows and shrinks: each item is with its owner after a resize and after a migration, none
 * is lost, an owner that is no rank moves nothing, and items may be put in between probe and begin. Four processes. */
#include "../check.h"
#include "quo-elastic.h"

enum { ALL = 1000 };

typedef struct {
    long long number;
    double place;
    char text[5];
} item_t;

/* What joiners receive. */
static struct {
    int reached; /* index of the size that is requested */
    int steps;
} state;

static const int sizes[] = {4, 1, 3, 2, 4};
static const int count_of_sizes = sizeof(sizes) / sizeof(sizes[0]);
static int asked = -1, is_lost = 0;

static int
owner(void *data, const void *item, int ranks)
{
    const item_t *one = item;
    if (*(const int *)data && 20 == one->number) return -5;
    return (int)(one->place * ranks);
}

/* Fails, or gives all items to the last rank. */
static int
owners(void *data, const void *items, size_t count, int ranks, int *out)
{
    const item_t *all = items;
    for (size_t i = 0; i < count; ++i) out[i] = 0 == all[i].number ? ranks - 1 : -2;
    return *(const int *)data;
}

/* A list whose owners are set in one call. Two ranks. */
static void
check_owners(QUO_world w)
{
    int fails = 7;
    size_t count;
    void *items = NULL;
    CHECK_CODE(QUO_world_items_add_with_owners(w, "at once", sizeof(item_t), NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK_OK(QUO_world_items_add_with_owners(w, "at once", sizeof(item_t), owners, &fails));
    CHECK_OK(QUO_world_items_resize(w, "at once", 2));
    CHECK_CODE(QUO_world_migrate(w, "at once"), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("`at once`: rank 0: the program's owners returned 7");
    fails = 0;
    CHECK_OK(QUO_world_migrate(w, "at once"));
    CHECK_OK(QUO_world_items(w, "at once", &items, &count));
    CHECK_INT((long long)count, 1 == check_rank ? 4 : 0);
    CHECK_OK(QUO_world_array_remove(w, "at once"));
}

static item_t *
items_of(QUO_world w, size_t *count)
{
    void *items = NULL;
    CHECK_OK(QUO_world_items(w, "items", &items, count));
    return items;
}

static void
add(QUO_world w)
{
    int rank, size;
    size_t count;
    CHECK_OK(QUO_world_rank(w, &rank));
    CHECK_OK(QUO_world_size(w, &size));
    items_of(w, &count);
    CHECK(0 == count);
    /* One rank has all, and one too many for a moment. */
    if (0 != rank) return;
    CHECK_OK(QUO_world_items_resize(w, "items", ALL + 1));
    item_t *items = items_of(w, &count);
    CHECK(ALL + 1 == count);
    for (size_t i = 0; i < count; ++i) {
        items[i].number = (long long)i;
        items[i].place = (double)(i * 37 % ALL) / ALL;
        memcpy(items[i].text, "item", 5);
    }
    CHECK_OK(QUO_world_items_resize(w, "items", ALL));
}

/* Checks that all items are there once, and with their owners. */
static void
check_all(QUO_world w)
{
    int rank, size;
    size_t count;
    MPI_Comm comm;
    long long own[2] = {0, 0}, all[2];
    CHECK_OK(QUO_world_rank(w, &rank));
    CHECK_OK(QUO_world_size(w, &size));
    CHECK_OK(QUO_world_comm(w, &comm));
    const item_t *items = items_of(w, &count);
    for (size_t i = 0; i < count; ++i) {
        CHECK(rank == (int)(items[i].place * size));
        CHECK_STRING(items[i].text, "item");
        own[1] += items[i].number;
    }
    own[0] = (long long)count;
    MPI_Allreduce(own, all, 2, MPI_LONG_LONG, MPI_SUM, comm);
    CHECK_INT(all[0], ALL);
    CHECK_INT(all[1], (long long)ALL * (ALL - 1) / 2);
}

static int
step(QUO_world w, void *data)
{
    int size;
    size_t count;
    (void)data;
    CHECK_OK(QUO_world_size(w, &size));
    if (0 == state.steps) CHECK_OK(QUO_world_migrate(w, "items"));
    check_all(w);
    item_t *items = items_of(w, &count);
    for (size_t i = 0; i < count; ++i) items[i].place = items[i].place < 0.9 ? items[i].place + 0.1 : 0;
    CHECK_OK(QUO_world_migrate(w, "items"));
    check_all(w);
    if (0 == state.steps++) {
        /* Fails while items of other ranks are to move; the next one moves them. */
        items = items_of(w, &count);
        for (size_t i = 0; i < count; ++i) items[i].place = items[i].place < 0.9 ? items[i].place + 0.1 : 0;
        is_lost = 1;
        CHECK_CODE(QUO_world_migrate(w, "items"), QUO_ERR_INVLD_ARG);
        CHECK_ERROR_NAMES("is rank -5");
        is_lost = 0;
        CHECK_OK(QUO_world_migrate(w, "items"));
        check_all(w);
    }
    if (size == sizes[state.reached] && ++state.reached == count_of_sizes) return 0;
    if (0 == check_rank && asked != state.reached) {
        asked = state.reached;
        CHECK_OK(QUO_world_request(w, sizes[asked], NULL));
    }
    return 1;
}

/* Waits for the end of a resize that an owner aborts. */
static int
fail(QUO_world w, void *data)
{
    int size, state_of = QUO_REQUEST_OPEN;
    long long *request = data;
    CHECK_OK(QUO_world_size(w, &size));
    CHECK_INT(size, 4);
    if (0 == check_rank) {
        if (0 == *request) {
            CHECK_OK(QUO_world_request(w, 2, request));
        } else {
            CHECK_OK(QUO_world_request_state(w, *request, &state_of, NULL));
        }
    }
    int over = QUO_REQUEST_FAILED == state_of;
    MPI_Comm comm;
    CHECK_OK(QUO_world_comm(w, &comm));
    MPI_Bcast(&over, 1, MPI_INT, 0, comm);
    return !over;
}

/* A program whose items are in memory of its own: it copies them into the list between the probe and the begin. */
static void
copy_before_begin(QUO_world w)
{
    int enters = 0;
    size_t count;
    const item_t *items = items_of(w, &count);
    item_t *own = malloc(count * sizeof(item_t) + 1);
    CHECK(NULL != own);
    memcpy(own, items, count * sizeof(item_t));
    CHECK_OK(QUO_world_items_resize(w, "items", 0));
    if (0 == check_rank) CHECK_OK(QUO_world_request(w, 2, NULL));
    while (!enters) CHECK_OK(QUO_world_probe(w, &enters));
    CHECK_OK(QUO_world_items_resize(w, "items", count));
    memcpy(items_of(w, &count), own, count * sizeof(item_t));
    free(own);
    CHECK_OK(QUO_world_begin(w));
    CHECK_CODE(QUO_world_items_resize(w, "items", 0), QUO_ERR_STATE);
    CHECK_OK(QUO_world_commit(w));
    int rank;
    CHECK_OK(QUO_world_rank(w, &rank));
    if (MPI_UNDEFINED != rank) check_all(w);
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_world w = NULL;
    int status;
    long long request = 0;
    void *items;
    size_t count;

    check_init(&argc, &argv);
    options.initial_ranks = 2;
    REQUIRE_OK(QUO_world_create(&w, &options));
    CHECK_CODE(QUO_world_items_add(w, "items", 8, NULL, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_items_add(w, "items", 0, owner, NULL), QUO_ERR_INVLD_ARG);
    CHECK_CODE(QUO_world_items(w, "items", &items, &count), QUO_ERR_NOT_FOUND);
    CHECK_OK(QUO_world_items_add(w, "items", sizeof(item_t), owner, &is_lost));
    CHECK_CODE(QUO_world_items_add(w, "items", sizeof(item_t), owner, &is_lost), QUO_ERR_INVLD_ARG);
    CHECK_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_NEW == status) {
        check_owners(w);
        add(w);
    } else {
        CHECK_CODE(QUO_world_items_resize(w, "items", 1), QUO_ERR_STATE);
        CHECK_CODE(QUO_world_migrate(w, "items"), QUO_ERR_STATE);
    }
    CHECK_OK(QUO_world_run(w, step, NULL, &state, sizeof(state)));
    is_lost = 1;
    CHECK_OK(QUO_world_run(w, fail, &request, NULL, 0));
    is_lost = 0;
    check_all(w);
    copy_before_begin(w);
    CHECK_OK(QUO_world_end(w));
    return check_finish();
}
