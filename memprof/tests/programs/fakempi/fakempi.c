/* The MPI library itself; see fakempi.h. */
#include "carry_out.h"
#include "fakempi.h"

#include <dlfcn.h>
#include <pthread.h>
#include <semaphore.h>

/* As in real libraries: MPI_X is a weak name of PMPI_X. */
#define MPI(result, name, ...)                                                                     \
    result name(__VA_ARGS__) __attribute__((weak, alias("P" #name)));                              \
    result P##name(__VA_ARGS__);                                                                   \
    result P##name(__VA_ARGS__)

#define MAPPED_FROM (1024 * 1024)

static struct order *helper_order;
static sem_t helper_wanted, helper_done;
static pthread_t helper;
static pthread_mutex_t helper_turn = PTHREAD_MUTEX_INITIALIZER;
static int helper_runs;

/* The progress thread, as in real libraries. */
static void *help(void *nothing)
{
    for (;;) {
        while (sem_wait(&helper_wanted)) {}
        if (!helper_order) return nothing;
        carry_out_order(helper_order);
        sem_post(&helper_done);
    }
}

static void ask_helper(struct order *order)
{
    pthread_mutex_lock(&helper_turn);
    helper_order = order;
    sem_post(&helper_wanted);
    if (order) {
        while (sem_wait(&helper_done)) {}
    }
    pthread_mutex_unlock(&helper_turn);
}

static void *plugin;
static carry_out_function *in_plugin;
static pthread_mutex_t plugin_lock = PTHREAD_MUTEX_INITIALIZER;

static int load_plugin(void)
{
    pthread_mutex_lock(&plugin_lock);
    if (!plugin) plugin = dlopen("libfakempi_plugin.so", RTLD_NOW | RTLD_LOCAL);
    if (plugin) in_plugin = (carry_out_function *)dlsym(plugin, "plugin_carry_out");
    else fprintf(stderr, "%s\n", dlerror());
    pthread_mutex_unlock(&plugin_lock);
    return in_plugin == NULL;
}

MPI(int, MPI_Init_thread, int *argc, char ***argv, int required, int *provided)
{
    (void)argc, (void)argv;
    *provided = required;
    sem_init(&helper_wanted, 0, 0);
    sem_init(&helper_done, 0, 0);
    helper_runs = pthread_create(&helper, NULL, help, NULL) == 0;
    return !helper_runs;
}

MPI(int, MPI_Init, int *argc, char ***argv)
{
    int provided;
    return PMPI_Init_thread(argc, argv, 0, &provided);
}

MPI(int, MPI_Finalize, void)
{
    if (helper_runs) {
        ask_helper(NULL);
        pthread_join(helper, NULL);
    }
    return 0;
}

MPI(int, MPI_Send, const void *order, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    (void)type, (void)to, (void)tag, (void)comm;
    if (count) carry_out_order((struct order *)order);
    return 0;
}

MPI(int, MPI_Recv, void *order, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
    void *status)
{
    (void)count, (void)type, (void)from, (void)tag, (void)comm, (void)status;
    dep_carry_out((struct order *)order);
    return 0;
}

MPI(int, MPI_Bcast, void *order, int count, MPI_Datatype type, int root, MPI_Comm comm)
{
    (void)count, (void)type, (void)root, (void)comm;
    if (load_plugin()) return 1;
    if (order) in_plugin((struct order *)order);
    return 0;
}

MPI(int, MPI_Ssend, const void *order, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    (void)count, (void)type, (void)to, (void)tag, (void)comm;
    dep_both_carry_out((struct order *)order);
    return 0;
}

MPI(int, MPI_Rsend, const void *order, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm)
{
    (void)count, (void)type, (void)to, (void)tag, (void)comm;
    ask_helper((struct order *)order);
    return 0;
}

MPI(int, MPI_Op_create, MPI_User_function *function, int commute, MPI_Op *op)
{
    (void)commute;
    *op = (MPI_Op)function;
    return 0;
}

MPI(int, MPI_Op_free, MPI_Op *op)
{
    *op = NULL;
    return 0;
}

MPI(int, MPI_Reduce_local, const void *in, void *inout, int count, MPI_Datatype type, MPI_Op op)
{
    ((MPI_User_function *)op)((void *)in, inout, &count, &type);
    return 0;
}

/* Windows and MPI_Alloc_mem: their memory is found again by its address. */
#define GIVEN_LIMIT 256
static struct {
    void *base;
    size_t size;
} given[GIVEN_LIMIT];
static pthread_mutex_t given_lock = PTHREAD_MUTEX_INITIALIZER;

static int give(size_t size, void **base)
{
    *base = NULL;
    pthread_mutex_lock(&given_lock);
    for (int entry = 0; entry < GIVEN_LIMIT; entry++) {
        if (given[entry].base) continue;
        if (size > MAPPED_FROM) {
            void *mapped =
                mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
            *base = mapped == MAP_FAILED ? NULL : mapped;
        } else {
            *base = malloc(size);
        }
        given[entry].base = *base;
        given[entry].size = size;
        break;
    }
    pthread_mutex_unlock(&given_lock);
    return *base == NULL;
}

static int take_back(void *base)
{
    size_t size = 0;
    pthread_mutex_lock(&given_lock);
    for (int entry = 0; entry < GIVEN_LIMIT; entry++) {
        if (given[entry].base != base) continue;
        size = given[entry].size;
        given[entry].base = NULL;
        break;
    }
    pthread_mutex_unlock(&given_lock);
    if (size > MAPPED_FROM) return munmap(base, size);
    free(base);
    return 0;
}

MPI(int, MPI_Alloc_mem, MPI_Aint size, MPI_Info info, void *baseptr)
{
    (void)info;
    return give((size_t)size, (void **)baseptr);
}

MPI(int, MPI_Free_mem, void *base) { return take_back(base); }

MPI(int, MPI_Win_allocate, MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void *baseptr,
    MPI_Win *win)
{
    (void)unit, (void)info, (void)comm;
    int error = give((size_t)size, (void **)baseptr);
    *win = *(void **)baseptr;
    return error;
}

MPI(int, MPI_Win_free, MPI_Win *win)
{
    int error = take_back(*win);
    *win = NULL;
    return error;
}

MPI(int, MPI_T_finalize, void)
{
    pthread_mutex_lock(&plugin_lock);
    if (plugin) dlclose(plugin);
    plugin = NULL;
    in_plugin = NULL;
    pthread_mutex_unlock(&plugin_lock);
    return 0;
}

MPI(int, MPI_Pcontrol, const int level, ...)
{
    (void)level;
    return 0;
}

MPI(int, MPI_Comm_rank, MPI_Comm comm, int *rank)
{
    (void)comm;
    *rank = 0;
    return 0;
}
