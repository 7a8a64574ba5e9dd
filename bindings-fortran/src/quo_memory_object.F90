!> Cross-process memory as objects.
module quo_memory_object
  use, intrinsic :: iso_c_binding, only: c_double, c_double_complex, c_float, &
    c_float_complex, c_int, c_int32_t, c_int64_t, c_int8_t, c_ptr, c_size_t
  use quo_context_object, only: quo_context
  use quo_ownership, only: A_MEMORY, free, held, kept, let_go, own, share
  use quo_types, only: quo_xpm_view_t
  use quo_xpm, only: quo_xpm_allocate, quo_xpm_allocate_by_qids
  use quo_xpm_views, only: quo_xpm_view_by_qid, quo_xpm_view_by_qid_range, quo_xpm_view_local
  implicit none
  private

  !> Memory that the ranks of a node share: one block per rank, in the order of the qids, without
  !> gaps. Unmapped when the last variable that owns it is finalised; views of it must not be used
  !> after that. A view is a pointer of any type that [[quo_xpm_view_local]] takes.
  type, public :: quo_memory
    private
    type(held) :: held
  contains
    generic :: allocate => allocate_among_all, allocate_among_some
    procedure, private :: allocate_among_all => memory_allocate
    procedure, private :: allocate_among_some => memory_allocate_by_qids
    !> The caller's block: `call memory%view_local(view, ierr)`.
    generic :: view_local => local_raw, local_int8, local_int32, local_int64, local_real32, &
      local_real64, local_complex32, local_complex64
    !> The block of one rank: `call memory%view_by_qid(qid, view, ierr)`.
    generic :: view_by_qid => by_qid_raw, by_qid_int8, by_qid_int32, by_qid_int64, by_qid_real32, &
      by_qid_real64, by_qid_complex32, by_qid_complex64
    !> The blocks of several: `call memory%view_by_qid_range(qid_start, qid_end, view, ierr)`.
    generic :: view_by_qid_range => range_raw, range_int8, range_int32, range_int64, &
      range_real32, range_real64, range_complex32, range_complex64
    procedure, private :: local_raw, by_qid_raw, range_raw
    procedure, private :: local_int8, by_qid_int8, range_int8
    procedure, private :: local_int32, by_qid_int32, range_int32
    procedure, private :: local_int64, by_qid_int64, range_int64
    procedure, private :: local_real32, by_qid_real32, range_real32
    procedure, private :: local_real64, by_qid_real64, range_real64
    procedure, private :: local_complex32, by_qid_complex32, range_complex32
    procedure, private :: local_complex64, by_qid_complex64, range_complex64
    procedure :: free => memory_free
    procedure :: handle => memory_handle
    generic :: assignment(=) => assign
    procedure, private :: assign => memory_assign
    final :: memory_finalise
  end type quo_memory

