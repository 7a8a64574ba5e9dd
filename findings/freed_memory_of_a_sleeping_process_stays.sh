#!/bin/sh
# Finding: jemalloc, mimalloc and tcmalloc give nothing of a sleeping process's free memory back to the system, and
#   malloc_trim does nothing in a process that one of them serves.
#
# Software: libjemalloc2 5.3.0-1, libmimalloc2.0 2.0.9+ds-2, libtcmalloc-minimal4 2.10-1, packages of Debian 12; glibc.
# Expected by most: memory that is free for longer than the decay time (10 s in jemalloc) is given back, or malloc_trim(0)
#   gives it back as with glibc.
# Behaviour: of 230 MB in blocks of 60,000 bytes, all freed, a process that sleeps for 12 s still has what it had when the
#   sleep began: their clocks run in calls of malloc and free only. malloc_trim is glibc's, works on glibc's own heap and
#   leaves theirs as it is; with glibc it leaves some MB.
# Who meets it: ranks that wait or are parked while others compute, and that are asked to give memory back before: it has
#   to be each allocator's own call (mallctl arena.N.purge, mi_collect, MallocExtension_ReleaseFreeMemory).
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libjemalloc2=5.3.0-1 libmimalloc2.0=2.0.9+ds-2 libtcmalloc-minimal4=2.10-1 2> said ||
    { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > sleeps.c <<'C'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long resident(void)
{
    long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (fscanf(file, "%ld %ld", &all, &pages) != 2) exit(77);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}
int main(void)
{
    enum { BLOCKS = 4000, BYTES = 60000 };
    static char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; ++i) memset(blocks[i] = malloc(BYTES), 1, BYTES);
    long full = resident();
    for (int i = 0; i < BLOCKS; ++i) free(blocks[i]);
    long freed = resident();
    malloc_trim(0);
    sleep(12);
    long slept = resident();
    fprintf(stderr, "%ld MB, %ld freed, %ld after malloc_trim and 12 s\n", full, freed, slept);
    puts(slept * 10 >= freed * 9 && freed >= 60 ? "kept" : slept < 20 ? "returned" : "other");
    return 0;
}
C
cc -O0 sleeps.c -o sleeps
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
found=$(./sleeps)
for library in libjemalloc.so.2 libmimalloc.so.2.0 libtcmalloc_minimal.so.4; do
    found="$found $(LD_PRELOAD="$libraries/$library" ./sleeps)"
done
echo "glibc, jemalloc, mimalloc, tcmalloc: $found"
[ "$found" = "returned kept kept kept" ]
