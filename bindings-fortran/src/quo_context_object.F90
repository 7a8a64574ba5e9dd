!> Contexts as objects.
!>
!> The methods have the names of the procedures without `quo_`, the same arguments, and `ierr` last.
!> Questions are functions, and `ierr` is optional there: what comes back after a failure says so,
!> and `quo_last_error()` says why.
module quo_context_object
  use, intrinsic :: iso_c_binding, only: c_char, c_double, c_int, c_ptr
#ifndef QUO_NO_MPI_F08
  use mpi_f08, only: MPI_Comm
#endif
  use quo_bindings, only: quo_bind_pop, quo_bind_push, quo_bind_push_cpuset
  use quo_contexts, only: quo_create_with_options
  use quo_machine, only: quo_cpuset_of_type, quo_ncores, quo_nnodes, quo_nnumanodes, &
    quo_nobjs_by_type, quo_nobjs_in_type_by_type, quo_npus, quo_nsockets
  use quo_devices, only: quo_assign_device, quo_device, quo_device_in_type, quo_device_is_near, &
    quo_ndevices, quo_visible_devices
  use quo_lending, only: quo_borrow, quo_borrow_wanted, quo_give_back, quo_lend, quo_lenders, &
    quo_reclaim
  use quo_members, only: quo_attach, quo_dead_qids, quo_detach, quo_expel
  use quo_ownership, only: A_CONTEXT, free, held, kept, let_go, own, refer, share
  use quo_ranks, only: quo_bound, quo_cpuset_in_type, quo_explain, quo_id, quo_nqids, &
    quo_qids_in_type, quo_stringify_cbind, quo_stringify_cbind_of
  use quo_scopes, only: quo_split_by_count, quo_split_by_weight
  use quo_together, only: quo_auto_distrib, quo_auto_distrib_with_policy, quo_barrier, &
    quo_barrier_timed, quo_get_mpi_comm_by_type
  use quo_types, only: quo_create_options_t
  implicit none
  private

  !> A context. `call context%create(comm, ierr)` makes one, `call context%free(ierr)` frees it.
  !>
  !> A context that was not freed is freed when the last variable that owns it is finalised: the one
  !> it was created in, and those it was assigned to. That is local unless a trace is written, so a
  !> rank that leaves a procedure early does not hang; but variables of the main program and of
  !> modules are never finalised, and after MPI_Finalize nothing is freed any more. Call `free` to
  !> have it on record, and to see errors. Assigning never makes a second context.
  type, public :: quo_context
    private
    type(held) :: held
  contains
    generic :: create => create_integer, create_integer_options
#ifndef QUO_NO_MPI_F08
    generic :: create => create_f08, create_f08_options
    procedure, private :: create_f08 => context_create_f08
    procedure, private :: create_f08_options => context_create_f08_options
#endif
    procedure, private :: create_integer => context_create
    procedure, private :: create_integer_options => context_create_options
    procedure :: free => context_free
    procedure :: split_by_weight => context_split_by_weight
    procedure :: split_by_count => context_split_by_count
    procedure :: handle => context_handle
    procedure :: nobjs_by_type => context_nobjs_by_type
    procedure :: nobjs_in_type_by_type => context_nobjs_in_type_by_type
    procedure :: cpuset_of_type => context_cpuset_of_type
    procedure :: nnumanodes => context_nnumanodes
    procedure :: nsockets => context_nsockets
    procedure :: ncores => context_ncores
    procedure :: npus => context_npus
    procedure :: nnodes => context_nnodes
    procedure :: nqids => context_nqids
    procedure :: id => context_id
    procedure :: cpuset_in_type => context_cpuset_in_type
    procedure :: qids_in_type => context_qids_in_type
    procedure :: bound => context_bound
    procedure :: stringify_cbind => context_stringify_cbind
    procedure :: stringify_cbind_of => context_stringify_cbind_of
    procedure :: explain => context_explain
    procedure :: dead_qids => context_dead_qids
    procedure :: bind_push => context_bind_push
    procedure :: bind_push_cpuset => context_bind_push_cpuset
    procedure :: bind_pop => context_bind_pop
    procedure :: barrier => context_barrier
    procedure :: barrier_timed => context_barrier_timed
    procedure :: auto_distrib => context_auto_distrib
    procedure :: auto_distrib_with_policy => context_auto_distrib_with_policy
    procedure :: ndevices => context_ndevices
    procedure :: device => context_device
    procedure :: device_is_near => context_device_is_near
    procedure :: device_in_type => context_device_in_type
    procedure :: assign_device => context_assign_device
    procedure :: visible_devices => context_visible_devices
    procedure :: lend => context_lend
    procedure :: reclaim => context_reclaim
    procedure :: borrow => context_borrow
    procedure :: borrow_wanted => context_borrow_wanted
    procedure :: lenders => context_lenders
    procedure :: give_back => context_give_back
    procedure :: detach => context_detach
    procedure :: attach => context_attach
    procedure :: expel => context_expel
    generic :: get_mpi_comm_by_type => get_integer
