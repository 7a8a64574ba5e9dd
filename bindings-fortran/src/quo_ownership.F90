!> Ownership: the owner frees the library's object, however the Fortran object is copied. For the other modules of this
!> library only.
!>
!> An object holds a handle and, when it is one of the owners, a count that it shares with the other
!> owners; the last owner that goes frees. The variable that an object was made in is an owner, and
!> one that is assigned what an owner holds becomes one. An owner remembers where it lies: what was
!> copied bit by bit (by `allocate` with `source=`, into an array constructor) lies elsewhere and
!> frees nothing. It may be used while an owner lives, and is refused by the library after that.
!>
!> The count lives as long as the handle does, so that a copy can check by the handle, which the
!> library knows, whether the count still exists.
module quo_ownership
  use, intrinsic :: iso_c_binding, only: &
    c_associated, c_int, c_intptr_t, c_loc, c_null_ptr, c_ptr
  use quo_c, only: c_bind_pop, c_free, c_handle_in_use, c_named_barrier_free, c_phase_free, &
    c_phase_release, c_xpm_free
  use quo_constants, only: QUO_ERR_INVLD_HANDLE, QUO_SUCCESS
  implicit none
  private

  public :: free, kept, let_go, own, refer, share

  ! What a handle stands for, and so what frees it.
  integer, parameter, public :: &
    A_CONTEXT = 1, A_PHASE = 2, A_NAMED_BARRIER = 3, A_MEMORY = 4, A_BINDING = 5

  !> State that the owners share.
  type :: tally
    integer :: owners = 0
    logical :: freed = .false.
  end type tally

  !> A handle, and the part that its holder has in it.
  type, public :: held
    private
    type(c_ptr) :: handle = c_null_ptr
    type(tally), pointer :: tally => null()
    !> Address of this owner; 0 for one that owns nothing.
    integer(c_intptr_t) :: place = 0
    !> Made by a function, to be owned by the variable that it is assigned to.
    logical :: in_transit = .false.
  end type held

contains

  !> The handle; `c_null_ptr` when there is none.
  pure function kept(self) result(handle)
    type(held), intent(in) :: self
    type(c_ptr) :: handle
    handle = self%handle
  end function kept

  !> Address of an object.
  function place_of(self) result(place)
    type(held), target, intent(in) :: self
    integer(c_intptr_t) :: place
    place = transfer(c_loc(self%handle), place)
  end function place_of

  !> Makes the object the first owner of a new handle. Without memory for the count it owns nothing,
  !> and the handle has to be freed by call.
  subroutine own(self, handle)
    type(held), target, intent(inout) :: self
    type(c_ptr), intent(in) :: handle
    integer :: status
    self%handle = handle
    self%in_transit = .false.
    self%place = 0
    nullify (self%tally)
    if (.not. c_associated(handle)) return
    allocate (self%tally, stat=status)
    if (status /= 0) return
    self%tally%owners = 1
    self%place = place_of(self)
  end subroutine own

  !> Makes the object stand for a handle that it does not own; an object in transit is owned by the
  !> variable that it is assigned to.
  subroutine refer(self, handle, in_transit)
    type(held), intent(inout) :: self
    type(c_ptr), intent(in) :: handle
    logical, intent(in) :: in_transit
    self%handle = handle
    self%in_transit = in_transit .and. c_associated(handle)
    self%place = 0
    nullify (self%tally)
  end subroutine refer

  !> Assignment: what the left side had is let go, and it owns with the owners of the right side.
  !> The right side may be a copy: to the language it is an expression. A push has one owner only.
  subroutine share(to, from, kind)
    type(held), target, intent(inout) :: to
    type(held), target, intent(in) :: from
    integer, intent(in) :: kind
    integer(c_intptr_t) :: place
    logical :: owned
    place = place_of(to)
    if (place == place_of(from)) return
    ! The same in a copy that was made of the left side on the way here.
    if (place == from%place .and. c_associated(to%handle, from%handle)) return
    call let_go(to, kind)
    if (kind == A_BINDING) return
    if (from%in_transit) then
      call own(to, from%handle)
      return
    end if
    to%handle = from%handle
    owned = from%place /= 0
    if (owned .and. from%place /= place_of(from)) owned = c_handle_in_use(from%handle) /= 0
    if (.not. owned) return
    to%tally => from%tally
    to%tally%owners = to%tally%owners + 1
    to%place = place
  end subroutine share

  !> Finalisation: the last owner frees. What cannot be freed (late, after MPI_Finalize; a context
  !> with phases) stays, with its count; an error could not be returned here.
  subroutine let_go(self, kind)
    type(held), target, intent(inout) :: self
    integer, intent(in) :: kind
    integer(c_int) :: ierr
    integer :: status
    if (self%place /= 0 .and. self%place == place_of(self)) then
      self%tally%owners = self%tally%owners - 1
      if (self%tally%owners <= 0) then
        ierr = QUO_SUCCESS
        if (.not. self%tally%freed) ierr = freed(self%handle, kind)
        if (ierr == QUO_SUCCESS .or. ierr == QUO_ERR_INVLD_HANDLE .or. kind == A_BINDING) then
          deallocate (self%tally, stat=status)
        end if
      end if
    end if
    call refer(self, c_null_ptr, .false.)
  end subroutine let_go

  !> Frees on request, even if other objects own it. After success the object stands for nothing,
  !> and no other owner frees again.
  subroutine free(self, kind, ierr)
    type(held), target, intent(inout) :: self
    integer, intent(in) :: kind
    integer(c_int), intent(out) :: ierr
    if (kind == A_PHASE) then
      ierr = c_phase_free(self%handle)
    else
      ierr = freed(self%handle, kind)
    end if
    if (ierr /= QUO_SUCCESS) return
    if (self%place /= 0 .and. self%place == place_of(self)) self%tally%freed = .true.
    call let_go(self, kind)
  end subroutine free

  function freed(handle, kind) result(ierr)
    type(c_ptr), intent(in) :: handle
    integer, intent(in) :: kind
    integer(c_int) :: ierr
    ierr = QUO_SUCCESS
    select case (kind)
    case (A_CONTEXT)
      ierr = c_free(handle)
    case (A_PHASE)
      ! Ends a run that was left open: the other ranks would sleep forever.
      ierr = c_phase_release(handle)
    case (A_NAMED_BARRIER)
      ierr = c_named_barrier_free(handle)
    case (A_MEMORY)
      ierr = c_xpm_free(handle)
    case (A_BINDING)
      ierr = c_bind_pop(handle)
    end select
  end function freed
end module quo_ownership
