/* Requests memory from the kernel by system call number, also from a library and in addition to
 * the usual way. */
#define _GNU_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { MEBI = 1 << 20, PROTECTION = PROT_READ | PROT_WRITE, PRIVATE = MAP_PRIVATE | MAP_ANONYMOUS };

#ifdef LIBRARY
char *ask(long bytes) { return (char *)syscall(SYS_mmap, 0L, bytes, PROTECTION, PRIVATE, -1, 0L); }
#else
char *ask(long bytes);

static int touched(char *memory, long bytes)
{
    if (memory == MAP_FAILED) return 0;
    memset(memory, 1, (size_t)bytes);
    return 1;
}

int main(void)
{
    char *own = (char *)syscall(SYS_mmap, 0L, 24L * MEBI, PROTECTION, PRIVATE, -1, 0L);
    if (!touched(own, 24L * MEBI)) return 1;
    /* A third is released, and a third moved. */
    if (syscall(SYS_munmap, own, 8L * MEBI) != 0) return 2;
    char *moved = (char *)syscall(SYS_mremap, own + 16L * MEBI, 8L * MEBI, 12L * MEBI, (long)MREMAP_MAYMOVE);
    if (!touched(moved, 12L * MEBI)) return 3;
    char *of_library = ask(30L * MEBI);
    if (!touched(of_library, 30L * MEBI)) return 4;
    /* Other calls pass through, with six words and the error. */
    if (syscall(SYS_getpid) != getpid() || syscall(SYS_mmap, 0L, 0L, 0, PRIVATE, -1, 0L) != -1) return 5;
    long child = syscall(SYS_fork);
    if (child == 0) syscall(SYS_exit_group, 0);
    // Sleeps: the profiler looks at the memory periodically.
    usleep(700000);
    return child < 0;
}
#endif
