#!/bin/sh
# Finding: in one process that is bound to one of two CPUs std::thread::hardware_concurrency() is 2, with GCC's library and
#   with LLVM's, while OpenMP and nproc say 1.
#
# Software: g++ (seen with 12.2.0) and its libstdc++; libc++1-16, libc++abi1-16 and libunwind-16, libc++-16-dev and
#   libc++abi-16-dev 1:16.0.6-15~deb12u1, packages of Debian 12; glibc (seen with 2.36); a machine with two CPUs or more.
# Expected by most: on Linux the number of threads that can run at the same time follows the affinity mask, in C++ as well
#   as in OpenMP; libraries size their pools by it, and batch systems bind jobs by masks.
# Behaviour: bound to one CPU by taskset, both C++ libraries answer the number of CPUs that are online, as do get_nprocs()
#   and sysconf(_SC_NPROCESSORS_ONLN); omp_get_num_procs() in the same process says 1.
# Who meets it: ranks that are bound to a part of a node and use libraries with pools of C++ threads: each rank starts as
#   many threads as the node has CPUs, on its own few.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages or the CPUs cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)" -ge 2 ] || exit 77
version=1:16.0.6-15~deb12u1
apt-get download -qq "libc++1-16=$version" "libc++abi1-16=$version" "libunwind-16=$version" "libc++-16-dev=$version" \
    "libc++abi-16-dev=$version" 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > counts.cpp <<'C'
#include <cstdio>
#include <sys/sysinfo.h>
#include <thread>
#include <unistd.h>
extern "C" int omp_get_num_procs();
int main()
{
    unsigned online = sysconf(_SC_NPROCESSORS_ONLN);
    unsigned by_library = std::thread::hardware_concurrency();
    std::printf("%s %s %d\n", by_library == online && online > 1 ? "online" : by_library == 1 ? "mask" : "other",
                get_nprocs() == int(online) ? "online" : "other", omp_get_num_procs());
}
C
llvm="$folder/tree/usr/lib/llvm-16"
g++ -fopenmp counts.cpp -o with-gnu
g++ -fopenmp -nostdinc++ -isystem "$llvm/include/c++/v1" -nodefaultlibs counts.cpp -o with-llvm "$llvm/lib/libc++.so.1" \
    "$llvm/lib/libc++abi.so.1" -Wl,--allow-shlib-undefined -lgomp -lm -lc -lgcc_s -lgcc
first=$(python3 -c 'import os; print(min(os.sched_getaffinity(0)))')
unset OMP_NUM_THREADS OMP_THREAD_LIMIT OMP_PLACES OMP_PROC_BIND
gnu=$(taskset -c "$first" ./with-gnu)
llvm=$(LD_LIBRARY_PATH="$llvm/lib" taskset -c "$first" ./with-llvm)
echo "hardware_concurrency, get_nprocs, OpenMP on one CPU: libstdc++ $gnu, libc++ $llvm; nproc $(taskset -c "$first" nproc)"
[ "$gnu" = "online online 1" ] && [ "$llvm" = "online online 1" ] && [ "$(taskset -c "$first" nproc)" = 1 ]
