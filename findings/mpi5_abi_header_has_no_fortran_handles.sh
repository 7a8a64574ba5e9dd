#!/bin/sh
# Finding: C code that hands communicators to Fortran compiles with MPICH 5's mpicc and not with its mpicc_abi.
#
# Software: mpich 5.0.2 from PyPI, a C compiler.
# Expected by most: both compilers of one package have the same MPI 5, and a change from one to the other is a new link.
# Behaviour: the header of the standard's binary interface has no type MPI_Fint and none of MPI_Comm_c2f, MPI_Comm_f2c
#   and their like: the compiler stops. Its words for the same are MPI_Comm_toint and MPI_Comm_fromint, with int. The
#   library itself exports no MPI_Comm_c2f either. mpicc's own header has both kinds.
# Who meets it: libraries in C with an interface for Fortran, whose header names MPI_Fint: no program that includes it
#   compiles for the standard's interface, also if it never calls Fortran.
# Fails, with another status than 0, when the behaviour has changed.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install --quiet --disable-pip-version-check "mpich==5.0.2"
cat > "$folder/old.c" <<'C'
#include <mpi.h>
MPI_Fint to_fortran(MPI_Comm ranks) { return MPI_Comm_c2f(ranks); }
C
cat > "$folder/new.c" <<'C'
#include <mpi.h>
int to_fortran(MPI_Comm ranks) { return MPI_Comm_toint(ranks); }
C
seen=
for compiler in mpicc mpicc_abi; do
    for source in old new; do
        answer=compiles
        "$folder/venv/bin/$compiler" -Werror=implicit-function-declaration -c "$folder/$source.c" -o "$folder/$source.o" \
            2> "$folder/said" || answer=refused
        echo "$compiler, $source: $answer $(grep -o "unknown type name .*" "$folder/said" | head -1)"
        seen="$seen $answer"
    done
done
exports=$(nm -D "$folder/venv/lib/libmpi_abi.so.1" | grep -c " MPI_Comm_c2f$") || true
echo "libmpi_abi.so.1 exports MPI_Comm_c2f: $exports times"
[ "$seen" = " compiles compiles refused compiles" ] && [ "$exports" = 0 ]
