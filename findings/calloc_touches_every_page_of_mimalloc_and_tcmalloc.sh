#!/bin/sh
# Finding: calloc makes every page resident under mimalloc and tcmalloc, also of 64 MiB fresh from the system; under glibc
#   and jemalloc it makes none.
#
# Software: libmimalloc2.0 2.0.9+ds-2, libtcmalloc-minimal4 2.10-1, libjemalloc2 5.3.0-1, packages of Debian 12; glibc (seen
#   with 2.36); a C compiler; Linux, x86-64.
# Expected by most: large blocks of calloc come from the system, which gives zeroes, so that an allocator need not write
#   them: memory counts, and is placed on a NUMA node, when the program first writes to it.
# Behaviour: four blocks of 64 MiB by calloc, of which nothing is used: less than 8 MiB resident with glibc and jemalloc, and
#   256 MiB with mimalloc and tcmalloc, which write the zeroes in the thread that calls calloc.
# Who meets it: programs that reserve sparse tables or the largest possible buffer by calloc, and those that rely on first
#   touch by their threads: with an allocator that is preloaded "for speed" they are out of memory, or all pages are on the
#   node of the main thread.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libmimalloc2.0=2.0.9+ds-2 libtcmalloc-minimal4=2.10-1 libjemalloc2=5.3.0-1 2> said ||
    { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > zeroes.c <<'C'
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static long resident(void)
{
    long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) exit(77);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE) >> 20;
}
int main(void)
{
    char *volatile blocks[4];
    long before = resident();
    for (int i = 0; i < 4; ++i)
        if (!(blocks[i] = calloc(1, 64 << 20))) return 77;
    long more = resident() - before;
    puts(more < 8 ? "none" : more >= 250 ? "all" : "some");
    return 0;
}
C
cc -O0 zeroes.c -o zeroes
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
found=$(./zeroes)
for library in libjemalloc.so.2 libmimalloc.so.2.0 libtcmalloc_minimal.so.4; do
    found="$found $(LD_PRELOAD="$libraries/$library" ./zeroes)"
done
echo "resident of 256 MiB of zeroes with glibc, jemalloc, mimalloc, tcmalloc: $found"
[ "$found" = "none none all all" ]
