#!/bin/sh
# Finding: over a topology that was read from XML, also one of this very machine, hwloc's functions that bind return 0 and
#   do nothing, even with the flag STRICT; queries for a binding answer "everywhere".
#
# Software: libhwloc15 and libhwloc-dev 2.9.0-1, packages of Debian 12; a C compiler; a machine with two CPUs.
# Expected by most: binding over such a topology works, as the indices are those of the system, or fails with ENOSYS, which
#   is what the flags of support (all 0) say, and what STRICT promises.
# Behaviour: hwloc_set_cpubind with HWLOC_CPUBIND_STRICT returns 0, and the affinity mask is as before; hwloc_get_cpubind
#   returns all processors; hwloc_alloc_membind with STRICT returns memory that is bound nowhere. With
#   HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM, or HWLOC_THISSYSTEM=1 in the environment, the same calls bind.
# Who meets it: programs that load a saved description since discovery is slow on many-core nodes, and unmodified ones under
#   HWLOC_XMLFILE: they run unbound and report that they are bound.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(nproc)" -ge 2 ] || exit 77
apt-get download -qq libhwloc15=2.9.0-1 libhwloc-dev=2.9.0-1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > bind.c <<'C'
#define _GNU_SOURCE
#include <hwloc.h>
#include <sched.h>
#include <stdio.h>
static const char *mask(void)
{
    cpu_set_t mask;
    sched_getaffinity(0, sizeof mask, &mask);
    return CPU_COUNT(&mask) == 1 ? "one" : "more";
}
int main(void)
{
    hwloc_topology_t found, read;
    char *text;
    int length;
    hwloc_topology_init(&found);
    hwloc_topology_load(found);
    hwloc_topology_export_xmlbuffer(found, &text, &length, 0);
    hwloc_topology_init(&read);
    hwloc_topology_set_xmlbuffer(read, text, length);
    hwloc_topology_load(read);
    hwloc_const_cpuset_t first = hwloc_get_obj_by_type(read, HWLOC_OBJ_PU, 0)->cpuset;
    hwloc_bitmap_t told = hwloc_bitmap_alloc();
    int status = hwloc_set_cpubind(read, first, HWLOC_CPUBIND_STRICT);
    hwloc_get_cpubind(read, told, 0);
    printf("%d %s %s ", status, mask(), hwloc_bitmap_weight(told) == 1 ? "one" : "more");
    status = hwloc_set_cpubind(found, first, HWLOC_CPUBIND_STRICT);
    printf("%d %s\n", status, mask());
    return 0;
}
C
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
cc bind.c -o bind -I tree/usr/include -I tree/usr/include/x86_64-linux-gnu "$libraries/libhwloc.so.15"
export LD_LIBRARY_PATH="$libraries"
unset HWLOC_THISSYSTEM HWLOC_XMLFILE
found=$(./bind)
said=$(HWLOC_THISSYSTEM=1 ./bind)
echo "status, mask and what hwloc says over a read topology, then over the machine's: $found; with HWLOC_THISSYSTEM=1: $said"
[ "$found" = "0 more more 0 one" ] && [ "$said" = "0 one one 0 one" ]
