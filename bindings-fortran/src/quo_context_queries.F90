!> Methods of contexts that ask: the machine, and the ranks on it.
module quo_context_queries
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_ptr
  use quo_machine, only: quo_cpuset_of_type, quo_ncores, quo_nnodes, quo_nnumanodes, &
    quo_nobjs_by_type, quo_nobjs_in_type_by_type, quo_npus, quo_nsockets
  use quo_members, only: quo_dead_qids
  use quo_ranks, only: quo_bound, quo_cpuset_in_type, quo_explain, quo_id, quo_nqids, &
    quo_qids_in_type, quo_stringify_cbind, quo_stringify_cbind_of
  implicit none
  private

  !> An object that has the handle of a context, with the questions about it: functions, where `ierr`
  !> is optional.
  type, abstract, public :: quo_context_queries_t
  contains
    procedure(handle_of), deferred :: handle
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
  end type quo_context_queries_t

  abstract interface
    !> The handle for the procedures; `c_null_ptr` when the object stands for nothing.
    pure function handle_of(self) result(handle)
      import :: c_ptr, quo_context_queries_t
      implicit none
      class(quo_context_queries_t), intent(in) :: self
      type(c_ptr) :: handle
    end function handle_of
  end interface

contains

  !> Counts the objects of a type. Local.
  function context_nobjs_by_type(self, obj_type, ierr) result(n)
    class(quo_context_queries_t), intent(in) :: self
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
    class(quo_context_queries_t), intent(in) :: self
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

  !> Returns the CPUs of an object, as a list such as `0-3,8`. Local.
  function context_cpuset_of_type(self, obj_type, type_index, ierr) result(list)
    class(quo_context_queries_t), intent(in) :: self
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
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nnumanodes(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nnumanodes

  !> Counts the packages. Local.
  function context_nsockets(self, ierr) result(n)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nsockets(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nsockets

  !> Counts the cores. Local.
  function context_ncores(self, ierr) result(n)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_ncores(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_ncores

  !> Counts the processing units (hardware threads). Local.
  function context_npus(self, ierr) result(n)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_npus(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_npus

  !> Counts the nodes of the context: machines, not NUMA nodes. Local.
  function context_nnodes(self, ierr) result(n)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nnodes(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nnodes

  !> Counts the context's ranks on the caller's node, with the caller. Local.
  function context_nqids(self, ierr) result(n)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives 0.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_nqids(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_nqids

  !> Returns the caller's qid: its number among the context's ranks on the same node. Local.
  function context_id(self, ierr) result(n)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives -1.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int) :: n
    integer(c_int) :: code
    call quo_id(self%handle(), n, code)
    if (present(ierr)) ierr = code
  end function context_id

  !> Returns whether the caller's binding shares a CPU with an object. Local.
  function context_cpuset_in_type(self, obj_type, type_index, ierr) result(answer)
    class(quo_context_queries_t), intent(in) :: self
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
    class(quo_context_queries_t), intent(in) :: self
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

  !> Returns whether the caller is bound: to fewer CPUs than it may use. Local.
  function context_bound(self, ierr) result(answer)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives false.
    integer(c_int), intent(out), optional :: ierr
    logical :: answer
    integer(c_int) :: code
    call quo_bound(self%handle(), answer, code)
    if (present(ierr)) ierr = code
  end function context_bound

  !> Returns the caller's binding as a list such as `0-3,8`. Local.
  function context_stringify_cbind(self, ierr) result(text)
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives an empty text.
    integer(c_int), intent(out), optional :: ierr
    character(len=:, kind=c_char), allocatable :: text
    integer(c_int) :: code
    call quo_stringify_cbind(self%handle(), text, code)
    if (present(ierr)) ierr = code
  end function context_stringify_cbind

  !> Returns the binding of a rank of the caller's node. Local.
  function context_stringify_cbind_of(self, qid, ierr) result(text)
    class(quo_context_queries_t), intent(in) :: self
    !> 0 to `nqids()` - 1.
    integer(c_int), intent(in) :: qid
    !> Return code; without it, a failure gives an empty text.
    integer(c_int), intent(out), optional :: ierr
    character(len=:, kind=c_char), allocatable :: text
    integer(c_int) :: code
    call quo_stringify_cbind_of(self%handle(), qid, text, code)
    if (present(ierr)) ierr = code
  end function context_stringify_cbind_of

  !> Explains the bindings of the node: what is bound where, by what, and why. Local.
  function context_explain(self, json, ierr) result(text)
    class(quo_context_queries_t), intent(in) :: self
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
    class(quo_context_queries_t), intent(in) :: self
    !> Return code; without it, a failure gives none.
    integer(c_int), intent(out), optional :: ierr
    integer(c_int), allocatable :: qids(:)
    integer(c_int) :: code
    call quo_dead_qids(self%handle(), qids, code)
    if (present(ierr)) ierr = code
  end function context_dead_qids
end module quo_context_queries
