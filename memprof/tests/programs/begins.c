/* Owns as many MiB as it is told when MPI begins, and ends. */
#include <stdlib.h>
#include <string.h>

#include "fakempi.h"

static char *volatile block;

int main(int argc, char **argv)
{
    size_t bytes = strtoul(argv[1], NULL, 10) << 20;
    block = malloc(bytes + 1);
    if (!block) return 1;
    memset(block, 1, bytes + 1);
    MPI_Init(&argc, &argv);
    MPI_Finalize();
    return 0;
}
