#!/bin/sh
# Finding: gfortran 12 passes the VALUE arguments of a C function by reference, from the second call in a program unit on,
#   if the function is declared by procedure(interface), bind(c) in a module.
#
# Software: gfortran-12 12.2.0-14+deb12u1 and the packages of its version, of Debian 12; binutils and a C library.
# Expected by most: "procedure(taken), bind(c, name='f') :: f" declares the same as an interface body with the arguments
#   of "taken": each call passes the number.
# Behaviour: the first call of a program unit is right, with and without optimisation. Each further one in the same unit,
#   also of another function with that interface, gets an address in place of the number. There is no warning with -Wall
#   -Wextra, and none at run time. Interface bodies that are written out for every function are compiled right.
# Who meets it: modules with bindings to a C library in which functions share abstract interfaces, which makes them a third
#   shorter: tests that call each function once pass, and programs compute with addresses.
# Fails, with another status than 0, when the behaviour has changed; 77 where the packages cannot be had.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
version=12.2.0-14+deb12u1
apt-get download -qq "gfortran-12=$version" "gcc-12=$version" "cpp-12=$version" "libgfortran-12-dev=$version" \
    "libgcc-12-dev=$version" "libgfortran5=$version" "libquadmath0=$version" 2> said || { tail -1 said; exit 77; }
for package in *.deb; do
    dpkg-deb -x "$package" tree
done
cat > taken.c <<'C'
int taken_first(int number) { return number; }
int taken_second(int number) { return number; }
C
cat > declared.f90 <<'F'
module declared
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  abstract interface
    function taken(number) bind(c) result(same)
      import :: c_int
      integer(c_int), value :: number
      integer(c_int) :: same
    end function taken
  end interface
  procedure(taken), bind(c, name='taken_first') :: first
  procedure(taken), bind(c, name='taken_second') :: second
end module declared
program calls
  use declared
  implicit none
  print '(2(1x,l1))', first(5_c_int) == 5, second(5_c_int) == 5
  print '(2(1x,l1))', first(5_c_int) == 5, second(5_c_int) == 5
end program calls
F
fortran="tree/usr/bin/x86_64-linux-gnu-gfortran-12"
tools="$folder/tree/usr/lib/gcc/x86_64-linux-gnu/12"
cc -c taken.c
for level in 0 2; do
    COMPILER_PATH="$tools" "$fortran" -B "$tools" -O$level -Wall -Wextra -Werror -c declared.f90 -o "declared$level.o"
    COMPILER_PATH="$tools" "$fortran" -B "$tools" "declared$level.o" taken.o -o "calls$level"
    found=$(LD_LIBRARY_PATH="$folder/tree/usr/lib/x86_64-linux-gnu" "./calls$level" | tr -d '\n')
    echo "right at -O$level, of two calls in each of two statements:$found"
    case "$level$found" in
    "0 T T F F" | "2 T T F F") ;;
    *) exit 1 ;;
    esac
done
