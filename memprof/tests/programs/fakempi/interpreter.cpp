// Runs random programs about memory under the profiler and compares its figures with the model:
// owned to the byte, resident to the page. Ends with 0 if all agrees, 1 with the program if not, 3
// if there is no profiler.
//
// interpreter [--seed S] [--programs N] [--length L] [--threads T] [--fork N] [--looks N] [--huge]
//             [--print | --replay]   (a script on stdin)   [--forever]
//             [--blind]              (what the profiler says is not looked at)
//             [--reclaim]            (before each look pages of objects go, where the kernel may take them)
//             [--fork-looks N]    (as --looks, of programs in children of a fork that have traces of their own)
//             [--rests FILE]         (looks are rests; what a sample has to find in each is in FILE)

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>
#include <malloc.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fakempi.h"
#include "perform.h"
#include "rests.h"

namespace {

struct Options {
    uint64_t seed = 1, programs = 100;
    int length = 40, threads = 0, fork_every = 0, fork_looks = 0;
    bool print = false, replay = false, forever = false, blind = false, reclaim = false;
    const char *rests = nullptr;
    Choice choice;
};

bool blind, rests, reclaims;
void reclaim();
Amounts base;
Model model;
Script script;
char text[1 << 16];

int64_t difference(uint64_t now, uint64_t then) { return static_cast<int64_t>(now - then); }

bool owned_agrees(const Model &expected)
{
    Amounts now;
    if (blind) return true;
    if (!ask(now)) return printf("FAIL the profiler does not answer\n"), false;
    for (int owner = 0; owner < OWNER_COUNT; owner++) {
        int64_t got = difference(now.owned[owner], base.owned[owner]);
        // Unattributed memory is what the kernel knows and the ledgers do not.
        if (owner == OWNER_UNATTRIBUTED || got == expected.owned[owner]) continue;
        printf("FAIL owned by %s: %ld B more than at the start, and %ld B were got\n",
               owner_names[owner], got, expected.owned[owner]);
        return false;
    }
    return true;
}

uint64_t kernel_total()
{
    char buffer[128] = {};
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    ssize_t length = read(file, buffer, sizeof buffer - 1);
    close(file);
    unsigned long size = 0, resident = 0;
    return length > 0 && sscanf(buffer, "%lu %lu", &size, &resident) == 2 ? resident * PAGE : 0;
}

uint64_t base_resident[OWNER_COUNT];
// True if the object was reloaded at some time, and since the last look.
bool once_reloaded, reloaded;

// True if `base_resident` is known.
bool known;

// Only with empty slots. No owner may still have any of their former memory.
bool look_at_start()
{
    Amounts now;
    uint64_t total, unattributed;
    if (blind) return true;
    if (!look(now, &total, &unattributed)) return printf("FAIL no sample was made\n"), false;
    for (int owner = 0; known && owner < OWNER_UNATTRIBUTED; owner++) {
        int64_t more = difference(now.resident[owner], base_resident[owner]);
        if (more <= static_cast<int64_t>(8 * PAGE)) continue;
        printf("FAIL resident of %s: %ld B more than when it had nothing before\n", owner_names[owner],
               more);
        return false;
    }
    memcpy(base_resident, now.resident, sizeof base_resident);
    known = true;
    reloaded = false;
    return true;
}

// Exact, except that the pages of a reloaded object are loaded one after the other.
int64_t margin_of(int owner)
{
    bool moved = owner == OWNER_PLUGIN ? once_reloaded
                                       : reloaded && (owner == OWNER_EXE || owner == OWNER_CORE);
    return moved ? static_cast<int64_t>(4 * PAGE) : 0;
}

bool resident_agrees(const Model *models, int count)
{
    Amounts now;
    Bounds bounds;
    uint64_t total, unattributed;
    if (blind) return true;
    if (!look(now, &total, &unattributed)) return printf("FAIL no sample was made\n"), false;
    bool told = resident_bounds(exchange(), EXCHANGED, bounds);
    for (int index = 0; index < count; index++)
        told &= resident_bounds(models[index].slots, SLOTS, bounds);
    if (!told) return printf("FAIL no pagemap\n"), false;
    for (int owner = 0; owner < OWNER_UNATTRIBUTED; owner++) {
        int64_t got = difference(now.resident[owner], base_resident[owner]);
        int64_t margin = margin_of(owner);
        if (got >= bounds.low[owner] - margin && got <= bounds.high[owner] + margin) continue;
        printf("FAIL resident of %s: %ld B more than at the start, and the kernel has %ld to %ld B\n",
               owner_names[owner], got, bounds.low[owner], bounds.high[owner]);
        return false;
    }
    int64_t gap = difference(kernel_total(), total) + bounds.huge;
    if (gap > 128 * 1024 || gap < -512 * 1024)
        return printf("FAIL the kernel's total differs by %ld B\n", gap), false;
    if (unattributed > total / 100 + 64 * 1024)
        return printf("FAIL %lu of %lu B are unattributed\n", unattributed, total), false;
    return true;
}

// The program is idle, and has recorded beforehand what there is.
bool rest()
{
    Bounds bounds;
    if (!resident_bounds(model.slots, SLOTS, bounds)) return printf("FAIL no pagemap\n"), false;
    Rest now = {};
    for (int owner = 0; owner < OWNER_UNATTRIBUTED; owner++) {
        now.owned[owner] = static_cast<int64_t>(base.owned[owner]) + model.owned[owner];
        auto before = static_cast<int64_t>(base_resident[owner]);
        now.low[owner] = before + bounds.low[owner] - margin_of(owner);
        now.high[owner] = before + bounds.high[owner] + margin_of(owner);
    }
    take_rest(now);
    return true;
}

// What the loader needs for a plugin is up to the loader; all other owners must agree before and
// after.
bool reload()
{
    if (!owned_agrees(model)) return false;
    once_reloaded = reloaded = true;
    if (!reload_plugin()) return printf("FAIL the plugin cannot be loaded again\n"), false;
    Amounts now;
    if (blind) return true;
    if (!ask(now)) return false;
    for (int owner : {OWNER_EXE, OWNER_CORE, OWNER_PLUGIN})
        base.owned[owner] = now.owned[owner] - static_cast<uint64_t>(model.owned[owner]);
    return owned_agrees(model);
}

bool step(const Op &op)
{
    switch (op.what) {
    case CHECK: return owned_agrees(model);
    case LOOK:
        if (reclaims) reclaim();
        return rests ? rest() : resident_agrees(&model, 1);
    case RELOAD: return reload();
    default: return perform(model, op);
    }
}

bool run_script(bool every_step)
{
    for (int index = 0; index < script.length; index++) {
        if (script.ops[index].what == LOOK) {
            if (!look_at_start()) return false;
            break;
        }
    }
    for (int index = 0; index < script.length; index++) {
        bool right = step(script.ops[index]) && (!every_step || owned_agrees(model));
        if (!right) return printf("at step %d\n", index), false;
    }
    if (!clear(model)) return false;
    return owned_agrees(model) || (printf("with everything given back\n"), false);
}

bool report(uint64_t seed)
{
    printf("seed %lu\n", seed);
    print(script);
    if (!blind) show_components();
    return false;
}

// Calls `with` with each range of code and data of objects, whether it is writable, and whether it
// belongs to objects whose owners are compared.
template <typename With>
void each_image(With with)
{
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    ssize_t length = 0, got;
    while ((got = read(file, text + length, sizeof text - 1 - static_cast<size_t>(length))) > 0)
        length += got;
    close(file);
    text[length] = 0;
    char *rest = nullptr;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(nullptr, "\n", &rest)) {
        unsigned long start, end;
        char may[8];
        if (sscanf(line, "%lx-%lx %7s", &start, &end, may) != 3 || !strstr(line, ".so")) {
            if (!strstr(line, "interpreter")) continue;
        }
        bool is_compared = false;
        for (const char *name : {"interpreter", "fakempi", "libpart", "libboth", "libapp_plugin"})
            is_compared |= strstr(line, name) != nullptr;
        bool writes = may[1] == 'w' && may[3] == 'p';
        if (may[0] == 'r') with(reinterpret_cast<void *>(start), end - start, writes, is_compared);
    }
}

