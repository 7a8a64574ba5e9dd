#!/bin/sh
# Finding: memray records nothing of what a shared library allocates in its constructors while Python loads it, by malloc
#   or by mmap: 50 MB that are resident are in none of its reports. The same calls after the import are recorded.
#
# Software: memray 1.20.0 from PyPI with Python 3.11; a C compiler; Linux, x86-64.
# Expected by most: "peak memory" of a recorder of native allocations has all that the program allocates after the
#   recorder has started.
# Behaviour: memray puts its functions into the tables of a library after dlopen has returned, and constructors have run
#   by then. A library with a constructor that takes 30 MB by malloc and 20 MB by mmap, and writes to them, makes the
#   process 50 MB larger and memray's peak by less than 1 MB; one that takes them in a function that is called after
#   the import makes both 50 MB larger. The option --native changes nothing.
# Who meets it: who compares memray's peak with the resident memory of a job: pools, tables and buffers that extension
#   modules and the libraries below them (BLAS, communication libraries) set up when they are loaded are missing.
# Fails, with another status than 0, when the behaviour has changed; ends with 77 where the package cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check memray==1.20.0 2> said || { tail -1 said; exit 77; }
cat > held.c <<'C'
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
char *block, *region;
void take(void)
{
    block = malloc(30000000);
    region = mmap(0, 20000000, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!block || region == MAP_FAILED) abort();
    memset(block, 1, 30000000);
    memset(region, 1, 20000000);
}
#ifdef AT_LOAD
__attribute__((constructor)) static void begin(void)
{
    take();
}
#endif
C
cc -O1 -shared -fPIC -DAT_LOAD -o at_load.so held.c
cc -O1 -shared -fPIC -o at_call.so held.c
cat > program.py <<'P'
import ctypes
import os
import sys


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE")


before = resident()
library = ctypes.CDLL(sys.argv[1])
if "at_call" in sys.argv[1]:
    library.take()
print((resident() - before + 500000) // 1000000)
P
cat > peak.py <<'P'
import sys

import memray

print(memray.FileReader(sys.argv[1]).metadata.peak_memory // 1000000)
P
for how in at_load at_call; do
    for option in "" --native; do
        venv/bin/memray run --quiet --force $option --output $how.bin program.py "$folder/$how.so" > more
        echo "$how $option: $(cat more) MB more resident, $(venv/bin/python peak.py $how.bin) MB at memray's peak"
    done
done | tee told
sed -E 's/: (49|50|51|52) MB/: 50 MB/' told > rounded
cat > expected <<'T'
at_load : 50 MB more resident, 0 MB at memray's peak
at_load --native: 50 MB more resident, 0 MB at memray's peak
at_call : 50 MB more resident, 50 MB at memray's peak
at_call --native: 50 MB more resident, 50 MB at memray's peak
T
diff expected rounded
