/* A rank is killed before the world is made, or some microseconds after it has begun to make it:
 * elastic_create_death MICROSECONDS. Each of the others prints how long the call took, and the error. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "clock.h"
#include "quo-elastic.h"

enum { VICTIM = 2 };

int
main(int argc, char **argv)
{
    int level, rank, code;
    useconds_t delay = argc == 2 ? (useconds_t)atoi(argv[1]) : 0;
    QUO_world world;
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    pthread_t killer;
    double begin;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    options.initial_ranks = 3;
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == VICTIM) {
        if (delay == 0) kill(getpid(), SIGKILL);
        pthread_create(&killer, NULL, kill_later, &delay);
    }
    begin = seconds();
    code = QUO_world_create(&world, &options);
    printf("rank %d creates for %.3f s: %d %s\n", rank, seconds() - begin, code, code ? QUO_last_error() : "");
    fflush(stdout);
    if (rank == VICTIM) pause();
    /* MPI would wait in MPI_Finalize for the missing rank. */
    _exit(0);
}
