/* A rank of the fake MPI with 50 MiB that ends as it is told, without MPI_Finalize. Before, it
 * says what the time is, and how long the profiler's thread has waited for a processor, in nanoseconds. */
#include <signal.h>
#include <stdlib.h>

#include "fakempi.h"
#include "profiler_thread.h"

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "return";
    MPI_Init(&argc, &argv);
    char *volatile memory = malloc(50 << 20);
    memset(memory, 1, 50 << 20);
    printf("holding\n");
    fflush(stdout);
    // Sleeps: a sample of what there is now has to come by itself.
    if (strcmp(how, "wait")) usleep(1200000);
    find_profiler();
    uint64_t ran, waited;
    ran_and_waited(&ran, &waited);
    printf("ends %lu %lu\n", now(), waited);
    fflush(stdout);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "fault")) raise(SIGSEGV);
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "wait")) pause();
    // Where nobody stops it, it stops itself.
    for (int mebi = 0; !strcmp(how, "hoard") && mebi < 4096; mebi++) {
        memory = malloc(1 << 20);
        memset(memory, 1, 1 << 20);
        // Sleeps: the kernel shall not be faster than all samples.
        usleep(1000);
    }
    return 0;
}
