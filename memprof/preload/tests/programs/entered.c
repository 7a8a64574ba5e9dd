/* Enters MPI in every way a program can, and asks the profiler who owns which memory. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/shm.h>

int MPI_Init(int *, char ***);
int MPI_Finalize(void);
int MPI_Reduce_local(void *, void *, int, void *, void *);
int MPI_Sendrecv(const void *, int, void *, int, int, void *, int, void *, int, int, void *, void *);
int MPI_Alloc_mem(long, int, void *);
int MPI_Free_mem(void *);
int MPI_Pcontrol(const int, ...);
extern double seen_double;
extern int seen_level;

struct component { char name[96]; uint64_t owned, peak, resident, resident_peak, time; };
struct hooks {
    uint32_t version, size;
    uint32_t (*region_begin)(const char *, size_t, uint32_t);
    void (*region_end)(uint32_t);
    uint32_t (*count)(void);
    int (*component)(uint32_t, struct component *);
};
static const struct hooks *hooks;

#define CHECK(what) do { if (!(what)) { printf("line %d: %s\n", __LINE__, #what); exit(1); } } while (0)

static uint64_t owned(const char *start)
{
    struct component one;
    uint64_t sum = 0;
    for (uint32_t at = 0; at < hooks->count(); at++) {
        if (hooks->component(at, &one) == 0 && strncmp(one.name, start, strlen(start)) == 0) sum += one.owned;
    }
    return sum;
}

static char text[5000];
static char *kept;
static jmp_buf out;
static const char *inside_owner;

static void copy_inside(void)
{
    uint64_t before = owned("mpi.core");
    kept = strdup(text);
    inside_owner = owned("mpi.core") == before + sizeof text ? "mpi.core" : "other";
}

static void leave(void) { longjmp(out, 1); }

static void __attribute__((noinline)) copy_outside(void)
{
    volatile char room[512];
    room[0] = 1;
    uint64_t before = owned("app.exe");
    kept = strdup(text);
    CHECK(owned("app.exe") == before + sizeof text);
    free(kept);
    CHECK(owned("app.exe") == before);
    (void)room;
}

static void *thread(void *argument)
{
    copy_outside();
    return argument;
}

int main(int count, char **words)
{
    const struct hooks *(*find)(uint32_t) =
        (const struct hooks *(*)(uint32_t))dlsym(RTLD_DEFAULT, "memprof_hooks");
    CHECK(find != NULL);
    hooks = find(1);
    CHECK(hooks != NULL && find(2) == NULL);
    memset(text, 'x', sizeof text - 1);

    /* Through the table, through pointers and by look-up. */
    CHECK(MPI_Init(&count, &words) == 0);
    char x[6];
    for (int round = 0; round < 3; round++)
        CHECK(MPI_Sendrecv(x, 1, x + 1, 2, 3, x + 2, 4, x + 3, 5, 6, x + 4, x + 5) == 0);
    int (*by_pointer)(void *, void *, int, void *, void *) = MPI_Reduce_local;
    CHECK(by_pointer(0, 0, 0, 0, (void *)copy_inside) == 7);
    CHECK(strcmp(inside_owner, "mpi.core") == 0);
    free(kept);
    void *library = dlopen("libentered_mpi.so", RTLD_NOW | RTLD_NOLOAD);
    CHECK(library != NULL);
    inside_owner = NULL;
    by_pointer = (int (*)(void *, void *, int, void *, void *))dlsym(library, "MPI_Reduce_local");
    CHECK(by_pointer(0, 0, 0, 0, (void *)copy_inside) == 7);
    CHECK(strcmp(inside_owner, "mpi.core") == 0);
    free(kept);
    /* Names that MPI does not have are not found. */
    CHECK(dlsym(library, "MPI_Abi_get_version") == NULL && dlerror() != NULL);
    CHECK(dlsym(RTLD_DEFAULT, "MPI_Abi_get_version") == NULL);
    CHECK(dlsym(RTLD_NEXT, "MPI_Init") != NULL);

    /* Left by longjmp: outside again, also in deeper frames. */
    for (int round = 0; round < 3; round++) {
        if (!setjmp(out)) MPI_Reduce_local(0, 0, 0, 0, (void *)leave);
        copy_outside();
    }

    /* Threads belong to the program. */
    pthread_t one;
    void *result = NULL;
    CHECK(pthread_create(&one, NULL, thread, &count) == 0 && pthread_join(one, &result) == 0);
    CHECK(result == &count);
    pthread_attr_t wrong;
    pthread_attr_init(&wrong);
    cpu_set_t none;
    CPU_ZERO(&none);
    CPU_SET(1000, &none);
    pthread_attr_setaffinity_np(&wrong, sizeof none, &none);
    for (int round = 0; round < 2000; round++) CHECK(pthread_create(&one, &wrong, thread, NULL) != 0);
    CHECK(pthread_create(&one, NULL, thread, &count) == 0 && pthread_join(one, &result) == 0);

    /* An object opened by name is found through the program's own path, and patched. */
    void *plugin = dlopen("libentered_plugin.so", RTLD_NOW | RTLD_LOCAL);
    CHECK(plugin != NULL);
    int (*calls)(void) = (int (*)(void))dlsym(plugin, "plugin_calls");
    CHECK(calls != NULL && calls() == 0);
    CHECK(dlopen("libentered_absent.so", RTLD_NOW) == NULL);
    const char *error = dlerror();
    CHECK(error != NULL && strstr(error, "libentered_absent.so") != NULL);
    CHECK(dlclose(plugin) == 0);
    CHECK(dlopen("$ORIGIN/plugins/libentered_plugin.so", RTLD_NOW) != NULL);

    /* dlerror reports on the program's calls only, whatever the tool looks up in between. */
    CHECK(dlerror() == NULL);
    CHECK(dlsym(library, "no_such_name") == NULL);
    MPI_Reduce_local(0, 0, 0, 0, (void *)copy_inside);
    free(kept);
    free(calloc(3 << 20, 1));
    CHECK(pthread_create(&one, NULL, thread, &count) == 0 && pthread_join(one, NULL) == 0);
    error = dlerror();
    CHECK(error != NULL && strstr(error, "no_such_name") != NULL);
    CHECK(dlerror() == NULL);

    /* Memory for the program. */
    for (long bytes = 100; bytes < 1000000; bytes *= 9) {
        uint64_t before = owned("mpi.for_user");
        void *base = NULL;
        CHECK(MPI_Alloc_mem(bytes, 0, &base) == 0);
        CHECK(owned("mpi.for_user") == before + (uint64_t)bytes);
        CHECK(MPI_Free_mem(base) == 0);
        CHECK(owned("mpi.for_user") == before);
    }

    /* Mappings. */
    uint64_t before = owned("app.exe");
    char *map = mmap(NULL, 3 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(map != MAP_FAILED && owned("app.exe") == before + (3 << 20));
    map = mremap(map, 3 << 20, 5 << 20, MREMAP_MAYMOVE);
    CHECK(map != MAP_FAILED && owned("app.exe") == before + (5 << 20));
    CHECK(munmap(map + (1 << 20), 1 << 20) == 0 && owned("app.exe") == before + (4 << 20));
    CHECK(munmap(map, 5 << 20) == 0 && owned("app.exe") == before);
    before = owned("app.shm");
    int segment = shmget(IPC_PRIVATE, 1 << 20, IPC_CREAT | 0600);
    if (segment >= 0) {
        void *at = shmat(segment, NULL, 0);
        shmctl(segment, IPC_RMID, NULL);
        CHECK(at != (void *)-1 && owned("app.shm") == before + (1 << 20));
        CHECK(shmdt(at) == 0 && owned("app.shm") == before);
    }

    /* Phases, and arguments that vary. */
    MPI_Pcontrol(3, "solve");
    MPI_Pcontrol(4);
    MPI_Pcontrol(3, "solve");
    MPI_Pcontrol(5, "values", 2.5);
    CHECK(seen_level == 5 && seen_double == 2.5);
    MPI_Pcontrol(6, (char *)1);
    MPI_Pcontrol(7, (char *)-1);
    uint32_t region = hooks->region_begin("region", 6, 0);
    CHECK(region != 0);
    hooks->region_end(region);
    CHECK(MPI_Finalize() == 0);
    puts("done");
    return 0;
}
