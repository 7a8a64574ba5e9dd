/* What the program itself has in each phase, in bytes; memory is filled, so that it is resident too.
 *
 *   init        3 MiB, got before, and nothing else
 *   main        7 MiB in blocks (what phases inside it have counts for the phases around them)
 *   pcontrol 3  20 MiB, and what is in "solve"
 *   solve       10 MiB in a block and 5 MiB mapped, at once
 *   pcontrol 5  64 bytes
 *   finalize    4 MiB, in a function that MPI calls
 *
 * Nothing is recorded between 0 and 1. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define MEBI (1 << 20)

static char *filled(size_t bytes)
{
    char *memory = malloc(bytes);
    memset(memory, 1, bytes);
    return memory;
}

static int at_the_end(MPI_Comm comm, int keyval, void *value, void *state)
{
    (void)comm, (void)keyval, (void)value, (void)state;
    free(filled(4 * MEBI));
    return MPI_SUCCESS;
}

int main(int argc, char **argv)
{
    int rank, keyval;
    char *early = filled(3 * MEBI);
    MPI_Init(&argc, &argv);
    free(early);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, at_the_end, &keyval, NULL);
    MPI_Comm_set_attr(MPI_COMM_SELF, keyval, NULL);
    free(filled(7 * MEBI));

    MPI_Pcontrol(3);
    char *first = filled(20 * MEBI);
    MPI_Pcontrol(4, "solve");
    char *second = filled(10 * MEBI);
    char *mapped = mmap(NULL, 5 * MEBI, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memset(mapped, 1, 5 * MEBI);
    MPI_Pcontrol(2);
    munmap(mapped, 5 * MEBI);
    free(second);
    MPI_Pcontrol(4, "solve");
    free(first);
    MPI_Pcontrol(3);

    MPI_Pcontrol(5);
    free(filled(64));
    MPI_Pcontrol(5);

    MPI_Pcontrol(0);
    free(filled(5 * MEBI));
    MPI_Pcontrol(1);
    MPI_Finalize();
    if (rank == 0) printf("done\n");
    return 0;
}
