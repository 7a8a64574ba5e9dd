/* An MPI that is no dependency: loaded at run time, with its names visible to no other object,
 * as Python does. The first argument is the library. Before MPI is loaded, 50 MiB exist for a
 * moment. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc < 2) return 2;
    char *volatile early = malloc(50 << 20);
    memset(early, 1, 50 << 20);
    free(early);
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) return fprintf(stderr, "%s\n", dlerror()), 2;
    int (*init)(int *, char ***) = (int (*)(int *, char ***))dlsym(library, "MPI_Init");
    int (*finalize)(void) = (int (*)(void))dlsym(library, "MPI_Finalize");
    int (*alloc)(long, void *, void *) = (int (*)(long, void *, void *))dlsym(library, "MPI_Get_address");
    /* A lookup of functions of newer libraries must fail where they do not exist. */
    void *abi = dlsym(library, "MPI_Abi_get_version");
    void *nonsense = dlsym(library, "MPI_Of_nobody");
    if (!init || !finalize || !alloc || nonsense) return 3;
    if (init(&argc, &argv)) return 4;
    char *volatile memory = malloc(20 << 20);
    memset(memory, 1, 20 << 20);
    free(memory);
    if (finalize()) return 5;
    printf("done, %s MPI_Abi_get_version\n", abi ? "with" : "without");
    return 0;
}
