/* A rank that uses MPI in a session, without MPI_Init, and holds 40 MiB in the meantime. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
#if MPI_VERSION < 4
    MPI_Init(NULL, NULL);
    printf("no sessions\n");
    MPI_Finalize();
#else
    MPI_Session session;
    MPI_Group group;
    MPI_Comm all;
    int rank;
    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "session", MPI_INFO_NULL, MPI_ERRORS_RETURN, &all);
    MPI_Comm_rank(all, &rank);
    char *memory = malloc(40 << 20);
    memset(memory, rank, 40 << 20);
    MPI_Barrier(all);
    int right = memory[5 << 20] == rank;
    free(memory);
    MPI_Comm_free(&all);
    MPI_Group_free(&group);
    MPI_Session_finalize(&session);
    if (rank == 0 && right) printf("done\n");
#endif
    return 0;
}
