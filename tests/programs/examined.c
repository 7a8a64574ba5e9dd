/* A program that quo-info doctor examines: it prints before MPI begins, and must not get further. */
#include <mpi.h>
#include <omp.h>
#include <stdio.h>

int
main(int argc, char **argv)
{
    fprintf(stderr, "before MPI\n");
    MPI_Init(&argc, &argv);
    printf("after MPI with %d threads\n", omp_get_max_threads());
    MPI_Finalize();
    return 0;
}
