/* Ranks of the fake MPI and their relatives; the first argument selects the scenario. The
 * process that is a rank in the end has 20 MiB and prints that. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fakempi.h"

extern char **environ;

static char *filled(size_t mebi)
{
    char *memory = malloc(mebi << 20);
    memset(memory, 1, mebi << 20);
    return memory;
}

static int be_rank(void)
{
    MPI_Init(NULL, NULL);
    char *memory = filled(20);
    printf("a rank\n");
    fflush(stdout);
    free(memory);
    return MPI_Finalize();
}

static int ended_well(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && status == 0;
}

static char *const word[] = {"sh", "-c", ": $(ls / | wc -l)", NULL};

int main(int argc, char **argv)
{
    const char *how = argc > 1 ? argv[1] : "";
    if (!strcmp(how, "child")) {
        // The child is the rank, its parent only starts it.
        pid_t child = fork();
        return child == 0 ? be_rank() : !ended_well(child);
    }
    if (!strcmp(how, "daemon")) return daemon(1, 1) || be_rank();
    if (!strcmp(how, "vfork")) {
        MPI_Init(NULL, NULL);
        pid_t child = vfork();
        if (child == 0) {
            execv("/bin/sh", word);
            _exit(1);
        }
        int right = ended_well(child);
        right &= posix_spawn(&child, "/bin/sh", NULL, NULL, word, environ) == 0 && ended_well(child);
        free(filled(20));
        return MPI_Finalize() || !right;
    }
    if (!strcmp(how, "clone")) {
        // A child of which no fork handler was notified.
        MPI_Init(NULL, NULL);
        char *memory = filled(20);
        pid_t child = syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (child == 0) {
            void *more = mmap(NULL, 100 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(more, 1, 100 << 20);
            munmap(more, 100 << 20);
            _exit(memory[5] != 1);
        }
        int right = ended_well(child);
        free(memory);
        return MPI_Finalize() || !right;
    }
    if (!strcmp(how, "exec")) {
        be_rank();
        execl("/proc/self/exe", argv[0], "rank", (char *)NULL);
        return 1;
    }
    if (!strcmp(how, "wrapper")) {
        // Has the MPI library, but another program is the rank.
        free(filled(5));
        execl("/proc/self/exe", argv[0], "rank", (char *)NULL);
        return 1;
    }
    return be_rank();
}
