#!/bin/sh
# Finding: a parallel region of two threads after one of four ends the other two threads of GNU's OpenMP, and the next
#   region of four starts new ones; LLVM's keeps them.
#
# Software: libgomp1 12.2.0-14+deb12u1 and libomp5-16 1:16.0.6-15~deb12u1, packages of Debian 12; a C compiler with OpenMP.
# Expected by most: a pool of threads grows to the largest region and keeps its threads.
# Behaviour: regions of 4 and 2 threads leave the process with 2 threads under GNU's runtime and 4 under LLVM's. Under
#   GNU's the third and fourth thread of each later region of four have a new thread number.
# Who meets it: programs whose phases take turns with different numbers of threads: what is bound to a thread (its mask,
#   thread-local caches, a profiler's count of it) is lost in each smaller region; thread numbers of the kernel grow.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libgomp1=12.2.0-14+deb12u1 libomp5-16=1:16.0.6-15~deb12u1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > turns.c <<'C'
#include <dirent.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>
int omp_get_thread_num(void);
void omp_set_dynamic(int);
void omp_set_num_threads(int);
static long region(int threads)
{
    static long last;
    omp_set_num_threads(threads);
#pragma omp parallel
    if (omp_get_thread_num() == threads - 1) last = syscall(SYS_gettid);
    return last;
}
int main(void)
{
    omp_set_dynamic(0);
    long before = region(4);
    region(2);
    int count = -2; /* the folder and its parent */
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) ++count;
    printf("%d %s\n", count, region(4) == before ? "same" : "new");
    return 0;
}
C
cc -fopenmp -c turns.c
gnu="$folder/tree/usr/lib/x86_64-linux-gnu/libgomp.so.1"
llvm="$folder/tree/usr/lib/llvm-16/lib/libomp.so.5"
cc turns.o -o with-gnu "$gnu"
cc turns.o -o with-llvm "$llvm" -Wl,--allow-shlib-undefined
said="$(LD_LIBRARY_PATH=$(dirname "$gnu") ./with-gnu), $(LD_LIBRARY_PATH=$(dirname "$llvm") ./with-llvm)"
echo "threads after regions of 4 and 2, and the fourth thread of the next region of 4, GNU and LLVM: $said"
[ "$said" = "2 new, 4 same" ]
