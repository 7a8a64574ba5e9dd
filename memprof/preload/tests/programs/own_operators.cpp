// A program that replaces operator new keeps its own. Prints how often it was called.
#include <cstdio>
#include <cstdlib>
#include <new>

static int calls, deletes;

void *operator new(std::size_t size)
{
    calls++;
    if (void *block = std::malloc(size))
        return block;
    throw std::bad_alloc();
}

void operator delete(void *block) noexcept
{
    deletes++;
    std::free(block);
}

void operator delete(void *block, std::size_t) noexcept
{
    deletes++;
    std::free(block);
}

int main()
{
    delete new int(1);
    delete[] new char[100];
    delete[] new (std::nothrow) double[5];
    std::printf("%d new, %d delete\n", calls, deletes);
    return 0;
}
