// Holds memory of several kinds, prints that, and waits until its input ends.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static pthread_barrier_t there;

static void *thread(void *unused)
{
    (void)unused;
    char on_stack[3 << 20];
    memset(on_stack, 1, sizeof on_stack);
    pthread_barrier_wait(&there);
    pause();
    return NULL;
}

int main(void)
{
    char *heap = malloc(20 << 20);
    memset(heap, 1, 20 << 20);
    char *shared = mmap(NULL, 5 << 20, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    memset(shared, 1, 5 << 20);
    pthread_barrier_init(&there, NULL, 2);
    pthread_t other;
    if (shared == MAP_FAILED || pthread_create(&other, NULL, thread, NULL) != 0)
        return 1;
    pthread_barrier_wait(&there);
    puts("ready");
    fflush(stdout);
    while (getchar() != EOF)
        ;
    return 0;
}
