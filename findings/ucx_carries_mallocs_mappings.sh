#!/bin/sh
# Finding: with UCX in the process the C library's own mappings reach the kernel as syscall(SYS_mmap) of libucm.
#
# Software: mpich 5.0.2 from PyPI (it brings UCX along), glibc, a C compiler, x86-64.
# Expected by most: what malloc and pthread_create map is mapped inside the C library, by no symbol that another
#   library could define; a call of syscall(SYS_mmap) in a library is a mapping of that library's own.
# Behaviour: when it is loaded, before main, UCX writes a jump into the code of mmap in the C library. A malloc of 64 MiB,
#   even before MPI_Init, and the stack of a thread are then calls of syscall(SYS_mmap) in libucm.so; an mmap() that a
#   preloaded library defines sees neither. In the same program without an MPI malloc calls neither of the two.
# Who meets it: profilers and leak finders that take the caller of syscall() for the owner of the memory: the program's
#   blocks and stacks become UCX's.
# Fails, with another status than 0, when the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "mpich==5.0.2"
cat > "$folder/sees.c" <<'C'
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
/* Mappings of at least 8 MiB: those that mmap() saw, and those that libucm asked for by number. */
int large_by_mmap, large_by_libucm;
void *mmap(void *at, size_t bytes, int rights, int flags, int file, off_t from)
{
    static void *(*next)(void *, size_t, int, int, int, off_t);
    if (!next) next = (void *(*)(void *, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
    large_by_mmap += bytes >= 8 << 20;
    return next(at, bytes, rights, flags, file, from);
}
void *mmap64(void *at, size_t bytes, int rights, int flags, int file, off_t from)
{
    return mmap(at, bytes, rights, flags, file, from);
}
long syscall(long number, ...)
{
    long word[6];
    va_list words;
    va_start(words, number);
    for (int i = 0; i < 6; i++) word[i] = va_arg(words, long);
    va_end(words);
    static long (*next)(long, ...);
    if (!next) next = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
    Dl_info who;
    int is_ucx = dladdr(__builtin_return_address(0), &who) && who.dli_fname && strstr(who.dli_fname, "libucm");
    large_by_libucm += number == SYS_mmap && is_ucx && word[1] >= 8 << 20;
    return next(number, word[0], word[1], word[2], word[3], word[4], word[5]);
}
C
cat > "$folder/program.c" <<'C'
#ifdef WITH_MPI
#include <mpi.h>
#endif
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
extern int large_by_mmap, large_by_libucm;
static void *nothing(void *word) { return word; }
int main(int argc, char **argv)
{
    void *volatile block;
    pthread_attr_t large;
    pthread_t thread;
    block = malloc(64 << 20);
    free(block);
    printf("malloc at the start: mmap() %d, libucm %d\n", large_by_mmap, large_by_libucm);
#ifdef WITH_MPI
    MPI_Init(&argc, &argv);
#endif
    (void)argc, (void)argv;
    large_by_mmap = large_by_libucm = 0;
    block = malloc(64 << 20);
    printf("malloc later: mmap() %d, libucm %d\n", large_by_mmap, large_by_libucm);
    free(block);
    large_by_mmap = large_by_libucm = 0;
    pthread_attr_init(&large);
    pthread_attr_setstacksize(&large, 48 << 20);
    pthread_create(&thread, &large, nothing, NULL);
    pthread_join(thread, NULL);
    printf("stack of a thread: mmap() %d, libucm %d\n", large_by_mmap, large_by_libucm);
#ifdef WITH_MPI
    MPI_Finalize();
#endif
    return 0;
}
C
cc -shared -fPIC -O1 -o "$folder/libsees.so" "$folder/sees.c" -ldl
cc -O1 -o "$folder/without" "$folder/program.c" "$folder/libsees.so" -pthread -Wl,-rpath,"$folder"
"$folder/venv/bin/mpicc" -O1 -DWITH_MPI -o "$folder/with" "$folder/program.c" "$folder/libsees.so" -pthread \
    -Wl,-rpath,"$folder:$folder/venv/lib"
for program in without with; do
    echo "$program MPI and UCX"
    GLIBC_TUNABLES=glibc.malloc.mmap_threshold=1048576 LD_PRELOAD="$folder/libsees.so" "$folder/$program"
done > "$folder/said"
cat "$folder/said"
cat > "$folder/expected" <<'T'
without MPI and UCX
malloc at the start: mmap() 0, libucm 0
malloc later: mmap() 0, libucm 0
stack of a thread: mmap() 0, libucm 0
with MPI and UCX
malloc at the start: mmap() 0, libucm 1
malloc later: mmap() 0, libucm 1
stack of a thread: mmap() 0, libucm 1
T
diff "$folder/expected" "$folder/said"
