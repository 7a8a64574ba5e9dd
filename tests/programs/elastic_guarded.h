/* Included before a program (-include), lets its world end the job at the death of a rank. */
#include <quo-elastic.h>

static inline int
guarded_world_create(QUO_world *world, const QUO_world_options_t *options)
{
    QUO_world_options_t guarded = QUO_WORLD_OPTIONS_INIT;
    if (options) guarded = *options;
    guarded.abort_on_death = 1;
    return QUO_world_create(world, &guarded);
}
#define QUO_world_create guarded_world_create
