! A list of numbers follows its owners through resizes, migrations and a checkpoint in a folder:
! `mpirun -n 4 elastic_items FOLDER [all]`; with `all` the owners of all items are set in one call.
! Each rank checks that its items are its own, and rank 0 that none is lost.
module numbers
  use, intrinsic :: iso_c_binding
  use mpi
  use quo
  use quo_elastic
  implicit none

  integer, parameter :: ALL = 500
  integer, parameter :: SIZES(5) = [4, 1, 3, 2, 4]

  ! The index of the size that is requested, which joiners receive.
  integer(c_int), target :: now = 1
  integer :: asked = 0, wrong = 0

contains

  subroutine need(ierr)
    integer(c_int), intent(in) :: ierr
    if (ierr == QUO_SUCCESS) return
    print '(a)', quo_last_error()
    wrong = wrong + 1
  end subroutine need

  ! Numbers from 0 to 1, in one slab for each rank.
  integer(c_int) function owner(data, item, ranks) bind(c)
    type(c_ptr), value :: data, item
    integer(c_int), value :: ranks
    real(c_double), pointer :: number
    if (c_associated(data)) continue ! not needed here
    call c_f_pointer(item, number)
    owner = min(int(number * ranks, c_int), ranks - 1)
  end function owner

  integer(c_int) function all_owners(data, items, count, ranks, owners) bind(c)
    type(c_ptr), value :: data, items, owners
    integer(c_size_t), value :: count
    integer(c_int), value :: ranks
    real(c_double), pointer :: numbers(:)
    integer(c_int), pointer :: set(:)
    all_owners = 0
    if (c_associated(data)) continue ! not needed here
    call c_f_pointer(items, numbers, [count])
    call c_f_pointer(owners, set, [count])
    set = min(int(numbers * ranks, c_int), ranks - 1)
  end function all_owners

  subroutine find(w, found)
    type(c_ptr), intent(in) :: w
    real(c_double), pointer, intent(out) :: found(:)
    type(c_ptr) :: items
    integer(c_size_t) :: count
    integer(c_int) :: ierr
    call quo_world_items(w, "numbers", items, count, ierr)
    call need(ierr)
    call c_f_pointer(items, found, [count])
  end subroutine find

  subroutine check(w)
    type(c_ptr), intent(in) :: w
    real(c_double), pointer :: found(:)
    integer :: i, comm, rank, ranks, total, ierr
    call find(w, found)
    call quo_world_comm(w, comm, ierr)
    call need(ierr)
    call MPI_Comm_rank(comm, rank, ierr)
    call MPI_Comm_size(comm, ranks, ierr)
    do i = 1, size(found)
      if (min(int(found(i) * ranks), ranks - 1) /= rank) wrong = wrong + 1
    end do
    call MPI_Allreduce(size(found), total, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
    if (total /= ALL) wrong = wrong + 1
  end subroutine check

  ! Writes the items to a folder, and has them again after they are gone.
  subroutine write_and_read(w)
    type(c_ptr), intent(in) :: w
    character(len=4096) :: folder
    integer(c_int) :: ierr, number
    logical :: restored
    call get_command_argument(1, folder)
    number = 0
    call quo_world_restore(w, trim(folder) // "/none", number, restored, ierr)
    call need(ierr)
    if (restored .or. number /= 0) wrong = wrong + 1
    call quo_world_checkpoint(w, trim(folder), 7_c_int, ierr)
    call need(ierr)
    call quo_world_items_resize(w, "numbers", 0_c_size_t, ierr)
    call need(ierr)
    call quo_world_restore(w, trim(folder), number, restored, ierr)
    call need(ierr)
    if (.not. restored .or. number /= 7) wrong = wrong + 1
    call check(w)
  end subroutine write_and_read

  integer(c_int) function step(w, data) bind(c)
    type(c_ptr), value :: w, data
    real(c_double), pointer :: found(:)
    integer(c_int) :: ierr, ranks, rank
    integer(c_long_long) :: request
    step = 1
    if (c_associated(data)) continue ! not needed here
    call quo_world_size(w, ranks, ierr)
    call need(ierr)
    call quo_world_rank(w, rank, ierr)
    call need(ierr)
    call find(w, found)
    found = 1 - found
    call quo_world_migrate(w, "numbers", ierr)
    call need(ierr)
    call check(w)
    if (ranks == SIZES(now)) then
      call write_and_read(w)
      now = now + 1
      if (now > size(SIZES)) then
        step = 0
        return
      end if
    end if
    if (rank == 0 .and. asked /= now) then
      asked = now
      call quo_world_request(w, SIZES(asked), request, ierr)
      call need(ierr)
    end if
  end function step
end module numbers

program elastic_items
  use numbers
  implicit none

  type(quo_world_options_t) :: options
  type(c_ptr) :: w
  real(c_double), pointer :: found(:)
  integer(c_int) :: ierr, status
  integer :: sum_of_all, rank, i

  call MPI_Init(ierr)
  call MPI_Comm_rank(MPI_COMM_WORLD, rank, ierr)
  options%initial_ranks = 2
  call quo_world_create(w, options, ierr)
  call need(ierr)
  if (command_argument_count() > 1) then
    call quo_world_items_add_with_owners(w, "numbers", 8_c_size_t, c_funloc(all_owners), c_null_ptr, ierr)
  else
    call quo_world_items_add(w, "numbers", 8_c_size_t, c_funloc(owner), c_null_ptr, ierr)
  end if
  call need(ierr)
  call quo_world_status(w, status, ierr)
  call need(ierr)
  if (status == QUO_WORLD_NEW .and. rank == 0) then
    call quo_world_items_resize(w, "numbers", int(ALL, c_size_t), ierr)
    call need(ierr)
    call find(w, found)
    found = [(real(i, c_double) / ALL, i=1, ALL)]
  end if
  call quo_world_run(w, c_funloc(step), c_null_ptr, c_loc(now), c_sizeof(now), ierr)
  call need(ierr)
  call quo_world_end(w, ierr)
  call need(ierr)
  call MPI_Reduce(wrong, sum_of_all, 1, MPI_INTEGER, MPI_SUM, 0, MPI_COMM_WORLD, ierr)
  if (rank == 0 .and. sum_of_all == 0) print '(a)', "ok"
  if (rank == 0 .and. sum_of_all /= 0) print '(i0,a)', sum_of_all, " wrong"
  call MPI_Finalize(ierr)
end program elastic_items
