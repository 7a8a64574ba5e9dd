/* A program without a dynamic loader reads its own numbers, and names a region. With QUO, its pushes are regions, too. */
#include "../../api/tests/check.h"
#include <memprof.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef WITH_QUO
#include <quo.h>
#endif

#define MEBI ((size_t)1 << 20)

static uint64_t own(void)
{
    memprof_component_t component;
    for (uint32_t index = 0; index < memprof_component_count(); ++index) {
        if (memprof_component(index, &component) != MEMPROF_OK) continue;
        if (!strncmp(component.name, "app.exe", 7)) return component.owned;
    }
    CHECK(!"there is no app.exe");
    return 0;
}

static void hold(size_t bytes)
{
    const uint64_t before = own();
    char *memory = malloc(bytes);
    CHECK(memory && memset(memory, 1, bytes));
    CHECK(own() == before + bytes);
    CHECK(memprof_flush() == MEMPROF_OK);
    free(memory);
    CHECK(own() == before);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    if (memprof_active()) {
        const uint32_t region = memprof_region_begin("looks");
        CHECK(region != 0);
        hold(32 * MEBI);
        memprof_region_end(region);
    }
#ifdef WITH_QUO
    QUO_context q = NULL;
    CHECK(QUO_create(&q, MPI_COMM_WORLD) == QUO_SUCCESS);
    CHECK(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_MACHINE, -1) == QUO_SUCCESS);
    if (memprof_active()) hold(24 * MEBI);
    CHECK(QUO_bind_pop(q) == QUO_SUCCESS);
    CHECK(QUO_free(q) == QUO_SUCCESS);
#endif
    MPI_Finalize();
    if (!failures) printf("done\n");
    return failures != 0;
}