contains

  !> Allocates memory that all ranks of the node share. What the object stood for before is let go.
  !> Collective over the node.
  subroutine memory_allocate(self, context, local_size, ierr)
    class(quo_memory), target, intent(inout) :: self
    !> May be freed before the memory.
    class(quo_context), intent(in) :: context
    !> Bytes of the caller's block; may differ between ranks, may be 0.
    integer(c_size_t), intent(in) :: local_size
    !> As for [[quo_xpm_allocate]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: xpm
    call let_go(self%held, A_MEMORY)
    call quo_xpm_allocate(context%handle(), local_size, xpm, ierr)
    call own(self%held, xpm)
  end subroutine memory_allocate

  !> As above, among some ranks. Collective over the named qids.
  subroutine memory_allocate_by_qids(self, context, qids, local_size, ierr)
    class(quo_memory), target, intent(inout) :: self
    !> May be freed before the memory.
    class(quo_context), intent(in) :: context
    !> The ranks, the caller among them; the same on each of them.
    integer(c_int), contiguous, intent(in) :: qids(:)
    !> Bytes of the caller's block; may differ between ranks, may be 0.
    integer(c_size_t), intent(in) :: local_size
    !> As for [[quo_xpm_allocate_by_qids]].
    integer(c_int), intent(out) :: ierr
    type(c_ptr) :: xpm
    call let_go(self%held, A_MEMORY)
    call quo_xpm_allocate_by_qids(context%handle(), qids, local_size, xpm, ierr)
    call own(self%held, xpm)
  end subroutine memory_allocate_by_qids

  subroutine local_raw(self, view, ierr)
    class(quo_memory), intent(in) :: self
    type(quo_xpm_view_t), intent(out) :: view
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_raw

  subroutine by_qid_raw(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    type(quo_xpm_view_t), intent(out) :: view
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_raw

  subroutine range_raw(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    type(quo_xpm_view_t), intent(out) :: view
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_raw

  subroutine local_int8(self, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int8_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_int8

  subroutine by_qid_int8(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    integer(c_int8_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_int8

  subroutine range_int8(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    integer(c_int8_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_int8

  subroutine local_int32(self, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int32_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_int32

  subroutine by_qid_int32(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    integer(c_int32_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_int32

  subroutine range_int32(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    integer(c_int32_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_int32

  subroutine local_int64(self, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int64_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_int64

  subroutine by_qid_int64(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    integer(c_int64_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_int64

  subroutine range_int64(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    integer(c_int64_t), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_int64

  subroutine local_real32(self, view, ierr)
    class(quo_memory), intent(in) :: self
    real(c_float), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_real32

  subroutine by_qid_real32(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    real(c_float), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_real32

  subroutine range_real32(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    real(c_float), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_real32

  subroutine local_real64(self, view, ierr)
    class(quo_memory), intent(in) :: self
    real(c_double), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_real64

  subroutine by_qid_real64(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    real(c_double), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_real64

  subroutine range_real64(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    real(c_double), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_real64

  subroutine local_complex32(self, view, ierr)
    class(quo_memory), intent(in) :: self
    complex(c_float_complex), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_complex32

  subroutine by_qid_complex32(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    complex(c_float_complex), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_complex32

  subroutine range_complex32(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    complex(c_float_complex), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_complex32

  subroutine local_complex64(self, view, ierr)
    class(quo_memory), intent(in) :: self
    complex(c_double_complex), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_local(self%handle(), view, ierr)
  end subroutine local_complex64

  subroutine by_qid_complex64(self, qid, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid
    complex(c_double_complex), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid(self%handle(), qid, view, ierr)
  end subroutine by_qid_complex64

  subroutine range_complex64(self, qid_start, qid_end, view, ierr)
    class(quo_memory), intent(in) :: self
    integer(c_int), intent(in) :: qid_start
    integer(c_int), intent(in) :: qid_end
    complex(c_double_complex), pointer, intent(out) :: view(:)
    integer(c_int), intent(out) :: ierr
    call quo_xpm_view_by_qid_range(self%handle(), qid_start, qid_end, view, ierr)
  end subroutine range_complex64

  !> Frees it, even if other variables own it. Local.
  subroutine memory_free(self, ierr)
    class(quo_memory), target, intent(inout) :: self
    !> As for the procedure; an object that stands for nothing is allowed and does nothing.
    integer(c_int), intent(out) :: ierr
    call free(self%held, A_MEMORY, ierr)
  end subroutine memory_free

  !> The handle for the procedures; `c_null_ptr` when the object stands for nothing.
  pure function memory_handle(self) result(handle)
    class(quo_memory), intent(in) :: self
    type(c_ptr) :: handle
    handle = kept(self%held)
  end function memory_handle

  impure elemental subroutine memory_assign(to, from)
    class(quo_memory), target, intent(inout) :: to
    type(quo_memory), target, intent(in) :: from
    call share(to%held, from%held, A_MEMORY)
  end subroutine memory_assign

  impure elemental subroutine memory_finalise(self)
    type(quo_memory), target, intent(inout) :: self
    call let_go(self%held, A_MEMORY)
  end subroutine memory_finalise
end module quo_memory_object
