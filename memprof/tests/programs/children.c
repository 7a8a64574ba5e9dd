/* Ranks with children: one that continues after fork, one that executes another program, one by
 * system(). With `kill`, `abort` or `exit`, the first rank ends in this way, with 50 MiB,
 * without MPI_Finalize. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int ended_well(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

int main(int argc, char **argv)
{
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    const char *how = argc > 1 ? argv[1] : "";
    if (*how) {
        memset(malloc(50 << 20), 1, 50 << 20);
        MPI_Barrier(MPI_COMM_WORLD);
        printf("holding\n");
        fflush(stdout);
        // The others wait until they are ended as well.
        while (rank > 0) pause();
        if (!strcmp(how, "kill")) raise(SIGKILL);
        if (!strcmp(how, "abort")) abort();
        if (!strcmp(how, "exit")) _exit(0);
        return 0;
    }
    char *memory = malloc(10 << 20);
    memset(memory, rank, 10 << 20);
    pid_t child = fork();
    if (child == 0) {
        char *more = malloc(100 << 20);
        memset(more, 1, 100 << 20);
        // Otherwise the compiler removes the block.
        __asm__ volatile("" : : "r"(more) : "memory");
        int right = memory[5 << 20] == rank;
        free(memory);
        free(more);
        _exit(!right);
    }
    int right = ended_well(child);
    child = fork();
    if (child == 0) {
        execlp("sh", "sh", "-c", "test -n \"$PATH\" && : $(ls / | wc -l)", (char *)NULL);
        _exit(1);
    }
    right &= ended_well(child);
    right &= system("true") == 0;
    free(memory);
    MPI_Finalize();
    if (rank == 0 && right) printf("done\n");
    return !right;
}
