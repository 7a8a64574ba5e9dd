#!/bin/sh
# Finding: MPI_MIN and MPI_MAX take unsigned numbers for signed ones in Debian 12's MPICH 4.0.2, and numbers of type
#   MPI_UNSIGNED_LONG in its Open MPI 4.1.4: the smallest of 1 and 2^63 is 2^63.
#
# Software: libmpich12 4.0.2-3+b1, libopenmpi3 4.1.4-3+b1 and their headers, packages of Debian 12; a C compiler.
# Expected by most: the operations compare numbers as their datatype says; MPI_UNSIGNED_LONG and MPI_UINT64_T, which are
#   the same type in C on 64-bit Linux, give the same.
# Behaviour: MPICH 4.0.2 compares all unsigned types as signed ones. Open MPI 4.1.4 does so for MPI_UNSIGNED_LONG only.
#   No error is returned. Debian 13's MPICH 4.2.1 and Debian unstable's 5.0.2 compare right; Debian 13's Open MPI 5.0.7
#   and Debian unstable's 6.0.0rc2 still take MPI_UNSIGNED_LONG for signed (looked at by hand).
# Who meets it: programs that agree on the first rank with a property, with the largest unsigned number for "none": the
#   answer is always "none". The two ends of an agreement then go on in different ways, and the job waits for ever.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libmpich12=4.0.2-3+b1 libmpich-dev=4.0.2-3+b1 libopenmpi3=4.1.4-3+b1 libopenmpi-dev=4.1.4-3+b1 \
    openmpi-bin=4.1.4-3+b1 openmpi-common=4.1.4-3 libucx0=1.13.1-1 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > smallest.c <<'C'
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    uint64_t one = 1, smallest = UINT64_C(1) << 63;
    MPI_Reduce_local(&one, &smallest, 1, MPI_UINT64_T, MPI_MIN);
    unsigned long own = 1, least = 1ul << 63;
    MPI_Reduce_local(&own, &least, 1, MPI_UNSIGNED_LONG, MPI_MIN);
    printf("%d %d\n", smallest == 1, least == 1);
    return MPI_Finalize();
}
C
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
cc smallest.c -o with-mpich -I tree/usr/include/x86_64-linux-gnu/mpich "$libraries/libmpich.so.12" -Wl,--allow-shlib-undefined
cc smallest.c -o with-openmpi -I "$libraries/openmpi/include" "$libraries/libmpi.so.40" -Wl,--allow-shlib-undefined
export LD_LIBRARY_PATH="$libraries"
export OPAL_PREFIX="$folder/tree/usr" OPAL_LIBDIR="$libraries" OPAL_PKGLIBDIR="$libraries/openmpi/lib/openmpi3"
mpich=$(./with-mpich)
openmpi=$(./with-openmpi)
echo "right for MPI_UINT64_T and for MPI_UNSIGNED_LONG: MPICH 4.0.2 $mpich, Open MPI 4.1.4 $openmpi"
[ "$mpich" = "0 0" ] && [ "$openmpi" = "1 0" ]
