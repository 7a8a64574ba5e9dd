/* A process with 80 MiB and six children, which write to none of it and have 2 MiB each of their
 * own. */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHILDREN 6

int main(void)
{
    char *memory = malloc(80 << 20);
    memset(memory, 1, 80 << 20);
    __asm__ volatile("" : : "r"(memory) : "memory");
    for (int i = 0; i < CHILDREN; i++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (child > 0) continue;
        char *own = malloc(2 << 20);
        memset(own, i, 2 << 20);
        __asm__ volatile("" : : "r"(own) : "memory");
        // Sleeps: all exist together for some samples, without an event.
        usleep(500000);
        _exit(0);
    }
    while (wait(NULL) > 0) continue;
    return 0;
}
