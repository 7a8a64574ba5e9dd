/* A context over several hosts: each rank prints what it sees on one line.
 *
 * over_hosts facts [COLOURS]   of the ranks with the same character, '-' for none
 * over_hosts meet FILE         the same, when FILE exists
 * over_hosts create FILE       the result of create when FILE exists; also written to FILE.RANK
 * over_hosts barriers FILE     barriers until FILE exists, then more; result in FILE.RANK
 */
#define _GNU_SOURCE
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "quo-xpm.h"
#include "quo.h"

static int world_rank;

static void
require(int code, const char *call)
{
    if (QUO_SUCCESS == code) return;
    printf("rank %d: %s: %s: %s\n", world_rank, call, QUO_strerror(code), QUO_last_error());
    fflush(stdout);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

static void
say(const char *word)
{
    printf("rank %d: %s\n", world_rank, word);
    fflush(stdout);
}

static void
wait_for(const char *file)
{
    const struct timespec moment = {0, 5 * 1000 * 1000};
    while (0 != access(file, F_OK)) {
        // Sleeps: between two looks for a file that another process creates.
        nanosleep(&moment, NULL);
    }
}

/* Leaves a note for observers from outside: the launcher may be gone by then. */
static void
leave_note(const char *file, const char *text)
{
    char name[PATH_MAX], hidden[PATH_MAX + 8];
    FILE *note;
    snprintf(name, sizeof(name), "%s.%d", file, world_rank);
    snprintf(hidden, sizeof(hidden), "%s.part", name);
    note = fopen(hidden, "w");
    if (NULL == note) abort();
    fputs(text, note);
    fclose(note);
    if (0 != rename(hidden, name)) abort();
}

/* Each node passes its barrier before any later node enters its own. */
static void
barriers_one_node_after_the_other(QUO_context q, MPI_Comm comm, int qid)
{
    MPI_Comm leaders = MPI_COMM_NULL;
    int token = 0, place, count;
    MPI_Comm_split(comm, 0 == qid ? 0 : MPI_UNDEFINED, 0, &leaders);
    if (MPI_COMM_NULL == leaders) {
        require(QUO_barrier(q), "barrier");
        return;
    }
    MPI_Comm_rank(leaders, &place);
    MPI_Comm_size(leaders, &count);
    if (place > 0) MPI_Recv(&token, 1, MPI_INT, place - 1, 0, leaders, MPI_STATUS_IGNORE);
    require(QUO_barrier(q), "barrier");
    if (place + 1 < count) MPI_Send(&token, 1, MPI_INT, place + 1, 0, leaders);
    MPI_Comm_free(&leaders);
}

/* Returns true if every rank of the node reads what each other rank writes. */
static int
memory_is_shared(QUO_context q, int qid, int nqids)
{
    QUO_xpm_context xpm;
    QUO_xpm_view_t view;
    int same = 1;
    require(QUO_xpm_allocate(q, sizeof(int), &xpm), "xpm_allocate");
    require(QUO_xpm_view_local(xpm, &view), "xpm_view_local");
    *(int *)view.base = 1000 + world_rank;
    require(QUO_barrier(q), "barrier");
    for (int other = 0; other < nqids; ++other) {
        require(QUO_xpm_view_by_qid(xpm, other, &view), "xpm_view_by_qid");
        same = same && (other == qid) == (1000 + world_rank == *(int *)view.base);
    }
    require(QUO_barrier(q), "barrier");
    require(QUO_xpm_free(xpm), "xpm_free");
    return same;
}

static void
tell_facts(QUO_context q, MPI_Comm comm)
{
    int nodes, nqids, qid, bound, one, two, ones, twos, size, rank;
    MPI_Comm node;
    char host[HOST_NAME_MAX + 1] = "";
    gethostname(host, sizeof(host) - 1);
    require(QUO_nnodes(q, &nodes), "nnodes");
    require(QUO_nqids(q, &nqids), "nqids");
    require(QUO_id(q, &qid), "id");
    require(QUO_bound(q, &bound), "bound");
    barriers_one_node_after_the_other(q, comm, qid);
    require(QUO_auto_distrib(q, QUO_OBJ_MACHINE, 1, &one), "auto_distrib");
    require(QUO_auto_distrib(q, QUO_OBJ_MACHINE, 2, &two), "auto_distrib");
    require(QUO_get_mpi_comm_by_type(q, QUO_OBJ_MACHINE, &node), "get_mpi_comm_by_type");
    MPI_Comm_size(node, &size);
    MPI_Comm_rank(node, &rank);
    MPI_Allreduce(&one, &ones, 1, MPI_INT, MPI_SUM, node);
    MPI_Allreduce(&two, &twos, 1, MPI_INT, MPI_SUM, node);
    MPI_Comm_free(&node);
    printf("rank %d: %s nodes %d qids %d id %d selected %d %d machine %d of %d memory %s\n",
           world_rank, host, nodes, nqids, qid, ones, twos, rank, size,
           memory_is_shared(q, qid, nqids) ? "shared" : "WRONG");
    fflush(stdout);
}

static void
facts(const char *colours)
{
    QUO_context q;
    MPI_Comm comm;
    int colour = 0;
    if (NULL != colours) colour = '-' == colours[world_rank] ? MPI_UNDEFINED : colours[world_rank];
    MPI_Comm_split(MPI_COMM_WORLD, colour, 0, &comm);
    if (MPI_COMM_NULL == comm) return;
    require(QUO_create(&q, comm), "create");
    tell_facts(q, comm);
    require(QUO_free(q), "free");
    MPI_Comm_free(&comm);
}

static void
meet(const char *file)
{
    QUO_context q;
    require(QUO_create(&q, MPI_COMM_WORLD), "create");
    say("created");
    wait_for(file);
    tell_facts(q, MPI_COMM_WORLD);
    require(QUO_free(q), "free");
}

static void
try_to_create(const char *file)
{
    QUO_context q = NULL;
    char text[1024];
    int code;
    say("ready");
    wait_for(file);
    code = QUO_create(&q, MPI_COMM_WORLD);
    snprintf(text, sizeof(text), "rank %d: create: %d: %s\n", world_rank, code, QUO_last_error());
    fputs(text, stdout);
    fflush(stdout);
    leave_note(file, text);
    if (QUO_SUCCESS == code) QUO_free(q);
}

static void
go_on(const char *file)
{
    QUO_context q;
    QUO_xpm_context xpm;
    QUO_xpm_view_t view;
    volatile int *seen;
    int qid, code = QUO_SUCCESS;
    char text[1024];
    /* A launcher that loses a host ends the ranks of the others; these must leave their notes first. */
    signal(SIGTERM, SIG_IGN);
    require(QUO_create(&q, MPI_COMM_WORLD), "create");
    require(QUO_id(q, &qid), "id");
    require(QUO_xpm_allocate(q, sizeof(int), &xpm), "xpm_allocate");
    require(QUO_xpm_view_by_qid(xpm, 0, &view), "xpm_view_by_qid");
    seen = view.base;
    say("ready");
    for (int found = 0; !found;) {
        if (0 == qid) *seen = 0 == access(file, F_OK);
        require(QUO_barrier(q), "barrier");
        found = *seen;
        require(QUO_barrier(q), "barrier");
    }
    for (int i = 0; i < 1000 && QUO_SUCCESS == code; ++i) code = QUO_barrier_timed(q, 20.0);
    snprintf(text, sizeof(text), "barriers: %d: %s\n", code, QUO_last_error());
    leave_note(file, text);
    /* The other host may be gone: no call of MPI would end. */
    require(QUO_xpm_free(xpm), "xpm_free");
    require(QUO_free(q), "free");
    leave_note(file, text);
    pause();
}

int
main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : NULL;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
    if (0 == strcmp(what, "facts")) facts(argument);
    else if (0 == strcmp(what, "meet")) meet(argument);
    else if (0 == strcmp(what, "create")) try_to_create(argument);
    else if (0 == strcmp(what, "barriers")) go_on(argument);
    else abort();
    MPI_Finalize();
    return EXIT_SUCCESS;
}
