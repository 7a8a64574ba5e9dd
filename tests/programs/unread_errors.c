/* Programs that do not notice their errors, and correct programs; the first argument selects one. */
#include "quo.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static QUO_context q;
static QUO_phase phase;

static void start(void)
{
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    spec.type = QUO_OBJ_MACHINE;
    spec.name = "solve";
    MPI_Init(NULL, NULL);
    if (QUO_create(&q, MPI_COMM_WORLD) || QUO_phase_create(q, &spec, &phase)) {
        fprintf(stderr, "not created: %s\n", QUO_last_error());
        MPI_Abort(MPI_COMM_WORLD, 99);
    }
}

static void run(void)
{
    int selected, threads;
    QUO_phase_begin(phase, &selected, &threads);
    QUO_phase_end(phase);
}

static void stop(void)
{
    QUO_phase_free(phase);
    QUO_free(q);
    MPI_Finalize();
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int selected = 0, threads = 0;
    if (0 == strcmp(what, "before-mpi")) {
        QUO_create(&q, MPI_COMM_WORLD);
        return 0;
    }
    start();
    if (0 == strcmp(what, "right")) {
        run();
        run();
        stop();
    } else if (0 == strcmp(what, "never-ended")) {
        for (int step = 0; step < 3; ++step) QUO_phase_begin(phase, &selected, &threads);
        stop();
    } else if (0 == strcmp(what, "asked")) {
        if (QUO_bind_pop(q)) puts(QUO_last_error());
        puts(QUO_strerror(QUO_phase_end(phase)));
        stop();
    } else if (0 == strcmp(what, "answers")) {
        int rank;
        MPI_Comm_rank(MPI_COMM_WORLD, &rank);
        if (0 == rank) QUO_barrier_timed(q, 0);
        MPI_Barrier(MPI_COMM_WORLD);
        if (0 != rank) QUO_barrier_timed(q, 0);
        stop();
    } else if (0 == strcmp(what, "end-without-begin")) {
        printf("code %d\n", QUO_phase_end(phase));
        stop();
    } else if (0 == strcmp(what, "too-late")) {
        MPI_Finalize();
        QUO_phase_free(phase);
        QUO_free(q);
    } else if (0 == strcmp(what, "forked")) {
        QUO_phase_begin(phase, &selected, &threads);
        pid_t child = fork();
        if (0 == child) {
            QUO_bind_pop(q);
            exit(0);
        }
        waitpid(child, NULL, 0);
        QUO_phase_end(phase);
        stop();
    } else if (0 == strcmp(what, "exits-inside")) {
        QUO_phase_begin(phase, &selected, &threads);
        exit(3);
    } else {
        return 98;
    }
    puts("went on to the end");
    return 0;
}
