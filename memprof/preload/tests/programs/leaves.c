// Ends in the handler of a signal, as many programs do when their time is up: if there is a
// profiler, while the thread is executing it. With an argument the handler forks instead.
#define _GNU_SOURCE
#include <link.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

static uintptr_t low, high;
static int signals, forks;

static int look(struct dl_phdr_info *object, size_t size, void *unused) {
    (void)size, (void)unused;
    if (!strstr(object->dlpi_name, "libmemprof_preload"))
        return 0;
    for (int i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &object->dlpi_phdr[i];
        if (segment->p_type == PT_LOAD && segment->p_flags & PF_X) {
            low = object->dlpi_addr + segment->p_vaddr;
            high = low + segment->p_memsz;
        }
    }
    return 1;
}

static void handler(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
#ifdef __x86_64__
    uintptr_t at = ((ucontext_t *)context)->uc_mcontext.gregs[REG_RIP];
#else
    uintptr_t at = 0;
#endif
    int inside = low <= at && at < high;
    if (forks && inside) {
        pid_t child = fork();
        if (child == 0) {
            munmap(mmap(0, 1 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1 << 20);
            _exit(0);
        }
        waitpid(child, 0, 0);
    } else if (inside) {
        exit(3);
    }
    if (++signals == 100)
        exit(3);
}

int main(int count, char **words) {
    (void)words;
    forks = count > 1;
    dl_iterate_phdr(look, 0);
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART};
    sigaction(SIGALRM, &action, 0);
    struct itimerval often = {{0, 1000}, {0, 1000}};
    setitimer(ITIMER_REAL, &often, 0);
    void *kept[64] = {0};
    for (unsigned i = 0;; i++) {
        void **place = &kept[i % 64];
        if (*place)
            munmap(*place, 4096 * (1 + i % 64));
        *place = mmap(0, 4096 * (1 + i % 64), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    }
}