// Loads code and data of all objects now and not later, and locks the compared ones: when memory is
// short, the kernel would reclaim pages of files, which it can read again.
void populate()
{
    // Later texts that are read into it are longer.
    memset(text, 1, sizeof text);
    each_image([](void *start, size_t length, bool writes, bool is_compared) {
        madvise(start, length, writes ? 23 : 22);
        if (is_compared) mlock(start, length);
    });
}

// Reclaims pages as the kernel does when memory is short.
void reclaim()
{
    each_image([](void *start, size_t length, bool, bool is_compared) {
        if (is_compared) madvise(start, length, MADV_PAGEOUT);
    });
}

// The kernel reloads the parent's pages of files, one after the other or at once.
bool begin_anew()
{
    known = false;
    populate();
    return clear(model) && look_at_start();
}

// The child continues with the inherited ledger; the parent's must not see it.
bool in_child(uint64_t seed, const Options &options)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) return printf("FAIL fork: %s\n", strerror(errno)), false;
    if (child == 0) {
        Choice choice = options.choice;
        choice.child = true;
        // A child without a trace is not sampled.
        choice.look_one_in = options.fork_looks ? options.fork_looks : 1 << 30;
        bool right = owned_agrees(model);
        if (right && options.fork_looks) right = begin_anew();
        for (uint64_t extra = 0; right && extra < 3; extra++) {
            generate(script, seed + (extra << 40), options.length, choice);
            right = run_script(false) || report(seed);
        }
        fflush(stdout);
        _exit(right ? 0 : 1);
    }
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    printf("FAIL in the child of a fork, status %x\n", static_cast<unsigned>(status));
    return false;
}

