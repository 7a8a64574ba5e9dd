/*
 * A threaded library in a program with one rank per core: at most one rank per package is selected and widens
 * to its whole package, the others sleep until it is done.
 *
 *   make widen-c && mpirun ./widen-c
 */
#include <quo.h>
#include <stdio.h>
#include <stdlib.h>

static void
check(int rc, const char *what)
{
    if (QUO_SUCCESS == rc) return;
    fprintf(stderr, "%s: error %d\n", what, rc);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int
main(int argc, char **argv)
{
    QUO_context quo;
    int rank, ranks, selected, packages, cpus, threads = 0;
    int *all = NULL;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    check(QUO_create(&quo, MPI_COMM_WORLD), "QUO_create");
    check(QUO_nobjs_by_type(quo, QUO_OBJ_PACKAGE, &packages), "QUO_nobjs_by_type");
    check(QUO_nobjs_in_type_by_type(quo, QUO_OBJ_PACKAGE, 0, QUO_OBJ_PU, &cpus),
          "QUO_nobjs_in_type_by_type");
    check(QUO_auto_distrib(quo, QUO_OBJ_PACKAGE, 1, &selected), "QUO_auto_distrib");
    if (selected) {
        check(QUO_bind_push(quo, QUO_BIND_PUSH_OBJ, QUO_OBJ_PACKAGE, -1), "QUO_bind_push");
        threads = cpus; /* ... the threaded library runs here ... */
        check(QUO_bind_pop(quo), "QUO_bind_pop");
    }
    check(QUO_barrier(quo), "QUO_barrier");
    check(QUO_free(quo), "QUO_free");

    all = malloc(sizeof(int) * (size_t)ranks);
    MPI_Gather(&threads, 1, MPI_INT, all, 1, MPI_INT, 0, MPI_COMM_WORLD);
    if (0 == rank) {
        printf("packages: %d\n", packages);
        for (int i = 0; i < ranks; i++) printf("rank %d: threads: %d\n", i, all[i]);
    }
    free(all);
    return MPI_Finalize();
}
