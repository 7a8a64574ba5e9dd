#!/bin/sh
# Finding: OMP_NUM_THREADS=0 is all processors with GNU's OpenMP and one thread with LLVM's and Intel's; OMP_DYNAMIC=1 is no
#   value for GNU's, and switches dynamic numbers on with the other two.
#
# Software: libgomp1 12.2.0-14+deb12u1 and libomp5-16 1:16.0.6-15~deb12u1, packages of Debian 12; intel-openmp 2026.2.0 from
#   PyPI; a C compiler with OpenMP; two CPUs or more. One object file is linked with each.
# Expected by most: zero means "as many as there are", or is refused alike; and a 1 is as good as "true" in a variable that
#   is a switch.
# Behaviour: with OMP_NUM_THREADS=0 omp_get_max_threads() is the number of processors with libgomp, which calls the value
#   invalid, and 1 with the others. For OMP_STACKSIZE=3MB libgomp keeps its default and the others take 3 MiB: the unit
#   of the standard is the letter M alone. omp_get_dynamic() after OMP_DYNAMIC=1 is 0, 1 and 1.
# Who meets it: wrappers that compute threads as CPUs divided by ranks, which is 0 in integers when there are more ranks
#   than CPUs: each rank takes the whole node with one runtime, and one thread with the others.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages or the CPUs cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset OMP_NUM_THREADS OMP_THREAD_LIMIT OMP_DYNAMIC OMP_STACKSIZE KMP_STACKSIZE OMP_PROC_BIND OMP_PLACES
[ "$(nproc)" -ge 2 ] || exit 77
apt-get download -qq libgomp1=12.2.0-14+deb12u1 libomp5-16=1:16.0.6-15~deb12u1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check intel-openmp==2026.2.0 2> said || { tail -1 said; exit 77; }
cat > values.c <<'C'
#define _GNU_SOURCE
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
int main(void)
{
    int threads = omp_get_max_threads(), dynamic = omp_get_dynamic();
    size_t stack = 0;
    omp_set_dynamic(0);
#pragma omp parallel num_threads(2)
    if (omp_get_thread_num() == 1) {
        pthread_attr_t attributes;
        pthread_getattr_np(pthread_self(), &attributes);
        pthread_attr_getstacksize(&attributes, &stack);
        pthread_attr_destroy(&attributes);
    }
    printf("%s %s %s\n", threads == 1 ? "one" : threads == omp_get_num_procs() ? "all" : "other",
           dynamic ? "dynamic" : "fixed", stack >> 20 == 3 ? "3 MiB" : "default");
    return 0;
}
C
cc -fopenmp -c values.c
for runtime in tree/usr/lib/x86_64-linux-gnu/libgomp.so.1 tree/usr/lib/llvm-16/lib/libomp.so.5 venv/lib/libiomp5.so; do
    cc values.o -o values "$folder/$runtime" -Wl,--allow-shlib-undefined -pthread
    echo "${runtime##*/}: $(OMP_NUM_THREADS=0 OMP_DYNAMIC=1 OMP_STACKSIZE=3MB LD_LIBRARY_PATH="$folder/${runtime%/*}" \
        ./values 2> words)"
done | tee said
cat > expected <<'T'
libgomp.so.1: all fixed default
libomp.so.5: one dynamic 3 MiB
libiomp5.so: one dynamic 3 MiB
T
diff expected said
