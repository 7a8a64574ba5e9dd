/* Failures of one rank that all ranks get: items of another size, a list that one rank lacks, a migration and a resize
 * without memory on one rank. No item is lost. Three processes, the last one parked. */
#include "../check.h"
#include "quo-elastic.h"

#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

enum { LARGE = 128 << 20, PIECE = 1 << 20, COUNT = LARGE / PIECE };

static int owner_of_all = 0;

static int
owner(void *data, const void *item, int ranks)
{
    (void)item;
    (void)ranks;
    return *(const int *)data;
}

/* Bytes of the process's address space. */
static rlim_t
address_space(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    CHECK(NULL != file && 1 == fscanf(file, "%lu", &pages));
    if (NULL != file) fclose(file);
    return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* Lets a process allocate a part of the items only, or all of them again. */
static void
limit_memory(int is_limited)
{
    struct rlimit limit;
    CHECK(0 == getrlimit(RLIMIT_AS, &limit));
    limit.rlim_cur = is_limited ? address_space() + LARGE / 2 : limit.rlim_max;
    CHECK(0 == setrlimit(RLIMIT_AS, &limit));
}

/* Checks that one rank has all items, with their bytes. */
static void
check_items(QUO_world w, int holder)
{
    void *found = NULL;
    size_t count;
    CHECK_OK(QUO_world_items(w, "large", &found, &count));
    const unsigned char *items = found;
    CHECK_INT((long long)count, check_rank == holder ? COUNT : 0);
    for (size_t i = 0; i < count; ++i) CHECK(items[i * PIECE] == i && items[(i + 1) * PIECE - 1] == i);
}

/* Fails on both ranks with these words. */
static void
fails(QUO_world w, const char *name, int code, const char *words, const char *rank)
{
    CHECK_CODE(QUO_world_migrate(w, name), code);
    CHECK_ERROR_NAMES(words);
    CHECK_ERROR_NAMES(rank);
}

static void
check_migrations(QUO_world w)
{
    void *found = NULL;
    size_t count;
    CHECK_OK(QUO_world_items_add(w, "odd", 0 == check_rank ? 8 : 16, owner, &owner_of_all));
    fails(w, "odd", QUO_ERR_DISAGREE, "`odd` have 16 bytes, and on rank 0 8", "rank 1");
    CHECK_OK(QUO_world_array_remove(w, "odd"));

    if (0 == check_rank) CHECK_OK(QUO_world_items_add(w, "lone", 8, owner, &owner_of_all));
    fails(w, "lone", 0 == check_rank ? QUO_ERR_INVLD_ARG : QUO_ERR_NOT_FOUND, "no list `lone`",
          0 == check_rank ? "rank 1" : "list large");
    if (0 == check_rank) CHECK_OK(QUO_world_array_remove(w, "lone"));

    if (0 == check_rank) {
        CHECK_OK(QUO_world_items_resize(w, "large", COUNT));
        CHECK_OK(QUO_world_items(w, "large", &found, &count));
        unsigned char *items = found;
        for (size_t i = 0; i < count; ++i) memset(items + i * PIECE, (int)i, PIECE);
    }
    owner_of_all = 1;
    if (1 == check_rank) limit_memory(1);
    fails(w, "large", QUO_ERR_OOR, "no memory for 134217728 bytes of `large`", "rank 1");
    check_items(w, 0);
    if (1 == check_rank) limit_memory(0);
    /* The sender needs memory, too. */
    if (0 == check_rank) limit_memory(1);
    fails(w, "large", QUO_ERR_OOR, "no memory for 134217728 bytes of `large`", "rank 0");
    check_items(w, 0);
    if (0 == check_rank) limit_memory(0);
    CHECK_OK(QUO_world_migrate(w, "large"));
    check_items(w, 1);
}

/* Resizes to three ranks, which fails with these words if there are any. */
static void
resize(QUO_world w, const char *words)
{
    int enters = 0;
    if (0 == check_rank) CHECK_OK(QUO_world_request(w, 3, NULL));
    while (!enters) CHECK_OK(QUO_world_probe(w, &enters));
    CHECK_OK(QUO_world_begin(w));
    if (NULL == words) {
        CHECK_OK(QUO_world_commit(w));
    } else {
        CHECK_CODE(QUO_world_commit(w), QUO_ERR_ABORTED);
        CHECK_ERROR_NAMES(words);
    }
}

/* The joiner of both resizes has no memory in the first one. */
static void
join(QUO_world w)
{
    int is_called = 0;
    CHECK_OK(QUO_world_wait(w, &is_called));
    CHECK(is_called);
    limit_memory(1);
    CHECK_OK(QUO_world_begin(w));
    CHECK_CODE(QUO_world_commit(w), QUO_ERR_ABORTED);
    CHECK_ERROR_NAMES("rank 2: `large`: no memory for 134217728 bytes");
    limit_memory(0);
    CHECK_OK(QUO_world_wait(w, &is_called));
    CHECK(is_called);
    CHECK_OK(QUO_world_begin(w));
    CHECK_OK(QUO_world_commit(w));
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_world w = NULL;
    int status;

    /* Another thread's first block would take address space that is limited below. */
    mallopt(M_ARENA_MAX, 1);
    check_init(&argc, &argv);
    options.initial_ranks = 2;
    REQUIRE_OK(QUO_world_create(&w, &options));
    CHECK_OK(QUO_world_items_add(w, "large", PIECE, owner, &owner_of_all));
    CHECK_OK(QUO_world_status(w, &status));
    if (QUO_WORLD_NEW == status) {
        check_migrations(w);
        owner_of_all = 2;
        resize(w, "rank 2: `large`: no memory for 134217728 bytes");
        check_items(w, 1);
        resize(w, NULL);
    } else {
        join(w);
    }
    check_items(w, 2);
    CHECK_OK(QUO_world_end(w));
    return check_finish();
}
