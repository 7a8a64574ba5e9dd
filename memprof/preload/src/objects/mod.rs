//! The loaded objects: whose code an address is in.

use crate::component::Component;

/// Whose code called.
#[derive(Copy, Clone)]
pub struct Caller {
    pub component: Component,
    /// Allocates for others (libc, libstdc++, ...): its caller or thread tells the owner.
    pub neutral: bool,
}

/// The owner of the code that a return address points into. Fast for the object of the last call.
#[inline]
pub fn caller(_return_address: usize) -> Caller {
    Caller { component: Component::UNATTRIBUTED, neutral: true }
}

/// The owner of any mapped address of an object: code, constants, data, bss.
pub fn component_at(_address: usize) -> Option<Component> {
    None
}

/// The component of the MPI library, once one is loaded.
pub fn mpi() -> Option<Component> {
    None
}

/// Looks for objects loaded or unloaded since, and patches the new ones.
pub fn refresh() {}

/// The component of the program itself: the home of threads that nobody else started.
pub fn executable() -> Component {
    Component::UNATTRIBUTED
}