bool run_programs(const Options &options)
{
    for (uint64_t seed = options.seed; seed < options.seed + options.programs; seed++) {
        generate(script, seed, options.length, options.choice);
        if (!run_script(false)) return report(seed);
        if (options.fork_every && seed % static_cast<uint64_t>(options.fork_every) == 0) {
            // With filled slots, which the child frees.
            for (int index = 0; index < script.length / 2; index++) {
                if (script.ops[index].thread == SELF && !step(script.ops[index])) return report(seed);
            }
            if (!in_child(seed, options)) return report(seed);
            if (!owned_agrees(model) || !clear(model)) return report(seed);
        }
    }
    return true;
}

constexpr int THREADS = 16;
Model models[THREADS];

// All stop after this many programs, and continue after a look.
constexpr uint64_t PROGRAMS_AT_A_TIME = 20;
pthread_barrier_t stopped, looked;

struct Crew {
    int number;
    const Options *options;
    bool right;
};

void *crew(void *given)
{
    auto *self = static_cast<Crew *>(given);
    static thread_local Script own;
    Choice choice = self->options->choice;
    choice.threads = true;
    self->right = true;
    pthread_barrier_wait(&looked);
    for (uint64_t program = 0; program < self->options->programs; program++) {
        uint64_t seed = self->options->seed + program * THREADS + static_cast<uint64_t>(self->number);
        generate(own, seed, self->options->length, choice);
        for (int index = 0; self->right && index < own.length; index++)
            self->right = perform(models[self->number], own.ops[index]);
        if ((program + 1) % PROGRAMS_AT_A_TIME == 0) {
            pthread_barrier_wait(&stopped);
            pthread_barrier_wait(&looked);
        }
    }
    return nullptr;
}

// The models of all threads together are the expected figures.
bool all_agree(int count)
{
    Model all;
    for (int number = 0; number < count; number++) {
        for (int owner = 0; owner < OWNER_COUNT; owner++)
            all.owned[owner] += models[number].owned[owner];
    }
    return owned_agrees(all) && resident_agrees(models, count);
}

// Compares while the threads run and afterwards.
bool run_threads(const Options &options)
{
    pthread_t threads[THREADS];
    Crew crews[THREADS];
    int count = options.threads < THREADS ? options.threads : THREADS;
    auto parties = static_cast<unsigned>(count + 1);
    pthread_barrier_init(&stopped, nullptr, parties);
    pthread_barrier_init(&looked, nullptr, parties);
    bool right = look_at_start();
    for (int number = 0; number < count; number++) {
        crews[number] = {number, &options, false};
        if (pthread_create(&threads[number], nullptr, crew, &crews[number])) return false;
    }
    // The C library has some memory for each thread, and keeps it for a few ended threads.
    const Amounts alone = base;
    uint64_t alone_resident[OWNER_COUNT];
    memcpy(alone_resident, base_resident, sizeof alone_resident);
    right = right && (blind || ask(base)) && look_at_start();
    pthread_barrier_wait(&looked);
    for (uint64_t stop = 0; stop < options.programs / PROGRAMS_AT_A_TIME; stop++) {
        pthread_barrier_wait(&stopped);
        right = right && all_agree(count);
        pthread_barrier_wait(&looked);
    }
    for (int number = 0; number < count; number++) {
        pthread_join(threads[number], nullptr);
        right &= crews[number].right;
    }
    base = alone;
    memcpy(base_resident, alone_resident, sizeof base_resident);
    right = right && all_agree(count);
    for (Model &one : models) right &= clear(one);
    // What is left in the exchange belongs to the sums.
    for (int slot = 0; slot < EXCHANGED; slot++) {
        Op op;
        op.what = SWAP;
        op.slot = slot;
        right &= perform(models[0], op);
    }
    right &= clear(models[0]);
    Model sum;
    for (const Model &one : models) {
        for (int owner = 0; owner < OWNER_COUNT; owner++) sum.owned[owner] += one.owned[owner];
    }
    for (int64_t owned : sum.owned) right &= owned == 0;
    if (!(right && owned_agrees(sum))) return report(options.seed);
    return true;
}

