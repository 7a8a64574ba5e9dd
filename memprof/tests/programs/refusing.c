/* Executes a program to which the kernel refuses some system calls: refusing ERROR CALL... --
 * PROGRAM ... */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static const struct {
    const char *name;
    unsigned number;
} CALLS[] = {
#define CALL(name) { #name, SYS_##name }
    CALL(memfd_create), CALL(process_vm_readv), CALL(ioctl),  CALL(fallocate), CALL(readlinkat),
    CALL(prctl),        CALL(perf_event_open),  CALL(clone3), CALL(clone),
};

int main(int argc, char **argv)
{
    struct sock_filter filter[64];
    unsigned short at = 0;
    unsigned error = argc > 1 && !strcmp(argv[1], "ENOSYS") ? ENOSYS : EPERM;
    int word = 2;
    filter[at++] =
        (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr));
    for (; word < argc && strcmp(argv[word], "--") && at < 60; word++)
        for (size_t call = 0; call < sizeof CALLS / sizeof *CALLS; call++) {
            if (strcmp(CALLS[call].name, argv[word])) continue;
            unsigned number = CALLS[call].number;
            filter[at++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1);
            filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error);
        }
    filter[at++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = { at, filter };
    if (at == 2 || word + 1 >= argc || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) {
        perror("refusing");
        return 125;
    }
    execvp(argv[word + 1], argv + word + 1);
    perror(argv[word + 1]);
    return 127;
}
