/* Uses libmemprof as a C program does. The argument says whether a profiler must be found. */
#include "check.h"
#include <memprof.h>
#include <stdio.h>
#include <string.h>

static void without(void)
{
    memprof_component_t component;
    memprof_totals_t totals;
    memset(&component, 7, sizeof component);
    CHECK(memprof_active() == 0);
    CHECK(memprof_component_count() == 0);
    CHECK(memprof_component(0, &component) == MEMPROF_NOT_ACTIVE);
    CHECK(component.owned == 0x0707070707070707u);
    CHECK(memprof_component_named("app.exe", &component) == MEMPROF_NOT_ACTIVE);
    CHECK(memprof_totals(&totals) == MEMPROF_NOT_ACTIVE);
    CHECK(memprof_time(&(memprof_time_t){ 0 }) == MEMPROF_NOT_ACTIVE);
    CHECK(memprof_region_begin("x") == 0);
    memprof_region_end(0);
    memprof_region_end(3);
    CHECK(memprof_flush() == MEMPROF_NOT_ACTIVE);
}

static void with(void)
{
    memprof_component_t component;
    memprof_totals_t totals;
    CHECK(memprof_active() == 1);
    CHECK(memprof_component_count() == 2);
    CHECK(memprof_component(0, &component) == MEMPROF_OK);
    CHECK(strcmp(component.name, "app.exe") == 0);
    CHECK(component.owned == 1000 && component.owned_peak == 2000);
    CHECK(component.resident == 3000 && component.resident_peak == 4000);
    CHECK(component.sample_time_ns == 5000000000u);
    CHECK(memprof_component(2, &component) == MEMPROF_NOT_KNOWN);
    CHECK(memprof_component_named("mpi.core:libmpi.so.40", &component) == MEMPROF_OK);
    CHECK(component.owned == 1001);
    CHECK(memprof_component_named("nobody", &component) == MEMPROF_NOT_KNOWN);
    CHECK(memprof_totals(&totals) == MEMPROF_OK);
    CHECK(totals.resident == 11 && totals.unattributed == 13 && totals.sample_time_ns == 15);
    memprof_time_t time;
    CHECK(memprof_time(&time) == MEMPROF_OK);
    CHECK(time.elapsed == 100 && time.useful == 60 && time.mpi == 30 && time.lent == 10);
    CHECK(time.collective == 20 && time.other == 0 && time.calls == 9);
    uint32_t outer = memprof_region_begin("outer");
    uint32_t inner = memprof_region_begin("inner");
    CHECK(outer == 1 && inner == 2);
    memprof_region_end(inner);
    memprof_region_end(outer);
    CHECK(memprof_flush() == MEMPROF_OK);
}

int main(int argc, char **argv)
{
    memprof_component_t component;
    if (argc > 1 && strcmp(argv[1], "with") == 0) {
        with();
    } else {
        without();
    }
    CHECK(memprof_component(0, NULL) == MEMPROF_BAD_ARGUMENT);
    CHECK(memprof_component_named(NULL, &component) == MEMPROF_BAD_ARGUMENT);
    CHECK(memprof_totals(NULL) == MEMPROF_BAD_ARGUMENT);
    CHECK(memprof_time(NULL) == MEMPROF_BAD_ARGUMENT);
    CHECK(memprof_region_begin(NULL) == 0);
    return failures != 0;
}
