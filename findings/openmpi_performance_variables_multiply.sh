#!/bin/sh
# Finding: each MPI_T_init_thread after MPI_Init adds 13 performance variables to the existing ones in Debian 12's Open
#   MPI 4.1.4, under names that exist already; MPI_T_finalize takes none away.
#
# Software: libopenmpi3 4.1.4-3+b1, libopenmpi-dev 4.1.4-3+b1, openmpi-bin 4.1.4-3+b1 and openmpi-common 4.1.4-3, packages of
#   Debian 12, with the libraries they depend on; a C compiler.
# Expected by most: initialising the tools' interface again, which the standard allows, gives the same variables; their
#   number grows at most where a component is loaded.
# Behaviour: MPI_T_pvar_get_num() is 13 more after each further pair of init and finalize, four pairs in a row, although no
#   other MPI function is called in between. The number of control variables stays.
# Who meets it: profilers that open the interface for each sample or for each phase, and read all variables: the work, the
#   memory and the columns of the output grow, and a name stands for several variables.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
apt-get download -qq libopenmpi3=4.1.4-3+b1 libopenmpi-dev=4.1.4-3+b1 openmpi-bin=4.1.4-3+b1 openmpi-common=4.1.4-3 2> said ||
    { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > counts.c <<'C'
#include <mpi.h>
#include <stdio.h>
#include <string.h>
int main(int argc, char **argv)
{
    int provided, variables = 0, controls = 0, before = 0, controls_before = 0, twice = 0;
    MPI_Init(&argc, &argv);
    for (int turn = 0; turn < 4; ++turn) {
        MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
        MPI_T_pvar_get_num(&variables);
        MPI_T_cvar_get_num(&controls);
        if (turn) printf("%+d %+d, ", variables - before, controls - controls_before);
        before = variables, controls_before = controls;
        if (turn == 3) {
            static char names[400][256];
            for (int i = 0; i < variables && i < 400; ++i) {
                int length = 256, said, class, bind, readonly, continuous, atomic;
                MPI_Datatype type;
                MPI_T_enum kind;
                MPI_T_pvar_get_info(i, names[i], &length, &said, &class, &type, &kind, NULL, NULL, &bind, &readonly,
                                    &continuous, &atomic);
                for (int k = 0; k < i; ++k) twice += !strcmp(names[i], names[k]);
            }
        }
        MPI_T_finalize();
    }
    printf("%s\n", twice ? "names repeated" : "names differ");
    return MPI_Finalize();
}
C
libraries="$folder/tree/usr/lib/x86_64-linux-gnu"
cc counts.c -o counts -I "$libraries/openmpi/include" "$libraries/libmpi.so.40" -Wl,--allow-shlib-undefined
export LD_LIBRARY_PATH="$libraries" OPAL_PREFIX="$folder/tree/usr" OPAL_LIBDIR="$libraries"
export OPAL_PKGLIBDIR="$libraries/openmpi/lib/openmpi3" OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
found=$(timeout 60 ./counts 2> said) || { tail -3 said; exit 77; }
echo "performance and control variables added by each further init: $found"
[ "$found" = "+13 +0, +13 +0, +13 +0, names repeated" ]
