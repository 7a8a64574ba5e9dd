#!/bin/sh
# Finding: blocks of one page that are aligned to a page take two pages each in glibc 2.36; other allocators take one.
#
# Software: glibc 2.36 as Debian 12 has it; libjemalloc2 5.3.0-1, libmimalloc2.0 2.0.9+ds-2, libtcmalloc-minimal4 2.10-1,
#   packages of Debian 12; a C compiler; Linux, x86-64.
# Expected by most: aligned_alloc(4096, 4096) costs a page and a header; what alignment leaves over in front of a block is
#   used for the next one.
# Behaviour: 4,000 such blocks that are written to have 31 to 33 MB resident with glibc, and less than 18 MB with the
#   others, for 16 MB of data. malloc_usable_size() of a block is 4,104 or less all the same.
# Who meets it: whoever aligns many buffers to pages: for direct I/O, for registration with a network card, for page
#   migration or mprotect: the memory plan is wrong by a factor of two.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages or the glibc cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(getconf GNU_LIBC_VERSION)" = "glibc 2.36" ] || exit 77
apt-get download -qq libjemalloc2=5.3.0-1 libmimalloc2.0=2.0.9+ds-2 libtcmalloc-minimal4=2.10-1 2> said ||
    { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > aligned.c <<'C'
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static long resident(void)
{
    long all = 0, pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%ld %ld", &all, &pages) != 2) exit(77);
    fclose(file);
    return pages * sysconf(_SC_PAGESIZE) / 1000;
}
int main(void)
{
    enum { BLOCKS = 4000 };
    static void *blocks[BLOCKS];
    size_t usable = 0;
    long before = resident();
    for (int i = 0; i < BLOCKS; ++i) {
        memset(blocks[i] = aligned_alloc(4096, 4096), 1, 4096);
        if (malloc_usable_size(blocks[i]) > usable) usable = malloc_usable_size(blocks[i]);
    }
    long more = resident() - before;
    fprintf(stderr, "%ld kB resident, at most %zu usable of a block\n", more, usable);
    puts(more >= 31000 && more < 33500 && usable <= 4104 ? "two" : more < 18000 ? "one" : "other");
    return 0;
}
C
cc -O0 aligned.c -o aligned
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
found=$(env -u GLIBC_TUNABLES ./aligned)
for library in libjemalloc.so.2 libmimalloc.so.2.0 libtcmalloc_minimal.so.4; do
    found="$found $(LD_PRELOAD="$libraries/$library" ./aligned)"
done
echo "pages of each block with glibc, jemalloc, mimalloc, tcmalloc: $found"
[ "$found" = "two one one one" ]
