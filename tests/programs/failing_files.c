/* Makes one call on a file fail, or kills the process in it, when preloaded into the ranks of a job. QUO_TEST_FAULT has
 * five words: a rank; `write` or `fsync`; the end of the file's path; how many such calls succeed before; and `kill`,
 * before the call, or the number of an error. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int seen = 0;

static int
rank(void)
{
    const char *names[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        const char *value = getenv(names[i]);
        if (NULL != value) return atoi(value);
    }
    return -1;
}

/* Returns the number of the error of this call; 0 if it succeeds. */
static int
fault(const char *call, int file)
{
    const char *wanted = getenv("QUO_TEST_FAULT");
    char name[64], path[4096], wanted_call[16], end[256], what[16];
    int wanted_rank, before;
    if (NULL == wanted) return 0;
    if (5 != sscanf(wanted, "%d %15s %255s %d %15s", &wanted_rank, wanted_call, end, &before, what)) return 0;
    if (rank() != wanted_rank || 0 != strcmp(call, wanted_call)) return 0;
    snprintf(name, sizeof(name), "/proc/self/fd/%d", file);
    ssize_t length = readlink(name, path, sizeof(path) - 1);
    if (length < (ssize_t)strlen(end)) return 0;
    path[length] = '\0';
    if (0 != strcmp(path + length - strlen(end), end) || seen++ < before) return 0;
    if (0 == strcmp(what, "kill")) kill(getpid(), SIGKILL);
    return atoi(what);
}

ssize_t
write(int file, const void *bytes, size_t length)
{
    int error = fault("write", file);
    if (0 == error) return syscall(SYS_write, file, bytes, length);
    errno = error;
    return -1;
}

int
fsync(int file)
{
    int error = fault("fsync", file);
    if (0 == error) return (int)syscall(SYS_fsync, file);
    errno = error;
    return -1;
}
