!> The functions of quo-elastic.h and quo-reshape.h as C has them, and their structures. For the other
!> modules of this library only; what `quo_c` says holds here.
module quo_elastic_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_funptr, c_int, c_long_long, c_null_funptr, c_null_ptr, c_ptr, c_size_t
  implicit none
  private

  !> `QUO_world_options_t`
  type, bind(c), public :: c_world_options
    integer(c_size_t) :: size
    integer(c_int) :: start
    integer(c_int) :: most
    integer(c_int) :: unit
    integer(c_int) :: crowded
    integer(c_int) :: control
    integer(c_int) :: messages
    real(c_double) :: start_limit
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: log = c_null_ptr
    type(c_ptr) :: plan = c_null_ptr
    integer(c_int) :: process_sets
    integer(c_int) :: without_starter
    integer(c_int) :: min
    integer(c_int) :: max
    integer(c_int) :: step
    type(c_ptr) :: sizes = c_null_ptr
    type(c_funptr) :: allows = c_null_funptr
    type(c_ptr) :: allows_data = c_null_ptr
    type(c_ptr) :: hosts = c_null_ptr
    real(c_double) :: reach_limit
    type(c_ptr) :: agent = c_null_ptr
    type(c_ptr) :: command = c_null_ptr
    type(c_ptr) :: info = c_null_ptr
    type(c_ptr) :: control_folder = c_null_ptr
    type(c_ptr) :: slurm = c_null_ptr
    integer(c_int) :: abort_on_death
    real(c_double) :: term_notice
    type(c_ptr) :: notice_folder = c_null_ptr
    type(c_ptr) :: fill = c_null_ptr
  end type c_world_options

  !> `QUO_slurm_options_t`
  type, bind(c), public :: c_slurm_options
    integer(c_size_t) :: size
    real(c_double) :: wait
    real(c_double) :: command_limit
    real(c_double) :: grace
    real(c_double) :: linger
    real(c_double) :: watch
    real(c_double) :: least
    type(c_ptr) :: submit = c_null_ptr
  end type c_slurm_options

  !> `QUO_array_spec_t`
  type, bind(c), public :: c_array_spec
    integer(c_size_t) :: size
    integer(c_int) :: kind
    integer(c_int) :: storage
    integer(c_size_t) :: element
    integer(c_size_t) :: rows
    integer(c_size_t) :: columns
    integer(c_size_t) :: block_rows
    integer(c_size_t) :: block_columns
    integer(c_size_t) :: grid_rows
    integer(c_size_t) :: grid_columns
  end type c_array_spec

  !> `QUO_carry_t`
  type, bind(c), public :: c_carry
    integer(c_size_t) :: size
    type(c_funptr) :: give = c_null_funptr
    type(c_funptr) :: take = c_null_funptr
    type(c_funptr) :: settle = c_null_funptr
    type(c_ptr) :: data = c_null_ptr
  end type c_carry

  !> `QUO_reshape_topology_t`
  type, bind(c), public :: c_reshape_topology
    integer(c_size_t) :: size
    integer(c_int) :: kind
    integer(c_int) :: ndims
    integer(c_int) :: dims(2)
    integer(c_int) :: total
    integer(c_int) :: increment
  end type c_reshape_topology

  interface
    !> Memory of C, for what C frees.
    function c_malloc(bytes) result(block) bind(c, name="malloc")
      import :: c_ptr, c_size_t
      implicit none
      integer(c_size_t), value :: bytes
      type(c_ptr) :: block
    end function c_malloc

    function c_world_create(w, options) result(ierr) bind(c, name="QUO_world_create")
      import :: c_int, c_ptr, c_world_options
      implicit none
      type(c_ptr), intent(inout) :: w
      type(c_world_options), intent(in) :: options
      integer(c_int) :: ierr
    end function c_world_create

    function c_world_end(w) result(ierr) bind(c, name="QUO_world_end")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int) :: ierr
    end function c_world_end

    function c_world_status(w, status) result(ierr) bind(c, name="QUO_world_status")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: status
      integer(c_int) :: ierr
    end function c_world_status

    function c_world_rank(w, rank) result(ierr) bind(c, name="QUO_world_rank")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: rank
      integer(c_int) :: ierr
    end function c_world_rank

    function c_world_size(w, number) result(ierr) bind(c, name="QUO_world_size")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: number
      integer(c_int) :: ierr
    end function c_world_size

    function c_world_capacity(w, most) result(ierr) bind(c, name="QUO_world_capacity")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: most
      integer(c_int) :: ierr
    end function c_world_capacity

    function c_world_was_started(w, started) result(ierr) bind(c, name="QUO_world_was_started")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: started
      integer(c_int) :: ierr
    end function c_world_was_started

    function c_world_epoch(w, epoch) result(ierr) bind(c, name="QUO_world_epoch")
      import :: c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_long_long), intent(inout) :: epoch
      integer(c_int) :: ierr
    end function c_world_epoch

    function c_world_node(w, node) result(ierr) bind(c, name="QUO_world_node")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: node
      integer(c_int) :: ierr
    end function c_world_node

    function c_world_back_end(w, text) result(ierr) bind(c, name="QUO_world_back_end")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      type(c_ptr), intent(inout) :: text
      integer(c_int) :: ierr
    end function c_world_back_end

    function c_world_comm(w, comm) result(ierr) bind(c, name="QUO_world_comm_f2c")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: comm
      integer(c_int) :: ierr
    end function c_world_comm

    function c_world_probe(w, enters) result(ierr) bind(c, name="QUO_world_probe")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: enters
      integer(c_int) :: ierr
    end function c_world_probe

    function c_world_wait(w, joins) result(ierr) bind(c, name="QUO_world_wait")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: joins
      integer(c_int) :: ierr
    end function c_world_wait

    function c_world_report_iteration(w, number) result(ierr) &
      bind(c, name="QUO_world_report_iteration")
      import :: c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_long_long), value :: number
      integer(c_int) :: ierr
    end function c_world_report_iteration

    function c_world_request(w, number, request) result(ierr) bind(c, name="QUO_world_request")
      import :: c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), value :: number
      integer(c_long_long), intent(inout) :: request
      integer(c_int) :: ierr
    end function c_world_request

    function c_world_request_state(w, request, state, cause) result(ierr) &
      bind(c, name="QUO_world_request_state")
      import :: c_int, c_long_long, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_long_long), value :: request
      integer(c_int), intent(inout) :: state
      type(c_ptr), intent(inout) :: cause
      integer(c_int) :: ierr
    end function c_world_request_state

    function c_world_begin(w) result(ierr) bind(c, name="QUO_world_begin")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int) :: ierr
    end function c_world_begin

    function c_window_comm(w, which, comm) result(ierr) bind(c, name="QUO_window_comm_f2c")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), value :: which
      integer(c_int), intent(inout) :: comm
      integer(c_int) :: ierr
    end function c_window_comm

    function c_window_counts(w, stay, leave, join) result(ierr) bind(c, name="QUO_window_counts")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: stay
      integer(c_int), intent(inout) :: leave
      integer(c_int), intent(inout) :: join
      integer(c_int) :: ierr
    end function c_window_counts

    function c_window_tell(w, data, length) result(ierr) bind(c, name="QUO_window_tell")
      import :: c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: w
      type(c_ptr), value :: data
      integer(c_size_t), value :: length
      integer(c_int) :: ierr
    end function c_window_tell

    function c_window_move(w) result(ierr) bind(c, name="QUO_window_move")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int) :: ierr
    end function c_window_move

    function c_window_move_begin(w) result(ierr) bind(c, name="QUO_window_move_begin")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int) :: ierr
    end function c_window_move_begin

    function c_window_move_test(w, done) result(ierr) bind(c, name="QUO_window_move_test")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: done
      integer(c_int) :: ierr
    end function c_window_move_test

    function c_window_move_end(w) result(ierr) bind(c, name="QUO_window_move_end")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int) :: ierr
    end function c_window_move_end

    function c_world_commit(w) result(ierr) bind(c, name="QUO_world_commit")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      integer(c_int) :: ierr
    end function c_world_commit

    function c_world_abort(w, reason) result(ierr) bind(c, name="QUO_world_abort")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: reason(*)
      integer(c_int) :: ierr
    end function c_world_abort

    function c_world_array_add(w, name, spec) result(ierr) bind(c, name="QUO_world_array_add")
      import :: c_char, c_int, c_ptr, c_array_spec
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_array_spec), intent(in) :: spec
      integer(c_int) :: ierr
    end function c_world_array_add

    function c_world_array(w, name, data, rows, columns) result(ierr) &
      bind(c, name="QUO_world_array")
      import :: c_char, c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: rows
      integer(c_size_t), intent(inout) :: columns
      integer(c_int) :: ierr
    end function c_world_array

    function c_world_array_origin(w, name, offset, row, column) result(ierr) &
      bind(c, name="QUO_world_array_origin")
      import :: c_char, c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: offset
      integer(c_size_t), intent(inout) :: row
      integer(c_size_t), intent(inout) :: column
      integer(c_int) :: ierr
    end function c_world_array_origin

    function c_world_array_lay_out(w, name, spec) result(ierr) &
      bind(c, name="QUO_world_array_lay_out")
      import :: c_char, c_int, c_ptr, c_array_spec
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_array_spec), intent(in) :: spec
      integer(c_int) :: ierr
    end function c_world_array_lay_out

    function c_world_array_add_compressed(w, name, element, lines, pointers) result(ierr) &
      bind(c, name="QUO_world_array_add_compressed")
      import :: c_char, c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: element
      integer(c_size_t), value :: lines
      integer(c_size_t), intent(in) :: pointers(*)
      integer(c_int) :: ierr
    end function c_world_array_add_compressed

    function c_world_array_lines(w, name, first, lines, pointers) result(ierr) &
      bind(c, name="QUO_world_array_lines")
      import :: c_char, c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(out) :: first
      integer(c_size_t), intent(out) :: lines
      type(c_ptr), intent(out) :: pointers
      integer(c_int) :: ierr
    end function c_world_array_lines

    function c_world_array_remove(w, name) result(ierr) bind(c, name="QUO_world_array_remove")
      import :: c_char, c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_int) :: ierr
    end function c_world_array_remove

    function c_world_carry(w, name, callbacks) result(ierr) bind(c, name="QUO_world_carry")
      import :: c_char, c_int, c_ptr, c_carry
      implicit none
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_carry), intent(in) :: callbacks
      integer(c_int) :: ierr
    end function c_world_carry

    function c_carry_give(new_rank, data, length) result(ierr) bind(c, name="QUO_carry_give")
      import :: c_int, c_ptr, c_size_t
      implicit none
      integer(c_int), value :: new_rank
      type(c_ptr), value :: data
      integer(c_size_t), value :: length
      integer(c_int) :: ierr
    end function c_carry_give

    function c_world_last_move(w, metrics) result(ierr) bind(c, name="QUO_world_last_move")
      import :: c_int, c_ptr
      implicit none
      type(c_ptr), value :: w
      type(c_ptr), value :: metrics
      integer(c_int) :: ierr
    end function c_world_last_move

    function c_reshape_init_with(topology, options, decide, data) result(ierr) &
      bind(c, name="QUO_reshape_init_with")
      import :: c_funptr, c_int, c_ptr, c_world_options, c_reshape_topology
      implicit none
      type(c_reshape_topology), intent(in) :: topology
      type(c_world_options), intent(in) :: options
      type(c_funptr), value :: decide
      type(c_ptr), value :: data
      integer(c_int) :: ierr
    end function c_reshape_init_with

    function c_reshape_accept(valid, data) result(ierr) bind(c, name="QUO_reshape_accept")
      import :: c_funptr, c_int, c_ptr
      implicit none
      type(c_funptr), value :: valid
      type(c_ptr), value :: data
      integer(c_int) :: ierr
    end function c_reshape_accept

    function c_reshape_exit() result(ierr) bind(c, name="QUO_reshape_exit")
      import :: c_int
      implicit none
      integer(c_int) :: ierr
    end function c_reshape_exit

    function c_reshape_contact(seconds, iteration, decision) result(ierr) &
      bind(c, name="QUO_reshape_contact")
      import :: c_double, c_int
      implicit none
      real(c_double), value :: seconds
      integer(c_int), value :: iteration
      integer(c_int), intent(inout) :: decision
      integer(c_int) :: ierr
    end function c_reshape_contact

    function c_reshape_resize(decision) result(ierr) bind(c, name="QUO_reshape_resize")
      import :: c_int
      implicit none
      integer(c_int), value :: decision
      integer(c_int) :: ierr
    end function c_reshape_resize

    function c_reshape_seat(seat) result(ierr) bind(c, name="QUO_reshape_seat")
      import :: c_int
      implicit none
      integer(c_int), intent(inout) :: seat
      integer(c_int) :: ierr
    end function c_reshape_seat

    function c_reshape_decision(decision) result(ierr) bind(c, name="QUO_reshape_decision")
      import :: c_int
      implicit none
      integer(c_int), intent(inout) :: decision
      integer(c_int) :: ierr
    end function c_reshape_decision

    function c_reshape_iteration(iteration) result(ierr) bind(c, name="QUO_reshape_iteration")
      import :: c_int
      implicit none
      integer(c_int), intent(inout) :: iteration
      integer(c_int) :: ierr
    end function c_reshape_iteration

    function c_reshape_old_dimensions(rows, columns) result(ierr) &
      bind(c, name="QUO_reshape_old_dimensions")
      import :: c_int
      implicit none
      integer(c_int), intent(inout) :: rows
      integer(c_int), intent(inout) :: columns
      integer(c_int) :: ierr
    end function c_reshape_old_dimensions

    function c_reshape_new_dimensions(rows, columns) result(ierr) &
      bind(c, name="QUO_reshape_new_dimensions")
      import :: c_int
      implicit none
      integer(c_int), intent(inout) :: rows
      integer(c_int), intent(inout) :: columns
      integer(c_int) :: ierr
    end function c_reshape_new_dimensions

    function c_reshape_rearrange(rows, columns) result(ierr) bind(c, name="QUO_reshape_rearrange")
      import :: c_int
      implicit none
      integer(c_int), value :: rows
      integer(c_int), value :: columns
      integer(c_int) :: ierr
    end function c_reshape_rearrange

    function c_reshape_world(comm) result(ierr) bind(c, name="QUO_reshape_world_f2c")
      import :: c_int
      implicit none
      integer(c_int), intent(inout) :: comm
      integer(c_int) :: ierr
    end function c_reshape_world

    function c_reshape_redistribute_1d(data, number, element, length, block) result(ierr) &
      bind(c, name="QUO_reshape_redistribute_1d")
      import :: c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: number
      integer(c_size_t), value :: element
      integer(c_size_t), value :: length
      integer(c_size_t), value :: block
      integer(c_int) :: ierr
    end function c_reshape_redistribute_1d

    function c_reshape_redistribute_uniform_block(data, number, element, length) result(ierr) &
      bind(c, name="QUO_reshape_redistribute_uniform_block")
      import :: c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: number
      integer(c_size_t), value :: element
      integer(c_size_t), value :: length
      integer(c_int) :: ierr
    end function c_reshape_redistribute_uniform_block

    function c_reshape_redistribute_2d(data, number, element, rows, columns, block, storage) result(ierr) &
      bind(c, name="QUO_reshape_redistribute_2d")
      import :: c_int, c_ptr, c_size_t
      implicit none
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: number
      integer(c_size_t), value :: element
      integer(c_size_t), value :: rows
      integer(c_size_t), value :: columns
      integer(c_size_t), value :: block
      integer(c_int), value :: storage
      integer(c_int) :: ierr
    end function c_reshape_redistribute_2d
  end interface

  public :: c_malloc
  public :: c_world_create, c_world_end, c_world_status, c_world_rank, c_world_size, &
    c_world_capacity, c_world_was_started, c_world_epoch, c_world_back_end, c_world_comm, &
    c_world_probe, c_world_wait, c_world_report_iteration, c_world_request, &
    c_world_request_state, c_world_begin, c_window_comm, c_window_counts, c_window_tell, &
    c_world_node, c_window_move_begin, c_window_move_test, c_window_move_end, &
    c_window_move, c_world_commit, c_world_abort, c_world_array_add, c_world_array, &
    c_world_array_origin, c_world_array_lay_out, c_world_array_remove, c_world_carry, &
    c_world_array_add_compressed, c_world_array_lines, &
    c_carry_give, c_world_last_move, c_reshape_init_with, c_reshape_accept, c_reshape_exit, &
    c_reshape_contact, c_reshape_resize, c_reshape_seat, c_reshape_decision, &
    c_reshape_iteration, c_reshape_old_dimensions, c_reshape_new_dimensions, &
    c_reshape_rearrange, c_reshape_world, c_reshape_redistribute_1d, &
    c_reshape_redistribute_uniform_block, c_reshape_redistribute_2d
end module quo_elastic_c
