/* A block that crosses a walk over the mappings, each time there is one: crossing DIRECTION
 * ROUNDS. With thousands of mappings a walk takes long enough to be caught halfway: with "down"
 * the block is moved to where the walk has been already, with "up" from there to where it has
 * not been, and back between two walks. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAPPINGS = 20000, MEBI = 1 << 20, BLOCK = 8 * MEBI, HALFWAY = 100, PATIENCE = 100 };

/* Returns what the profiler's thread is doing, according to the kernel. */
static int open_state(void)
{
    char path[320], name[32];
    int file = -1;
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *task; tasks && file < 0 && (task = readdir(tasks));) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *comm = fopen(path, "r");
        int is_it = comm && fgets(name, sizeof name, comm) && !strncmp(name, "memprof", 7);
        if (comm) fclose(comm);
        snprintf(path, sizeof path, "/proc/self/task/%s/stat", task->d_name);
        if (is_it) file = open(path, O_RDONLY | O_CLOEXEC);
    }
    if (tasks) closedir(tasks);
    return file;
}

static int is_asleep(int file)
{
    char text[512];
    ssize_t length = pread(file, text, sizeof text - 1, 0);
    if (length <= 0) abort();
    text[length] = 0;
    const char *name_end = strrchr(text, ')');
    return name_end && name_end[1] && name_end[2] == 'S';
}

static void move(char *from, char *to)
{
    if (mremap(from, BLOCK, BLOCK, MREMAP_MAYMOVE | MREMAP_FIXED, to) != to) abort();
}

int main(int argc, char **argv)
{
    int down = argc > 1 && !strcmp(argv[1], "down"), rounds = argc > 2 ? atoi(argv[2]) : 1;
    size_t page = (size_t)sysconf(_SC_PAGESIZE), between = (size_t)MAPPINGS * page;
    int rights = PROT_READ | PROT_WRITE, flags = MAP_PRIVATE | MAP_ANONYMOUS;
    char *low = mmap(NULL, between + 2 * BLOCK, PROT_NONE, flags | MAP_NORESERVE, -1, 0);
    if (low == MAP_FAILED) return 1;
    char *high = low + BLOCK + between;
    for (size_t at = 0; at < MAPPINGS; at += 2)
        if (mprotect(low + BLOCK + at * page, page, PROT_READ)) return 1;
    char *home = down ? high : low, *away = down ? low : high;
    if (mmap(home, BLOCK, rights, flags | MAP_FIXED, -1, 0) != home) return 1;
    memset(home, 1, BLOCK);
    int state = open_state();
    if (state < 0) return 1;
    time_t end = time(NULL) + PATIENCE;
    for (int done = 0; done < rounds;) {
        if (time(NULL) > end) return 1;
        /* A new allocation, so that a look is followed by a walk. */
        void *volatile new = malloc(64);
        (void)new;
        while (is_asleep(state))
            if (time(NULL) > end) return 1;
        /* A look without a walk ends before this many queries. */
        int asked = 0;
        while (asked < HALFWAY && !is_asleep(state)) asked++;
        if (asked < HALFWAY) continue;
        move(home, away);
        while (!is_asleep(state))
            if (time(NULL) > end) return 1;
        move(away, home);
        done++;
    }
    printf("crossed %d\n", rounds);
    return 0;
}
