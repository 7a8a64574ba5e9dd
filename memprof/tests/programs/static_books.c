/* A statically linked program records who owns how much over random steps, and compares that
 * with the profiler to the byte. In C, and as C++ as well. */
#include "fakempi/carry_out.h"
#include "fakempi/fakempi.h"

#include "memprof.h"

#ifdef __cplusplus
extern "C"
#endif
const memprof_hooks_t *memprof_hooks(uint32_t version);

enum owner { APPLICATION, MPI, FOR_USER, APPLICATION_SHARED, MPI_SHARED, OWNERS };
static const char *const starts[OWNERS] = {"app.exe:", "mpi.core:", "mpi.for_user", "app.shm",
                                           "mpi.shm"};

/* Object that allocates, resizes and frees. */
enum who { OWN_CODE, CALLBACK, SEND, RECEIVE, HELPER, WHO };

static struct {
    struct order order;
    enum owner owner;
    int given; /* by MPI_Alloc_mem */
} items[96];
#define ITEMS ((int)(sizeof items / sizeof *items))

static long long books[OWNERS], begun[OWNERS];
/* Without symbols a callback cannot be distinguished from the MPI that calls it. */
static int callbacks = 1;
static unsigned long long seed = 1;

static unsigned draw(unsigned below)
{
    seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
    return (unsigned)(seed >> 33) % below;
}

static void callback(void *in, void *inout, int *count, MPI_Datatype *type)
{
    (void)inout, (void)count, (void)type;
    carry_out_order((struct order *)in);
}

static void have_done(struct order *order, enum who who)
{
    static MPI_Op op;
    if (!op) MPI_Op_create(callback, 1, &op);
    switch (who) {
    case OWN_CODE: carry_out_order(order); break;
    case CALLBACK: MPI_Reduce_local(order, NULL, 1, NULL, op); break;
    case SEND: MPI_Send(order, 1, NULL, 0, 0, MPI_COMM_WORLD); break;
    case RECEIVE: MPI_Recv(order, 1, NULL, 0, 0, MPI_COMM_WORLD, NULL); break;
    default: MPI_Rsend(order, 1, NULL, 0, 0, MPI_COMM_WORLD); break;
    }
}

static long long profilers(enum owner owner)
{
    const memprof_hooks_t *hooks = memprof_hooks(1);
    memprof_component_t component;
    long long sum = 0;
    for (uint32_t index = 0; hooks && index < hooks->component_count(); index++) {
        if (hooks->component(index, &component)) continue;
        if (strncmp(component.name, starts[owner], strlen(starts[owner])) == 0)
            sum += (long long)component.owned;
    }
    return sum;
}

static enum who anybody(void)
{
    enum who who = (enum who)draw(WHO);
    return who == CALLBACK && !callbacks ? SEND : who;
}

static int compare(int step)
{
    int wrong = 0;
    for (int owner = 0; owner < OWNERS; owner++) {
        long long theirs = profilers((enum owner)owner) - begun[owner];
        if (theirs == books[owner]) continue;
        printf("step %d: %s owns %lld, the profiler says %lld\n", step, starts[owner], books[owner],
               theirs);
        wrong = 1;
    }
    return wrong;
}

static size_t counted(const struct order *order)
{
    size_t page = 4096, whole = (order->size + page - 1) & ~(page - 1);
    return KIND_IS_HEAP(order->kind) && order->kind != KIND_PVALLOC ? order->size : whole;
}

static enum owner owner_of(enum who who, int kind)
{
    enum owner owner = who == OWN_CODE || who == CALLBACK ? APPLICATION : MPI;
    if (!KIND_IS_SHARED(kind)) return owner;
    return owner == MPI ? MPI_SHARED : APPLICATION_SHARED;
}

