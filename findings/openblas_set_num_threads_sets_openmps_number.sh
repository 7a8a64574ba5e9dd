#!/bin/sh
# Finding: openblas_set_num_threads of the OpenBLAS that is built with OpenMP sets the number of threads of all later
#   parallel regions of the program.
#
# Software: libopenblas0-openmp 0.3.21+ds-4, package of Debian 12; a C compiler with OpenMP.
# Expected by most: the function limits the threads of the BLAS, and OpenMP regions of the program keep theirs, as with
#   the variant of OpenBLAS that has threads of its own.
# Behaviour: the function calls omp_set_num_threads: after openblas_set_num_threads(1) omp_get_max_threads returns 1, and
#   a region gets one thread. openblas_set_num_threads(3) makes regions of three threads.
# Who meets it: programs that keep the BLAS at one thread because they call it in or between their own parallel regions:
#   those become serial as soon as the library is exchanged for the variant with OpenMP, by update-alternatives too.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libopenblas0-openmp=0.3.21+ds-4 libopenblas0-pthread=0.3.21+ds-4 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > region.c <<'C'
#include <omp.h>
#include <stdio.h>
void openblas_set_num_threads(int);
static int region(void)
{
    int threads = 0;
#pragma omp parallel
#pragma omp single
    threads = omp_get_num_threads();
    return threads;
}
int main(void)
{
    omp_set_dynamic(0);
    omp_set_num_threads(2);
    openblas_set_num_threads(1);
    int one = region();
    openblas_set_num_threads(3);
    printf("%d %d\n", one, region());
    return 0;
}
C
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
for variant in openmp pthread; do
    cc -fopenmp region.c -o "with-$variant" "$libraries/openblas-$variant/libopenblas.so.0" -Wl,--allow-shlib-undefined
done
openmp=$(LD_LIBRARY_PATH="$libraries/openblas-openmp" ./with-openmp)
pthread=$(LD_LIBRARY_PATH="$libraries/openblas-pthread" ./with-pthread)
echo "threads of a region of two after openblas_set_num_threads(1) and (3): with OpenMP $openmp, with its own threads $pthread"
[ "$openmp" = "1 3" ] && [ "$pthread" = "2 2" ]
