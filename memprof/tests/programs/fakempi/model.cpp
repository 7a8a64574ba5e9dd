#include "model.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

void Slot::set_marks(unsigned char with)
{
    mark = with;
    if (size == 0) return;
    pointer[0] = static_cast<char>(with);
    pointer[size - 1] = static_cast<char>(with);
}

bool Slot::marks_are_there(size_t up_to) const
{
    if (size == 0 || up_to == 0) return true;
    bool first = pointer[0] == static_cast<char>(mark);
    return first && (up_to < size || pointer[size - 1] == static_cast<char>(mark));
}

int owner_of(int place, int kind)
{
    if (kind == KIND_UNTAGGED) return OWNER_NONE;
    bool by_mpi = place == CORE || place == DEP || place == PLUGIN || place == HELPER;
    bool inside = by_mpi || place == BOTH_IN_MPI || place == CALLBACK;
    if (KIND_IS_SHARED(kind)) return by_mpi ? OWNER_MPI_SHARED : OWNER_APP_SHARED;
    if (KIND_IS_NEUTRAL(kind)) return inside ? OWNER_CORE : OWNER_EXE;
    switch (place) {
    case PART: return OWNER_PART;
    case BOTH:
    case BOTH_IN_MPI: return OWNER_BOTH;
    case APP_PLUGIN: return OWNER_APP_PLUGIN;
    case CORE:
    case HELPER: return OWNER_CORE;
    case DEP: return OWNER_DEP;
    case PLUGIN: return OWNER_PLUGIN;
    default: return OWNER_EXE;
    }
}

namespace {

// From Linux 6.7, whatever the version of the headers.
struct PageRegion {
    uint64_t start, end, categories;
};

struct PageScan {
    uint64_t size, flags, start, end, walk_end, regions, count, most_pages;
    uint64_t inverted, required, any_of, wanted;
};

constexpr uint64_t PRESENT = 1 << 3, OF_ZEROES = 1 << 5;

struct Pages {
    int64_t least, most;
};

struct Pagemap {
    int file = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    bool failed = file < 0;

    // A page that was only read is the kernel's zero page: present, and without an owner. An older
    // kernel does not distinguish it from others.
    Pages pages(uintptr_t start, uintptr_t end)
    {
        int64_t most = present(start, end), least = 0;
        while (start < end) {
            PageRegion regions[256];
            PageScan scan = {sizeof scan, 0, start, end, 0, reinterpret_cast<uint64_t>(regions), 256, 0,
                             OF_ZEROES, PRESENT | OF_ZEROES, 0, PRESENT};
            int found = ioctl(file, _IOWR('f', 16, PageScan), &scan);
            if (found < 0) return {most, most};
            for (int index = 0; index < found; index++)
                least += static_cast<int64_t>(regions[index].end - regions[index].start);
            start = scan.walk_end;
        }
        return {least, most};
    }

    ~Pagemap() { close(file); }

    // Bytes in present pages of [start, end), which are page boundaries.
    int64_t present(uintptr_t start, uintptr_t end)
    {
        static thread_local uint64_t entries[1024];
        int64_t bytes = 0;
        while (start < end && !failed) {
            size_t pages = (end - start) / PAGE;
            if (pages > 1024) pages = 1024;
            ssize_t got = pread(file, entries, pages * 8, static_cast<off_t>(start / PAGE * 8));
            failed = got != static_cast<ssize_t>(pages * 8);
            for (size_t page = 0; page < pages; page++) {
                if (entries[page] >> 63) bytes += PAGE;
            }
            start += pages * PAGE;
        }
        return bytes;
    }
};

// A block has its bytes in the present pages, including pages that it shares with other blocks.
void bound_block(const Slot &slot, Pagemap &pagemap, Bounds &bounds)
{
    if (slot.owner == OWNER_NONE) return;
    auto start = reinterpret_cast<uintptr_t>(slot.pointer), end = start + slot.size;
    while (start < end) {
        uintptr_t page = start / PAGE * PAGE, whole = end / PAGE * PAGE;
        bool inside = start == page && start < whole;
        uintptr_t stop = inside ? whole : page + PAGE < end ? page + PAGE : end;
        Pages pages = pagemap.pages(page, inside ? whole : page + PAGE);
        auto bytes = static_cast<int64_t>(stop - start);
        bounds.low[slot.owner] += inside ? pages.least : pages.least ? bytes : 0;
        bounds.high[slot.owner] += inside ? pages.most : pages.most ? bytes : 0;
        start = stop;
    }
}

} // namespace

bool resident_bounds(const Slot *slots, int count, Bounds &bounds)
{
    Pagemap pagemap;
    for (int place = 0; place < count; place++) {
        const Slot &slot = slots[place];
        if (slot.is_empty()) continue;
        if (slot.is_heap()) bound_block(slot, pagemap, bounds);
        for (int index = 0; !slot.is_heap() && index < slot.range_count; index++) {
            const Range &range = slot.ranges[index];
            auto start = reinterpret_cast<uintptr_t>(range.start);
            Pages pages = pagemap.pages(start, start + range.length);
            bounds.low[range.owner] += pages.least;
            bounds.high[range.owner] += pages.most;
            if (slot.kind == KIND_HUGE) bounds.huge += pages.most;
        }
    }
    return !pagemap.failed;
}
