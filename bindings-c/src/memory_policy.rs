//! Memory on the NUMA nodes of bindings.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::{c_int, c_longlong, c_void};
use std::ops::Range;

use quo::ObjectType;
use quo::affinity::{MemoryPolicy, Target};

use crate::create::context;
use crate::guard::{Failure, entry};
use crate::types::{QUO_t, RawOut, object_index, object_type};

/// Used instead of a NUMA node for bytes without a page.
const ABSENT: c_int = -1;

/// Returns the policy with the number of a `QUO_memory_policy_t`; `None` for `QUO_MEMORY_KEEP`.
fn policy_of(number: c_int) -> Result<Option<MemoryPolicy>, Failure> {
    match number {
        0 => Ok(None),
        1 => Ok(Some(MemoryPolicy::Follow)),
        2 => Ok(Some(MemoryPolicy::Bind)),
        3 => Ok(Some(MemoryPolicy::Interleave)),
        _ => Err(Failure::invalid(format!("{number} is not a QUO_memory_policy_t"))),
    }
}

fn addresses(memory: *const c_void, bytes: usize) -> Result<Range<usize>, Failure> {
    let end = (memory as usize).checked_add(bytes).filter(|_| !memory.is_null() || bytes == 0);
    let end =
        end.ok_or_else(|| Failure::invalid(format!("there are no {bytes} B at {memory:p}")))?;
    Ok(memory as usize..end)
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_set_memory_policy(q: *mut QUO_t, policy: c_int) -> c_int {
    entry("QUO_set_memory_policy", || Ok(context(q)?.set_memory_policy(policy_of(policy)?)?))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_memory_place(
    q: *mut QUO_t,
    memory: *mut c_void,
    bytes: usize,
    r#type: c_int,
    obj_index: c_int,
    policy: c_int,
) -> c_int {
    entry("QUO_memory_place", || {
        let context = context(q)?;
        let kind = object_type(r#type)?;
        let index = object_index(kind, obj_index, context.count(kind))?;
        let policy = policy_of(policy)?;
        let policy = policy.ok_or_else(|| Failure::invalid("QUO_MEMORY_KEEP places nothing"))?;
        let target = Target::Object(kind, index);
        Ok(context.place_addresses(addresses(memory, bytes)?, &target, policy)?)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_memory_on_node(
    q: *mut QUO_t,
    memory: *const c_void,
    bytes: usize,
    numanode: c_int,
    out_bytes: RawOut<c_longlong>,
) -> c_int {
    entry("QUO_memory_on_node", || {
        let place = out_bytes.checked("out_bytes")?;
        let context = context(q)?;
        let index = match numanode {
            ABSENT => None,
            _ => {
                let count = context.count(ObjectType::NumaNode);
                Some(object_index(ObjectType::NumaNode, numanode, count)?)
            }
        };
        let places = context.places_of_addresses(addresses(memory, bytes)?)?;
        let found = index.map_or(places.absent, |index| places.nodes[index]);
        place.set(c_longlong::try_from(found).unwrap_or(c_longlong::MAX));
        Ok(())
    })
}
