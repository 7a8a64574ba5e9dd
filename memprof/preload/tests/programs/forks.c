// Forks, and each child forks once as well.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(void) {
    for (int round = 0; round < 5; round++) {
        pid_t child = fork();
        if (child == 0) {
            pid_t its = fork();
            free(malloc(100000));
            if (its == 0)
                _exit(0);
            int how = 1;
            waitpid(its, &how, 0);
            _exit(how != 0);
        }
        int how = 1;
        waitpid(child, &how, 0);
        if (how != 0)
            return 1;
    }
    puts("forked");
    return 0;
}
