!> The functions of quo-elastic.h and quo-reshape.h as C has them, and their structures. For the other
!> modules of this library only; what `quo_c` says holds here.
module quo_elastic_c
  use, intrinsic :: iso_c_binding, only: &
    c_char, c_double, c_funptr, c_int, c_long_long, c_null_funptr, c_null_ptr, c_ptr, c_size_t
  implicit none

  !> `QUO_world_options_t`
  type, bind(c) :: c_world_options
    integer(c_size_t) :: size
    integer(c_int) :: initial_ranks, max_ranks, processes_per_spawn, allow_oversubscribe
    integer(c_int) :: control, messages
    real(c_double) :: start_timeout
    type(c_ptr) :: name = c_null_ptr
    type(c_ptr) :: log = c_null_ptr
    type(c_ptr) :: plan = c_null_ptr
    integer(c_int) :: process_sets, no_spawn_helper, min_size, max_size, step
    type(c_ptr) :: allowed_sizes = c_null_ptr
    type(c_funptr) :: allows = c_null_funptr
    type(c_ptr) :: allows_data = c_null_ptr
    type(c_ptr) :: hosts = c_null_ptr
    real(c_double) :: connect_timeout
    type(c_ptr) :: remote_shell = c_null_ptr
    type(c_ptr) :: spawn_command = c_null_ptr
    type(c_ptr) :: spawn_info = c_null_ptr
    type(c_ptr) :: control_folder = c_null_ptr
    type(c_ptr) :: slurm = c_null_ptr
    integer(c_int) :: abort_on_death
    real(c_double) :: term_notice
    type(c_ptr) :: notice_folder = c_null_ptr
    type(c_ptr) :: placement = c_null_ptr
  end type c_world_options

  !> `QUO_slurm_options_t`
  type, bind(c) :: c_slurm_options
    integer(c_size_t) :: size
    real(c_double) :: wait, command_limit, grace, linger, watch, least
    type(c_ptr) :: submit = c_null_ptr
  end type c_slurm_options

  !> `QUO_array_spec_t`
  type, bind(c) :: c_array_spec
    integer(c_size_t) :: size
    integer(c_int) :: kind, storage
    integer(c_size_t) :: element, rows, columns, block_rows, block_columns, grid_rows
    integer(c_size_t) :: grid_columns, layers, grid_layers
    integer(c_size_t) :: halo_layers(3), halo_rows(3), halo_columns(3)
  end type c_array_spec

  !> `QUO_carry_t`
  type, bind(c) :: c_carry
    integer(c_size_t) :: size
    type(c_funptr) :: give = c_null_funptr
    type(c_funptr) :: take = c_null_funptr
    type(c_funptr) :: end_transfer = c_null_funptr
    type(c_ptr) :: data = c_null_ptr
  end type c_carry

  !> `QUO_reshape_topology_t`
  type, bind(c) :: c_reshape_topology
    integer(c_size_t) :: size
    integer(c_int) :: kind, ndims
    integer(c_int) :: dims(2)
    integer(c_int) :: total, increment
  end type c_reshape_topology

  interface
    !> Memory of C, for what C frees.
    type(c_ptr) function c_malloc(bytes) bind(c, name="malloc")
      import :: c_ptr, c_size_t
      integer(c_size_t), value :: bytes
    end function c_malloc
    integer(c_int) function c_world_create(w, options) bind(c, name="QUO_world_create")
      import :: c_int, c_ptr, c_world_options
      type(c_ptr), intent(inout) :: w
      type(c_world_options), intent(in) :: options
    end function c_world_create
    integer(c_int) function c_world_end(w) bind(c, name="QUO_world_end")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
    end function c_world_end
    integer(c_int) function c_world_status(w, status) bind(c, name="QUO_world_status")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: status
    end function c_world_status
    integer(c_int) function c_world_rank(w, rank) bind(c, name="QUO_world_rank")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: rank
    end function c_world_rank
    integer(c_int) function c_world_size(w, number) bind(c, name="QUO_world_size")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: number
    end function c_world_size
    integer(c_int) function c_world_capacity(w, most) bind(c, name="QUO_world_capacity")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: most
    end function c_world_capacity
    integer(c_int) function c_world_was_started(w, started) bind(c, name="QUO_world_was_started")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: started
    end function c_world_was_started
    integer(c_int) function c_world_epoch(w, epoch) bind(c, name="QUO_world_epoch")
      import :: c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      integer(c_long_long), intent(inout) :: epoch
    end function c_world_epoch
    integer(c_int) function c_world_node(w, node) bind(c, name="QUO_world_node")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: node
    end function c_world_node
    integer(c_int) function c_world_back_end(w, text) bind(c, name="QUO_world_back_end")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      type(c_ptr), intent(inout) :: text
    end function c_world_back_end
    integer(c_int) function c_world_comm(w, comm) bind(c, name="QUO_world_comm_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: comm
    end function c_world_comm
    integer(c_int) function c_world_probe(w, enters) bind(c, name="QUO_world_probe")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: enters
    end function c_world_probe
    integer(c_int) function c_world_wait(w, joins) bind(c, name="QUO_world_wait")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: joins
    end function c_world_wait
    integer(c_int) function c_world_report_iteration(w, number) &
      bind(c, name="QUO_world_report_iteration")
      import :: c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      integer(c_long_long), value :: number
    end function c_world_report_iteration
    integer(c_int) function c_world_request(w, number, request) bind(c, name="QUO_world_request")
      import :: c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      integer(c_int), value :: number
      integer(c_long_long), intent(inout) :: request
    end function c_world_request
    integer(c_int) function c_world_request_state(w, request, state, cause) &
      bind(c, name="QUO_world_request_state")
      import :: c_int, c_long_long, c_ptr
      type(c_ptr), value :: w
      integer(c_long_long), value :: request
      integer(c_int), intent(inout) :: state
      type(c_ptr), intent(inout) :: cause
    end function c_world_request_state
    integer(c_int) function c_world_begin(w) bind(c, name="QUO_world_begin")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
    end function c_world_begin
    integer(c_int) function c_window_comm(w, which, comm) bind(c, name="QUO_window_comm_f2c")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), value :: which
      integer(c_int), intent(inout) :: comm
    end function c_window_comm
    integer(c_int) function c_window_counts(w, stay, leave, join) bind(c, name="QUO_window_counts")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: stay, leave, join
    end function c_window_counts
    integer(c_int) function c_window_broadcast(w, data, length) bind(c, name="QUO_window_broadcast")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), value :: w, data
      integer(c_size_t), value :: length
    end function c_window_broadcast
    integer(c_int) function c_window_move_data(w) bind(c, name="QUO_window_move_data")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
    end function c_window_move_data
    integer(c_int) function c_window_move_begin(w) bind(c, name="QUO_window_move_begin")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
    end function c_window_move_begin
    integer(c_int) function c_window_move_test(w, done) bind(c, name="QUO_window_move_test")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
      integer(c_int), intent(inout) :: done
    end function c_window_move_test
    integer(c_int) function c_window_move_end(w) bind(c, name="QUO_window_move_end")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
    end function c_window_move_end
    integer(c_int) function c_world_commit(w) bind(c, name="QUO_world_commit")
      import :: c_int, c_ptr
      type(c_ptr), value :: w
    end function c_world_commit
    integer(c_int) function c_world_abort(w, reason) bind(c, name="QUO_world_abort")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: reason(*)
    end function c_world_abort
    integer(c_int) function c_world_array_add(w, name, spec) bind(c, name="QUO_world_array_add")
      import :: c_array_spec, c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_array_spec), intent(in) :: spec
    end function c_world_array_add
    integer(c_int) function c_world_array(w, name, data, rows, columns) &
      bind(c, name="QUO_world_array")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: rows, columns
    end function c_world_array
    integer(c_int) function c_world_array_part(w, name, part) bind(c, name="QUO_world_array_part")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w, part
      character(kind=c_char), intent(in) :: name(*)
    end function c_world_array_part
    integer(c_int) function c_world_exchange_halo(w, name) bind(c, name="QUO_world_exchange_halo")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
    end function c_world_exchange_halo
    integer(c_int) function c_world_exchange_halo_begin(w, name) &
      bind(c, name="QUO_world_exchange_halo_begin")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
    end function c_world_exchange_halo_begin
    integer(c_int) function c_world_exchange_halo_end(w, name) &
      bind(c, name="QUO_world_exchange_halo_end")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
    end function c_world_exchange_halo_end
    integer(c_int) function c_world_array_swap(w, name, other) bind(c, name="QUO_world_array_swap")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*), other(*)
    end function c_world_array_swap
    integer(c_int) function c_world_run(w, step, data, state, length) bind(c, name="QUO_world_run")
      import :: c_funptr, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w, data, state
      type(c_funptr), value :: step
      integer(c_size_t), value :: length
    end function c_world_run
    integer(c_int) function c_world_array_origin(w, name, offset, row, column) &
      bind(c, name="QUO_world_array_origin")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: offset
      integer(c_size_t), intent(inout) :: row, column
    end function c_world_array_origin
    integer(c_int) function c_world_array_lay_out(w, name, spec) &
      bind(c, name="QUO_world_array_lay_out")
      import :: c_array_spec, c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_array_spec), intent(in) :: spec
    end function c_world_array_lay_out
    integer(c_int) function c_world_array_add_compressed(w, name, element, lines, pointers) &
      bind(c, name="QUO_world_array_add_compressed")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: element, lines
      integer(c_size_t), intent(in) :: pointers(*)
    end function c_world_array_add_compressed
    integer(c_int) function c_world_array_lines(w, name, first, lines, pointers) &
      bind(c, name="QUO_world_array_lines")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), intent(out) :: first, lines
      type(c_ptr), intent(out) :: pointers
    end function c_world_array_lines
    integer(c_int) function c_world_matrix_add(w, name, element, rows, own_rows, pointers, columns, &
      values) bind(c, name="QUO_world_matrix_add")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w, values
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: element, rows, own_rows
      integer(c_size_t), intent(in) :: pointers(*), columns(*)
    end function c_world_matrix_add
    integer(c_int) function c_world_vector_add(w, name, element, matrix) &
      bind(c, name="QUO_world_vector_add")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*), matrix(*)
      integer(c_size_t), value :: element
    end function c_world_vector_add
    integer(c_int) function c_world_matrix(w, name, part) bind(c, name="QUO_world_matrix")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w, part
      character(kind=c_char), intent(in) :: name(*)
    end function c_world_matrix
    integer(c_int) function c_world_items_add(w, name, element, owner, data) &
      bind(c, name="QUO_world_items_add")
      import :: c_char, c_funptr, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: element
      type(c_funptr), value :: owner
    end function c_world_items_add
    integer(c_int) function c_world_items_add_with_owners(w, name, element, owners, data) &
      bind(c, name="QUO_world_items_add_with_owners")
      import :: c_char, c_funptr, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w, data
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: element
      type(c_funptr), value :: owners
    end function c_world_items_add_with_owners
    integer(c_int) function c_world_items(w, name, items, count) bind(c, name="QUO_world_items")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_ptr), intent(inout) :: items
      integer(c_size_t), intent(inout) :: count
    end function c_world_items
    integer(c_int) function c_world_items_resize(w, name, count) &
      bind(c, name="QUO_world_items_resize")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      integer(c_size_t), value :: count
    end function c_world_items_resize
    integer(c_int) function c_world_migrate(w, name) bind(c, name="QUO_world_migrate")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
    end function c_world_migrate
    integer(c_int) function c_world_checkpoint(w, folder, state, length) &
      bind(c, name="QUO_world_checkpoint")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w, state
      character(kind=c_char), intent(in) :: folder(*)
      integer(c_size_t), value :: length
    end function c_world_checkpoint
    integer(c_int) function c_world_restore(w, folder, state, length, restored) &
      bind(c, name="QUO_world_restore")
      import :: c_char, c_int, c_ptr, c_size_t
      type(c_ptr), value :: w, state
      character(kind=c_char), intent(in) :: folder(*)
      integer(c_size_t), value :: length
      integer(c_int), intent(inout) :: restored
    end function c_world_restore
    integer(c_int) function c_world_array_remove(w, name) bind(c, name="QUO_world_array_remove")
      import :: c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
    end function c_world_array_remove
    integer(c_int) function c_world_carry(w, name, callbacks) bind(c, name="QUO_world_carry")
      import :: c_carry, c_char, c_int, c_ptr
      type(c_ptr), value :: w
      character(kind=c_char), intent(in) :: name(*)
      type(c_carry), intent(in) :: callbacks
    end function c_world_carry
    integer(c_int) function c_carry_give(new_rank, data, length) bind(c, name="QUO_carry_give")
      import :: c_int, c_ptr, c_size_t
      integer(c_int), value :: new_rank
      type(c_ptr), value :: data
      integer(c_size_t), value :: length
    end function c_carry_give
    integer(c_int) function c_world_last_move(w, metrics) bind(c, name="QUO_world_last_move")
      import :: c_int, c_ptr
      type(c_ptr), value :: w, metrics
    end function c_world_last_move
    integer(c_int) function c_reshape_init_with(topology, options, decide, data) &
      bind(c, name="QUO_reshape_init_with")
      import :: c_funptr, c_int, c_ptr, c_reshape_topology, c_world_options
      type(c_reshape_topology), intent(in) :: topology
      type(c_world_options), intent(in) :: options
      type(c_funptr), value :: decide
      type(c_ptr), value :: data
    end function c_reshape_init_with
    integer(c_int) function c_reshape_accept(valid, data) bind(c, name="QUO_reshape_accept")
      import :: c_funptr, c_int, c_ptr
      type(c_funptr), value :: valid
      type(c_ptr), value :: data
    end function c_reshape_accept
    integer(c_int) function c_reshape_exit() bind(c, name="QUO_reshape_exit")
      import :: c_int
    end function c_reshape_exit
    integer(c_int) function c_reshape_contact(seconds, iteration, decision) &
      bind(c, name="QUO_reshape_contact")
      import :: c_double, c_int
      real(c_double), value :: seconds
      integer(c_int), value :: iteration
      integer(c_int), intent(inout) :: decision
    end function c_reshape_contact
    integer(c_int) function c_reshape_resize(decision) bind(c, name="QUO_reshape_resize")
      import :: c_int
      integer(c_int), value :: decision
    end function c_reshape_resize
    integer(c_int) function c_reshape_seat(seat) bind(c, name="QUO_reshape_seat")
      import :: c_int
      integer(c_int), intent(inout) :: seat
    end function c_reshape_seat
    integer(c_int) function c_reshape_decision(decision) bind(c, name="QUO_reshape_decision")
      import :: c_int
      integer(c_int), intent(inout) :: decision
    end function c_reshape_decision
    integer(c_int) function c_reshape_iteration(iteration) bind(c, name="QUO_reshape_iteration")
      import :: c_int
      integer(c_int), intent(inout) :: iteration
    end function c_reshape_iteration
    integer(c_int) function c_reshape_old_dimensions(rows, columns) &
      bind(c, name="QUO_reshape_old_dimensions")
      import :: c_int
      integer(c_int), intent(inout) :: rows, columns
    end function c_reshape_old_dimensions
    integer(c_int) function c_reshape_new_dimensions(rows, columns) &
      bind(c, name="QUO_reshape_new_dimensions")
      import :: c_int
      integer(c_int), intent(inout) :: rows, columns
    end function c_reshape_new_dimensions
    integer(c_int) function c_reshape_rearrange(rows, columns) bind(c, name="QUO_reshape_rearrange")
      import :: c_int
      integer(c_int), value :: rows, columns
    end function c_reshape_rearrange
    integer(c_int) function c_reshape_world(comm) bind(c, name="QUO_reshape_world_f2c")
      import :: c_int
      integer(c_int), intent(inout) :: comm
    end function c_reshape_world
    integer(c_int) function c_reshape_redistribute_1d(data, number, element, length, block) &
      bind(c, name="QUO_reshape_redistribute_1d")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: number
      integer(c_size_t), value :: element, length, block
    end function c_reshape_redistribute_1d
    integer(c_int) function c_reshape_redistribute_uniform_block(data, number, element, length) &
      bind(c, name="QUO_reshape_redistribute_uniform_block")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: number
      integer(c_size_t), value :: element, length
    end function c_reshape_redistribute_uniform_block
    integer(c_int) function c_reshape_redistribute_2d(data, number, element, rows, columns, block, &
      storage) bind(c, name="QUO_reshape_redistribute_2d")
      import :: c_int, c_ptr, c_size_t
      type(c_ptr), intent(inout) :: data
      integer(c_size_t), intent(inout) :: number
      integer(c_size_t), value :: element, rows, columns, block
      integer(c_int), value :: storage
    end function c_reshape_redistribute_2d
  end interface
end module quo_elastic_c
