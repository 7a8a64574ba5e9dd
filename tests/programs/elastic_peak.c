/* An array of 256 MiB moves from two ranks to four and back: `memprof run -- mpirun -n 4 elastic_peak`. */

#include <mpi.h>
#include <sched.h>
#include <stdio.h>

#include "quo-program.h"

#include "../../memprof/api/include/memprof.h"

extern const memprof_hooks_t *memprof_hooks(uint32_t version) __attribute__((weak));

enum { ELEMENTS = 1 << 25 };

/* The current number of ranks and the next one, and 1 if that has been requested. */
static struct state {
    int size, next, asked;
} state = {0, 4, 0};

static int
init(QUO_world w, int argc, char **argv, void **data)
{
    QUO_array_spec_t spec = QUO_ARRAY_SPEC_INIT;
    void *part;
    size_t count;
    int status;
    (void)argc;
    (void)argv;
    *data = &state;
    if (QUO_world_status(w, &status)) return 1;
    if (QUO_WORLD_NEW != status) return 0;
    spec.columns = ELEMENTS;
    if (QUO_world_array_add(w, "array", &spec)) return 1;
    if (QUO_world_array(w, "array", &part, NULL, &count)) return 1;
    for (size_t at = 0; at < count; ++at) ((double *)part)[at] = 1;
    return 0;
}

/* Runs on all ranks; reports what the profiler finds, as a program does. Then sets the next number. */
static int
hold(QUO_world w, void *data)
{
    struct state *now = data;
    memprof_totals_t totals = {0};
    const memprof_hooks_t *profiler = memprof_hooks ? memprof_hooks(1) : NULL;
    if (QUO_world_size(w, &now->size)) return 1;
    if (profiler && !profiler->flush() && !profiler->totals(&totals))
        printf("%d ranks: %llu bytes\n", now->size, (unsigned long long)totals.resident);
    now->next = now->size == 4 ? 2 : 4;
    now->asked = 0;
    return 0;
}

static int
step(QUO_world w, void *data)
{
    struct state *now = data;
    int rank;
    sched_yield();
    if (QUO_world_size(w, &now->size) || QUO_world_rank(w, &rank)) return 1;
    if (now->size == now->next || now->asked) return 0;
    now->asked = 1;
    return 0 == rank ? QUO_world_request(w, now->next, NULL) : 0;
}

static int
again(void *data)
{
    struct state *now = data;
    return now->size != now->next;
}

static int
follow(QUO_world w, void *data)
{
    (void)w;
    (void)data;
    return 0;
}

static const QUO_element_t elements[] = {
    {QUO_ELEMENT_INIT, "init", init, NULL, NULL, NULL, NULL},
    {QUO_ELEMENT_RIGID, "two", NULL, hold, NULL, NULL, NULL},
    {QUO_ELEMENT_ELASTIC, "grow", NULL, step, follow, again, NULL},
    {QUO_ELEMENT_RIGID, "four", NULL, hold, NULL, NULL, NULL},
    {QUO_ELEMENT_ELASTIC, "shrink", NULL, step, follow, again, NULL},
    {QUO_ELEMENT_RIGID, "end", NULL, hold, NULL, NULL, NULL},
};

int
main(int argc, char **argv)
{
    const QUO_program_t program = QUO_PROGRAM(elements);
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    int code;
    options.initial_ranks = 2;
    options.messages = 1; /* as between nodes: nothing of another rank is mapped */
    MPI_Init(&argc, &argv);
    code = QUO_program_run(&program, &options, argc, argv);
    if (QUO_SUCCESS != code) fprintf(stderr, "%s\n", QUO_last_error());
    MPI_Finalize();
    return QUO_SUCCESS != code;
}
