// A program without MPI that holds memory, as do some of its children.
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static char *filled(size_t mebi)
{
    char *block = malloc(mebi << 20);
    memset(block, 1, mebi << 20);
    return block;
}

// A child that holds memory from malloc or mmap, and ends like children of forks.
static void child(size_t mebi, int mapped)
{
    pid_t pid = fork();
    if (pid == 0) {
        if (mapped) {
            char *pages = mmap(NULL, mebi << 20, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            memset(pages, 1, mebi << 20);
            exit(0);
        }
        free(filled(mebi));
        _exit(0);
    }
    waitpid(pid, NULL, 0);
}

int main(void)
{
    char *block = filled(30);
    child(50, 0);
    child(20, 1);
    if (system("true") != 0)
        return 1;
    free(block);
    return 0;
}
