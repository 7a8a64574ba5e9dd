/* Checks whether ranks can communicate over a communicator of a session, without MPI_Init. */
#include <mpi.h>
#include <stdio.h>

int main(void)
{
    MPI_Session session;
    MPI_Group group;
    MPI_Comm all;
    int rank, ranks, sum = 0;

    MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
    MPI_Comm_create_from_group(group, "quo.probe", MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &all);
    MPI_Group_free(&group);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &ranks);
    MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, all);
    if (rank == 0) printf("result: %s\n", ranks == 2 && sum == 1 ? "yes" : "no");
    MPI_Comm_free(&all);
    return MPI_Session_finalize(&session);
}
