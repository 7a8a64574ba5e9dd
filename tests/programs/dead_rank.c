/* A rank is killed; the others must get an error that names it. The survivors leave without
 * MPI_Finalize, which would wait for the dead rank.
 * Usage: dead_rank barrier|between|create|unannounced */
#define _GNU_SOURCE
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "clock.h"
#include "quo.h"

static char main_thread[64];

/* Kills the process as soon as its main thread sleeps. */
static void *
kill_when_asleep(void *unused)
{
    (void)unused;
    for (;;) {
        char line[512] = "", *state;
        FILE *file = fopen(main_thread, "r");
        if (NULL == file || NULL == fgets(line, sizeof(line), file)) abort();
        fclose(file);
        state = strrchr(line, ')');
        if (NULL != state && 'S' == state[2]) raise(SIGKILL);
    }
    return NULL;
}

/* Kills the process as soon as a segment is in the directory: create is half done then. */
static void *
kill_when_segment_is_made(void *directory)
{
    for (;;) {
        struct dirent *entry;
        DIR *folder = opendir(directory);
        if (NULL == folder) abort();
        while (NULL != (entry = readdir(folder))) {
            if (0 == strncmp(entry->d_name, "quo-", 4)) raise(SIGKILL);
        }
        closedir(folder);
    }
    return NULL;
}

static void
start(void *(*killer)(void *))
{
    pthread_t thread;
    char *directory = getenv("QUO_TMPDIR");
    snprintf(main_thread, sizeof(main_thread), "/proc/self/task/%d/stat", (int)getpid());
    if (0 != pthread_create(&thread, NULL, killer, directory)) abort();
}

static void
survive(int rank, const char *call, int code, double since)
{
    printf("rank %d: %s: %s after %.3f s: %s\n", rank, call, QUO_strerror(code), seconds() - since,
           QUO_last_error());
    fflush(stdout);
    _exit(QUO_ERR_DEAD_MEMBER == code || QUO_ERR_TIMEOUT == code ? 0 : 1);
}

int
main(int argc, char **argv)
{
    QUO_context q = NULL;
    const char *where = argc > 1 ? argv[1] : "";
    int rank, code;
    double since;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (0 == strcmp(where, "create")) {
        if (0 == rank) start(kill_when_segment_is_made);
        since = seconds();
        code = QUO_create(&q, MPI_COMM_WORLD);
        /* Rank 0 is killed in its create or, rarely, survives: then there is nothing to report. */
        if (QUO_SUCCESS == code) {
            printf("rank %d: lived on\n", rank);
            fflush(stdout);
            _exit(42);
        }
        survive(rank, "create", code, since);
    }
    if (0 == strcmp(where, "unannounced")) {
        if (1 == rank) raise(SIGKILL);
        since = seconds();
        code = QUO_create(&q, MPI_COMM_WORLD);
        survive(rank, "create", code, since);
    }
    if (QUO_SUCCESS != QUO_create(&q, MPI_COMM_WORLD)) abort();
    if (QUO_SUCCESS != QUO_barrier(q)) abort();
    if (1 == rank) {
        if (0 == strcmp(where, "between")) raise(SIGKILL);
        start(kill_when_asleep);
        /* Rank 2 does not enter this barrier until rank 1 is dead, see below. */
        QUO_barrier(q);
        abort();
    }
    if (0 == strcmp(where, "barrier") && 2 == rank) {
        /* Arrives only after rank 1 is dead, which therefore cannot complete the barrier. */
        int count = 0, *qids = NULL;
        do {
            if (QUO_SUCCESS != QUO_dead_qids(q, &count, &qids)) abort();
            free(qids);
        } while (0 == count);
    }
    since = seconds();
    code = QUO_barrier(q);
    survive(rank, "barrier", code, since);
    return EXIT_FAILURE;
}
