/* Memory of a C program of quo in its phases: 24 MiB while a binding is pushed, 12 MiB in a
 * phase named "solve", 64 bytes in a region named "nothing", which shows what the program always
 * has, and 40 MiB outside all of them. With an argument it queries its own figures, too. */
#include "../../api/tests/check.h"
#include <memprof.h>
#include <mpi.h>
#include <quo.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEBI ((size_t)1 << 20)

static char *filled(size_t bytes)
{
    char *memory = malloc(bytes);
    if (memory) memset(memory, 1, bytes);
    return memory;
}

/* Memory of the program file itself. */
static memprof_component_t own(void)
{
    memprof_component_t component;
    for (uint32_t index = 0; index < memprof_component_count(); ++index) {
        if (memprof_component(index, &component) != MEMPROF_OK) continue;
        if (!strncmp(component.name, "app.exe", 7)) return component;
    }
    CHECK(!"there is no app.exe");
    memset(&component, 0, sizeof component);
    return component;
}

static void look_at_own_numbers(void)
{
    memprof_totals_t totals;
    CHECK(memprof_active());
    const memprof_component_t before = own();
    const uint32_t region = memprof_region_begin("looks");
    CHECK(region != 0);
    char *memory = filled(32 * MEBI);
    CHECK(memprof_flush() == MEMPROF_OK);
    const memprof_component_t during = own();
    CHECK(during.owned == before.owned + 32 * MEBI);
    CHECK(during.owned_peak >= during.owned);
    CHECK(during.resident >= 32 * MEBI && during.resident_peak >= during.resident);
    CHECK(during.sample_time_ns > before.sample_time_ns);
    CHECK(memprof_totals(&totals) == MEMPROF_OK);
    CHECK(totals.resident > during.resident && totals.resident_peak >= totals.resident);
    CHECK(totals.owned > 32 * MEBI && totals.unattributed * 100 < totals.resident);
    free(memory);
    memprof_region_end(region);
    CHECK(memprof_flush() == MEMPROF_OK);
    const memprof_component_t after = own();
    CHECK(after.owned == before.owned && after.owned_peak >= during.owned);
    CHECK(after.resident + 31 * MEBI < during.resident);
}

int main(int argc, char **argv)
{
    QUO_context q = NULL;
    QUO_phase phase = NULL;
    QUO_phase_spec_t spec = QUO_PHASE_SPEC_INIT;
    int rank = 0, selected = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    CHECK(QUO_create(&q, MPI_COMM_WORLD) == QUO_SUCCESS);

    /* The first phase of a process looks at its libraries, for each of which the loader keeps a
     * list from then on. */
    spec.type = QUO_OBJ_MACHINE;
    spec.name = "first";
    CHECK(QUO_phase_create(q, &spec, &phase) == QUO_SUCCESS);
    CHECK(QUO_phase_begin(phase, &selected, NULL) == QUO_SUCCESS);
    CHECK(QUO_phase_end(phase) == QUO_SUCCESS);
    CHECK(QUO_phase_free(phase) == QUO_SUCCESS);

    free(filled(40 * MEBI));
    const uint32_t region = memprof_region_begin("nothing");
    free(filled(64));
    memprof_region_end(region);

    CHECK(QUO_bind_push(q, QUO_BIND_PUSH_OBJ, QUO_OBJ_MACHINE, -1) == QUO_SUCCESS);
    free(filled(24 * MEBI));
    CHECK(QUO_bind_pop(q) == QUO_SUCCESS);

    spec.name = "solve";
    CHECK(QUO_phase_create(q, &spec, &phase) == QUO_SUCCESS);
    CHECK(QUO_phase_begin(phase, &selected, NULL) == QUO_SUCCESS);
    free(filled(12 * MEBI));
    CHECK(QUO_phase_end(phase) == QUO_SUCCESS);
    CHECK(QUO_phase_free(phase) == QUO_SUCCESS);

    if (argc > 1) look_at_own_numbers();
    CHECK(QUO_free(q) == QUO_SUCCESS);
    MPI_Finalize();
    if (rank == 0 && !failures) printf("done\n");
    return failures != 0;
}
