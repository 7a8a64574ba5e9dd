/* A joiner is killed some microseconds after it has entered a resize: elastic_begin_death MICROSECONDS, on four
 * processes, three of them ranks. Each rank then ends the world and prints how long that took, and the error. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "quo-elastic.h"

int
main(int argc, char **argv)
{
    int level, rank, status, joins, enters, code = QUO_SUCCESS;
    useconds_t delay = argc == 2 ? (useconds_t)atoi(argv[1]) : 0;
    QUO_world world;
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    pthread_t killer;
    double begin;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    options.initial_ranks = 3;
    options.plan = "after 100ms: size 4";
    if (QUO_world_create(&world, &options) != QUO_SUCCESS) {
        fprintf(stderr, "create: %s\n", QUO_last_error());
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    QUO_world_status(world, &status);
    if (status == QUO_WORLD_PARKED) {
        QUO_world_wait(world, &joins);
        pthread_create(&killer, NULL, kill_later, &delay);
        QUO_world_begin(world);
        QUO_world_commit(world);
        pause();
    }
    for (begin = seconds(), enters = 0; !enters && seconds() - begin < 20;) {
        const struct timespec pause = {0, 1000000};
        code = QUO_world_probe(world, &enters);
        if (code != QUO_SUCCESS) break;
        // Sleeps: stands for an iteration.
        nanosleep(&pause, NULL);
    }
    if (enters && QUO_world_begin(world) == QUO_SUCCESS) QUO_world_commit(world);
    begin = seconds();
    code = QUO_world_end(world);
    printf("rank %d ends after %.3f s: %d %s\n", rank, seconds() - begin, code, QUO_last_error());
    fflush(stdout);
    /* MPI would wait in MPI_Finalize for the missing process. */
    _exit(0);
}
