/* Prints the thread level that MPI provides if the highest is requested. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    int provided = -1;

    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    const char *level = provided == MPI_THREAD_MULTIPLE     ? "multiple"
                        : provided == MPI_THREAD_SERIALIZED ? "serialized"
                        : provided == MPI_THREAD_FUNNELED   ? "funneled"
                                                            : "single";
    printf("result: %s\n", level);
    return MPI_Finalize();
}
