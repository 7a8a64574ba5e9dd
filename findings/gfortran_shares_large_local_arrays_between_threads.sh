#!/bin/sh
# Finding: two threads that call one Fortran procedure at the same time work in the same local array, if it is larger than
#   64 KiB and gfortran compiled the procedure without -fopenmp; -std=f2018, in which all procedures are recursive, changes
#   nothing.
#
# Software: gfortran (seen with 12.2.0), a C compiler with threads, Linux.
# Expected by most: a local array without SAVE is the caller's own in each call: on the stack, or in the heap if it is large,
#   and whatever is too large for the stack shows itself by a crash. At least a standard that calls procedures recursive by
#   default makes them so.
# Behaviour: for an array of 160,000 bytes, called from two threads of a C program, the address is the same at -O0, -O2 and
#   with -std=f2018, in static memory; for one of 16,000 bytes it differs. With -fopenmp or -frecursive it differs for both.
# Who meets it: threaded C, C++ or Python programs that call a numerical library whose build knew of no threads: results
#   are wrong now and then, for large problems only, and no compiler flag of the program's own is at fault.
# Fails, with another status than 0, when the behaviour has changed; 77 where there is no gfortran.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
command -v gfortran > where || exit 77
cat > threads.c <<'C'
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
intptr_t work_place(void);
static pthread_barrier_t both;
static void *calls(void *place)
{
    pthread_barrier_wait(&both);
    *(intptr_t *)place = work_place();
    pthread_barrier_wait(&both); /* both threads, and so both stacks, are alive until here */
    return NULL;
}
int main(void)
{
    pthread_t threads[2];
    intptr_t places[2];
    pthread_barrier_init(&both, NULL, 2);
    for (int i = 0; i < 2; ++i) pthread_create(&threads[i], NULL, calls, &places[i]);
    for (int i = 0; i < 2; ++i) pthread_join(threads[i], NULL);
    puts(places[0] == places[1] ? "shared" : "own");
    return 0;
}
C
place() {
    cat > work.f90 <<F
function work_place() bind(c) result(place)
  use, intrinsic :: iso_c_binding, only: c_double, c_intptr_t, c_loc
  implicit none
  integer(c_intptr_t) :: place
  real(c_double), target :: room($1)
  room(1) = 1
  place = transfer(c_loc(room), place)
end function work_place
F
    shift
    gfortran "$@" -c work.f90
    gfortran -fopenmp threads.c work.o -o threads
    ./threads
}
found="$(place 20000 -O0) $(place 20000 -O2) $(place 20000 -std=f2018) $(place 2000 -O0)"
found="$found $(place 20000 -fopenmp) $(place 20000 -frecursive)"
echo "array at -O0, -O2, -std=f2018, a small one, -fopenmp, -frecursive: $found"
[ "$found" = "shared shared shared own own own" ]
