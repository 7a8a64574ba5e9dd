//! Lookups by name of functions that allocate, free or measure blocks.

use core::ffi::{CStr, c_void};

use memprof_trace::layout::flags;

use super::loader::look_up;
use crate::base::component::Component;
use crate::base::diagnostics::{self, Code};
use crate::base::dictionary;
use crate::base::thread::Guard;
use crate::ledger::heap::exports;
use crate::owners;
use crate::recording::conflicts;

pub use exports::is_named as is_one;

/// Returns the tool's function for a name of the malloc family that was looked up by a handle, or 0
/// where the lookup has to be passed on unchanged: the function then belongs to another allocator
/// than the one that the program calls by name, so its blocks have no owner.
pub fn find(handle: *mut c_void, name: &CStr, caller: usize) -> usize {
    let is_seen = conflicts::flags() & flags::OWN_ALLOCATOR == 0;
    if handle == libc::RTLD_DEFAULT || !is_seen {
        return 0;
    }
    let asker = owners::component_at(caller);
    let _guard = Guard::enter();
    let Some(found) = look_up(handle, name) else { return 0 };
    let owner = owners::component_at(found);
    if owner.is_none_or(|owner| owner == Component::TOOL) || owners::is_executables(found) {
        return 0;
    }
    let ours = exports::in_place_of(name.to_bytes(), found);
    // An allocator may take what is its own, and one that the tool calls may pass calls on.
    let next = exports::next(name);
    if ours.is_none() && next != 0 && asker != owner && asker != owners::component_at(next) {
        let name = name.to_str().unwrap_or("?");
        let [asker, owner] = [asker, owner].map(|component| {
            component.map_or("?", |component| dictionary::entered(component).name)
        });
        diagnostics::say(
            Code::UnseenBlocks,
            format_args!(
                "{asker} takes {name} of {owner} by dlsym: its blocks there have no owner"
            ),
        );
    }
    ours.unwrap_or(0)
}
