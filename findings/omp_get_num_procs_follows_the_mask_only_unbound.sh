#!/bin/sh
# Finding: omp_get_num_procs of GNU's OpenMP follows the affinity mask of the process, unless OMP_PROC_BIND or OMP_PLACES
#   is set; LLVM's never does, and both keep the number of threads of the start.
#
# Software: libgomp1 12.2.0-14+deb12u1 and libomp5-16 1:16.0.6-15~deb12u1, packages of Debian 12; a C compiler; a machine
#   with two CPUs.
# Expected by most: "the number of processors available to the device when the routine is called", as the standard says,
#   in both runtimes and whether threads are bound or not.
# Behaviour: started on one processor and widened to two, GNU's returns 1 and then 2; with OMP_PROC_BIND=true it returns 1
#   for ever, as LLVM's does with and without the variable. omp_get_max_threads stays 1 in all four cases.
# Who meets it: ranks that a launcher has bound to one core, and that ask how many threads they can have after they have
#   widened their mask: the same program is right with GNU's runtime, and wrong with LLVM's or with bound threads.
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
cat > procs.c <<'C'
#define _GNU_SOURCE
#include <sched.h>
#include <stdio.h>
int omp_get_num_procs(void);
int omp_get_max_threads(void);
int main(void)
{
    cpu_set_t mask;
    int first = omp_get_num_procs();
    CPU_ZERO(&mask);
    CPU_SET(0, &mask);
    CPU_SET(1, &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) != 0) return 77;
    printf("%d-%d-%d\n", first, omp_get_num_procs(), omp_get_max_threads());
    return 0;
}
C
gnu="$folder/tree/usr/lib/x86_64-linux-gnu/libgomp.so.1"
llvm="$folder/tree/usr/lib/llvm-16/lib/libomp.so.5"
cc procs.c -o with-gnu "$gnu"
cc procs.c -o with-llvm "$llvm" -Wl,--allow-shlib-undefined
unset OMP_PROC_BIND OMP_PLACES OMP_NUM_THREADS
said=
for runtime in gnu llvm; do
    eval "library=\$$runtime"
    for bind in false true; do
        [ "$bind" = true ] && export OMP_PROC_BIND=true || unset OMP_PROC_BIND
        said="$said $(LD_LIBRARY_PATH=$(dirname "$library") taskset -c 0 "./with-$runtime")" || exit 77
    done
done
echo "first, widened, most threads; GNU unbound and bound, LLVM unbound and bound:$said"
[ "$said" = " 1-2-1 1-1-1 1-1-1 1-1-1" ]
