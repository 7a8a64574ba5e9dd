// An exception thrown in a function that MPI calls back passes through the profiler's entry.
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>

extern "C" int MPI_Init(int *, char ***);
extern "C" int MPI_Reduce_local(void *, void *, int, void *, void *);

static void thrower() { throw std::runtime_error("out of the callback"); }

int main(int count, char **words)
{
    MPI_Init(&count, &words);
    int caught = 0;
    for (int round = 0; round < 1000; round++) {
        try {
            MPI_Reduce_local(nullptr, nullptr, 0, nullptr, reinterpret_cast<void *>(thrower));
        } catch (const std::runtime_error &error) {
            caught += std::string(error.what()) == "out of the callback";
        }
    }
    std::thread([&] { caught++; }).join();
    std::puts(caught == 1001 ? "done" : "lost");
    return 0;
}
