//! Numbers of components.

/// Index into the dictionary of this process.
#[derive(Copy, Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Component(pub u16);

/// Number of components that a process can have; further objects share the last component of their
/// class.
pub const LIMIT: usize = 256;

impl Component {
    pub const UNATTRIBUTED: Component = Component(0);
    pub const TOOL: Component = Component(1);
    /// Free chunks, arena tops, and the allocator's rounding.
    pub const SLACK: Component = Component(2);
    pub const KERNEL: Component = Component(3);
    pub const MPI_SHARED: Component = Component(4);
    pub const MPI_FOR_USER: Component = Component(5);
    pub const MAIN_STACK: Component = Component(6);
    pub const APPLICATION_SHARED: Component = Component(7);
    /// First index of the components of loaded objects and of the stacks of the threads that each
    /// starts.
    pub const FIRST_FREE: Component = Component(16);
}
