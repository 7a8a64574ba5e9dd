!> Options of worlds on their way to C. For the other modules of this library only.
module quo_world_options
  use, intrinsic :: iso_c_binding, only: c_char, c_funloc, c_loc, c_ptr, c_sizeof
  use quo_elastic_c, only: c_slurm_options, c_world_options
  use quo_elastic_types, only: quo_slurm_options_t, quo_world_options_t
  use quo_text, only: put_text
  implicit none
  private

  public :: c_world_options_of

  !> A text for C.
  type :: bytes
    character(kind=c_char), allocatable :: bytes(:)
  end type bytes

  !> Texts that options for C point to; they live as long.
  type, public :: option_texts
    private
    type(bytes) :: name, log, plan, allowed_sizes, hosts, remote_shell, spawn_command, &
      spawn_info, control_folder, notice_folder, placement, submit
    type(c_slurm_options) :: slurm
  end type option_texts

contains

  !> The options for C. Not ready without memory.
  subroutine c_world_options_of(options, given, texts, ready)
    type(quo_world_options_t), intent(in) :: options
    type(c_world_options), intent(out) :: given
    type(option_texts), target, intent(inout) :: texts
    logical, intent(out) :: ready
    given%size = c_sizeof(given)
    given%initial_ranks = options%initial_ranks
    given%max_ranks = options%max_ranks
    given%processes_per_spawn = options%processes_per_spawn
    given%allow_oversubscribe = merge(1, 0, options%allow_oversubscribe)
    given%control = merge(1, 0, options%control)
    given%messages = merge(1, 0, options%messages)
    given%start_timeout = options%start_timeout
    given%process_sets = merge(1, 0, options%process_sets)
    given%abort_on_death = merge(1, 0, options%abort_on_death)
    given%term_notice = options%term_notice
    given%no_spawn_helper = merge(1, 0, options%no_spawn_helper)
    given%min_size = options%min_size
    given%max_size = options%max_size
    given%step = options%step
    if (associated(options%allows)) given%allows = c_funloc(options%allows)
    given%connect_timeout = options%connect_timeout
    ready = .true.
    call put(options%name, texts%name, given%name, ready)
    call put(options%log, texts%log, given%log, ready)
    call put(options%plan, texts%plan, given%plan, ready)
    call put(options%allowed_sizes, texts%allowed_sizes, given%allowed_sizes, ready)
    call put(options%hosts, texts%hosts, given%hosts, ready)
    call put(options%remote_shell, texts%remote_shell, given%remote_shell, ready)
    call put(options%spawn_command, texts%spawn_command, given%spawn_command, ready)
    call put(options%spawn_info, texts%spawn_info, given%spawn_info, ready)
    call put(options%control_folder, texts%control_folder, given%control_folder, ready)
    call put(options%notice_folder, texts%notice_folder, given%notice_folder, ready)
    call put(options%placement, texts%placement, given%placement, ready)
    if (.not. allocated(options%slurm)) return
    call slurm_of(options%slurm, texts%slurm)
    call put(options%slurm%submit, texts%submit, texts%slurm%submit, ready)
    given%slurm = c_loc(texts%slurm)
  end subroutine c_world_options_of

  subroutine slurm_of(options, given)
    type(quo_slurm_options_t), intent(in) :: options
    type(c_slurm_options), intent(out) :: given
    given%size = c_sizeof(given)
    given%wait = options%wait
    given%command_limit = options%command_limit
    given%grace = options%grace
    given%linger = options%linger
    given%watch = options%watch
    given%least = options%least
  end subroutine slurm_of

  !> The text, if it is allocated.
  subroutine put(text, kept, place, ready)
    character(len=:, kind=c_char), allocatable, intent(in) :: text
    type(bytes), target, intent(inout) :: kept
    type(c_ptr), intent(inout) :: place
    logical, intent(inout) :: ready
    if (allocated(text)) call put_text(text, kept%bytes, place, ready)
  end subroutine put
end module quo_world_options
