/* A program of elements that grows to two ranks; the joiner is killed while its parent waits for it. */

#define _POSIX_C_SOURCE 200809L

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "quo-program.h"

static int steps = 0;

static int
init(QUO_world w, int argc, char **argv, void **data)
{
    (void)w;
    (void)argc;
    (void)argv;
    *data = &steps;
    return 0;
}

static int
compute(QUO_world w, void *data)
{
    int *step = data;
    sched_yield();
    return ++*step == 3 ? QUO_world_request(w, 2, NULL) : QUO_SUCCESS;
}

static int
redistribute(QUO_world w, void *data)
{
    int status, code = QUO_world_status(w, &status);
    if (QUO_SUCCESS == code && QUO_WORLD_JOINING == status) raise(SIGKILL);
    return QUO_SUCCESS == code ? QUO_window_broadcast(w, data, sizeof(int)) : code;
}

static int
again(void *data)
{
    (void)data;
    return 1;
}

int
main(int argc, char **argv)
{
    static const QUO_element_t elements[] = {
        {QUO_ELEMENT_INIT, "init", init, NULL, NULL, NULL, NULL},
        {QUO_ELEMENT_ELASTIC, "steps", NULL, compute, redistribute, again, NULL},
    };
    const QUO_program_t program = QUO_PROGRAM(elements);
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    int level, code;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
    options.initial_ranks = 1;
    options.max_ranks = 2;
    options.allow_oversubscribe = 1;
    code = QUO_program_run(&program, &options, argc, argv);
    printf("ended with %d after %d steps: %s\n", code, steps, QUO_last_error());
    fflush(stdout);
    /* MPI_Finalize would wait for the dead joiner. */
    _exit(QUO_SUCCESS != code);
}
