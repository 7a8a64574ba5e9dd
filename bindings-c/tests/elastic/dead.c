/* A sleeping process is notified that a rank of its node was killed. Two processes, the first of which is the world. */
#include <signal.h>
#include <unistd.h>

#include "../check.h"
#include "quo-elastic.h"

int
main(int argc, char **argv)
{
    QUO_world_options_t options = QUO_WORLD_OPTIONS_INIT;
    QUO_world w = NULL;
    int joins = -7;

    check_init(&argc, &argv);
    options.initial_ranks = 1;
    REQUIRE_OK(QUO_world_create(&w, &options));
    if (0 == check_rank) raise(SIGKILL);
    CHECK_CODE(QUO_world_wait(w, &joins), QUO_ERR_DEAD_MEMBER);
    CHECK_ERROR_NAMES("QUO_world_wait: ");
    CHECK_ERROR_NAMES("rank 0 ended");
    CHECK_INT(joins, -7);
    printf("%s\n", 0 == check_failures ? "told" : "not told");
    fflush(stdout);
    /* Not through MPI_Finalize, which would wait for the dead rank. */
    _exit(check_failures);
}
