!> Process sets over a running world. They need the option `process_sets`; every call except
!> quo_world_accept is local, and waits for rank 0 only. Errors of all: `QUO_ERR_STATE` without the
!> option, `QUO_ERR_INVLD_ARG` for an invalid name, `QUO_ERR_NOT_FOUND` for an unknown set,
!> `QUO_ERR_REFUSED` for an operation that the sets do not allow and in a parked process,
!> `QUO_ERR_SYS` when rank 0 cannot be asked.
module quo_psets
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_f_pointer, c_int, c_loc, c_long_long, &
    c_null_ptr, c_ptr, c_size_t, c_sizeof
  use quo_c, only: c_ptr_free
  use quo_constants, only: QUO_SUCCESS
  use quo_elastic_types, only: quo_pset_change_t, quo_pset_info_t, quo_pset_view_t
  use quo_psets_c
  use quo_text, only: out_of_memory, put_text, take_text, to_c, truth
  implicit none
  private

  public :: quo_pset_hint, quo_pset_info, quo_pset_lookup, quo_pset_member, quo_pset_members, &
    quo_pset_names, quo_pset_operate, quo_pset_prune, quo_pset_publish, quo_pset_query, &
    quo_pset_split, quo_pset_update, quo_pset_withdraw, quo_world_accept, quo_world_confirm

