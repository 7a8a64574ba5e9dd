#!/bin/sh
# Finding: with OMP_PROC_BIND=true the commands that a program starts run on one processor: GNU's OpenMP binds the main
#   thread before main begins, LLVM's at the first call of a function of OpenMP.
#
# Software: libgomp1 12.2.0-14+deb12u1 and libomp5-16 1:16.0.6-15~deb12u1, packages of Debian 12; a C compiler; a machine
#   with two CPUs.
# Expected by most: binding concerns the threads of parallel regions; a program without one, and its children, have the
#   processors that they were started with.
# Behaviour: linked with libgomp, a program that calls nothing of it has one processor in main, and so has a command that it
#   starts. With libomp the mask is whole in main, and one processor after omp_get_max_threads().
# Who meets it: drivers that start compilers, solvers or Python from an OpenMP program, and libraries that count processors
#   by the mask: all of them find one. Also ranks whose memory profiler or monitor starts a thread: it shares that one.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(nproc)" -ge 2 ] || exit 77
apt-get download -qq libgomp1=12.2.0-14+deb12u1 libomp5-16=1:16.0.6-15~deb12u1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > mask.c <<'C'
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
int omp_get_max_threads(void);
static const char *count(void)
{
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    return CPU_COUNT(&mask) == 1 ? "one" : "more";
}
int main(int argc, char **argv)
{
    (void)argv;
    const char *before = count();
    if (argc > 1) omp_get_max_threads();
    int child = system("case $(taskset -cp $$ | sed 's/.*: //') in *[,-]*) exit 2;; *) exit 1;; esac");
    printf("%s-%s\n", before, WEXITSTATUS(child) == 1 ? "one" : "more");
    return 0;
}
C
gnu="$folder/tree/usr/lib/x86_64-linux-gnu/libgomp.so.1"
llvm="$folder/tree/usr/lib/llvm-16/lib/libomp.so.5"
cc mask.c -o with-gnu "$gnu"
cc mask.c -o with-llvm "$llvm" -Wl,--allow-shlib-undefined
export OMP_PROC_BIND=true
unset OMP_PLACES OMP_NUM_THREADS
said="$(LD_LIBRARY_PATH=$(dirname "$gnu") ./with-gnu)"
said="$said $(LD_LIBRARY_PATH=$(dirname "$llvm") ./with-llvm) $(LD_LIBRARY_PATH=$(dirname "$llvm") ./with-llvm call)"
echo "processors in main and of a child; GNU without a call, LLVM without and with one: $said"
[ "$said" = "one-one more-more more-one" ]
