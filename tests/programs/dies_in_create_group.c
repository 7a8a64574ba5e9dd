/* Preloaded into a job, kills ranks in the middle of a collective call that creates a communicator: each rank of
 * MPI_COMM_WORLD that is listed in the file named by DIES_IN_CREATE_GROUP, as soon as the file exists. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

int
MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *out)
{
    const char *path = getenv("DIES_IN_CREATE_GROUP");
    FILE *file = path ? fopen(path, "r") : NULL;
    int rank = -1, dies;
    PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
    while (file && fscanf(file, "%d", &dies) == 1)
        if (dies == rank) raise(SIGKILL);
    if (file) fclose(file);
    return PMPI_Comm_create_group(comm, group, tag, out);
}
