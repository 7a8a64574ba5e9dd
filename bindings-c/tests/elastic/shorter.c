/* A program that was compiled against the first header of the elastic world: its structures end where later ones
 * continue, and nothing may be read or written beyond them. Two processes, one of them parked at first. */
#define _DEFAULT_SOURCE
#include <sys/mman.h>
#include <unistd.h>

#include "../check.h"
#include "quo-elastic.h"

/* The original structures. */
typedef struct {
    size_t size;
    int initial_ranks, max_ranks, processes_per_spawn, allow_oversubscribe, control, messages;
    double start_timeout;
    const char *name, *log, *plan;
} first_options_t;

/* Memory of this many bytes, followed by an inaccessible page. */
static void *
at_the_edge(size_t length)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (MAP_FAILED == (void *)pages || 0 != mprotect(pages + page, page, PROT_NONE)) exit(EXIT_FAILURE);
    return pages + page - length;
}

int
main(int argc, char **argv)
{
    first_options_t *options = at_the_edge(sizeof(*options));
    QUO_world_options_t today = QUO_WORLD_OPTIONS_INIT;
    QUO_world w = NULL;
    int size = 0, status = 0, joins = 1;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &check_rank);
    CHECK(sizeof(*options) < sizeof(today));
    options->size = sizeof(*options);
    options->initial_ranks = 1;
    options->name = "first";
    REQUIRE_OK(QUO_world_create(&w, (const QUO_world_options_t *)(const void *)options));
    REQUIRE_OK(QUO_world_size(w, &size));
    CHECK_INT(size, 1);
    REQUIRE_OK(QUO_world_status(w, &status));
    CHECK_INT(status, 0 == check_rank ? QUO_WORLD_NEW : QUO_WORLD_PARKED);
    if (0 != check_rank) {
        REQUIRE_OK(QUO_world_wait(w, &joins));
        CHECK_INT(joins, 0);
    }
    REQUIRE_OK(QUO_world_end(w));
    /* Shorter than the first version. */
    options->size = sizeof(*options) - sizeof(char *);
    CHECK_CODE(QUO_world_create(&w, (const QUO_world_options_t *)(const void *)options), QUO_ERR_INVLD_ARG);
    CHECK_ERROR_NAMES("the size of QUO_world_options_t");
    if (0 == check_rank && 0 == check_failures) printf("ok\n");
    MPI_Finalize();
    return 0 == check_failures ? EXIT_SUCCESS : EXIT_FAILURE;
}
