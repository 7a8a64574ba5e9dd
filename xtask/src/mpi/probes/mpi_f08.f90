! Checks whether Fortran programs with the module mpi_f08 compile.
program probe
   use mpi_f08
   implicit none
   type(MPI_Comm) :: world
   integer :: ranks
   call MPI_Init()
   world = MPI_COMM_WORLD
   call MPI_Comm_size(world, ranks)
   call MPI_Finalize()
   if (ranks /= 1) stop 1
end program probe
