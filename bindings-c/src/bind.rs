//! Changing the binding.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::c_int;

use quo::affinity::{BindError, Target};
use quo::{Context, CpuSet, Error, ObjectType};

use crate::create::context;
use crate::guard::{Failure, entry};
use crate::types::{QUO_t, Text, object_index, object_type};

const PROVIDED: c_int = 0;
const ENCLOSING: c_int = 1;

#[unsafe(no_mangle)]
pub extern "C" fn QUO_bind_push(
    q: *mut QUO_t,
    policy: c_int,
    r#type: c_int,
    obj_index: c_int,
) -> c_int {
    entry("QUO_bind_push", || {
        let context = context(q)?;
        let kind = object_type(r#type)?;
        match policy {
            PROVIDED => {
                let index = object_index(kind, obj_index, context.count(kind))?;
                context.push(&Target::Object(kind, index))?;
            }
            ENCLOSING => push_enclosing(&context, kind)?,
            _ => return Err(Failure::invalid(format!("{policy} is not a push policy"))),
        }
        Ok(())
    })
}

/// Pushes the object around the binding. Programs for this interface also push objects that are
/// smaller than the binding, and expect the first one that shares a CPU with it.
fn push_enclosing(context: &Context, kind: ObjectType) -> Result<(), Failure> {
    let error = match context.push(&Target::Enclosing(kind)) {
        Ok(_) => return Ok(()),
        Err(error) => error,
    };
    if !matches!(error, Error::Bind(BindError::NotEnclosed { .. })) {
        return Err(error.into());
    }
    let topology = context.topology();
    let usable = context.binding()?.intersection(topology.allowed());
    let mut objects = topology.objects(kind).iter();
    match objects.position(|object| object.cpuset.intersects(&usable)) {
        Some(index) => {
            context.push(&Target::Object(kind, index)).map(|_| ()).map_err(Failure::from)
        }
        None => Err(error.into()),
    }
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_bind_push_cpuset(q: *mut QUO_t, list: Text) -> c_int {
    entry("QUO_bind_push_cpuset", || {
        let context = context(q)?;
        let list = list.read("list")?;
        let set: CpuSet = list.parse().map_err(|error| Failure::invalid(format!("{error}")))?;
        let unknown = set.difference(context.topology().machine_cpuset());
        if set.is_empty() || !unknown.is_empty() {
            let cause = if set.is_empty() {
                "it names no CPU".to_owned()
            } else {
                format!("the machine has no CPU {unknown}")
            };
            return Err(Failure::invalid(format!("`{list}` cannot be bound to: {cause}")));
        }
        context.push(&Target::Cpus(set))?;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_bind_pop(q: *mut QUO_t) -> c_int {
    entry("QUO_bind_pop", || {
        context(q)?.pop()?;
        Ok(())
    })
}
