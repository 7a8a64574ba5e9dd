// Threads with the smallest possible stack hold and free much memory.
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *run(void *bytes) {
    char *block = malloc((size_t)bytes);
    memset(block, 1, (size_t)bytes);
    free(block);
    return bytes;
}

int main(void) {
    for (size_t bytes = 2 << 20; bytes <= 128 << 20; bytes *= 2) {
        pthread_attr_t attributes;
        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, sysconf(_SC_THREAD_STACK_MIN));
        pthread_t thread;
        if (pthread_create(&thread, &attributes, run, (void *)bytes) || pthread_join(thread, 0))
            return 1;
    }
    puts("freed");
    return 0;
}
