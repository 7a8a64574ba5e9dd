! Time in MPI at run time and named regions, for Fortran programs that run under `memprof run`: as in memprof.h, whose
! notes on threads hold here. Compile this file with the program, and link with -lmemprof. No MPI is needed.
module memprof
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_int32_t, c_int64_t, c_null_char
  implicit none
  private

  public :: memprof_time_t, memprof_active, memprof_time, memprof_region_begin, memprof_region_end
  public :: MEMPROF_OK, MEMPROF_NOT_ACTIVE, MEMPROF_NOT_KNOWN, MEMPROF_BAD_ARGUMENT

  ! Done.
  integer(c_int), parameter :: MEMPROF_OK = 0
  ! The process does not run under the profiler, or under one of another version.
  integer(c_int), parameter :: MEMPROF_NOT_ACTIVE = 1
  ! The profiler has no answer.
  integer(c_int), parameter :: MEMPROF_NOT_KNOWN = 2
  ! A null pointer.
  integer(c_int), parameter :: MEMPROF_BAD_ARGUMENT = 3

  ! Time of the thread that began MPI since MPI was ready, in nanoseconds: elapsed is the sum of useful outside of MPI, mpi,
  ! and lent in quo's barrier; mpi is the sum of the six below it.
  type, bind(c) :: memprof_time_t
    integer(c_int64_t) :: elapsed = 0, useful = 0, mpi = 0, lent = 0
    integer(c_int64_t) :: point_to_point = 0, collective = 0, one_sided = 0, file = 0
    integer(c_int64_t) :: wait = 0, other = 0
    ! Calls of MPI.
    integer(c_int64_t) :: calls = 0
  end type memprof_time_t

  interface
    ! Returns 1 if the process runs under the profiler, else 0.
    integer(c_int) function memprof_active() bind(c)
      import :: c_int
    end function memprof_active

    ! Writes the times of this process until now. Local: makes no MPI call. Returns MEMPROF_NOT_KNOWN if times are not
    ! measured, as without `memprof run --mpi-time`, and before MPI is ready.
    integer(c_int) function memprof_time(time) bind(c)
      import :: c_int, memprof_time_t
      type(memprof_time_t), intent(out) :: time
    end function memprof_time

    ! Ends a region and all regions that are open inside it. Does nothing for 0.
    subroutine memprof_region_end(region) bind(c)
      import :: c_int32_t
      integer(c_int32_t), value :: region
    end subroutine memprof_region_end

    integer(c_int32_t) function region_begin(name) bind(c, name="memprof_region_begin")
      import :: c_char, c_int32_t
      character(kind=c_char), intent(in) :: name(*)
    end function region_begin
  end interface

contains

  ! Begins a region of this name, without its blanks at the end. Returns what memprof_region_end takes; 0 when it is not
  ! recorded.
  integer(c_int32_t) function memprof_region_begin(name)
    character(len=*), intent(in) :: name

    memprof_region_begin = region_begin(trim(name) // c_null_char)
  end function memprof_region_begin
end module memprof
