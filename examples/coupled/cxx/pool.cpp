#include "pool.hpp"

#include <cerrno>
#include <sched.h>
#include <system_error>

namespace heat {

namespace {

// About as long as a wake-up takes. Loops follow each other within a few of these while the solver
// runs; between its calls everyone sleeps.
constexpr int LOOKS = 4000;

void pause()
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

template <class Condition> bool comes_true_soon(int looks, const Condition& condition)
{
    for (int look = 0; look < looks; ++look) {
        if (condition())
            return true;
        pause();
    }
    return condition();
}

} // namespace

int cpus_of_this_thread()
{
    // The kernel says no when it has more CPUs than the set: try larger ones.
    for (int cpus = CPU_SETSIZE; cpus <= (1 << 20); cpus *= 2) {
        cpu_set_t* set = CPU_ALLOC(cpus);
        if (set == nullptr)
            break;
        const size_t size = CPU_ALLOC_SIZE(cpus);
        const bool known = sched_getaffinity(0, size, set) == 0;
        const int error = errno;
        const int count = known ? CPU_COUNT_S(size, set) : 0;
        CPU_FREE(set);
        if (count > 0)
            return count;
        if (error != EINVAL)
            break;
    }
    return 1;
}

Pool::~Pool() { dismiss(); }

void Pool::widen(int threads)
{
    // Threads that share CPUs take them from each other when they look.
    looks_ = threads <= cpus_of_this_thread() ? LOOKS : 0;
    if (threads == width())
        return;
    dismiss();
    try {
        helpers_.reserve(threads > 1 ? static_cast<size_t>(threads) - 1 : 0);
        for (int share = 1; share < threads; ++share)
            helpers_.emplace_back(&Pool::help, this, share, turn_.load());
    } catch (const std::system_error&) {
        // The results do not depend on how many there are.
    } catch (const std::bad_alloc&) {
    }
}

void Pool::dismiss()
{
    {
        std::lock_guard<std::mutex> lock(mutex_);
        task_ = nullptr;
        turn_.fetch_add(1);
    }
    go_.notify_all();
    for (auto& helper : helpers_)
        helper.join();
    helpers_.clear();
}

void Pool::run(Task task, void* data)
{
    if (helpers_.empty()) {
        task(data, 0, 1);
        return;
    }
    {
        std::lock_guard<std::mutex> lock(mutex_);
        task_ = task;
        data_ = data;
        shares_ = width();
        busy_.store(width() - 1);
        turn_.fetch_add(1);
    }
    go_.notify_all();
    task(data, 0, shares_);
    const auto finished = [this] { return busy_.load() == 0; };
    if (comes_true_soon(looks_, finished))
        return;
    std::unique_lock<std::mutex> lock(mutex_);
    done_.wait(lock, finished);
}

void Pool::help(int share, unsigned long seen)
{
    for (;;) {
        const auto called = [this, seen] { return turn_.load() != seen; };
        if (!comes_true_soon(looks_, called)) {
            std::unique_lock<std::mutex> lock(mutex_);
            go_.wait(lock, called);
        }
        // No other turn begins before this helper has said that it is done with this one.
        seen = turn_.load();
        if (task_ == nullptr)
            return;
        task_(data_, share, shares_);
        if (busy_.fetch_sub(1) == 1) {
            // A waiting thread has either seen the 0 or is asleep once we have had the lock.
            { std::lock_guard<std::mutex> lock(mutex_); }
            done_.notify_one();
        }
    }
}

} // namespace heat
