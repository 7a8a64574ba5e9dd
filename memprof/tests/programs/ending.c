/* A rank of the fake MPI with 50 MiB that ends as requested, without MPI_Finalize: ending HOW
 * [FILE], once this file exists, or after 1.2 seconds. Before its end it prints the time, and
 * how long the profiler's thread has waited for a processor, in nanoseconds. */
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
    // Sleeps: the creator of the file waits for a sample, which must be taken unrequested.
    for (int tries = 0; argc > 2 && access(argv[2], F_OK) && tries < 60000; tries++) usleep(1000);
    // Sleeps: without a file, this is the time for a sample.
    if (argc < 3 && strcmp(how, "wait")) usleep(1200000);
    find_profiler();
    uint64_t ran, waited;
    ran_and_waited(&ran, &waited);
    printf("ends %lu %lu\n", now(), waited);
    fflush(stdout);
    if (!strcmp(how, "abort")) abort();
    if (!strcmp(how, "fault")) raise(SIGSEGV);
    if (!strcmp(how, "_exit")) _exit(0);
    if (!strcmp(how, "exit")) exit(0);
    if (!strcmp(how, "quick_exit")) quick_exit(0);
    if (!strcmp(how, "wait")) pause();
    // If it is not ended from outside, it ends itself.
    for (int mebi = 0; !strcmp(how, "hoard") && mebi < 4096; mebi++) {
        memory = malloc(1 << 20);
        memset(memory, 1, 1 << 20);
        // Sleeps: the kernel must not end it before any sample.
        usleep(1000);
    }
    return 0;
}
