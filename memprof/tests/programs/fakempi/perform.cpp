#include "perform.h"

#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <semaphore.h>

#include "carry_out.h"
#include "fakempi.h"

namespace {

carry_out_function *app_plugin;

// A call of user code inside MPI, and the way out of it.
struct Visit {
    order *what;
    int leave;
    jmp_buf way_out;
};

void callback(void *in, void *, int *, MPI_Datatype *)
{
    auto *visit = static_cast<Visit *>(in);
    carry_out_order(visit->what);
    if (visit->leave == THROW) throw 1;
    if (visit->leave == JUMP) longjmp(visit->way_out, 1);
}

__attribute__((noinline)) void through_callback(order &what, int leave)
{
    Visit visit;
    visit.what = &what;
    visit.leave = leave;
    try {
        if (setjmp(visit.way_out) == 0)
            MPI_Reduce_local(&visit, &visit, 0, nullptr, reinterpret_cast<MPI_Op>(callback));
    } catch (int) {
    }
}

__attribute__((noinline)) void by_the_program(order &what) { carry_out_order(&what); }

void at_place(int place, int leave, order &what)
{
    switch (place) {
    case EXE: by_the_program(what); break;
    case PART: part_carry_out(&what); break;
    case BOTH: both_carry_out(&what); break;
    case APP_PLUGIN: app_plugin(&what); break;
    case CORE: MPI_Send(&what, 1, nullptr, 0, 0, MPI_COMM_WORLD); break;
    case DEP: MPI_Recv(&what, 1, nullptr, 0, 0, MPI_COMM_WORLD, nullptr); break;
    case PLUGIN: MPI_Bcast(&what, 1, nullptr, 0, MPI_COMM_WORLD); break;
    case BOTH_IN_MPI: MPI_Ssend(&what, 1, nullptr, 0, 0, MPI_COMM_WORLD); break;
    case HELPER: MPI_Rsend(&what, 1, nullptr, 0, 0, MPI_COMM_WORLD); break;
    default: through_callback(what, leave);
    }
}

struct Errand {
    int place, leave;
    order *what;
};

Errand errand;
sem_t wanted, done;

void *work(void *)
{
    for (;;) {
        while (sem_wait(&wanted)) {}
        at_place(errand.place, errand.leave, *errand.what);
        sem_post(&done);
    }
}

void *run_once(void *given)
{
    auto *job = static_cast<Errand *>(given);
    at_place(job->place, job->leave, *job->what);
    return nullptr;
}

void carry(const Op &op, int place, order &what)
{
    if (op.thread == SELF) return at_place(place, op.leave, what);
    Errand job = {place, op.leave, &what};
    if (op.thread == WORKER) {
        errand = job;
        sem_post(&wanted);
        while (sem_wait(&done)) {}
        return;
    }
    pthread_t thread;
    if (pthread_create(&thread, nullptr, run_once, &job)) return at_place(place, op.leave, what);
    pthread_join(thread, nullptr);
}

bool complain(const Op &op, const char *about)
{
    printf("broken promise: %s\nop %d %d %d %d %d %d %zu %zu\n", about, op.what, op.place, op.kind,
           op.slot, op.leave, op.thread, op.size, op.extra);
    fflush(stdout);
    return false;
}

bool is_cxx(int place) { return place == EXE || place == DEP || place == CALLBACK; }

bool give_back(Model &model, const Op &op)
{
    Slot &slot = model.slots[op.slot];
    if (slot.is_empty()) return true;
    if (slot.is_given()) {
        model.remove(slot.owner, slot.is_heap() ? slot.size : whole_pages(slot.size));
        MPI_Win window = slot.pointer;
        slot.window ? MPI_Win_free(&window) : MPI_Free_mem(slot.pointer);
        slot = Slot();
        return true;
    }
    if (!slot.marks_are_there(slot.size)) return complain(op, "a block was written to");
    order what = {ACT_GIVE_BACK, slot.kind, 0, slot.alignment, slot.pointer, slot.size, 0};
    int place = KIND_IS_NEW(slot.kind) && !is_cxx(op.place) ? EXE : op.place;
    if (slot.is_heap()) {
        model.remove(slot.owner, slot.size);
        carry(op, place, what);
    }
    for (int index = 0; index < slot.range_count; index++) {
        const Range &range = slot.ranges[index];
        model.remove(range.owner, range.length);
        what.pointer = range.start;
        what.length = range.length;
        carry(op, place, what);
    }
    slot = Slot();
    return true;
}

bool get(Model &model, const Op &op)
{
    if (!give_back(model, op)) return false;
    Slot &slot = model.slots[op.slot];
    order what = {ACT_GET, op.kind, op.size, op.extra, nullptr, 0, 0};
    carry(op, op.place, what);
    if (what.failed) return complain(op, "no memory");
    slot.kind = op.kind;
    slot.pointer = static_cast<char *>(what.pointer);
    slot.size = op.size;
    slot.alignment = op.extra;
    slot.owner = owner_of(op.place, op.kind);
    if (!slot.is_heap()) {
        slot.ranges[0] = {slot.pointer, whole_pages(op.size), slot.owner};
        slot.range_count = 1;
        model.add(slot.owner, whole_pages(op.size));
        slot.size = 0; // no marks
        return true;
    }
    model.add(slot.owner, op.size);
    bool aligned = op.kind == KIND_MEMALIGN || op.kind == KIND_ALIGNED_ALLOC ||
                   op.kind == KIND_POSIX_MEMALIGN || op.kind == KIND_NEW_ALIGNED;
    size_t alignment = aligned ? op.extra : op.kind == KIND_VALLOC ? PAGE : alignof(max_align_t);
    if (reinterpret_cast<uintptr_t>(slot.pointer) % alignment)
        return complain(op, "a block is not aligned");
    if (malloc_usable_size(slot.pointer) < op.size)
        return complain(op, "a block is smaller than asked for");
    for (size_t byte = 0; op.kind == KIND_CALLOC && byte < op.size; byte++) {
        if (slot.pointer[byte]) return complain(op, "calloc did not clear");
        // A page that is only read is the kernel's zero page, and has no owner.
        if (byte % 512 == 0) *const_cast<volatile char *>(slot.pointer + byte) = 0;
    }
    slot.set_marks(static_cast<unsigned char>(op.size * 7 + static_cast<size_t>(op.slot)));
    return true;
}

bool given(Model &model, const Op &op)
{
    if (!give_back(model, op)) return false;
    Slot &slot = model.slots[op.slot];
    void *base = nullptr;
    MPI_Win window = nullptr;
    slot.window = op.extra != 0;
    auto size = static_cast<MPI_Aint>(op.size);
    int error = slot.window
                    ? MPI_Win_allocate(size, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &base, &window)
                    : MPI_Alloc_mem(size, MPI_INFO_NULL, &base);
    if (error) return complain(op, "MPI_Alloc_mem failed");
    bool mapped = op.size > 1 << 20;
    slot.kind = mapped ? Slot::GIVEN_BY_MAP : Slot::GIVEN_BY_MALLOC;
    slot.pointer = static_cast<char *>(base);
    slot.size = op.size;
    slot.owner = OWNER_FOR_USER;
    if (mapped) {
        slot.ranges[0] = {slot.pointer, whole_pages(op.size), OWNER_FOR_USER};
        slot.range_count = 1;
    }
    model.add(OWNER_FOR_USER, mapped ? whole_pages(op.size) : op.size);
    return true;
}

bool touch(Model &model, const Op &op)
{
    Slot &slot = model.slots[op.slot];
    if (slot.is_empty()) return true;
    if (slot.is_heap()) {
        if (op.extra == 0 && !slot.is_given()) {
            memset(slot.pointer, 0xa5, malloc_usable_size(slot.pointer));
        } else {
            for (size_t page = 0; page < op.size && page * PAGE < slot.size; page++)
                slot.pointer[page * PAGE] = 1;
        }
        slot.set_marks(static_cast<unsigned char>(op.size));
        return true;
    }
    size_t stride = PAGE * (1 + op.extra);
    for (int index = 0; index < slot.range_count; index++) {
        const Range &range = slot.ranges[index];
        for (size_t page = 0; page < op.size && page * stride < range.length; page++)
            range.start[page * stride] = 1;
    }
    return true;
}

bool resize(Model &model, const Op &op)
{
    Slot &slot = model.slots[op.slot];
    if (slot.is_empty() || slot.is_given() || KIND_IS_NEW(slot.kind)) return true;
    if (slot.kind == KIND_UNTAGGED) return true;
    if (!slot.is_heap() && (slot.kind != KIND_MAP || slot.range_count != 1)) return true;
    order what = {ACT_RESIZE, slot.kind, op.size, 0, slot.pointer, 0, 0};
    if (!slot.is_heap()) {
        Range &range = slot.ranges[0];
        what.pointer = range.start;
        what.length = range.length;
        what.size = whole_pages(op.size);
        carry(op, op.place, what);
        if (what.failed) return complain(op, "mremap failed");
        model.remove(range.owner, range.length);
        range.start = static_cast<char *>(what.pointer);
        range.length = what.size;
        model.add(range.owner, range.length);
        return true;
    }
    if (op.size % 4 == 0) {
        // Too large: the block must stay unchanged.
        what.size = PTRDIFF_MAX;
        carry(op, op.place, what);
        if (!what.failed) return complain(op, "a realloc beyond all memory succeeded");
        what.size = op.size;
    }
    carry(op, op.place, what);
    if (what.failed) return complain(op, "realloc failed");
    model.remove(slot.owner, slot.size);
    slot.pointer = static_cast<char *>(what.pointer);
    size_t kept = slot.size;
    slot.size = op.size;
    slot.owner = owner_of(op.place, KIND_MALLOC);
    model.add(slot.owner, slot.size);
    if (kept != slot.size && kept > 0) {
        if (slot.pointer[0] != static_cast<char>(slot.mark))
            return complain(op, "realloc lost the first byte");
        if (kept < slot.size && slot.pointer[kept - 1] != static_cast<char>(slot.mark))
            return complain(op, "realloc lost the last byte");
    }
    slot.set_marks(static_cast<unsigned char>(op.size * 5));
    return true;
}

// Unmaps or replaces a part of one of the ranges, which becomes up to three.
bool part(Model &model, const Op &op)
{
    Slot &slot = model.slots[op.slot];
    bool fit = slot.kind == KIND_MAP || slot.kind == KIND_MAP_SHARED || slot.kind == KIND_MEMFD ||
               slot.kind == KIND_SHM_OPEN;
    if (!fit || slot.range_count > Slot::RANGES - 2) return true;
    int index = static_cast<int>(op.size % static_cast<size_t>(slot.range_count));
    Range whole = slot.ranges[index];
    size_t pages = whole.length / PAGE, from = op.extra % pages;
    size_t count = 1 + op.size % (pages - from);
    Range middle = {whole.start + from * PAGE, count * PAGE, OWNER_NONE};
    order what = {op.what == UNMAP ? ACT_UNMAP : ACT_REPLACE, slot.kind, 0, 0, middle.start,
                  middle.length, 0};
    carry(op, op.place, what);
    if (what.failed) return complain(op, "a mapping could not be replaced");
    slot.ranges[index] = slot.ranges[--slot.range_count];
    model.remove(whole.owner, middle.length);
    if (from) slot.ranges[slot.range_count++] = {whole.start, from * PAGE, whole.owner};
    if (from + count < pages) {
        char *end = middle.start + middle.length;
        slot.ranges[slot.range_count++] = {end, (pages - from - count) * PAGE, whole.owner};
    }
    if (op.what == REPLACE) {
        middle.owner = owner_of(op.place, KIND_MAP);
        slot.ranges[slot.range_count++] = middle;
        model.add(middle.owner, middle.length);
    }
    if (slot.range_count == 0) slot = Slot();
    return true;
}

Slot exchanged[EXCHANGED];
pthread_mutex_t exchange_lock = PTHREAD_MUTEX_INITIALIZER;

void swap_slots(Model &model, const Op &op)
{
    pthread_mutex_lock(&exchange_lock);
    Slot &mine = model.slots[op.slot], &theirs = exchanged[op.slot % EXCHANGED], kept = mine;
    mine = theirs;
    theirs = kept;
    pthread_mutex_unlock(&exchange_lock);
}

} // namespace

