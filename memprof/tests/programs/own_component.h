/* The profiler's figures of the program itself. */
#include <memprof.h>
#include <string.h>

static memprof_component_t own(const memprof_hooks_t *hooks)
{
    memprof_component_t component;
    for (uint32_t index = 0; index < hooks->component_count(); ++index)
        if (!hooks->component(index, &component) && !strncmp(component.name, "app.exe", 7))
            return component;
    memset(&component, 0, sizeof component);
    return component;
}