void *nothing(void *given) { return given; }

// Allocates everything that is allocated at its first use.
bool warm_up()
{
    pthread_t threads[THREADS];
    for (pthread_t &thread : threads) {
        if (pthread_create(&thread, nullptr, nothing, nullptr)) return false;
    }
    for (pthread_t &thread : threads) pthread_join(thread, nullptr);
    for (int place = 0; place < PLACE_COUNT; place++) {
        for (int kind = 0; kind < KIND_HUGE; kind++) {
            for (int leave = RETURN; leave < LEAVE_COUNT; leave++) {
                Op op;
                op.what = GET;
                op.place = place;
                op.leave = leave;
                op.kind = KIND_IS_NEW(kind) ? KIND_MALLOC : kind;
                op.size = op.extra = 64;
                op.thread = kind % THREAD_COUNT;
                if (!perform(model, op)) return false;
            }
        }
    }
    return clear(model);
}

Options read_options(int argc, char **argv)
{
    Options options;
    for (int index = 1; index < argc; index++) {
        const char *name = argv[index];
        if (!strcmp(name, "--print")) options.print = true;
        else if (!strcmp(name, "--replay")) options.replay = true;
        else if (!strcmp(name, "--forever")) options.forever = true;
        else if (!strcmp(name, "--blind")) options.blind = true;
        else if (!strcmp(name, "--reclaim")) options.reclaim = true;
        else if (!strcmp(name, "--huge")) options.choice.huge = true;
        else if (index + 1 < argc) {
            uint64_t value = strtoull(argv[++index], nullptr, 10);
            if (!strcmp(name, "--rests")) options.rests = argv[index];
            else if (!strcmp(name, "--seed")) options.seed = value;
            else if (!strcmp(name, "--programs")) options.programs = value;
            else if (!strcmp(name, "--length")) options.length = static_cast<int>(value);
            else if (!strcmp(name, "--threads")) options.threads = static_cast<int>(value);
            else if (!strcmp(name, "--fork")) options.fork_every = static_cast<int>(value);
            else if (!strcmp(name, "--fork-looks")) options.fork_looks = static_cast<int>(value);
            else if (!strcmp(name, "--looks")) options.choice.look_one_in = static_cast<int>(value);
        }
    }
    if (options.length > LENGTH_LIMIT || options.length < 2) options.length = LENGTH_LIMIT;
    return options;
}

bool read_script()
{
    size_t length = 0, got;
    static char input[1 << 16];
    while ((got = fread(input + length, 1, sizeof input - 1 - length, stdin)) > 0) length += got;
    input[length] = 0;
    return parse(script, input);
}

} // namespace

int main(int argc, char **argv)
{
    static char buffers[2][1 << 14];
    setvbuf(stdout, buffers[0], _IOFBF, sizeof buffers[0]);
    setvbuf(stdin, buffers[1], _IOFBF, sizeof buffers[1]);
    Options options = read_options(argc, argv);
    if (options.print) {
        generate(script, options.seed, options.length, options.choice);
        print(script);
        return 0;
    }
    // Otherwise glibc adapts which blocks it maps.
    mallopt(M_MMAP_THRESHOLD, 128 * 1024);
    int provided;
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
    if (!prepare_places() || !warm_up()) return printf("FAIL at the start\n"), fflush(stdout), 1;
    blind = options.blind;
    reclaims = options.reclaim;
    if (!blind && !find_profiler()) return printf("no profiler\n"), fflush(stdout), 3;
    rests = options.rests != nullptr;
    if (rests && !open_rests(options.rests)) return printf("FAIL no file for rests\n"), fflush(stdout), 1;
    populate();
    if (!blind && !ask(base)) return printf("FAIL the profiler does not answer\n"), fflush(stdout), 1;
    bool right;
    if (options.replay) right = read_script() && (run_script(true) || report(0));
    else if (options.threads) right = run_threads(options);
    else do {
        right = run_programs(options);
        options.seed += options.programs;
        if (options.forever) printf("running\n"), fflush(stdout);
    } while (right && options.forever);
    MPI_Finalize();
    if (right) printf("agreed\n");
    fflush(stdout);
    return right ? 0 : 1;
}
