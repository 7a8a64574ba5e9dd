/* Requests a sample each time it has a MiB more, by one name of MPI_Pcontrol or by the other,
 * and for nothing else: pcontrol MPI|PMPI COUNT. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int by_other_name = argc > 1 && !strcmp(argv[1], "PMPI");
    for (int count = argc > 2 ? atoi(argv[2]) : 0; count > 0; count--) {
        char *volatile kept = malloc(1 << 20);
        memset(kept, 1, 1 << 20);
        if (by_other_name) PMPI_Pcontrol(2);
        else MPI_Pcontrol(2);
    }
    if (by_other_name) PMPI_Pcontrol(3, "other");
    else MPI_Pcontrol(3, "usual");
    MPI_Finalize();
    printf("done\n");
    return 0;
}
