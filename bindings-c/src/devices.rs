//! Devices of the node, and their distribution over its ranks.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::{c_char, c_int};

use quo::Context;
use quo::context::Split;
use quo::topology::{Device, DeviceKind, shown_devices, visible_devices};

use crate::collective::refuse_selection;
use crate::create::context;
use crate::guard::{Failure, entry};
use crate::types::{QUO_t, RawOut, int, object_index, object_type, text_for_c};

const GPU: c_int = 0;

/// Returns the kind with the number of a `QUO_device_kind_t`.
fn device_kind(number: c_int) -> Result<DeviceKind, Failure> {
    let known = usize::try_from(number).ok().and_then(|index| DeviceKind::ALL.get(index).copied());
    known.ok_or_else(|| Failure::invalid(format!("{number} is not a QUO_device_kind_t")))
}

/// Returns the devices of a kind that the environment shows, in the order of the bus.
fn devices(context: &Context, kind: DeviceKind) -> Vec<Device> {
    let shown = shown_devices(&context.topology().devices(), |name| std::env::var(name).ok());
    shown.into_iter().filter(|device| device.kind == kind).collect()
}

fn device(context: &Context, kind: c_int, index: c_int) -> Result<Device, Failure> {
    let kind = device_kind(kind)?;
    let devices = devices(context, kind);
    let count = devices.len();
    let device = usize::try_from(index).ok().and_then(|index| devices.into_iter().nth(index));
    device.ok_or_else(|| {
        Failure::invalid(format!("there is no {kind} device {index}, the node shows {count}"))
    })
}

/// Returns the kind of a device, and the part of a split by its kind that is near it.
pub(crate) fn part_near(
    context: &Context,
    kind: c_int,
    index: c_int,
) -> Result<(DeviceKind, usize), Failure> {
    let device = device(context, kind, index)?;
    let part = Split::part_near(&context.topology(), &device);
    let part = part.ok_or_else(|| Failure::invalid(format!("{device} is no longer there")))?;
    Ok((device.kind, part))
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_ndevices(q: *mut QUO_t, kind: c_int, out_ndevices: RawOut<c_int>) -> c_int {
    entry("QUO_ndevices", || {
        let context = context(q)?;
        let place = out_ndevices.checked("out_ndevices")?;
        place.set_number(devices(&context, device_kind(kind)?).len())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_device(
    q: *mut QUO_t,
    kind: c_int,
    index: c_int,
    out_bus: RawOut<*mut c_char>,
    out_list: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_device", || {
        let (bus, list) = (out_bus.checked_null("out_bus"), out_list.checked_null("out_list"));
        let context = context(q)?;
        let (bus, list) = (bus?, list?);
        let device = device(&context, kind, index)?;
        list.set(text_for_c(&device.cpuset.to_string())?);
        bus.set(text_for_c(&device.bus)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_device_is_near(
    q: *mut QUO_t,
    kind: c_int,
    index: c_int,
    out_near: RawOut<c_int>,
) -> c_int {
    entry("QUO_device_is_near", || {
        let context = context(q)?;
        let place = out_near.checked("out_near")?;
        let device = device(&context, kind, index)?;
        place.set(c_int::from(device.is_near(&context.binding()?)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_device_in_type(
    q: *mut QUO_t,
    kind: c_int,
    index: c_int,
    r#type: c_int,
    in_type_index: c_int,
    out_near: RawOut<c_int>,
) -> c_int {
    entry("QUO_device_in_type", || {
        let context = context(q)?;
        let place = out_near.checked("out_near")?;
        let device = device(&context, kind, index)?;
        let outer = object_type(r#type)?;
        let number = object_index(outer, in_type_index, context.count(outer))?;
        let object = context.object(outer, number).map_err(Failure::of_index)?;
        place.set(c_int::from(device.is_near(&object.cpuset)));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_assign_device(q: *mut QUO_t, kind: c_int, out_index: RawOut<c_int>) -> c_int {
    entry("QUO_assign_device", || {
        let place = out_index.checked("out_index");
        let context = context(q)?;
        let (place, kind) = match place.and_then(|place| Ok((place, device_kind(kind)?))) {
            Ok(checked) => checked,
            Err(failure) => return Err(refuse_selection(&context, failure)),
        };
        let device = context.assign_device(kind)?;
        let number = |device: Device| {
            devices(&context, kind).iter().position(|other| other.bus == device.bus)
        };
        place.set(match device.and_then(number) {
            Some(index) => int(index)?,
            None => -1,
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_visible_devices(
    q: *mut QUO_t,
    gpu: c_int,
    out_variables: RawOut<*mut c_char>,
) -> c_int {
    entry("QUO_visible_devices", || {
        let place = out_variables.checked_null("out_variables");
        let context = context(q)?;
        let place = place?;
        let device = device(&context, GPU, gpu)?;
        let variables = visible_devices(&context.topology().devices(), &[device]);
        let texts: Vec<String> =
            variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
        place.set(text_for_c(&texts.join(" "))?);
        Ok(())
    })
}
