/* Moves from host to host, step by step: `hosts MOST HOSTS STEP...`. HOSTS is the option of that name, a step a kind of
 * request, a number of ranks, hosts to grow on and hosts to leave, "-" for none: "grow 2 n2 -". After each step rank 0
 * prints the node of each rank. In Fortran: tests/programs/elastic_hosts.F90. */
#include "../check.h"
#include "quo-elastic.h"

enum { MOST_RANKS = 64 };

static QUO_world w = NULL;

static int
kind_of(const char *word)
{
    static const char *const words[] = {"size", "grow", "shrink", "leave", "move"};
    for (int i = 0; i < 5; ++i) if (0 == strcmp(word, words[i])) return i;
    return -1;
}

/* The number of the request; 0 if it was refused. */
static long long
ask(const char *step)
{
    QUO_request_spec_t spec = QUO_REQUEST_SPEC_INIT;
    char kind[16], on[128], from[128];
    long long request = 0;
    if (4 != sscanf(step, "%15s %d %127s %127s", kind, &spec.ranks, on, from)) exit(EXIT_FAILURE);
    spec.kind = kind_of(kind);
    spec.on = '-' == on[0] ? NULL : on;
    spec.from = '-' == from[0] ? NULL : from;
    spec.grace = 60;
    if (QUO_SUCCESS == QUO_world_ask(w, &spec, &request, NULL)) return request;
    printf("refused: %s\n", QUO_last_error());
    fflush(stdout);
    return 0;
}

static void
say(MPI_Comm comm)
{
    int node = -1, size = 0, rank = -1, nodes[MOST_RANKS];
    long long epoch = 0;
    REQUIRE_OK(QUO_world_node(w, &node));
    REQUIRE_OK(QUO_world_epoch(w, &epoch));
    MPI_Comm_rank(comm, &rank);
    MPI_Comm_size(comm, &size);
    MPI_Gather(&node, 1, MPI_INT, nodes, 1, MPI_INT, 0, comm);
    if (0 != rank) return;
    printf("epoch %lld, nodes", epoch);
    for (int i = 0; i < size; ++i) printf(" %d", nodes[i]);
    printf("\n");
    fflush(stdout);
}

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    int provided, status = 0, enters, rank = -1, turn = 3, over = 0, state = 0;
    long long asked = 0;
    MPI_Comm comm = MPI_COMM_NULL;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    options.max_ranks = atoi(argv[1]);
    options.hosts = argv[2];
    options.start_timeout = 30;
    REQUIRE_OK(QUO_world_create(&w, &options));
    for (;;) {
        REQUIRE_OK(QUO_world_status(w, &status));
        if (QUO_WORLD_ENDED == status) break;
        enters = QUO_WORLD_JOINING == status;
        if (!enters) REQUIRE_OK(QUO_world_probe(w, &enters));
        if (enters) {
            REQUIRE_OK(QUO_world_begin(w));
            REQUIRE_OK(QUO_world_commit(w));
            REQUIRE_OK(QUO_world_status(w, &status));
            if (QUO_WORLD_STAYING != status) continue;
            REQUIRE_OK(QUO_world_comm(w, &comm));
            say(comm);
            continue;
        }
        REQUIRE_OK(QUO_world_comm(w, &comm));
        MPI_Comm_rank(comm, &rank);
        if (0 == rank && 0 != asked) {
            REQUIRE_OK(QUO_world_request_state(w, asked, &state, NULL));
            if (QUO_REQUEST_FAILED == state) printf("failed\n");
            if (QUO_REQUEST_OPEN != state) asked = 0;
        }
        if (0 == rank && 0 == asked) {
            over = turn >= argc;
            if (!over) asked = ask(argv[turn++]);
        }
        MPI_Bcast(&over, 1, MPI_INT, 0, comm);
        if (over) break;
    }
    REQUIRE_OK(QUO_world_end(w));
    MPI_Finalize();
    return EXIT_SUCCESS;
}
