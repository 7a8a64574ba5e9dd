#include "script.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

// splitmix64
struct Random {
    uint64_t state;
    uint64_t next()
    {
        uint64_t z = (state += 0x9e3779b97f4a7c15u);
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
        return z ^ (z >> 31);
    }
    size_t below(size_t limit) { return limit ? next() % limit : 0; }
    bool one_in(size_t times) { return below(times) == 0; }
};

constexpr size_t MEBI = 1 << 20;

size_t heap_size(Random &random)
{
    switch (random.below(16)) {
    case 0: return random.below(3);
    case 1: case 2: return 4096 * random.below(32) + random.below(64);
    case 3: return random.below(300000);
    case 4: return random.one_in(8) ? MEBI + random.below(3 * MEBI) : random.below(70000);
    case 5: case 6: case 7: return random.below(8192);
    default: return random.below(600);
    }
}

size_t mapping_size(Random &random)
{
    return random.one_in(12) ? 1 + random.below(4 * MEBI) : 1 + random.below(40 * 4096);
}

bool is_cxx(int place) { return place == EXE || place == DEP || place == CALLBACK; }

void choose_get(Random &random, Op &op, const Choice &choice)
{
    op.what = GET;
    op.kind = random.one_in(4) ? KIND_MAP + static_cast<int>(random.below(KIND_HUGE - KIND_MAP))
                               : static_cast<int>(random.below(KIND_NEW_NOTHROW + 1));
    if (choice.huge && random.one_in(64)) op.kind = KIND_HUGE;
    if (KIND_IS_NEW(op.kind) && !is_cxx(op.place)) op.kind = KIND_MALLOC;
    op.size = KIND_IS_HEAP(op.kind) ? heap_size(random) : mapping_size(random);
    op.extra = size_t(1) << random.below(op.kind == KIND_NEW_ALIGNED ? 12 : 14);
    switch (op.kind) {
    case KIND_STRDUP:
    case KIND_STRNDUP: op.size = 1 + random.below(60000); break;
    case KIND_ALIGNED_ALLOC: op.size = (op.size + op.extra - 1) / op.extra * op.extra; break;
    // Larger ones would be mappings that were not reported.
    case KIND_UNTAGGED: op.size = random.below(4000); break;
    case KIND_PVALLOC: op.size = 4096 * (1 + random.below(8)); break;
    case KIND_HUGE: op.size = 2 * MEBI; break;
    default: break;
    }
}

} // namespace

void generate(Script &script, uint64_t seed, int length, const Choice &choice)
{
    Random random{seed * 0x2545f4914f6cdd1du + 1};
    bool full[SLOTS] = {}, mapping[SLOTS] = {};
    bool looks = !choice.threads && random.one_in(choice.look_one_in);
    int sure = static_cast<int>(random.below(static_cast<size_t>(length - 1)));
    script.length = 0;
    while (script.length < length - 1) {
        Op op;
        op.slot = static_cast<int>(random.below(SLOTS));
        op.place = static_cast<int>(random.below(PLACE_COUNT));
        if (op.place == HELPER && choice.child) op.place = CORE;
        if (!choice.threads && !choice.child && random.one_in(12))
            op.thread = random.one_in(8) ? SHORT_LIVED : WORKER;
        bool &is_full = full[op.slot];
        size_t die = random.below(100);
        if (die < 2) {
            op.what = FAIL;
            op.size = random.below(1000);
        } else if (die < 4 && choice.threads) {
            op.what = SWAP;
            // The slot's content is unknown before the program runs; GIVE_BACK and GET check it.
            is_full = false;
        } else if (die < 4) {
            op.what = random.one_in(400) ? RELOAD : CHECK;
            op.thread = SELF;
        } else if (looks && (die < 6 || script.length == sure)) {
            op.what = LOOK;
            op.thread = SELF;
        } else if (!is_full && die < 10) {
            op.what = GIVEN;
            op.size = 1 + (random.one_in(8) ? random.below(3 * MEBI) : random.below(100000));
            op.extra = random.below(2);
            is_full = true, mapping[op.slot] = false;
        } else if (!is_full) {
            choose_get(random, op, choice);
            is_full = true, mapping[op.slot] = !KIND_IS_HEAP(op.kind);
            if (op.place == CALLBACK) op.leave = static_cast<int>(random.below(LEAVE_COUNT));
        } else if (die < 40) {
            op.what = TOUCH;
            op.size = 1 + random.below(random.one_in(4) ? 64 : 8); // pages
            op.extra = random.below(3);                             // 0 fills what is usable
        } else if (die < 55) {
            op.what = RESIZE;
            op.size = mapping[op.slot] ? mapping_size(random) : heap_size(random);
            // The result of realloc to size 0 is unknown.
            if (op.size == 0) op.size = 1;
        } else if (die < 62 && mapping[op.slot]) {
            op.what = random.one_in(2) ? UNMAP : REPLACE;
            op.size = random.next() & 0xffff;
            op.extra = random.next() & 0xffff;
        } else {
            op.what = GIVE_BACK;
            is_full = false;
        }
        script.ops[script.length++] = op;
    }
    if (choice.threads) return;
    script.ops[script.length++] = Op{};
}

void print(const Script &script)
{
    for (int index = 0; index < script.length; index++) {
        const Op &op = script.ops[index];
        char line[160];
        int length = snprintf(line, sizeof line, "op %d %d %d %d %d %d %zu %zu\n", op.what, op.place,
                              op.kind, op.slot, op.leave, op.thread, op.size, op.extra);
        fwrite(line, 1, static_cast<size_t>(length), stdout);
    }
    fflush(stdout);
}

bool parse(Script &script, char *text)
{
    script.length = 0;
    char *rest = nullptr;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(nullptr, "\n", &rest)) {
        Op op;
        int read = sscanf(line, "op %d %d %d %d %d %d %zu %zu", &op.what, &op.place, &op.kind,
                          &op.slot, &op.leave, &op.thread, &op.size, &op.extra);
        bool right = read == 8 && op.what >= 0 && op.what < WHAT_COUNT && op.place >= 0 &&
                     op.place < PLACE_COUNT && op.kind >= 0 && op.kind < KIND_COUNT &&
                     op.slot >= 0 && op.slot < SLOTS && op.leave >= 0 && op.leave < LEAVE_COUNT &&
                     op.thread >= 0 && op.thread < THREAD_COUNT;
        if (!right || script.length == LENGTH_LIMIT) return false;
        script.ops[script.length++] = op;
    }
    return true;
}