static void get(int at)
{
    /* C++'s own ways, and what a library does for the callback, are left to other tests. */
    static const int kinds[] = {KIND_MALLOC,       KIND_CALLOC, KIND_REALLOC_NULL,  KIND_REALLOCARRAY,
                                KIND_MEMALIGN,     KIND_VALLOC, KIND_ALIGNED_ALLOC, KIND_PVALLOC,
                                KIND_POSIX_MEMALIGN, KIND_MAP,  KIND_MAP_SHARED,    KIND_SYSV,
                                KIND_STRDUP,       KIND_NEW};
    struct order *order = &items[at].order;
    enum who who = anybody();
    int count = (int)(sizeof kinds / sizeof *kinds) - (who == RECEIVE ? 0 : who == CALLBACK ? 2 : 1);
    memset(order, 0, sizeof *order);
    order->act = ACT_GET;
    order->kind = kinds[draw((unsigned)count)];
    order->size = 1 + (draw(20) ? draw(5000) : draw(3 << 20));
    if (KIND_IS_NEUTRAL(order->kind)) order->size = 1 + draw(STRING_LIMIT - 1);
    order->alignment = (size_t)16 << draw(6);
    have_done(order, who);
    if (order->failed) abort();
    items[at].owner = owner_of(who, order->kind);
    order->length = counted(order);
    books[items[at].owner] += (long long)order->length;
    if (order->kind != KIND_STRDUP) memset(order->pointer, 7, order->size);
}

static void give_back(int at)
{
    struct order *order = &items[at].order;
    books[items[at].owner] -= (long long)order->length;
    if (items[at].given) {
        MPI_Free_mem(order->pointer);
    } else {
        order->act = ACT_GIVE_BACK;
        have_done(order, order->kind == KIND_NEW ? RECEIVE : anybody());
    }
    memset(&items[at], 0, sizeof items[at]);
}

static void resize(int at)
{
    struct order *order = &items[at].order;
    enum who who = anybody();
    if (items[at].given || !KIND_IS_HEAP(order->kind) || order->kind == KIND_NEW) return;
    order->act = ACT_RESIZE;
    order->size = 1 + draw(300000);
    have_done(order, who);
    if (order->failed) abort();
    books[items[at].owner] -= (long long)order->length;
    order->kind = KIND_MALLOC;
    order->length = order->size;
    items[at].owner = owner_of(who, KIND_MALLOC);
    books[items[at].owner] += (long long)order->length;
}

static void be_given(int at)
{
    struct order *order = &items[at].order;
    /* Small ones are blocks, large ones mappings. */
    order->size = draw(2) ? 40000 + draw(100000) : (size_t)(500 + draw(100)) * 4096;
    if (MPI_Alloc_mem((MPI_Aint)order->size, MPI_INFO_NULL, &order->pointer)) abort();
    order->kind = order->size > 1 << 20 ? KIND_MAP : KIND_MALLOC;
    order->length = order->size;
    items[at].owner = FOR_USER;
    items[at].given = 1;
    books[FOR_USER] += (long long)order->length;
}

int main(int argc, char **argv)
{
    int wrong = 0, provided;
    callbacks = argc < 2 || strcmp(argv[1], "--no-callbacks") != 0;
    memset(the_string, 'x', STRING_LIMIT - 1);
    printf("begin\n");
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    struct order nothing = {ACT_FAIL, 0, 0, 0, NULL, 0, 0};
    for (int who = 0; who < WHO; who++) have_done(&nothing, (enum who)who);
    for (int owner = 0; owner < OWNERS; owner++) begun[owner] = profilers((enum owner)owner);
    for (int step = 0; step < 20000 && !wrong; step++) {
        int at = (int)draw(ITEMS);
        if (!items[at].order.pointer && draw(10) == 0) be_given(at);
        else if (!items[at].order.pointer) get(at);
        else if (draw(3)) give_back(at);
        else resize(at);
        if (step % 50 == 0) wrong = compare(step);
    }
    wrong = wrong || compare(20000);
    for (int at = 0; at < ITEMS; at++) {
        if (items[at].order.pointer) give_back(at);
    }
    wrong = wrong || compare(20001);
    MPI_Finalize();
    if (!wrong) printf("books agree\n");
    return wrong;
}
