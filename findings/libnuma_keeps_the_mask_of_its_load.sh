#!/bin/sh
# Finding: libnuma takes the affinity mask of the moment in which it was loaded for all processors there are:
#   numa_parse_cpustring refuses a processor that the process may use by now, while numa_run_on_node binds to it.
#
# Software: libnuma1 and libnuma-dev 2.0.16-1, packages of Debian 12; a C compiler; a machine with two CPUs in node 0.
# Expected by most: numa_num_task_cpus() is the number of processors of the task, as its manual page says, now; and a list
#   of processors is read against what the process or the machine has.
# Behaviour: loaded on one processor, numa_num_task_cpus() stays 1 after the mask was widened to two, and
#   numa_parse_cpustring("1") prints "cpu argument 1 is out of range" and returns NULL. numa_run_on_node(0) knows no such
#   limit: it binds to both processors.
# Who meets it: ranks that a launcher has bound to one core, whose libraries choose processors with libnuma after the rank
#   has widened its mask. numa_parse_cpustring_all has no such limit.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(nproc)" -ge 2 ] || exit 77
apt-get download -qq libnuma1=2.0.16-1 libnuma-dev=2.0.16-1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > mask.c <<'C'
#define _GNU_SOURCE
#include <numa.h>
#include <sched.h>
#include <stdio.h>
int main(void)
{
    cpu_set_t mask;
    if (numa_available() != 0) return 77;
    CPU_ZERO(&mask);
    CPU_SET(0, &mask);
    CPU_SET(1, &mask);
    if (sched_setaffinity(0, sizeof mask, &mask) != 0) return 77;
    int counted = numa_num_task_cpus();
    int listed = numa_parse_cpustring("1") != NULL, listed_of_all = numa_parse_cpustring_all("1") != NULL;
    numa_run_on_node(0);
    sched_getaffinity(0, sizeof mask, &mask);
    printf("%d %d %d %s\n", counted, listed, listed_of_all, CPU_COUNT(&mask) >= 2 ? "both" : "one");
    return 0;
}
C
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
cc mask.c -o mask -I tree/usr/include "$libraries/libnuma.so.1"
found=$(LD_LIBRARY_PATH="$libraries" taskset -c 0 ./mask 2> said) || exit 77
echo "counted, listed, listed of all, bound by numa_run_on_node: $found; $(head -1 said)"
[ "$found" = "1 0 1 both" ]