#ifndef QUO_NO_MPI_F08
    generic :: get_mpi_comm_by_type => get_f08
    procedure, private :: get_f08 => context_get_f08
#endif
    procedure, private :: get_integer => context_get_integer
    generic :: assignment(=) => assign
    procedure, private :: assign => context_assign
    final :: context_finalise
  end type quo_context

  !> `context = quo_context(comm, ierr)` makes a context that the left side owns.
  !> `context = quo_context(handle)` stands for a context that somebody else frees.
  interface quo_context
    module procedure new_integer
    module procedure new_from_handle
#ifndef QUO_NO_MPI_F08
    module procedure new_f08
#endif
  end interface quo_context

contains

  !> Makes a context over a communicator of mpif.h or `use mpi`. What the object stood for before is
  !> let go. Collective over the communicator.
  subroutine context_create(self, comm, ierr)
    class(quo_context), target, intent(inout) :: self
    !> An intracommunicator.
    integer, intent(in) :: comm
    !> As for [[quo_create]].
    integer(c_int), intent(out) :: ierr
    call self%create(comm, quo_create_options_t(), ierr)
  end subroutine context_create

  !> As above, with options.
  subroutine context_create_options(self, comm, options, ierr)
    class(quo_context), target, intent(inout) :: self
    !> An intracommunicator.
    integer, intent(in) :: comm
    !> The same on every rank.
    type(quo_create_options_t), intent(in) :: options
    !> As for [[quo_create_with_options]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: q
    call let_go(self%held, A_CONTEXT)
    call quo_create_with_options(q, comm, options, ierr)
    call own(self%held, q)
  end subroutine context_create_options

  function new_integer(comm, ierr) result(new)
    integer, intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    type(quo_context) :: new
    type(c_ptr) :: q
    call quo_create_with_options(q, comm, quo_create_options_t(), ierr)
    call refer(new%held, q, in_transit=.true.)
  end function new_integer

  function new_from_handle(handle) result(new)
    type(c_ptr), intent(in) :: handle
    type(quo_context) :: new
    call refer(new%held, handle, in_transit=.false.)
  end function new_from_handle

#ifndef QUO_NO_MPI_F08
  subroutine context_create_f08(self, comm, ierr)
    class(quo_context), target, intent(inout) :: self
    type(MPI_Comm), intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    call self%create(comm%MPI_VAL, ierr)
  end subroutine context_create_f08

  subroutine context_create_f08_options(self, comm, options, ierr)
    class(quo_context), target, intent(inout) :: self
    type(MPI_Comm), intent(in) :: comm
    type(quo_create_options_t), intent(in) :: options
    integer(c_int), intent(out) :: ierr
    call self%create(comm%MPI_VAL, options, ierr)
  end subroutine context_create_f08_options

  function new_f08(comm, ierr) result(new)
    type(MPI_Comm), intent(in) :: comm
    integer(c_int), intent(out) :: ierr
    type(quo_context) :: new
    type(c_ptr) :: q
    call quo_create_with_options(q, comm%MPI_VAL, quo_create_options_t(), ierr)
    call refer(new%held, q, in_transit=.true.)
  end function new_f08

  subroutine context_get_f08(self, target_type, comm, ierr)
    class(quo_context), intent(in) :: self
    integer(c_int), intent(in) :: target_type
    type(MPI_Comm), intent(out) :: comm
    integer(c_int), intent(out) :: ierr
    call self%get_mpi_comm_by_type(target_type, comm%MPI_VAL, ierr)
  end subroutine context_get_f08
#endif

  !> Makes a communicator of the ranks of the node that share an object with the caller. Collective
  !> over the context.
  subroutine context_get_integer(self, target_type, comm, ierr)
    class(quo_context), intent(in) :: self
    !> Type of object; the same on every rank.
    integer(c_int), intent(in) :: target_type
    !> A new communicator, to be freed with MPI_Comm_free; undefined after a failure.
    integer, intent(out) :: comm
    !> As for [[quo_get_mpi_comm_by_type]].
    integer(c_int), intent(out) :: ierr
    call quo_get_mpi_comm_by_type(self%handle(), target_type, comm, ierr)
  end subroutine context_get_integer

  !> Makes the object a scope of another context: the ranks that name the same part, confined to it.
  !> What the object stood for before is let go. Collective over the other context.
  subroutine context_split_by_weight(self, context, obj_type, weights, part, ierr)
    class(quo_context), target, intent(inout) :: self
    !> The context to split; not the same object.
    type(quo_context), intent(in) :: context
    !> As for [[quo_split_by_weight]].
    integer(c_int), intent(in) :: obj_type
    !> As for [[quo_split_by_weight]].
    integer(c_int), contiguous, intent(in) :: weights(:)
    !> The caller's part, from 0.
    integer(c_int), intent(in) :: part
    !> As for [[quo_split_by_weight]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: scope
    call let_go(self%held, A_CONTEXT)
    call quo_split_by_weight(context%handle(), obj_type, weights, part, scope, ierr)
    call own(self%held, scope)
  end subroutine context_split_by_weight

  !> As above, with a number of objects for each part.
  subroutine context_split_by_count(self, context, obj_type, counts, part, ierr)
    class(quo_context), target, intent(inout) :: self
    !> The context to split; not the same object.
    type(quo_context), intent(in) :: context
    !> As for [[quo_split_by_count]].
    integer(c_int), intent(in) :: obj_type
    !> As for [[quo_split_by_count]].
    integer(c_int), contiguous, intent(in) :: counts(:)
    !> The caller's part, from 0.
    integer(c_int), intent(in) :: part
    !> As for [[quo_split_by_count]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: scope
    call let_go(self%held, A_CONTEXT)
    call quo_split_by_count(context%handle(), obj_type, counts, part, scope, ierr)
    call own(self%held, scope)
  end subroutine context_split_by_count

  !> Frees the context, whoever owns it. Collective over the context.
  subroutine context_free(self, ierr)
    class(quo_context), target, intent(inout) :: self
    !> As for [[quo_free]]; an object that stands for nothing is allowed and does nothing.
    integer(c_int), intent(out) :: ierr
    call free(self%held, A_CONTEXT, ierr)
  end subroutine context_free

  !> The handle for the procedures; `c_null_ptr` when the object stands for nothing. The object goes
  !> on to own it.
  pure function context_handle(self) result(handle)
    class(quo_context), intent(in) :: self
    type(c_ptr) :: handle
    handle = kept(self%held)
  end function context_handle

  impure elemental subroutine context_assign(to, from)
    class(quo_context), target, intent(inout) :: to
    type(quo_context), target, intent(in) :: from
    call share(to%held, from%held, A_CONTEXT)
  end subroutine context_assign

  impure elemental subroutine context_finalise(self)
    type(quo_context), target, intent(inout) :: self
    call let_go(self%held, A_CONTEXT)
  end subroutine context_finalise

  !> Counts the objects of a type. Local.
  function context_nobjs_by_type(self, obj_type, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> One of `QUO_OBJ_...`.
    integer(c_int), intent(in) :: obj_type
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nobjs_by_type(self%handle(), obj_type, n, code)
    if (present(ierr)) ierr = code
  end function context_nobjs_by_type

  !> Counts the objects of one type inside an object of another. Local.
  function context_nobjs_in_type_by_type(self, in_type, type_index, obj_type, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Type of the outer object.
    integer(c_int), intent(in) :: in_type
    !> Index of the object, from 0.
    integer(c_int), intent(in) :: type_index
    !> Type of the objects to count.
    integer(c_int), intent(in) :: obj_type
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nobjs_in_type_by_type(self%handle(), in_type, type_index, obj_type, n, code)
    if (present(ierr)) ierr = code
  end function context_nobjs_in_type_by_type

  !> Tells the CPUs of an object, as a list such as `0-3,8`. Local.
  function context_cpuset_of_type(self, obj_type, type_index, ierr) result(list)
    class(quo_context), intent(in) :: self
    !> One of `QUO_OBJ_...`.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object, from 0.
    integer(c_int), intent(in) :: type_index
    !> Return code; without it, a failure gives an empty text.
    integer(c_int), intent(out), optional :: ierr
    character(len=:, kind=c_char), allocatable :: list
    integer(c_int) :: code
    call quo_cpuset_of_type(self%handle(), obj_type, type_index, list, code)
    if (present(ierr)) ierr = code
  end function context_cpuset_of_type

  !> Counts the NUMA nodes. Local.
  function context_nnumanodes(self, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nnumanodes(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nnumanodes

  !> Counts the packages. Local.
  function context_nsockets(self, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nsockets(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nsockets

  !> Counts the cores. Local.
  function context_ncores(self, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_ncores(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_ncores

  !> Counts the processing units (hardware threads). Local.
  function context_npus(self, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_npus(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_npus

  !> Counts the nodes of the context: machines, not NUMA nodes. Local.
  function context_nnodes(self, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nnodes(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nnodes

  !> Counts the context's ranks on the caller's node, with the caller. Local.
  function context_nqids(self, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nqids(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nqids

  !> Tells the caller's qid: its number among the context's ranks on the same node. Local.
  function context_id(self, ierr) result(n)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives -1.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_id(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_id

  !> Tells whether the caller's binding shares a CPU with an object. Local.
  function context_cpuset_in_type(self, obj_type, type_index, ierr) result(answer)
    class(quo_context), intent(in) :: self
    !> One of `QUO_OBJ_...`.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object, from 0.
    integer(c_int), intent(in) :: type_index
    !> Return code; without it, a failure gives false.
    integer(c_int), intent(out), optional :: ierr
    logical :: answer
    integer(c_int) :: code
    call quo_cpuset_in_type(self%handle(), obj_type, type_index, answer, code)
    if (present(ierr)) ierr = code
  end function context_cpuset_in_type

  !> Lists the ranks of the node whose binding shares a CPU with an object. Local.
  function context_qids_in_type(self, obj_type, type_index, ierr) result(qids)
    class(quo_context), intent(in) :: self
    !> One of `QUO_OBJ_...`.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object, from 0.
    integer(c_int), intent(in) :: type_index
    !> Return code; without it, a failure gives none.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int), allocatable :: qids(:)
    integer(c_int) :: code
    call quo_qids_in_type(self%handle(), obj_type, type_index, qids, code)
    if (present(ierr)) ierr = code
  end function context_qids_in_type

  !> Tells whether the caller is bound: to fewer CPUs than it may use. Local.
  function context_bound(self, ierr) result(answer)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives false.
    integer(c_int), intent(out), optional :: ierr
    logical :: answer
    integer(c_int) :: code
    call quo_bound(self%handle(), answer, code)
    if (present(ierr)) ierr = code
  end function context_bound

  !> Tells the caller's binding as a list such as `0-3,8`. Local.
  function context_stringify_cbind(self, ierr) result(text)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives an empty text.
    integer(c_int), intent(out), optional :: ierr
    character(len=:, kind=c_char), allocatable :: text
    integer(c_int) :: code
    call quo_stringify_cbind(self%handle(), text, code)
    if (present(ierr)) ierr = code
  end function context_stringify_cbind

  !> Tells the binding of a rank of the caller's node. Local.
  function context_stringify_cbind_of(self, qid, ierr) result(text)
    class(quo_context), intent(in) :: self
    !> 0 to `nqids()` - 1.
    integer(c_int), intent(in) :: qid
    !> Return code; without it, a failure gives an empty text.
    integer(c_int), intent(out), optional :: ierr
    character(len=:, kind=c_char), allocatable :: text
    integer(c_int) :: code
    call quo_stringify_cbind_of(self%handle(), qid, text, code)
    if (present(ierr)) ierr = code
  end function context_stringify_cbind_of

  !> Explains the node: what is bound where, by whom, and why. Local.
  function context_explain(self, json, ierr) result(text)
    class(quo_context), intent(in) :: self
    !> False: text for people; true: one JSON object.
    logical, intent(in) :: json
    !> Return code; without it, a failure gives an empty text.
    integer(c_int), intent(out), optional :: ierr
    character(len=:, kind=c_char), allocatable :: text
    integer(c_int) :: code
    call quo_explain(self%handle(), json, text, code)
    if (present(ierr)) ierr = code
  end function context_explain

  !> Lists the ranks of the node that ended without freeing the context. Local.
  function context_dead_qids(self, ierr) result(qids)
    class(quo_context), intent(in) :: self
    !> Return code; without it, a failure gives none.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int), allocatable :: qids(:)
    integer(c_int) :: code
    call quo_dead_qids(self%handle(), qids, code)
    if (present(ierr)) ierr = code
  end function context_dead_qids

  !> Binds the process to an object and remembers the binding it had. Local. A [[quo_binding]] is
  !> undone by itself.
  subroutine context_bind_push(self, policy, obj_type, obj_index, ierr)
    class(quo_context), intent(in) :: self
    !> One of `QUO_BIND_PUSH_...`.
    integer(c_int), intent(in) :: policy
    !> One of `QUO_OBJ_...`.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object; ignored with `QUO_BIND_PUSH_OBJ`.
    integer(c_int), intent(in) :: obj_index
    !> As for [[quo_bind_push]].
    integer(c_int), intent(out) :: ierr
    call quo_bind_push(self%handle(), policy, obj_type, obj_index, ierr)
  end subroutine context_bind_push

  !> As `bind_push`, for any set of CPUs. Local.
  subroutine context_bind_push_cpuset(self, list, ierr)
    class(quo_context), intent(in) :: self
    !> Physical CPU numbers such as `0-3,8`.
    character(len=*, kind=c_char), intent(in) :: list
    !> As for [[quo_bind_push_cpuset]].
    integer(c_int), intent(out) :: ierr
    call quo_bind_push_cpuset(self%handle(), list, ierr)
  end subroutine context_bind_push_cpuset

  !> Undoes the last push. Local.
  subroutine context_bind_pop(self, ierr)
    class(quo_context), intent(in) :: self
    !> As for [[quo_bind_pop]].
    integer(c_int), intent(out) :: ierr
    call quo_bind_pop(self%handle(), ierr)
  end subroutine context_bind_pop

  !> Waits, asleep, until every rank of the node has called. Collective over the node.
  subroutine context_barrier(self, ierr)
    class(quo_context), intent(in) :: self
    !> As for [[quo_barrier]].
    integer(c_int), intent(out) :: ierr
    call quo_barrier(self%handle(), ierr)
  end subroutine context_barrier

  !> As `barrier`, but waits no longer than given. Collective over the node.
  subroutine context_barrier_timed(self, seconds, ierr)
    class(quo_context), intent(in) :: self
    !> Seconds to wait; 0 only looks.
    real(c_double), intent(in) :: seconds
    !> As for [[quo_barrier_timed]].
    integer(c_int), intent(out) :: ierr
    call quo_barrier_timed(self%handle(), seconds, ierr)
  end subroutine context_barrier_timed

  !> Chooses the ranks that work: at most a given number per object. Collective over the node.
  subroutine context_auto_distrib(self, distrib_over_this, max_qids_per_res_type, selected, ierr)
    class(quo_context), intent(in) :: self
    !> Type of object to spread over.
    integer(c_int), intent(in) :: distrib_over_this
    !> Most ranks per object, at least 1.
    integer(c_int), intent(in) :: max_qids_per_res_type
    !> True if the caller was chosen.
    logical, intent(out) :: selected
    !> As for [[quo_auto_distrib]].
    integer(c_int), intent(out) :: ierr
    call quo_auto_distrib(self%handle(), distrib_over_this, max_qids_per_res_type, selected, ierr)
  end subroutine context_auto_distrib

  !> As `auto_distrib`, with a choice of rule. Collective over the node.
  subroutine context_auto_distrib_with_policy(self, distrib_over_this, max_qids_per_res_type, &
      policy, selected, ierr)
    class(quo_context), intent(in) :: self
    !> Type of object to spread over.
    integer(c_int), intent(in) :: distrib_over_this
    !> Most ranks per object, at least 1.
    integer(c_int), intent(in) :: max_qids_per_res_type
    !> One of `QUO_DISTRIB_...`.
    integer(c_int), intent(in) :: policy
    !> True if the caller was chosen.
    logical, intent(out) :: selected
    !> As for [[quo_auto_distrib_with_policy]].
    integer(c_int), intent(out) :: ierr
    call quo_auto_distrib_with_policy(self%handle(), distrib_over_this, &
      max_qids_per_res_type, policy, selected, ierr)
  end subroutine context_auto_distrib_with_policy

  !> Counts the devices of a kind. Local.
  subroutine context_ndevices(self, kind, n, ierr)
    class(quo_context), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Their number.
    integer(c_int), intent(out) :: n
    !> As for [[quo_ndevices]].
    integer(c_int), intent(out) :: ierr
    call quo_ndevices(self%handle(), kind, n, ierr)
  end subroutine context_ndevices

  !> Tells a device's place on the bus and the CPUs near it. Local.
  subroutine context_device(self, kind, index, bus, list, ierr)
    class(quo_context), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the device, from 0.
    integer(c_int), intent(in) :: index
    !> Its place.
    character(len=:, kind=c_char), allocatable, intent(out) :: bus
    !> CPUs near it.
    character(len=:, kind=c_char), allocatable, intent(out) :: list
    !> As for [[quo_device]].
    integer(c_int), intent(out) :: ierr
    call quo_device(self%handle(), kind, index, bus, list, ierr)
  end subroutine context_device

  !> Tells whether a device is near the caller's binding. Local.
  subroutine context_device_is_near(self, kind, index, near, ierr)
    class(quo_context), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the device, from 0.
    integer(c_int), intent(in) :: index
    !> True if it is.
    logical, intent(out) :: near
    !> As for [[quo_device_is_near]].
    integer(c_int), intent(out) :: ierr
    call quo_device_is_near(self%handle(), kind, index, near, ierr)
  end subroutine context_device_is_near

  !> Tells whether a device is near an object. Local.
  subroutine context_device_in_type(self, kind, index, obj_type, type_index, near, ierr)
    class(quo_context), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the device, from 0.
    integer(c_int), intent(in) :: index
    !> Type of the object.
    integer(c_int), intent(in) :: obj_type
    !> Index of the object, from 0.
    integer(c_int), intent(in) :: type_index
    !> True if it is.
    logical, intent(out) :: near
    !> As for [[quo_device_in_type]].
    integer(c_int), intent(out) :: ierr
    call quo_device_in_type(self%handle(), kind, index, obj_type, type_index, near, ierr)
  end subroutine context_device_in_type

  !> Shares devices out among the ranks of the node. Collective over the node.
  subroutine context_assign_device(self, kind, index, ierr)
    class(quo_context), intent(in) :: self
    !> One of `QUO_DEVICE_...`.
    integer(c_int), intent(in) :: kind
    !> Index of the caller's device; -1 when there is none.
    integer(c_int), intent(out) :: index
    !> As for [[quo_assign_device]].
    integer(c_int), intent(out) :: ierr
    call quo_assign_device(self%handle(), kind, index, ierr)
  end subroutine context_assign_device

  !> Writes the variables by which a program sees one GPU only. Local.
  subroutine context_visible_devices(self, gpu, variables, ierr)
    class(quo_context), intent(in) :: self
    !> Index of the GPU.
    integer(c_int), intent(in) :: gpu
    !> The variables with a space between them.
    character(len=:, kind=c_char), allocatable, intent(out) :: variables
    !> As for [[quo_visible_devices]].
    integer(c_int), intent(out) :: ierr
    call quo_visible_devices(self%handle(), gpu, variables, ierr)
  end subroutine context_visible_devices

  !> Lends the caller's CPUs until `reclaim`. Local.
  subroutine context_lend(self, ierr)
    class(quo_context), intent(in) :: self
    !> As for [[quo_lend]].
    integer(c_int), intent(out) :: ierr
    call quo_lend(self%handle(), ierr)
  end subroutine context_lend

  !> Takes the caller's CPUs back. Local.
  subroutine context_reclaim(self, ierr)
    class(quo_context), intent(in) :: self
    !> As for [[quo_reclaim]].
    integer(c_int), intent(out) :: ierr
    call quo_reclaim(self%handle(), ierr)
  end subroutine context_reclaim

  !> Borrows the CPUs that waiting ranks of the node lend. Local.
  subroutine context_borrow(self, borrowed, threads, ierr)
    class(quo_context), intent(in) :: self
    !> Number of CPUs that were borrowed, may be 0.
    integer(c_int), intent(out) :: borrowed
    !> Number of threads that fills the caller's own CPUs and these.
    integer(c_int), intent(out) :: threads
    !> As for [[quo_borrow]].
    integer(c_int), intent(out) :: ierr
    call quo_borrow(self%handle(), borrowed, threads, ierr)
  end subroutine context_borrow

  !> Tells whether the caller should give back. Local.
  subroutine context_borrow_wanted(self, wanted, ierr)
    class(quo_context), intent(in) :: self
    !> True if it should.
    logical, intent(out) :: wanted
    !> As for [[quo_borrow_wanted]].
    integer(c_int), intent(out) :: ierr
    call quo_borrow_wanted(self%handle(), wanted, ierr)
  end subroutine context_borrow_wanted

  !> Counts the other ranks of the node that lend now. Local.
  subroutine context_lenders(self, lenders, ierr)
    class(quo_context), intent(in) :: self
    !> Number of ranks, without the caller.
    integer(c_int), intent(out) :: lenders
    !> As for [[quo_lenders]].
    integer(c_int), intent(out) :: ierr
    call quo_lenders(self%handle(), lenders, ierr)
  end subroutine context_lenders

  !> Gives back what `borrow` got. Local.
  subroutine context_give_back(self, ierr)
    class(quo_context), intent(in) :: self
    !> As for [[quo_give_back]].
    integer(c_int), intent(out) :: ierr
    call quo_give_back(self%handle(), ierr)
  end subroutine context_give_back

  !> Leaves the barriers of the node. Local.
  subroutine context_detach(self, ierr)
    class(quo_context), intent(in) :: self
    !> As for [[quo_detach]].
    integer(c_int), intent(out) :: ierr
    call quo_detach(self%handle(), ierr)
  end subroutine context_detach

  !> Comes back after `detach`. Local.
  subroutine context_attach(self, ierr)
    class(quo_context), intent(in) :: self
    !> As for [[quo_attach]].
    integer(c_int), intent(out) :: ierr
    call quo_attach(self%handle(), ierr)
  end subroutine context_attach

  !> Removes a dead rank; every rank that is left calls it. Local.
  subroutine context_expel(self, qid, ierr)
    class(quo_context), intent(in) :: self
    !> The dead rank.
    integer(c_int), intent(in) :: qid
    !> As for [[quo_expel]].
    integer(c_int), intent(out) :: ierr
    call quo_expel(self%handle(), qid, ierr)
  end subroutine context_expel
end module quo_context_object
