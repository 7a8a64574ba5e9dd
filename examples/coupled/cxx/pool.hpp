// A pool of threads that run shares of a loop.
#ifndef HEAT_POOL_HPP
#define HEAT_POOL_HPP

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace heat {

// How many CPUs the calling thread may run on now; at least 1.
int cpus_of_this_thread();

// Threads that wait between loops. One thread at a time uses a pool, and is one of its threads.
class Pool {
public:
    Pool() = default;
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    // Makes the pool this wide. Its threads start with the binding of the caller, and follow when
    // that is widened or narrowed: they are not pinned. If so many threads cannot be created the
    // pool is as wide as possible.
    void widen(int threads);

    // Threads that run a loop, the caller among them.
    int width() const { return static_cast<int>(helpers_.size()) + 1; }

    // Calls `work(row)` for every row from `first` up to but not including `last`; each thread has a
    // stretch of them, always the same one for the same bounds. `work` must not throw.
    template <class Work> void rows(int first, int last, const Work& work)
    {
        struct Loop {
            int first, last;
            const Work* work;
        } loop{first, last, &work};
        run(
            [](void* data, int share, int shares) {
                const auto& loop = *static_cast<const Loop*>(data);
                const long length = loop.last - loop.first;
                const int end = loop.first + static_cast<int>(length * (share + 1) / shares);
                for (int row = loop.first + static_cast<int>(length * share / shares); row < end; ++row)
                    (*loop.work)(row);
            },
            &loop);
    }

private:
    using Task = void (*)(void* data, int share, int shares);

    void run(Task task, void* data);
    void help(int share, unsigned long seen);
    void dismiss();

    std::vector<std::thread> helpers_;
    std::mutex mutex_;
    std::condition_variable go_, done_;
    // Counts the loops; a helper that sees another number than before has work.
    std::atomic<unsigned long> turn_{0};
    // Helpers that have not finished their share.
    std::atomic<int> busy_{0};
    Task task_ = nullptr;
    void* data_ = nullptr;
    int shares_ = 1;
    // How often a thread looks before it sleeps.
    std::atomic<int> looks_{0};
};

} // namespace heat

#endif
