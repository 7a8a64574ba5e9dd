#!/bin/sh
# Finding: with OMP_THREAD_LIMIT=4 two POSIX threads that enter parallel regions get four threads each, eight in all, in
#   three runtimes; after they have ended, LLVM's and Intel's keep the six workers and GNU's none.
#
# Software: libgomp1 12.2.0-14+deb12u1 and libomp5-16 1:16.0.6-15~deb12u1, packages of Debian 12; intel-openmp 2026.2.0 from
#   PyPI; a C compiler with OpenMP. One object file is linked with each.
# Expected by most: the variable bounds the threads that OpenMP uses in the process, as its name says; and a team ends with
#   the thread that made it in all runtimes, or in none.
# Behaviour: both teams have four members at the same time. When both POSIX threads have been joined the process has 1
#   thread with libgomp, and 7 with the other two.
# Who meets it: MPI codes with a helper thread (communication, output, coupling) that calls a library with OpenMP, and
#   planners that set the limit to the CPUs of the rank: the rank runs twice as many, and goes on having them.
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
cat > teams.c <<'C'
#include <dirent.h>
#include <omp.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static pthread_barrier_t both;
static int threads(void)
{
    int count = -2; /* the folder and its parent */
    DIR *tasks = opendir("/proc/self/task");
    while (readdir(tasks)) ++count;
    closedir(tasks);
    return count;
}
static void *region(void *members)
{
#pragma omp parallel num_threads(4)
    {
#pragma omp master
        {
            *(int *)members = omp_get_num_threads();
            pthread_barrier_wait(&both); /* both teams are there */
            pthread_barrier_wait(&both);
        }
    }
    return NULL;
}
int main(void)
{
    pthread_t callers[2];
    int members[2];
    pthread_barrier_init(&both, NULL, 2);
    omp_set_dynamic(0);
    for (int i = 0; i < 2; ++i) pthread_create(&callers[i], NULL, region, &members[i]);
    for (int i = 0; i < 2; ++i) pthread_join(callers[i], NULL);
    /* The workers of a team that is given up need a moment to end. */
    for (int naps = 0; naps < 20 && threads() > 1; ++naps) usleep(50000);
    printf("limit %d, teams of %d and %d, %d left\n", omp_get_thread_limit(), members[0], members[1], threads());
    return 0;
}
C
cc -fopenmp -c teams.c
unset OMP_NUM_THREADS OMP_DYNAMIC OMP_PLACES OMP_PROC_BIND KMP_AFFINITY
for runtime in tree/usr/lib/x86_64-linux-gnu/libgomp.so.1 tree/usr/lib/llvm-16/lib/libomp.so.5 venv/lib/libiomp5.so; do
    cc teams.o -o teams "$folder/$runtime" -Wl,--allow-shlib-undefined -pthread
    echo "${runtime##*/}: $(OMP_THREAD_LIMIT=4 LD_LIBRARY_PATH="$folder/${runtime%/*}" timeout 60 ./teams 2> words)"
done | tee said
cat > expected <<'T'
libgomp.so.1: limit 4, teams of 4 and 4, 1 left
libomp.so.5: limit 4, teams of 4 and 4, 7 left
libiomp5.so: limit 4, teams of 4 and 4, 7 left
T
diff expected said
