/* An OpenMP pool on a machine with several packages: every thread's mask is read from the kernel, after
 * each push and each pop. A pool that follows the process moves with it; with the argument `bound`, the
 * OpenMP runtime has bound its threads to places, which they keep. */
#define _GNU_SOURCE
#include <omp.h>
#include <sched.h>

#include "../../../../bindings-c/tests/check.h"

enum { THREADS = 4 };

static void
masks_of_pool(cpu_set_t *masks)
{
#pragma omp parallel num_threads(THREADS)
    {
        int thread = omp_get_thread_num();
        if (0 != sched_getaffinity(0, sizeof(cpu_set_t), &masks[thread])) {
            CPU_ZERO(&masks[thread]);
        }
    }
}

/* The CPUs of an object, from its list. */
static cpu_set_t
cpus_of(QUO_context q, QUO_obj_type_t type, int index)
{
    cpu_set_t cpus;
    char *list = NULL;
    CPU_ZERO(&cpus);
    REQUIRE_OK(QUO_cpuset_of_type(q, type, index, &list));
    for (char *part = strtok(list, ","); NULL != part; part = strtok(NULL, ",")) {
        int first = 0, last = 0, numbers = sscanf(part, "%d-%d", &first, &last);
        for (int cpu = first; cpu <= (2 == numbers ? last : first); ++cpu) CPU_SET(cpu, &cpus);
    }
    free(list);
    return cpus;
}

int
main(int argc, char **argv)
{
    static const QUO_obj_type_t types[] = {QUO_OBJ_MACHINE, QUO_OBJ_PACKAGE, QUO_OBJ_NUMANODE,
                                           QUO_OBJ_CORE, QUO_OBJ_PU};
    int bound = argc > 1 && 0 == strcmp(argv[1], "bound"), moved = 0;
    QUO_context q = NULL;
    cpu_set_t before[THREADS], during[THREADS], after[THREADS];

    check_init(&argc, &argv);
    REQUIRE_OK(QUO_create(&q, MPI_COMM_WORLD));
    masks_of_pool(before);
    for (int thread = 1; thread < THREADS; ++thread) {
        CHECK_INT(CPU_EQUAL(&before[thread], &before[0]), !bound);
    }
    for (int i = 0; i < CHECK_COUNT(types); ++i) {
        for (int index = 0; index < check_nobjs(q, types[i]); ++index) {
            cpu_set_t object = cpus_of(q, types[i], index);
            if (0 == CPU_COUNT(&object)) continue;
            CHECK_OK(QUO_bind_push(q, QUO_BIND_PUSH_PROVIDED, types[i], index));
            masks_of_pool(during);
            CHECK_OK(QUO_bind_pop(q));
            masks_of_pool(after);
            for (int thread = 0; thread < THREADS; ++thread) {
                /* The first thread of the pool is the one that pushes. */
                int follows = !bound || 0 == thread;
                CHECK(CPU_EQUAL(&during[thread], follows ? &object : &before[thread]));
                CHECK(CPU_EQUAL(&after[thread], &before[thread]));
                moved += !CPU_EQUAL(&during[thread], &before[thread]);
            }
        }
    }
    CHECK(moved > 0);
    CHECK_OK(QUO_free(q));
    return check_finish();
}
