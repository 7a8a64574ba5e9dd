// A program with its own malloc, like programs that link an allocator: the C++ library's
// allocations use it too. Prints how many blocks did not.
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

static char arena[1 << 24];
static std::size_t used;

extern "C" void *malloc(std::size_t size)
{
    std::size_t start = (used + 31) / 16 * 16;
    if (size > sizeof arena - start)
        return nullptr;
    used = start + size;
    std::memcpy(arena + start - 8, &size, 8);
    return arena + start;
}

extern "C" void free(void *)
{
}

extern "C" void *calloc(std::size_t count, std::size_t each)
{
    return malloc(count * each);
}

extern "C" void *realloc(void *block, std::size_t size)
{
    void *moved = malloc(size);
    std::size_t before = 0;
    if (moved && block) {
        std::memcpy(&before, (char *) block - 8, 8);
        std::memcpy(moved, block, before < size ? before : size);
    }
    return moved;
}

static int elsewhere;

static void look(const void *block)
{
    elsewhere += (const char *) block < arena || (const char *) block >= arena + sizeof arena;
}

int main()
{
    std::vector<std::string> texts(100, std::string(200, 'x'));
    for (const std::string &text : texts)
        look(text.data());
    int *one = new int(1);
    look(one);
    delete one;
    std::printf("%d elsewhere\n", elsewhere);
    return elsewhere;
}
