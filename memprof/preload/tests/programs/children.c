/* A parent, its child and a grandchild, each with separate memory in addition to what it
 * inherits. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char *take(size_t mib)
{
    char *volatile block = malloc(mib << 20);
    memset(block, 1, mib << 20);
    return block;
}

static int ended(pid_t child)
{
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

int main(void)
{
    take(4);
    pid_t child = fork();
    if (child == 0) {
        take(8);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            take(16);
            exit(0);
        }
        exit(ended(grandchild) ? 0 : 1);
    }
    return ended(child) ? 0 : 1;
}