const Slot *exchange() { return exchanged; }

bool prepare_places()
{
    memset(the_string, 'm', STRING_LIMIT - 1);
    void *loaded = dlopen("libapp_plugin.so", RTLD_NOW | RTLD_LOCAL);
    if (loaded) app_plugin = reinterpret_cast<carry_out_function *>(dlsym(loaded, "plugin_carry_out"));
    else printf("%s\n", dlerror());
    if (MPI_Bcast(nullptr, 0, nullptr, 0, MPI_COMM_WORLD)) return false;
    sem_init(&wanted, 0, 0);
    sem_init(&done, 0, 0);
    pthread_t worker;
    return app_plugin && pthread_create(&worker, nullptr, work, nullptr) == 0;
}

bool perform(Model &model, const Op &op)
{
    switch (op.what) {
    case GET: return get(model, op);
    case GIVE_BACK: return give_back(model, op);
    case RESIZE: return resize(model, op);
    case TOUCH: return touch(model, op);
    case UNMAP:
    case REPLACE: return part(model, op);
    case GIVEN: return given(model, op);
    case SWAP: swap_slots(model, op); return true;
    case FAIL: {
        order what = {ACT_FAIL, 0, op.size, 0, nullptr, 0, 0};
        carry(op, op.place, what);
        return what.failed ? complain(op, "a call that cannot succeed did, or gave no reason") : true;
    }
    default: return true;
    }
}

bool clear(Model &model)
{
    bool right = true;
    for (int slot = 0; slot < SLOTS; slot++) {
        Op op;
        op.what = GIVE_BACK;
        op.slot = slot;
        op.place = slot % PLACE_COUNT == HELPER ? EXE : slot % PLACE_COUNT;
        right &= perform(model, op);
    }
    return right;
}

bool reload_plugin()
{
    MPI_T_finalize();
    return MPI_Bcast(nullptr, 0, nullptr, 0, MPI_COMM_WORLD) == 0;
}
