/* Included before a program (-include), lets it begin MPI with MPI_THREAD_MULTIPLE. */
#include <mpi.h>

static inline int
init_multiple(int *argc, char ***argv)
{
    int provided;
    return MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided);
}
#define MPI_Init init_multiple
