#!/bin/sh
# Finding: BLIS with OpenMP runs on one thread whatever omp_set_num_threads says; only variables that are set before the
#   first call count.
#
# Software: libblis4-openmp and libblis-openmp-dev 0.9.0-1, packages of Debian 12; a C compiler with OpenMP.
# Expected by most: a BLAS that is built with OpenMP uses as many threads as the next parallel region would, as
#   OpenBLAS's variant with OpenMP does: omp_set_num_threads(2) gives two.
# Behaviour: with neither BLIS_NUM_THREADS nor OMP_NUM_THREADS in the environment the number is 1, and a product of
#   1200 by 1200 numbers starts no thread after omp_set_num_threads(2); with OMP_NUM_THREADS=2 it starts one.
# Who meets it: programs that change the number of OpenMP threads between phases: their BLAS stays at the number of the
#   launch, or at one. bli_thread_set_num_threads changes it.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libblis4-openmp=0.9.0-1 libblis-openmp-dev=0.9.0-1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > product.c <<'C'
#include <dirent.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
void dgemm_(const char *, const char *, const int *, const int *, const int *, const double *, const double *,
            const int *, const double *, const int *, const double *, double *, const int *);
int main(void)
{
    const int n = 1200;
    const double one = 1;
    double *a = calloc((size_t)n * n, sizeof *a), *c = calloc((size_t)n * n, sizeof *c);
    omp_set_num_threads(2);
    dgemm_("N", "N", &n, &n, &n, &one, a, &n, a, &n, &one, c, &n);
    int threads = -2; /* the folder and its parent */
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) ++threads;
    printf("%d\n", threads);
    return 0;
}
C
libraries="$folder/tree/usr/lib/x86_64-linux-gnu/blis-openmp"
cc -fopenmp product.c -o product "$libraries/libblas.so.3" -Wl,--allow-shlib-undefined
export LD_LIBRARY_PATH="$libraries"
unset OMP_NUM_THREADS BLIS_NUM_THREADS
set_by_call=$(./product)
set_by_variable=$(OMP_NUM_THREADS=2 ./product)
echo "threads after a product: $set_by_call after omp_set_num_threads(2), $set_by_variable with OMP_NUM_THREADS=2 besides"
[ "$set_by_call" = 1 ] && [ "$set_by_variable" = 2 ]
