! Checks whether Fortran programs with the module mpi compile.
program probe
   use mpi
   implicit none
   integer :: ranks, ierr
   call MPI_Init(ierr)
   call MPI_Comm_size(MPI_COMM_WORLD, ranks, ierr)
   call MPI_Finalize(ierr)
   if (ranks /= 1) stop 1
end program probe