contains

  !> Gives the id of this process, which no other process ever has. Local; also in a parked process.
  subroutine quo_pset_member(w, member, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The id; -1 while it is parked.
    integer(c_long_long), intent(out) :: member
    !> As the module says, here and below.
    integer(c_int), intent(out) :: ierr
    member = -1
    ierr = c_pset_member(w, member)
  end subroutine quo_pset_member

  !> Gives the names of the sets that this process is shown, mpi://WORLD and mpi://SELF first. Local.
  subroutine quo_pset_names(w, names, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The names, with blanks behind the shorter ones.
    character(len=:, kind=c_char), allocatable, intent(out) :: names(:)
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    found = c_null_ptr
    ierr = c_pset_names(w, found)
    call take_lines(found, names, ierr)
  end subroutine quo_pset_names

  !> Gives the attributes of a set. Local.
  subroutine quo_pset_info(w, set, info, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    !> Description of the set.
    type(quo_pset_info_t), intent(out) :: info
    integer(c_int), intent(out) :: ierr
    type(c_pset_info) :: told
    character(kind=c_char), allocatable, target :: name(:)
    told%size = c_sizeof(told)
    call to_c(set, name)
    if (allocated(name)) then
      ierr = c_pset_info_of(w, name, told)
    else
      ierr = out_of_memory()
    end if
    info%active = truth(told%active)
    info%dynamic = truth(told%dynamic)
    info%included = truth(told%included)
    info%members = told%members
    info%version = told%version
    info%epoch = told%epoch
  end subroutine quo_pset_info

  !> Gives a hint of a set. Local.
  subroutine quo_pset_hint(w, set, key, hint, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    !> The key of the hint.
    character(len=*, kind=c_char), intent(in) :: key
    !> The value; empty where there is none.
    character(len=:, kind=c_char), allocatable, intent(out) :: hint
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    character(kind=c_char), allocatable, target :: name(:), word(:)
    found = c_null_ptr
    call to_c(set, name)
    call to_c(key, word)
    if (allocated(name) .and. allocated(word)) then
      ierr = c_pset_hint(w, name, word, found)
    else
      ierr = out_of_memory()
    end if
    call take_text(found, hint, ierr)
  end subroutine quo_pset_hint

  !> Gives the ids of the members of a set, in order. Local.
  subroutine quo_pset_members(w, set, members, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    !> The ids; none after a failure.
    integer(c_long_long), allocatable, intent(out) :: members(:)
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    integer(c_int) :: number, freed
    integer(c_long_long), pointer :: ids(:)
    integer :: status, i
    character(kind=c_char), allocatable, target :: name(:)
    found = c_null_ptr
    number = 0
    call to_c(set, name)
    if (allocated(name)) then
      ierr = c_pset_members(w, name, found, number)
    else
      ierr = out_of_memory()
    end if
    if (ierr /= QUO_SUCCESS) number = 0
    allocate (members(number), stat=status)
    if (status /= 0) then
      ierr = out_of_memory()
      allocate (members(0), stat=status)
    else if (number > 0) then
      call c_f_pointer(found, ids, [number])
      do i = 1, number
        members(i) = ids(i)
      end do
    end if
    freed = c_ptr_free(found)
  end subroutine quo_pset_members

  !> Makes a set of two, or a new version of the first. Local.
  subroutine quo_pset_operate(w, op, first, second, set, ierr, target, attributes)
    !> A world.
    type(c_ptr), value :: w
    !> `QUO_PSET_UNION`, `QUO_PSET_DIFFERENCE` or `QUO_PSET_INTERSECTION`.
    integer(c_int), value :: op
    !> A set.
    character(len=*, kind=c_char), intent(in) :: first
    !> Another one.
    character(len=*, kind=c_char), intent(in) :: second
    !> The name of the new set.
    character(len=:, kind=c_char), allocatable, intent(out) :: set
    !> `QUO_ERR_REFUSED` also when the result has no member, or the name is taken or not the program's.
    integer(c_int), intent(out) :: ierr
    !> The wanted name, or `first` for a new version of it; without it a name is made.
    character(len=*, kind=c_char), intent(in), optional :: target
    !> Attributes that are not inherited from `first`.
    type(quo_pset_change_t), intent(in), optional :: attributes
    type(c_pset_change) :: change
    type(quo_pset_change_t) :: usual
    type(c_ptr) :: found, goal
    character(kind=c_char), allocatable, target :: one(:), other(:), wanted(:), hints(:)
    logical :: ready
    found = c_null_ptr
    goal = c_null_ptr
    call to_c(first, one)
    call to_c(second, other)
    ready = allocated(one) .and. allocated(other)
    if (present(target)) call put_text(target, wanted, goal, ready)
    if (present(attributes)) then
      call change_of(attributes, change, hints, ready)
    else
      call change_of(usual, change, hints, ready)
    end if
    if (ready) then
      ierr = c_pset_operate(w, op, one, other, goal, change, found)
    else
      ierr = out_of_memory()
    end if
    call take_text(found, set, ierr)
  end subroutine quo_pset_operate

  !> Changes the attributes of a set. Local.
  subroutine quo_pset_update(w, set, attributes, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    !> Changes of the attributes.
    type(quo_pset_change_t), intent(in) :: attributes
    integer(c_int), intent(out) :: ierr
    type(c_pset_change) :: change
    character(kind=c_char), allocatable, target :: name(:), hints(:)
    logical :: ready
    call to_c(set, name)
    ready = allocated(name)
    call change_of(attributes, change, hints, ready)
    if (ready) then
      ierr = c_pset_update(w, name, change)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_pset_update

  !> Splits a set into parts, in the order of its members. Local.
  subroutine quo_pset_split(w, set, sizes, below, names, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    !> Numbers of members of the parts.
    integer(c_long_long), intent(in), contiguous :: sizes(:)
    !> The name below which the parts have theirs.
    character(len=*, kind=c_char), intent(in) :: below
    !> The names, with blanks behind the shorter ones.
    character(len=:, kind=c_char), allocatable, intent(out) :: names(:)
    !> `QUO_ERR_INVLD_ARG` also when the parts are not the set.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    character(kind=c_char), allocatable, target :: name(:), path(:)
    found = c_null_ptr
    call to_c(set, name)
    call to_c(below, path)
    if (allocated(name) .and. allocated(path)) then
      ierr = c_pset_split(w, name, sizes, int(size(sizes), c_int), path, found)
    else
      ierr = out_of_memory()
    end if
    call take_lines(found, names, ierr)
  end subroutine quo_pset_split

  !> Removes the name of a set that has lost its last member. Local.
  subroutine quo_pset_prune(w, set, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: name(:)
    call to_c(set, name)
    if (allocated(name)) then
      ierr = c_pset_prune(w, name)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_pset_prune

  !> Publishes bytes under a key of a set, for quo_pset_lookup. Local.
  subroutine quo_pset_publish(w, set, key, bytes, ierr, version)
    !> A world.
    type(c_ptr), value :: w
    !> The set; not mpi://SELF.
    character(len=*, kind=c_char), intent(in) :: set
    !> The key, of at most 255 bytes.
    character(len=*, kind=c_char), intent(in) :: key
    !> The bytes, at most 65,536, with all blanks.
    character(len=*, kind=c_char), intent(in) :: bytes
    integer(c_int), intent(out) :: ierr
    !> Number of the value under the key, from 1.
    integer(c_long_long), intent(out), optional :: version
    character(kind=c_char), allocatable, target :: name(:), word(:), copy(:)
    integer(c_long_long) :: number
    integer :: status, i
    number = 0
    call to_c(set, name)
    call to_c(key, word)
    allocate (copy(len(bytes) + 1), stat=status)
    if (status == 0 .and. allocated(name) .and. allocated(word)) then
      do i = 1, len(bytes)
        copy(i) = bytes(i:i)
      end do
      ierr = c_pset_publish(w, name, word, c_loc(copy), int(len(bytes), c_size_t), number)
    else
      ierr = out_of_memory()
    end if
    if (present(version)) version = number
  end subroutine quo_pset_publish

  !> Takes away what lies under a key at a set. Local.
  subroutine quo_pset_withdraw(w, set, key, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    !> The key.
    character(len=*, kind=c_char), intent(in) :: key
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: name(:), word(:)
    call to_c(set, name)
    call to_c(key, word)
    if (allocated(name) .and. allocated(word)) then
      ierr = c_pset_withdraw(w, name, word)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_pset_withdraw

  !> Gives the value under a key of a set, and waits until there is one. Local.
  subroutine quo_pset_lookup(w, set, key, wait, bytes, ierr, version, publisher)
    !> A world.
    type(c_ptr), value :: w
    !> The set.
    character(len=*, kind=c_char), intent(in) :: set
    !> The key.
    character(len=*, kind=c_char), intent(in) :: key
    !> For how many seconds to wait; 0: not at all.
    real(c_double), value :: wait
    !> The bytes; none after a failure.
    character(len=:, kind=c_char), allocatable, intent(out) :: bytes
    !> `QUO_ERR_TIMEOUT` also when nothing came in this time.
    integer(c_int), intent(out) :: ierr
    !> Number of the value under the key, from 1.
    integer(c_long_long), intent(out), optional :: version
    !> The id of the process that left it.
    integer(c_long_long), intent(out), optional :: publisher
    type(c_ptr) :: found
    integer(c_size_t) :: length, i
    integer(c_long_long) :: number, who
    integer(c_int) :: freed
    integer :: status
    character(kind=c_char), allocatable, target :: name(:), word(:)
    character(kind=c_char), pointer :: from(:)
    found = c_null_ptr
    length = 0
    number = 0
    who = -1
    call to_c(set, name)
    call to_c(key, word)
    if (allocated(name) .and. allocated(word)) then
      ierr = c_pset_lookup(w, name, word, wait, found, length, number, who)
    else
      ierr = out_of_memory()
    end if
    if (ierr /= QUO_SUCCESS) length = 0
    allocate (character(len=length, kind=c_char) :: bytes, stat=status)
    if (status /= 0) then
      ierr = out_of_memory()
      allocate (character(len=0, kind=c_char) :: bytes, stat=status)
    else if (length > 0) then
      call c_f_pointer(found, from, [length])
      do i = 1, length
        bytes(i:i) = from(i)
      end do
    end if
    freed = c_ptr_free(found)
    if (present(version)) version = number
    if (present(publisher)) publisher = who
  end subroutine quo_pset_lookup

  !> Returns the current resize, if there is one; its absence is no error. Local.
  subroutine quo_pset_query(w, bound, view, delta, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The set that is resized, such as mpi://WORLD; mpi://SELF: a resize in which this process joins or leaves.
    character(len=*, kind=c_char), intent(in) :: bound
    !> The resize.
    type(quo_pset_view_t), intent(out) :: view
    !> The name of the delta that concerns this process; empty without a change.
    character(len=:, kind=c_char), allocatable, intent(out) :: delta
    integer(c_int), intent(out) :: ierr
    type(c_pset_view) :: told
    type(c_ptr) :: found
    character(kind=c_char), allocatable, target :: name(:)
    told%size = c_sizeof(told)
    found = c_null_ptr
    call to_c(bound, name)
    if (allocated(name)) then
      ierr = c_pset_query(w, name, told, found)
    else
      ierr = out_of_memory()
    end if
    view%kind = told%kind
    view%included = truth(told%included)
    view%step = told%step
    view%request = told%request
    call take_text(found, delta, ierr)
  end subroutine quo_pset_query

  !> Accepts a resize, and probes. Collective over the ranks, in the same places as probes; what others than rank 0
  !> give as `delta`, `set` and `wait` does not count.
  subroutine quo_world_accept(w, delta, set, wait, acceptance, told, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The delta of the resize.
    character(len=*, kind=c_char), intent(in) :: delta
    !> The set that the new world will be.
    character(len=*, kind=c_char), intent(in) :: set
    !> Seconds for which to repeat while the resize is pending; 0: once.
    real(c_double), value :: wait
    !> One of `QUO_ACCEPT_...`.
    integer(c_int), intent(out) :: acceptance
    !> The set, on all ranks, when all enter; otherwise empty.
    character(len=:, kind=c_char), allocatable, intent(out) :: told
    !> `QUO_ERR_STATE` on a process that is no rank, `QUO_ERR_REFUSED` on all.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    character(kind=c_char), allocatable, target :: gone(:), name(:)
    character(kind=c_char), parameter :: none(1) = [achar(0)]
    found = c_null_ptr
    acceptance = -1
    call to_c(delta, gone)
    call to_c(set, name)
    if (allocated(gone) .and. allocated(name)) then
      ierr = c_world_accept(w, gone, name, wait, acceptance, found)
    else
      ! Takes part nevertheless, so that the call fails on all processes.
      ierr = c_world_accept(w, none, none, wait, acceptance, found)
      ierr = out_of_memory()
    end if
    call take_text(found, told, ierr)
  end subroutine quo_world_accept

  !> Gives the name of the set that this process joins. Local, for one that joins, before quo_world_begin; waits until
  !> the ranks have accepted.
  subroutine quo_world_confirm(w, wait, set, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> For how many seconds.
    real(c_double), value :: wait
    !> The name.
    character(len=:, kind=c_char), allocatable, intent(out) :: set
    !> `QUO_ERR_STATE` on a process that does not join, `QUO_ERR_ABORTED`.
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: found
    found = c_null_ptr
    ierr = c_world_confirm(w, wait, found)
    call take_text(found, set, ierr)
  end subroutine quo_world_confirm

  !> Attributes for C.
  subroutine change_of(attributes, change, hints, ready)
    type(quo_pset_change_t), intent(in) :: attributes
    type(c_pset_change), intent(out) :: change
    character(kind=c_char), allocatable, target, intent(out) :: hints(:)
    logical, intent(inout) :: ready
    change%size = c_sizeof(change)
    change%active = attributes%active
    if (allocated(attributes%hints)) call put_text(attributes%hints, hints, change%hints, ready)
  end subroutine change_of

  !> Returns a copy of the lines of a text that the caller must free; none if `ierr` reports a
  !> failure.
  subroutine take_lines(from, lines, ierr)
    type(c_ptr), value :: from
    character(len=:, kind=c_char), allocatable, intent(out) :: lines(:)
    integer(c_int), intent(inout) :: ierr
    character(len=:, kind=c_char), allocatable :: text
    integer :: i, column, longest, count, status
    call take_text(from, text, ierr)
    count = 0
    if (len(text) > 0) count = 1
    longest = 0
    column = 0
    do i = 1, len(text)
      column = column + 1
      if (iachar(text(i:i)) == 10) then
        count = count + 1
        column = 0
      end if
      longest = max(longest, column)
    end do
    allocate (character(len=longest, kind=c_char) :: lines(count), stat=status)
    if (status /= 0) then
      ierr = out_of_memory()
      allocate (character(len=0, kind=c_char) :: lines(0), stat=status)
      return
    end if
    do count = 1, size(lines)
      do column = 1, longest
        lines(count)(column:column) = ' '
      end do
    end do
    count = 1
    column = 0
    do i = 1, len(text)
      column = column + 1
      if (iachar(text(i:i)) == 10) then
        count = count + 1
        column = 0
      else
        lines(count)(column:column) = text(i:i)
      end if
    end do
  end subroutine take_lines
end module quo_psets
