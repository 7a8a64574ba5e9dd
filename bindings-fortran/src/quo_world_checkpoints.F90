!> Checkpoints of a world: its data in a folder, for a later job with any number of ranks.
module quo_world_checkpoints
  use, intrinsic :: iso_c_binding, only: c_char, c_int, c_loc, c_ptr, c_size_t, c_sizeof
  use quo_elastic_c
  use quo_text, only: out_of_memory, to_c, truth
  implicit none
  private

  !> Writes a checkpoint with bytes, or a number, as its state.
  interface quo_world_checkpoint
    module procedure quo_world_checkpoint
    module procedure quo_world_checkpoint_number
  end interface quo_world_checkpoint

  !> Reads a checkpoint with bytes, or a number, as its state.
  interface quo_world_restore
    module procedure quo_world_restore
    module procedure quo_world_restore_number
  end interface quo_world_restore

  public :: quo_world_checkpoint, quo_world_restore

contains

  !> Writes all arrays, matrices, vectors and lists of items to a folder, with the state of rank 0. The checkpoint before
  !> remains until this one is complete. Collective over the world.
  subroutine quo_world_checkpoint(w, folder, state, length, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The same for all ranks; made if it does not exist.
    character(len=*, kind=c_char), intent(in) :: folder
    !> Bytes of rank 0, which [[quo_world_restore]] gives to all.
    type(c_ptr), value :: state
    !> Their number.
    integer(c_size_t), value :: length
    !> On all ranks `QUO_ERR_SYS` if a file cannot be written, `QUO_ERR_INVLD_ARG` with callbacks or an exchange of ghost
    !> cells under way, `QUO_ERR_DISAGREE`; `QUO_ERR_STATE`, `QUO_ERR_DEAD_MEMBER`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    call to_c(folder, bytes)
    if (allocated(bytes)) then
      ierr = c_world_checkpoint(w, bytes, state, length)
    else
      ierr = out_of_memory()
    end if
  end subroutine quo_world_checkpoint

  !> As [[quo_world_checkpoint]], with a number such as that of the step.
  subroutine quo_world_checkpoint_number(w, folder, number, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> As there.
    character(len=*, kind=c_char), intent(in) :: folder
    !> The number of rank 0.
    integer(c_int), target, intent(in) :: number
    !> As there.
    integer(c_int), intent(out) :: ierr
    call quo_world_checkpoint(w, folder, c_loc(number), c_sizeof(number), ierr)
  end subroutine quo_world_checkpoint_number

  !> Reads the data of a checkpoint that any number of ranks has written: adds what this world does not have, except lists
  !> of items, which are added before. quo-elastic.h has the details. Collective over the world.
  subroutine quo_world_restore(w, folder, state, length, restored, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> The same for all ranks.
    character(len=*, kind=c_char), intent(in) :: folder
    !> Address of the state, which is set if there is a checkpoint.
    type(c_ptr), value :: state
    !> Number of its bytes, as it was written.
    integer(c_size_t), value :: length
    !> False if the folder has no complete checkpoint: nothing has changed.
    logical, intent(out) :: restored
    !> On all ranks `QUO_ERR_SYS` for a file that is missing or was changed, `QUO_ERR_INVLD_ARG` for data that differ from
    !> the checkpoint, `QUO_ERR_DISAGREE`, `QUO_ERR_OOR`; `QUO_ERR_STATE`, `QUO_ERR_DEAD_MEMBER`, `QUO_ERR_MPI`.
    integer(c_int), intent(out) :: ierr
    character(kind=c_char), allocatable, target :: bytes(:)
    integer(c_int) :: answer
    answer = 0
    call to_c(folder, bytes)
    if (allocated(bytes)) then
      ierr = c_world_restore(w, bytes, state, length, answer)
    else
      ierr = out_of_memory()
    end if
    restored = truth(answer)
  end subroutine quo_world_restore

  !> As [[quo_world_restore]], with a number such as that of the step.
  subroutine quo_world_restore_number(w, folder, number, restored, ierr)
    !> A world.
    type(c_ptr), value :: w
    !> As there.
    character(len=*, kind=c_char), intent(in) :: folder
    !> The number of the checkpoint; unchanged without one.
    integer(c_int), target, intent(inout) :: number
    !> As there.
    logical, intent(out) :: restored
    !> As there.
    integer(c_int), intent(out) :: ierr
    call quo_world_restore(w, folder, c_loc(number), c_sizeof(number), restored, ierr)
  end subroutine quo_world_restore_number
end module quo_world_checkpoints
