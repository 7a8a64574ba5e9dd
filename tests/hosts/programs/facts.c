/* Prints what a rank finds as one line of NAME=VALUE pairs, which the suite checks. Masks are the
 * kernel's, not libquo's. Usage: facts [CPUS], a list to push explicitly. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "quo.h"

static const struct {
    const char *name;
    QUO_obj_type_t type;
} types[] = {
    {"machine", QUO_OBJ_MACHINE},
    {"numanode", QUO_OBJ_NUMANODE},
    {"package", QUO_OBJ_PACKAGE},
    {"core", QUO_OBJ_CORE},
    {"pu", QUO_OBJ_PU},
};
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static char line[16384];

static void
add(const char *format, ...)
{
    size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(line + used, sizeof(line) - used, format, arguments);
    va_end(arguments);
}

/* Returns the kernel's mask of the calling thread, as CPUs separated by commas. */
static void
add_mask(const char *prefix, const char *name)
{
    cpu_set_t mask;
    const char *comma = "";
    CPU_ZERO(&mask);
    if (0 != sched_getaffinity(0, sizeof(mask), &mask)) abort();
    add("%s%s=", prefix, name);
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
        if (!CPU_ISSET(cpu, &mask)) continue;
        add("%s%d", comma, cpu);
        comma = ",";
    }
    add(" ");
}

static void
must(int code, const char *call)
{
    if (QUO_SUCCESS == code) return;
    fprintf(stderr, "%s: %s\n", call, QUO_last_error());
    exit(EXIT_FAILURE);
}
#define MUST(call) must(call, #call)

/* Pushes the object around the caller, of every type, and pops each. */
static void
push_all(QUO_context q)
{
    for (int i = 0; i < TYPES; ++i) {
        MUST(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, types[i].type, -1));
        add_mask("push-", types[i].name);
        MUST(QUO_bind_pop(q));
        add_mask("pop-", types[i].name);
    }
    /* And through all of them at once. */
    for (int i = TYPES; i-- > 0;) MUST(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, types[i].type, -1));
    add_mask("", "nested");
    for (int i = 0; i < TYPES; ++i) MUST(QUO_bind_pop(q));
    add_mask("pop-", "nested");
}

/* One worker on the node's machine; the others sleep. */
static void
run_phase(QUO_context q)
{
    QUO_phase phase = NULL;
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    int selected = 0, threads = 0;
    spec.type = QUO_OBJ_MACHINE;
    MUST(QUO_phase_create(q, &spec, &phase));
    MUST(QUO_phase_begin(phase, &selected, &threads));
    add_mask("", "phase");
    add("phase-selected=%d phase-threads=%d ", selected, threads);
    MUST(QUO_phase_end(phase));
    add_mask("pop-", "phase");
    MUST(QUO_phase_free(phase));
}

int
main(int argc, char **argv)
{
    QUO_context q = NULL;
    MPI_Comm communicator;
    int rank, size, number, count = 0, *qids = NULL;
    char host[256], *text = NULL;

    add_mask("", "first");
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (0 != gethostname(host, sizeof(host))) abort();
    add("rank=%d size=%d host=%s ", rank, size, host);

    MUST(QUO_create(&q, MPI_COMM_WORLD));
    add_mask("", "created");
    MUST(QUO_nnodes(q, &number));
    add("nnodes=%d ", number);
    MUST(QUO_nqids(q, &number));
    add("nqids=%d ", number);
    MUST(QUO_id(q, &number));
    add("id=%d ", number);
    MUST(QUO_bound(q, &number));
    add("bound=%d ", number);
    MUST(QUO_stringify_cbind(q, &text));
    add("binding=%s ", text);
    free(text);
    for (int i = 0; i < 100; ++i) MUST(QUO_barrier(q));

    for (int i = 0; i < TYPES; ++i) {
        MUST(QUO_nobjs_by_type(q, types[i].type, &number));
        add("n-%s=%d ", types[i].name, number);
        MUST(QUO_auto_distrib(q, types[i].type, 1, &number));
        add("selected-%s=%d ", types[i].name, number);
        MUST(QUO_qids_in_type(q, types[i].type, 0, &count, &qids));
        add("qids-in-%s=%d ", types[i].name, count);
        free(qids);
        MUST(QUO_get_mpi_comm_by_type(q, types[i].type, &communicator));
        MPI_Comm_size(communicator, &number);
        add("comm-%s=%d ", types[i].name, number);
        MPI_Comm_free(&communicator);
    }
    push_all(q);
    run_phase(q);
    if (argc > 1) {
        number = QUO_bind_push_cpuset(q, argv[1]);
        if (QUO_SUCCESS == number) {
            add_mask("", "explicit");
            MUST(QUO_bind_pop(q));
        } else {
            printf("rank %d was refused: %s\n", rank, QUO_last_error());
        }
        add("explicit-code=%d ", number);
        add_mask("pop-", "explicit");
    }
    MUST(QUO_explain(q, 0, &text));
    add("srun=%d ", NULL != strstr(text, "srun (Slurm)"));
    free(text);
    MUST(QUO_free(q));
    add_mask("", "last");
    printf("%s\n", line);
    fflush(stdout);
    MPI_Finalize();
    return EXIT_SUCCESS;
}
