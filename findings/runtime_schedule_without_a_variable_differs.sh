#!/bin/sh
# Finding: a loop with schedule(runtime) in an environment without OMP_SCHEDULE is handed out one iteration at a time, to
#   the first idle thread, by GNU's OpenMP, and in two contiguous halves by LLVM's and Intel's.
#
# Software: libgomp1 12.2.0-14+deb12u1 and libomp5-16 1:16.0.6-15~deb12u1, packages of Debian 12; intel-openmp 2026.2.0 from
#   PyPI; a C compiler with OpenMP. One object file is linked with each.
# Expected by most: schedule(runtime) without a variable is what the loop would have without the clause, static; the clause
#   is taken for a way to tune the loop that costs nothing when nobody tunes.
# Behaviour: omp_get_schedule says dynamic with chunks of 1 under GNU's, and static under the others. Of 1,000 iterations in
#   which thread 1 is slow, thread 1 takes less than 400 under GNU's and 500 under LLVM's and Intel's.
# Who meets it: codes that touch their arrays first in one loop and compute in another: pages lie near the thread that
#   works on them with two runtimes, and anywhere with the third, which also locks for each iteration.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libgomp1=12.2.0-14+deb12u1 libomp5-16=1:16.0.6-15~deb12u1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check intel-openmp==2026.2.0 2> said || { tail -1 said; exit 77; }
cat > shares.c <<'C'
#include <omp.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    omp_sched_t kind;
    int chunk, share = 0;
    omp_set_dynamic(0);
    omp_get_schedule(&kind, &chunk);
#pragma omp parallel for schedule(runtime) num_threads(2) reduction(+ : share)
    for (int i = 0; i < 1000; ++i) {
        share += omp_get_thread_num();
        usleep(omp_get_thread_num() ? 900 : 100);
    }
    /* The highest bit of the kind is the modifier "monotonic". */
    printf("%s %d, %s\n", (kind & 7) == omp_sched_dynamic ? "dynamic" : (kind & 7) == omp_sched_static ? "static" : "other",
           chunk, share < 400 ? "few" : share == 500 ? "half" : "other");
    return 0;
}
C
cc -fopenmp -c shares.c
unset OMP_SCHEDULE KMP_SCHEDULE
for runtime in tree/usr/lib/x86_64-linux-gnu/libgomp.so.1 tree/usr/lib/llvm-16/lib/libomp.so.5 venv/lib/libiomp5.so; do
    cc shares.o -o shares "$folder/$runtime" -Wl,--allow-shlib-undefined
    echo "${runtime##*/}: $(LD_LIBRARY_PATH="$folder/${runtime%/*}" timeout 60 ./shares)"
done | tee said
cat > expected <<'T'
libgomp.so.1: dynamic 1, few
libomp.so.5: static 0, half
libiomp5.so: static 0, half
T
diff expected said
