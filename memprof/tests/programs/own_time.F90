! Reads its own time in MPI: rank 0 computes before a barrier in which the others wait, in a named
! region. Every rank prints its number, the region's, and nanoseconds in all, outside MPI, in MPI,
! lent and in collectives.
program own_time
  use, intrinsic :: iso_c_binding, only: c_int, c_int32_t
  use mpi
  use memprof
  implicit none

  type(memprof_time_t) :: time
  integer(c_int32_t) :: region
  integer(c_int) :: status
  integer :: rank, ierror
  double precision :: end_of_work

  status = memprof_time(time)
  if (status /= MEMPROF_NOT_KNOWN) error stop "there is a time before MPI"
  call MPI_Init(ierror)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierror)
  region = memprof_region_begin("assemble  ")
  end_of_work = MPI_Wtime() + 0.1d0
  if (rank == 0) then
    do while (MPI_Wtime() < end_of_work)
    end do
  end if
  call MPI_Barrier(MPI_COMM_WORLD, ierror)
  call memprof_region_end(region)
  if (memprof_active() /= 1) error stop "no profiler"
  status = memprof_time(time)
  if (status /= MEMPROF_OK) error stop "no time"
  print "(a, 5(1x, i0))", "truth " // achar(48 + rank) // " assemble", time%elapsed, time%useful, &
    time%mpi, time%lent, time%collective
  call MPI_Finalize(ierror)
end program own_time
