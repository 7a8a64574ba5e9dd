/* Ranks wait in a barrier, and print "asleep" when they sleep in it.
 * Usage: waits never    the last rank of each node never arrives
 *        waits released the last rank of each node arrives after a write to /run/tmp/release
 *        waits killed   the last rank of the first node is killed in the barrier; the others must
 *                       get an error that names it and be able to continue without it */
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quo.h"

static char main_thread[64];
static int is_to_die = 0;

/* Polls the state of the main thread, which does nothing but wait from now on. */
static void *
watch(void *unused)
{
    (void)unused;
    for (;;) {
        char line[512] = "", *state;
        FILE *file = fopen(main_thread, "r");
        if (NULL == file || NULL == fgets(line, sizeof(line), file)) abort();
        fclose(file);
        state = strrchr(line, ')');
        if (NULL == state || 'S' != state[2]) continue;
        if (is_to_die) raise(SIGKILL);
        /* One piece: others write to the same stream. */
        if (write(STDOUT_FILENO, "asleep\n", 7) != 7) abort();
        return NULL;
    }
}

static void
start_watching(void)
{
    pthread_t thread;
    snprintf(main_thread, sizeof(main_thread), "/proc/self/task/%d/stat", (int)getpid());
    if (0 != pthread_create(&thread, NULL, watch, NULL)) abort();
}

static void
must(int code, const char *call)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s: %s\n", call, QUO_last_error());
    abort();
}
#define MUST(call) must(call, #call)

int
main(int argc, char **argv)
{
    QUO_context q = NULL;
    const char *what = argc > 1 ? argv[1] : "";
    int rank, id, members, code, count = 0, *qids = NULL, node_of_first;
    char host[256], first_host[256];

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 != gethostname(host, sizeof(host))) abort();
    memcpy(first_host, host, sizeof(host));
    MPI_Bcast(first_host, sizeof(first_host), MPI_CHAR, 0, MPI_COMM_WORLD);
    node_of_first = 0 == strcmp(host, first_host);
    MUST(QUO_create(&q, MPI_COMM_WORLD));
    MUST(QUO_id(q, &id));
    MUST(QUO_nqids(q, &members));
    MUST(QUO_barrier(q));

    if (0 == strcmp(what, "never")) {
        if (id == members - 1) {
            for (;;) pause();
        }
        start_watching();
        QUO_barrier(q);
        abort();
    }
    if (0 == strcmp(what, "released")) {
        start_watching();
        if (id == members - 1 && 0 > open("/run/tmp/release", O_RDONLY)) abort();
        MUST(QUO_barrier(q));
        printf("rank %d on %s: all came\n", rank, host);
        MUST(QUO_free(q));
        MPI_Finalize();
        return EXIT_SUCCESS;
    }
    if (0 != strcmp(what, "killed")) return EXIT_FAILURE;
    if (node_of_first && id == members - 1) {
        is_to_die = 1;
        start_watching();
        QUO_barrier(q);
        abort();
    }
    if (node_of_first && 0 == id) {
        /* Arrives only after the other is dead: no rank can complete the barrier with it. */
        do {
            free(qids);
            MUST(QUO_dead_qids(q, &count, &qids));
        } while (0 == count);
        free(qids);
    }
    code = QUO_barrier(q);
    if (QUO_SUCCESS == code) {
        printf("rank %d on %s: all came\n", rank, host);
    } else {
        printf("rank %d on %s: %s\n", rank, host, QUO_last_error());
        if (QUO_ERR_DEAD_MEMBER != code) return EXIT_FAILURE;
        /* No rank expels the dead one before all have seen the error. Here ranks and qids are equal. */
        for (int other = 1; 0 == id && other < members - 1; ++other) {
            MPI_Send(NULL, 0, MPI_INT, other, 0, MPI_COMM_WORLD);
        }
        if (0 != id) MPI_Recv(NULL, 0, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        /* Another survivor may have been faster. */
        code = QUO_expel(q, members - 1);
        if (QUO_SUCCESS_ALREADY_DONE != code) MUST(code);
        MUST(QUO_barrier(q));
        printf("rank %d on %s: on without it\n", rank, host);
    }
    fflush(stdout);
    /* MPI_Finalize would wait for the dead rank. */
    _exit(EXIT_SUCCESS);
}
