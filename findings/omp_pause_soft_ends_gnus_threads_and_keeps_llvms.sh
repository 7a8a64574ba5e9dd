#!/bin/sh
# Finding: omp_pause_resource_all(omp_pause_soft) ends all threads of GNU's OpenMP and none of LLVM's; both return 0. Only
#   omp_pause_hard ends the threads of both.
#
# Software: libgomp1 12.2.0-14+deb12u1 and libomp5-16 1:16.0.6-15~deb12u1, packages of Debian 12; a C compiler with OpenMP.
# Expected by most: the soft pause keeps what makes the next region fast, the hard one gives it up, in every runtime: or a
#   return value of 0 means that the threads are gone.
# Behaviour: after a region of four threads the process has 1 thread after GNU's soft pause, and 4 after LLVM's; after the
#   hard pause 1 with both.
# Who meets it: programs that pause OpenMP before another library uses the processors, or before fork: with LLVM's runtime
#   the soft pause leaves threads that spin for up to 200 ms, with GNU's it costs the next region new threads.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libgomp1=12.2.0-14+deb12u1 libomp5-16=1:16.0.6-15~deb12u1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > pause.c <<'C'
#include <dirent.h>
#include <stdio.h>
int omp_pause_resource_all(int);
void omp_set_dynamic(int);
void omp_set_num_threads(int);
static int threads(void)
{
    int count = -2; /* the folder and its parent */
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) ++count;
    closedir(tasks);
    return count;
}
static int paused(int kind)
{
#pragma omp parallel
    {
        __asm__ volatile("" ::: "memory");
    }
    return omp_pause_resource_all(kind) == 0 ? threads() : -1;
}
int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(4);
    int soft = paused(1);
    printf("%d %d\n", soft, paused(2));
    return 0;
}
C
cc -fopenmp -c pause.c
gnu="$folder/tree/usr/lib/x86_64-linux-gnu/libgomp.so.1"
llvm="$folder/tree/usr/lib/llvm-16/lib/libomp.so.5"
cc pause.o -o with-gnu "$gnu"
cc pause.o -o with-llvm "$llvm" -Wl,--allow-shlib-undefined
said="$(LD_LIBRARY_PATH=$(dirname "$gnu") ./with-gnu), $(LD_LIBRARY_PATH=$(dirname "$llvm") ./with-llvm)"
echo "threads after a soft and after a hard pause, GNU and LLVM: $said"
[ "$said" = "1 1, 4 1" ]
