!> Process sets of quo-elastic.h as C has them. For the other modules of this library only; what `quo_c` says holds
!> here.
module quo_psets_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_int, c_long_long, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  !> `QUO_pset_change_t`
  type, bind(c), public :: c_pset_change
    integer(c_size_t) :: size
    integer(c_int) :: active
    type(c_ptr) :: hints = c_null_ptr
  end type c_pset_change

  !> `QUO_pset_info_t`
  type, bind(c), public :: c_pset_info
    integer(c_size_t) :: size
    integer(c_int) :: active = 0
    integer(c_int) :: dynamic = 0
    integer(c_int) :: included = 0
    integer(c_long_long) :: members = 0
    integer(c_long_long) :: version = 0
    integer(c_long_long) :: epoch = 0
  end type c_pset_info

  !> `QUO_pset_view_t`
  type, bind(c), public :: c_pset_view
    integer(c_size_t) :: size
    integer(c_int) :: kind = 0
    integer(c_int) :: included = 0
    integer(c_int) :: step = 0
    integer(c_long_long) :: request = 0
  end type c_pset_view

  interface
    function c_pset_member(w, member) result(ierr) bind(c, name="QUO_pset_member")
      import :: c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_long_long), intent(inout) :: member
      integer(c_int) :: ierr
    end function c_pset_member

    function c_pset_names(w, names) result(ierr) bind(c, name="QUO_pset_names")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      type(c_ptr), intent(inout) :: names
      integer(c_int) :: ierr
    end function c_pset_names

    function c_pset_info_of(w, set, info) result(ierr) bind(c, name="QUO_pset_info")
      import :: c_char, c_int, c_pset_info, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      type(c_pset_info), intent(inout) :: info
      integer(c_int) :: ierr
    end function c_pset_info_of

    function c_pset_hint(w, set, key, hint) result(ierr) bind(c, name="QUO_pset_hint")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      character(kind=c_char), intent(in) :: key(*)
      type(c_ptr), intent(inout) :: hint
      integer(c_int) :: ierr
    end function c_pset_hint

    function c_pset_members(w, set, members, number) result(ierr) bind(c, name="QUO_pset_members")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      type(c_ptr), intent(inout) :: members
      integer(c_int), intent(inout) :: number
      integer(c_int) :: ierr
    end function c_pset_members

    function c_pset_operate(w, op, first, second, goal, attributes, set) result(ierr) &
      bind(c, name="QUO_pset_operate")
      import :: c_char, c_int, c_pset_change, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), value :: op
      character(kind=c_char), intent(in) :: first(*)
      character(kind=c_char), intent(in) :: second(*)
      type(c_ptr), value :: goal
      type(c_pset_change), intent(in) :: attributes
      type(c_ptr), intent(inout) :: set
      integer(c_int) :: ierr
    end function c_pset_operate

    function c_pset_update(w, set, attributes) result(ierr) bind(c, name="QUO_pset_update")
      import :: c_char, c_int, c_pset_change, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      type(c_pset_change), intent(in) :: attributes
      integer(c_int) :: ierr
    end function c_pset_update

    function c_pset_split(w, set, sizes, number, below, names) result(ierr) bind(c, name="QUO_pset_split")
      import :: c_char, c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      integer(c_long_long), intent(in) :: sizes(*)
      integer(c_int), value :: number
      character(kind=c_char), intent(in) :: below(*)
      type(c_ptr), intent(inout) :: names
      integer(c_int) :: ierr
    end function c_pset_split

    function c_pset_prune(w, set) result(ierr) bind(c, name="QUO_pset_prune")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      integer(c_int) :: ierr
    end function c_pset_prune

    function c_pset_publish(w, set, key, data, length, version) result(ierr) bind(c, name="QUO_pset_publish")
      import :: c_char, c_int, c_long_long, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      character(kind=c_char), intent(in) :: key(*)
      type(c_ptr), value :: data
      integer(c_size_t), value :: length
      integer(c_long_long), intent(inout) :: version
      integer(c_int) :: ierr
    end function c_pset_publish

    function c_pset_withdraw(w, set, key) result(ierr) bind(c, name="QUO_pset_withdraw")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      character(kind=c_char), intent(in) :: key(*)
      integer(c_int) :: ierr
    end function c_pset_withdraw

    function c_pset_lookup(w, set, key, wait, data, length, version, publisher) result(ierr) &
      bind(c, name="QUO_pset_lookup")
      import :: c_char, c_double, c_int, c_long_long, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      character(kind=c_char), intent(in) :: key(*)
      real(c_double), value :: wait
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: length
      integer(c_long_long), intent(inout) :: version
      integer(c_long_long), intent(inout) :: publisher
      integer(c_int) :: ierr
    end function c_pset_lookup

    function c_pset_query(w, bound, view, delta) result(ierr) bind(c, name="QUO_pset_query")
      import :: c_char, c_int, c_pset_view, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: bound(*)
      type(c_pset_view), intent(inout) :: view
      type(c_ptr), intent(inout) :: delta
      integer(c_int) :: ierr
    end function c_pset_query

    function c_world_accept(w, delta, set, wait, acceptance, told) result(ierr) &
      bind(c, name="QUO_world_accept")
      import :: c_char, c_double, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: delta(*)
      character(kind=c_char), intent(in) :: set(*)
      real(c_double), value :: wait
      integer(c_int), intent(inout) :: acceptance
      type(c_ptr), intent(inout) :: told
      integer(c_int) :: ierr
    end function c_world_accept

    function c_world_confirm(w, wait, set) result(ierr) bind(c, name="QUO_world_confirm")
      import :: c_double, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      real(c_double), value :: wait
      type(c_ptr), intent(inout) :: set
      integer(c_int) :: ierr
    end function c_world_confirm
  end interface

  public :: c_pset_member, c_pset_names, c_pset_info_of, c_pset_hint, c_pset_members, &
    c_pset_operate, c_pset_update, c_pset_split, c_pset_prune, c_pset_publish, &
    c_pset_withdraw, c_pset_lookup, c_pset_query, c_world_accept, c_world_confirm
end module quo_psets_c
