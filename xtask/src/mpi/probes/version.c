/* Prints the library's name, and the version of the standard it claims. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
    int length, version, subversion;

    MPI_Init(&argc, &argv);
    MPI_Get_library_version(text, &length);
    MPI_Get_version(&version, &subversion);
    printf("standard: %d.%d\nlibrary: %s\n", version, subversion, text);
    return MPI_Finalize();
}
