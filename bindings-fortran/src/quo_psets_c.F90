!> Process sets of quo-elastic.h as C has them. For the other modules of this library only; what `quo_c` says holds
!> here.
module quo_psets_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_int, c_long_long, c_null_ptr, c_ptr, c_size_t
  implicit none

  !> `QUO_pset_change_t`
  type, bind(c) :: c_pset_change
    integer(c_size_t) :: size
    integer(c_int) :: active
    type(c_ptr) :: hints = c_null_ptr
  end type c_pset_change

  !> `QUO_pset_info_t`
  type, bind(c) :: c_pset_info
    integer(c_size_t) :: size
    integer(c_int) :: active = 0
    integer(c_int) :: dynamic = 0
    integer(c_int) :: included = 0
    integer(c_long_long) :: members = 0
    integer(c_long_long) :: version = 0
    integer(c_long_long) :: epoch = 0
  end type c_pset_info

  !> `QUO_pset_view_t`
  type, bind(c) :: c_pset_view
    integer(c_size_t) :: size
    integer(c_int) :: kind = 0
    integer(c_int) :: included = 0
    integer(c_int) :: step = 0
    integer(c_long_long) :: request = 0
  end type c_pset_view

  interface
    integer(c_int) function c_pset_member(w, member) bind(c, name="QUO_pset_member")
      import :: c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      integer(c_long_long), intent(inout) :: member
    end function c_pset_member
    integer(c_int) function c_pset_names(w, names) bind(c, name="QUO_pset_names")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      type(c_ptr), intent(inout) :: names
    end function c_pset_names
    integer(c_int) function c_pset_info_of(w, set, info) bind(c, name="QUO_pset_info")
      import :: c_char, c_int, c_pset_info, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      type(c_pset_info), intent(inout) :: info
    end function c_pset_info_of
    integer(c_int) function c_pset_hint(w, set, key, hint) bind(c, name="QUO_pset_hint")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*), key(*)
      type(c_ptr), intent(inout) :: hint
    end function c_pset_hint
    integer(c_int) function c_pset_members(w, set, members, number) bind(c, name="QUO_pset_members")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      type(c_ptr), intent(inout) :: members
      integer(c_int), intent(inout) :: number
    end function c_pset_members
    integer(c_int) function c_pset_operate(w, op, first, second, goal, attributes, set) &
      bind(c, name="QUO_pset_operate")
      import :: c_char, c_int, c_pset_change, c_ptr
      type(c_ptr), value :: w, goal
      integer(c_int), value :: op
      character(kind=c_char), intent(in) :: first(*), second(*)
      type(c_pset_change), intent(in) :: attributes
      type(c_ptr), intent(inout) :: set
    end function c_pset_operate
    integer(c_int) function c_pset_update(w, set, attributes) bind(c, name="QUO_pset_update")
      import :: c_char, c_int, c_pset_change, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
      type(c_pset_change), intent(in) :: attributes
    end function c_pset_update
    integer(c_int) function c_pset_split(w, set, sizes, number, below, names) &
      bind(c, name="QUO_pset_split")
      import :: c_char, c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*), below(*)
      integer(c_long_long), intent(in) :: sizes(*)
      integer(c_int), value :: number
      type(c_ptr), intent(inout) :: names
    end function c_pset_split
    integer(c_int) function c_pset_prune(w, set) bind(c, name="QUO_pset_prune")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*)
    end function c_pset_prune
    integer(c_int) function c_pset_publish(w, set, key, data, length, version) &
      bind(c, name="QUO_pset_publish")
      import :: c_char, c_int, c_long_long, c_ptr, c_size_t
      type(c_ptr), value :: w, data
      character(kind=c_char), intent(in) :: set(*), key(*)
      integer(c_size_t), value :: length
      integer(c_long_long), intent(inout) :: version
    end function c_pset_publish
    integer(c_int) function c_pset_withdraw(w, set, key) bind(c, name="QUO_pset_withdraw")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*), key(*)
    end function c_pset_withdraw
    integer(c_int) function c_pset_lookup(w, set, key, wait, data, length, version, publisher) &
      bind(c, name="QUO_pset_lookup")
      import :: c_char, c_double, c_int, c_long_long, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: set(*), key(*)
      real(c_double), value :: wait
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: length
      integer(c_long_long), intent(inout) :: version, publisher
    end function c_pset_lookup
    integer(c_int) function c_pset_query(w, bound, view, delta) bind(c, name="QUO_pset_query")
      import :: c_char, c_int, c_pset_view, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: bound(*)
      type(c_pset_view), intent(inout) :: view
      type(c_ptr), intent(inout) :: delta
    end function c_pset_query
    integer(c_int) function c_world_accept(w, delta, set, wait, acceptance, told) &
      bind(c, name="QUO_world_accept")
      import :: c_char, c_double, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: delta(*), set(*)
      real(c_double), value :: wait
      integer(c_int), intent(inout) :: acceptance
      type(c_ptr), intent(inout) :: told
    end function c_world_accept
    integer(c_int) function c_world_confirm(w, wait, set) bind(c, name="QUO_world_confirm")
      import :: c_double, c_int, c_ptr
      type(c_ptr), value :: w
      real(c_double), value :: wait
      type(c_ptr), intent(inout) :: set
    end function c_world_confirm
  end interface
end module quo_psets_c
