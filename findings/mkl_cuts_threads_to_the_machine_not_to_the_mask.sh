#!/bin/sh
# Finding: oneMKL cuts a number of threads that is too large to the cores of the machine, not to the CPUs of the process: a
#   rank on one CPU that asks for 16 multiplies with as many threads as the node has cores, all on its one CPU.
#
# Software: mkl 2026.2.0 and the packages that it brings along (intel-openmp 2026.2.0) from PyPI; x86-64; a machine with 2
#   to 15 cores.
# Expected by most: MKL_DYNAMIC, which is on by default, is there to avoid more threads than can run; the default number,
#   which follows the mask, shows that the library knows the mask.
# Behaviour: in a process bound to one CPU mkl_get_max_threads() is 1 as long as nobody asks. After mkl_set_num_threads(16),
#   or with OMP_NUM_THREADS=16, it is the number of the machine's cores, and a product starts so many threads, each with
#   one CPU in its mask. With MKL_DYNAMIC=false there are 16.
# Who meets it: ranks bound to a part of a node, in an environment with OMP_NUM_THREADS of a whole node: two threads or
#   more wait on each CPU although "dynamic" is on, and the number differs from that of OpenBLAS, which takes the mask.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages or the cores cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
unset OMP_NUM_THREADS MKL_NUM_THREADS MKL_DYNAMIC OMP_THREAD_LIMIT OMP_PLACES OMP_PROC_BIND KMP_AFFINITY
[ "$(nproc)" -ge 2 ] && [ "$(nproc --all)" -lt 16 ] || exit 77
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check mkl==2026.2.0 intel-openmp==2026.2.0 2> said ||
    { tail -1 said; exit 77; }
cat > product.py <<'P'
import ctypes
import os
import sys

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
mkl = ctypes.CDLL(sys.prefix + "/lib/libmkl_rt.so.3")
if sys.argv[1:]:
    mkl.MKL_Set_Num_Threads(int(sys.argv[1]))
size = 1500
block = ctypes.c_double * (size * size)
factor, result = block(), block()
whole, number, array = ctypes.c_int, ctypes.c_double, ctypes.c_void_p
mkl.cblas_dgemm.argtypes = [whole] * 6 + [number, array, whole, array, whole, number, array, whole]
mkl.cblas_dgemm(101, 111, 111, size, size, size, 1.0, factor, size, factor, size, 0.0, result, size)
threads = os.listdir("/proc/self/task")
asked, started = mkl.MKL_Get_Max_Threads(), len(threads)
masks = {len(os.sched_getaffinity(int(thread))) for thread in threads}
kind = {1: "one", 16: "all"}.get(started, "cores" if 1 < started < 16 else "other")
print(kind if asked == started and masks == {1} else f"{asked} {started} {masks}")
P
export LD_LIBRARY_PATH="$folder/venv/lib"
plain=$(timeout 120 venv/bin/python product.py)
called=$(timeout 120 venv/bin/python product.py 16)
variable=$(OMP_NUM_THREADS=16 timeout 120 venv/bin/python product.py)
fixed=$(MKL_DYNAMIC=false timeout 120 venv/bin/python product.py 16)
echo "threads on one CPU: $plain; 16 by call: $called; by OMP_NUM_THREADS: $variable; with MKL_DYNAMIC=false: $fixed"
[ "$plain $called $variable $fixed" = "one cores cores all" ]
