!> The numbers of the interface under the names that they have in C. A test holds each of them
!> against the header.
module quo_constants
  use, intrinsic :: iso_c_binding, only: c_int
  implicit none
  private

  !> Defined, and 1, in every version of the library.
  integer(c_int), parameter, public :: LIBQUO = 1
  !> Defined, and 1, where `QUO_API_VERSION` is.
  integer(c_int), parameter, public :: QUO_HAS_API_VERSIONING = 1
  !> The version of the QUO interface: 65536 * major + 256 * minor + patch.
  integer(c_int), parameter, public :: QUO_API_VERSION = 65536 + 256 * 4 + 1
  !> The version of what quo adds to it, counted the same way.
  integer(c_int), parameter, public :: QUO_EXTENSION_VERSION = 256

  ! Return codes in `ierr`. After a fatal one the context is unreliable; after another one nothing
  ! has changed and the context works as before.

  !> Done.
  integer(c_int), parameter, public :: QUO_SUCCESS = 0
  !> Done, and it had been done before.
  integer(c_int), parameter, public :: QUO_SUCCESS_ALREADY_DONE = 1
  !> An error without a specific code. Fatal.
  integer(c_int), parameter, public :: QUO_ERR = 2
  !> The operating system refused a call. Fatal.
  integer(c_int), parameter, public :: QUO_ERR_SYS = 3
  !> No memory, shared memory or handle is left. Fatal.
  integer(c_int), parameter, public :: QUO_ERR_OOR = 4
  !> An argument is unknown or out of range. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_INVLD_ARG = 5
  !> Called before MPI_Init. Not fatal: call again afterwards.
  integer(c_int), parameter, public :: QUO_ERR_CALL_BEFORE_INIT = 6
  !> The machine's topology cannot be read, or QUO_TOPOLOGY does not hold one. Fatal.
  integer(c_int), parameter, public :: QUO_ERR_TOPO = 7
  !> MPI returned an error. Fatal.
  integer(c_int), parameter, public :: QUO_ERR_MPI = 8
  !> The machine or the MPI library cannot do this. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_NOT_SUPPORTED = 9
  !> More pops than pushes; nothing was changed. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_POP = 10
  !> The machine has no such object. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_NOT_FOUND = 11
  !> A wait took longer than allowed; everyone in it gets this code. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_TIMEOUT = 12
  !> A rank of the node ended without freeing the context; `quo_last_error()` names it. Not fatal:
  !> local procedures work on, and collective ones after `quo_expel`.
  integer(c_int), parameter, public :: QUO_ERR_DEAD_MEMBER = 13
  !> The ranks gave different arguments to one collective call. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_DISAGREE = 14
  !> The handle is not one that is in use: freed, of another kind, or never returned. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_INVLD_HANDLE = 15
  !> Called after MPI_Finalize. Fatal.
  integer(c_int), parameter, public :: QUO_ERR_CALL_AFTER_FINALIZE = 16
  !> Another thread is inside a call on the object, or objects made from it are not freed yet. Not
  !> fatal.
  integer(c_int), parameter, public :: QUO_ERR_BUSY = 17
  !> The caller detached from the node and cannot take part. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_DETACHED = 18
  !> A defect of the library, kept from spreading into the program. Fatal.
  integer(c_int), parameter, public :: QUO_ERR_INTERNAL = 19
  !> The world is in a state in which the call is not allowed. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_STATE = 20
  !> A request to resize the world, or a change of process sets, was refused. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_REFUSED = 21
  !> A resize of the world was aborted on all ranks. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_ABORTED = 22
  !> The work of a phase failed on a rank. Not fatal.
  integer(c_int), parameter, public :: QUO_ERR_WORK_FAILED = 23
  integer(c_int), parameter, public :: QUO_ERR_NOT_BEGUN = 24

  ! Types of hardware objects. Objects of a type are counted from 0.

  !> The whole machine; there is exactly one.
  integer(c_int), parameter, public :: QUO_OBJ_MACHINE = 0
  !> NUMA node.
  integer(c_int), parameter, public :: QUO_OBJ_NUMANODE = 1
  !> Package: what is plugged into one socket.
  integer(c_int), parameter, public :: QUO_OBJ_PACKAGE = 2
  !> Another number with the meaning of `QUO_OBJ_PACKAGE`.
  integer(c_int), parameter, public :: QUO_OBJ_SOCKET = 3
  !> Core.
  integer(c_int), parameter, public :: QUO_OBJ_CORE = 4
  !> Processing unit: a hardware thread, what the kernel calls a CPU.
  integer(c_int), parameter, public :: QUO_OBJ_PU = 5
  !> Die inside a package.
  integer(c_int), parameter, public :: QUO_OBJ_DIE = 6
  !> Level-3 cache.
  integer(c_int), parameter, public :: QUO_OBJ_L3CACHE = 7
  !> Level-2 cache.
  integer(c_int), parameter, public :: QUO_OBJ_L2CACHE = 8
  !> Level-1 data cache.
  integer(c_int), parameter, public :: QUO_OBJ_L1CACHE = 9

  ! How `quo_bind_push` finds the object to bind to.

  !> The object given by type and index, wherever the caller is bound now.
  integer(c_int), parameter, public :: QUO_BIND_PUSH_PROVIDED = 0
  !> The smallest object of the type that encloses the caller's binding; when none does, the first
  !> that shares a CPU with it.
  integer(c_int), parameter, public :: QUO_BIND_PUSH_OBJ = 1

  ! Flags of a context; combine them with `ior`.

  !> As `quo_create`.
  integer(c_int), parameter, public :: QUO_CREATE_NO_FLAGS = 0
  !> Hide all but one hardware thread of each core.
  integer(c_int), parameter, public :: QUO_CREATE_NO_MT = 1
  !> Lend the caller's CPUs while it waits, see `quo_borrow`; ranks may differ in this.
  integer(c_int), parameter, public :: QUO_CREATE_LEND = 2
  !> Plan phases without regard to the CPU quotas of control groups; ranks may differ in this.
  integer(c_int), parameter, public :: QUO_CREATE_IGNORE_QUOTA = 4

  ! NUMA nodes from which the kernel takes pages when they are first written.

  !> As the kernel does without quo.
  integer(c_int), parameter, public :: QUO_MEMORY_KEEP = 0
  !> The node of the CPU that writes: pages follow the threads.
  integer(c_int), parameter, public :: QUO_MEMORY_FOLLOW = 1
  !> Only the nodes of the CPUs given.
  integer(c_int), parameter, public :: QUO_MEMORY_BIND = 2
  !> The nodes of the CPUs given, in turns.
  integer(c_int), parameter, public :: QUO_MEMORY_INTERLEAVE = 3
  !> In place of a NUMA node in `quo_memory_on_node`: bytes that have no page.
  integer(c_int), parameter, public :: QUO_MEMORY_ABSENT = -1

  ! What `quo_auto_distrib_with_policy` computes.

  !> At most the given number per object; bound ranks before unbound ones, each on an object it is
  !> bound to; unbound ranks fill what is left, spread over the objects.
  integer(c_int), parameter, public :: QUO_DISTRIB_SPREAD = 0
  !> The algorithm QUO was published with, to the letter.
  integer(c_int), parameter, public :: QUO_DISTRIB_LIBQUO_COMPAT = 1

  ! What a phase does with thread counts.

  !> Nothing: the program sets them itself.
  integer(c_int), parameter, public :: QUO_THREADS_KEEP = 0
  !> Sets the thread count of OpenMP and of known BLAS libraries, if they are loaded, to the
  !> worker's share while the phase runs, and back to what they were at its end. The default.
  integer(c_int), parameter, public :: QUO_THREADS_OPENMP = 1

  ! Kinds of devices.

  !> A display controller or an accelerator.
  integer(c_int), parameter, public :: QUO_DEVICE_GPU = 0
  !> A network controller.
  integer(c_int), parameter, public :: QUO_DEVICE_NETWORK = 1
  !> A storage controller.
  integer(c_int), parameter, public :: QUO_DEVICE_STORAGE = 2

  ! Conduct of a phase towards phases of other contexts and jobs that want the same CPUs.

  !> Runs at once, and shares CPUs with any other phase there. The default.
  integer(c_int), parameter, public :: QUO_SHARING_OVERLAP = 0
  !> Waits until all its CPUs are free, and has them alone while it runs.
  integer(c_int), parameter, public :: QUO_SHARING_WAIT = 1
  !> Takes its free CPUs, and has them alone while it runs.
  integer(c_int), parameter, public :: QUO_SHARING_LEFT = 2

  ! The CPUs that each OpenMP thread of a worker may use while a phase runs.

  !> As the variables say that pin OpenMP threads, but on the worker's CPUs. The default.
  integer(c_int), parameter, public :: QUO_PINNING_ENVIRONMENT = 0
  !> All of the worker's CPUs for each thread, whatever the variables say.
  integer(c_int), parameter, public :: QUO_PINNING_NONE = 1
  !> One thread per CPU, in the order of the machine.
  integer(c_int), parameter, public :: QUO_PINNING_CLOSE = 2
  !> One thread per CPU, at even distances.
  integer(c_int), parameter, public :: QUO_PINNING_SPREAD = 3

  ! Which cores of a hybrid processor a phase uses.

  !> All. Workers of one object share the fast cores and the slow ones evenly, by their speeds.
  integer(c_int), parameter, public :: QUO_CORES_ALL = 0
  !> Cores of the fastest kind that the worker's object has.
  integer(c_int), parameter, public :: QUO_CORES_FASTEST = 1
end module quo_constants
