/* Changes of a communicator's members: subsets, merges, and processes started at run time. Like
 * mpi.c it makes no decisions. */
#include "handle.h"

#include <stdatomic.h>
#include <stdlib.h>

static int give(int code, MPI_Comm made, uint64_t *out)
{
    if (code == MPI_SUCCESS && made != MPI_COMM_NULL) {
        code = MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN);
    }
    *out = word(made);
    return code;
}

int quo_mpi_world_ranks(uint64_t comm, int count, int *ranks)
{
    MPI_Group own = MPI_GROUP_NULL, world = MPI_GROUP_NULL;
    int *all = malloc((size_t)(count > 0 ? count : 1) * sizeof *all);
    int code = all ? MPI_Comm_group(handle(comm), &own) : MPI_ERR_NO_MEM;
    for (int rank = 0; all && rank < count; rank++) all[rank] = rank;
    if (code == MPI_SUCCESS) code = MPI_Comm_group(MPI_COMM_WORLD, &world);
    if (code == MPI_SUCCESS) code = MPI_Group_translate_ranks(own, count, all, world, ranks);
    for (int rank = 0; code == MPI_SUCCESS && rank < count; rank++) {
        if (ranks[rank] == MPI_UNDEFINED) ranks[rank] = -1;
    }
    if (world != MPI_GROUP_NULL) MPI_Group_free(&world);
    if (own != MPI_GROUP_NULL) MPI_Group_free(&own);
    free(all);
    return code;
}

int quo_mpi_comm_part(uint64_t comm, const int *ranks, int count, int tag, uint64_t *part)
{
    MPI_Group all = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Comm_group(handle(comm), &all);
    if (code == MPI_SUCCESS) code = MPI_Group_incl(all, count, ranks, &some);
    if (code == MPI_SUCCESS) code = MPI_Comm_create_group(handle(comm), some, tag, &made);
    if (some != MPI_GROUP_NULL) MPI_Group_free(&some);
    if (all != MPI_GROUP_NULL) MPI_Group_free(&all);
    return give(code, made, part);
}

int quo_mpi_intercomm(uint64_t local, int leader, uint64_t peer, int other, int tag, uint64_t *inter)
{
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Intercomm_create(handle(local), leader, handle(peer), other, tag, &made);
    return give(code, made, inter);
}

int quo_mpi_merge(uint64_t inter, int high, uint64_t *merged)
{
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Intercomm_merge(handle(inter), high, &made);
    return give(code, made, merged);
}

int quo_mpi_comm_remote_size(uint64_t inter, int *size) { return MPI_Comm_remote_size(handle(inter), size); }

int quo_mpi_comm_disconnect(uint64_t comm)
{
    MPI_Comm gone = handle(comm);
    return MPI_Comm_disconnect(&gone);
}

int quo_mpi_comm_self(uint64_t *self)
{
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Comm_dup(MPI_COMM_SELF, &made);
    return give(code, made, self);
}

int quo_mpi_parent(uint64_t *parent)
{
    MPI_Comm found = MPI_COMM_NULL;
    int code = MPI_Comm_get_parent(&found);
    return give(code, found, parent);
}

int quo_mpi_spawn(uint64_t self, const char *command, char **arguments, int count, const char *const *keys,
    const char *const *values, int pairs, uint64_t *inter)
{
    MPI_Info info = MPI_INFO_NULL;
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Info_create(&info);
    for (int pair = 0; code == MPI_SUCCESS && pair < pairs; pair++) {
        code = MPI_Info_set(info, keys[pair], values[pair]);
    }
    if (code == MPI_SUCCESS) {
        code = MPI_Comm_spawn(command, arguments, count, info, 0, handle(self), &made, MPI_ERRCODES_IGNORE);
    }
    if (info != MPI_INFO_NULL) MPI_Info_free(&info);
    return give(code, made, inter);
}

int quo_mpi_port_length(void) { return MPI_MAX_PORT_NAME + 1; }

int quo_mpi_open_port(char *port) { return MPI_Open_port(MPI_INFO_NULL, port); }

int quo_mpi_close_port(const char *port) { return MPI_Close_port(port); }

int quo_mpi_accept(const char *port, uint64_t local, uint64_t *inter)
{
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Comm_accept(port, MPI_INFO_NULL, 0, handle(local), &made);
    return give(code, made, inter);
}

int quo_mpi_connect(const char *port, uint64_t local, uint64_t *inter)
{
    MPI_Comm made = MPI_COMM_NULL;
    int code = MPI_Comm_connect(port, MPI_INFO_NULL, 0, handle(local), &made);
    return give(code, made, inter);
}

int quo_mpi_universe(int *size)
{
    int *value = NULL, found = 0;
    int code = MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &value, &found);
    *size = code == MPI_SUCCESS && found && value != NULL ? *value : -1;
    return code;
}

int quo_mpi_thread_level(int *level)
{
    int provided = MPI_THREAD_SINGLE;
    int code = MPI_Query_thread(&provided);
    *level = provided >= MPI_THREAD_MULTIPLE ? 3 : provided >= MPI_THREAD_SERIALIZED ? 2 : provided >= MPI_THREAD_FUNNELED ? 1 : 0;
    return code;
}

int quo_mpi_init_threads(int level)
{
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED, MPI_THREAD_MULTIPLE};
    int provided = MPI_THREAD_SINGLE;
    return MPI_Init_thread(NULL, NULL, levels[level < 0 || level > 3 ? 0 : level], &provided);
}

_Static_assert(sizeof(void *) >= sizeof(uint64_t), "an attribute holds a word");

/* Created once; several threads of one process may call this. */
static int key(void)
{
    static atomic_int made = MPI_KEYVAL_INVALID;
    int known = atomic_load(&made);
    if (known == MPI_KEYVAL_INVALID) {
        int fresh = MPI_KEYVAL_INVALID;
        if (MPI_Comm_create_keyval(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, &fresh, NULL) != MPI_SUCCESS) {
            return MPI_KEYVAL_INVALID;
        }
        if (atomic_compare_exchange_strong(&made, &known, fresh)) return fresh;
        MPI_Comm_free_keyval(&fresh);
    }
    return known;
}

int quo_mpi_mark(uint64_t comm, uint64_t mark)
{
    int known = key();
    if (known == MPI_KEYVAL_INVALID) return MPI_ERR_OTHER;
    return MPI_Comm_set_attr(handle(comm), known, (void *)(uintptr_t)mark);
}

uint64_t quo_mpi_marked(uint64_t comm)
{
    void *value = NULL;
    int found = 0, known = key();
    if (known == MPI_KEYVAL_INVALID) return 0;
    if (MPI_Comm_get_attr(handle(comm), known, &value, &found) != MPI_SUCCESS || !found) return 0;
    return (uint64_t)(uintptr_t)value;
}
