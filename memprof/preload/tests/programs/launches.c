/* Acts like a launcher: allocates, forks, and starts a program. Prints the sizes of its blocks,
 * and whether the child has few private pages of the profiler. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Pages of the object that is loaded into ranks, in KiB. */
static long own_pages(void)
{
    FILE *maps = fopen("/proc/self/smaps", "r");
    char line[4096];
    long sum = 0, here = 0, part;
    while (maps && fgets(line, sizeof line, maps)) {
        if (strchr(line, '-') && strchr(line, ' ') && strchr(line, '-') < strchr(line, ' '))
            here = strstr(line, "libmemprof_preload") != NULL;
        else if (here && sscanf(line, "Private_Dirty: %ld", &part) == 1)
            sum += part;
    }
    if (maps) fclose(maps);
    return sum;
}

int main(void)
{
    printf("%zu", malloc_usable_size(malloc(24)));
    printf(" %zu", malloc_usable_size(calloc(3, 8)));
    printf(" %zu\n", malloc_usable_size(realloc(malloc(8), 104)));
    /* The size of aligned blocks depends on what lies before them. */
    void *blocks[] = {memalign(32, 56), aligned_alloc(32, 88), NULL};
    if (posix_memalign(&blocks[2], 64, 72)) return 1;
    for (int block = 0; block < 3; block++) {
        memset(blocks[block], 1, malloc_usable_size(blocks[block]));
        free(blocks[block]);
    }
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        long own = own_pages();
        printf("%s\n", own < 64 ? "few" : "many");
        fflush(stdout);
        execlp("true", "true", (char *)NULL);
        _exit(127);
    }
    int status = -1;
    waitpid(child, &status, 0);
    printf("%d\n", status);
    return 0;
}
