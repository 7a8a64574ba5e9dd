/* Contexts over one rank and over all, and in a process that was spawned alone; the first argument selects one. */
#include "quo.h"

#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    QUO_context q;
    MPI_Comm parent, other;
    char *text;
    int error;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (MPI_COMM_NULL == parent && 0 == strcmp(what, "spawns")) {
        char *arguments[] = {"world", NULL};
        MPI_Comm_spawn(argv[0], arguments, 1, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other, &error);
        MPI_Comm_disconnect(&other);
        MPI_Finalize();
        return 0;
    }
    if (QUO_create(&q, 0 == strcmp(what, "self") ? MPI_COMM_SELF : MPI_COMM_WORLD)) {
        fprintf(stderr, "not created: %s\n", QUO_last_error());
        MPI_Abort(MPI_COMM_WORLD, 9);
    }
    QUO_explain(q, 0, &text);
    puts(text);
    QUO_ptr_free(text);
    QUO_free(q);
    if (MPI_COMM_NULL != parent) MPI_Comm_disconnect(&parent);
    MPI_Finalize();
    return 0;
}
