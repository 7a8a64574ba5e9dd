/* Stands in for the profiler: the same export, two components that are made up, and a journal of regions
   in the file that FAKE_JOURNAL names. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "memprof.h"

static uint32_t next_region;

static void note(const char *text)
{
    const char *file = getenv("FAKE_JOURNAL");
    int journal = file ? open(file, O_WRONLY | O_CREAT | O_APPEND, 0600) : -1;
    if (journal >= 0) {
        if (write(journal, text, strlen(text)) < 0) {
            abort();
        }
        close(journal);
    }
}

static uint32_t region_begin(const char *name, size_t length, uint32_t kind)
{
    char line[160];
    uint32_t region = __atomic_add_fetch(&next_region, 1, __ATOMIC_RELAXED);
    snprintf(line, sizeof line, "begin %u %u %.*s\n", region, kind, (int)length, name);
    note(line);
    return region;
}

static void region_end(uint32_t region)
{
    char line[32];
    snprintf(line, sizeof line, "end %u\n", region);
    note(line);
}

static uint32_t component_count(void)
{
    return 2;
}

static int component(uint32_t index, memprof_component_t *out)
{
    if (index >= 2) {
        return 1;
    }
    memset(out, 0, sizeof *out);
    strcpy(out->name, index == 0 ? "app.exe" : "mpi.core:libmpi.so.40");
    out->owned = 1000 + index;
    out->owned_peak = 2000 + index;
    out->resident = 3000 + index;
    out->resident_peak = 4000 + index;
    out->sample_time_ns = 5000000000u;
    return 0;
}

static int totals(memprof_totals_t *out)
{
    if (getenv("FAKE_SILENT")) {
        return 1;
    }
    *out = (memprof_totals_t){ 11, 12, 13, 14, 15 };
    return 0;
}

static int time_of(memprof_time_t *out)
{
    if (getenv("FAKE_SILENT")) {
        return 1;
    }
    *out = (memprof_time_t){ 100, 60, 30, 10, 1, 20, 2, 3, 4, 0, 9 };
    return 0;
}

static int flush(void)
{
    note("flush\n");
    return 0;
}

const memprof_hooks_t *memprof_hooks(uint32_t version);

const memprof_hooks_t *memprof_hooks(uint32_t version)
{
    static memprof_hooks_t table = { 1, sizeof table, region_begin, region_end, component_count,
                                     component, totals, flush, time_of, NULL, NULL, NULL,
                                     NULL, NULL };
    const char *offered = getenv("FAKE_VERSION");
    if (offered && (uint32_t)atoi(offered) != version) {
        return NULL;
    }
    if (getenv("FAKE_OLD")) {
        table.size = 16;
    }
    return &table;
}
