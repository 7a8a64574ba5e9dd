#!/bin/sh
# Finding: oneTBB counts the processors of the calling thread once, at its first use: a process with an affinity mask that is
#   widened later gets no second thread, not even in an arena that is made for four.
#
# Software: libtbb12 and libtbb-dev 2021.8.0-2+deb12u1, packages of Debian 12; a C++ compiler; a machine with two CPUs.
# Expected by most: tbb::info::default_concurrency() follows the mask, as omp_get_num_procs of GNU's OpenMP does, or at
#   least an arena of a given size gets as many threads as it was made for.
# Behaviour: first used with one processor in the mask, default_concurrency() is 1 for the life of the process. A loop in
#   an arena of four threads runs on the calling thread alone, although two processors are allowed; standard error says
#   that the number of workers is limited to 0.
# Who meets it: ranks that a launcher has bound to one core, and that widen their mask for a threaded phase after anything
#   in the process, a library too, has used TBB. tbb::global_control with a larger limit makes the threads come.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(nproc)" -ge 2 ] || exit 77
apt-get download -qq libtbb12=2021.8.0-2+deb12u1 libtbb-dev=2021.8.0-2+deb12u1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > mask.cpp <<'C'
#include <chrono>
#include <cstdio>
#include <mutex>
#include <sched.h>
#include <set>
#include <tbb/info.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>
#include <thread>
int main(int argc, char **)
{
    cpu_set_t all, one;
    sched_getaffinity(0, sizeof all, &all);
    int cpu = 0;
    while (!CPU_ISSET(cpu, &all)) ++cpu;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    if (argc > 1) { // bound at the first use
        sched_setaffinity(0, sizeof one, &one);
        (void)tbb::info::default_concurrency();
        sched_setaffinity(0, sizeof all, &all);
    }
    std::mutex lock;
    std::set<std::thread::id> threads;
    tbb::task_arena arena(4);
    arena.execute([&] {
        tbb::parallel_for(0, 64, [&](int) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            std::lock_guard<std::mutex> held(lock);
            threads.insert(std::this_thread::get_id());
        });
    });
    std::printf("%s %s\n", tbb::info::default_concurrency() == 1 ? "one" : "more", threads.size() == 1 ? "one" : "more");
}
C
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
c++ -std=c++17 mask.cpp -o mask -I tree/usr/include "$libraries/libtbb.so.12" -pthread
export LD_LIBRARY_PATH="$libraries"
bound=$(./mask bound 2> said)
mv said warned
free=$(./mask 2> said)
echo "concurrency, and threads of an arena of four: $bound if the first use was on one processor, $free otherwise"
grep -q "limited to 0" warned && [ "$bound" = "one one" ] && [ "$free" = "more more" ]
