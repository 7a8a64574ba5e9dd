/* Keeps blocks of a MiB: 24 that a library allocates for one function, 12 for another through many
   calls, 4 without a call of the program, in a thread, and 8 of the program. The 12 are the last, seconds
   later, if there is an argument. LIBRARY makes the library. */
#include <stdlib.h>
#include <string.h>

enum { MIB = 1 << 20 };

void *library_block(int calls);
void library_thread(void);

#ifdef LIBRARY
#include <pthread.h>

static void *volatile last;

__attribute__((noinline)) void *library_block(int calls)
{
    /* The store after the call keeps it from becoming a jump. */
    last = calls > 0 ? library_block(calls - 1) : memset(malloc(MIB), 1, MIB);
    return last;
}

static void *keep(void *unused)
{
    for (int i = 0; i < 4; ++i) library_block(0);
    return unused;
}

void library_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, keep, NULL)) abort();
    pthread_join(thread, NULL);
}
#else
#include <unistd.h>

static void *volatile kept;

__attribute__((noinline)) static void few_calls(void)
{
    for (int i = 0; i < 24; ++i) kept = library_block(2);
}

__attribute__((noinline)) static void many_calls(void)
{
    for (int i = 0; i < 12; ++i) kept = library_block(40);
}

int main(int argc, char **argv)
{
    (void)argv;
    few_calls();
    for (int i = 0; i < 8; ++i) kept = memset(malloc(MIB), 1, MIB);
    library_thread();
    // Sleeps: for moments of the trace, a second apart, before the last blocks and after them.
    if (argc > 1) sleep(6);
    many_calls();
    // Sleeps: as above.
    if (argc > 1) sleep(4);
    return 0;
}
#endif
