//! Scopes: contexts of some ranks on a part of the hardware.
#![allow(unsafe_code, reason = "the functions are exported under their C names")]

use std::ffi::c_int;

use quo::Context;
use quo::context::Split;

use crate::create::{context, keep_context};
use crate::devices::part_near;
use crate::guard::{Failure, entry};
use crate::types::{Ints, QUO_t, RawOut, object_type};

/// More parts than any node is split into; keeps a wrong count from being read as a list.
const MOST_PARTS: usize = 1 << 14;

/// How the parts are specified.
#[derive(Clone, Copy)]
enum By {
    Weight,
    Count,
}

fn spec(by: By, kind: c_int, count: c_int, numbers: Ints) -> Result<Split, Failure> {
    let kind = object_type(kind)?;
    let parts = usize::try_from(count).ok().filter(|parts| (1..=MOST_PARTS).contains(parts));
    let parts = parts.ok_or_else(|| {
        Failure::invalid(format!("{count} parts were asked for, give 1 to {MOST_PARTS}"))
    })?;
    let numbers = match (numbers.is_null(), by) {
        (true, By::Weight) => vec![1; parts],
        (true, By::Count) => return Err(Failure::invalid("the argument counts is NULL")),
        (false, _) => numbers.read(parts),
    };
    let number = |(part, &number): (usize, &c_int)| {
        u32::try_from(number).map_err(|_| {
            Failure::invalid(format!("part {part} was to get {number}, give a positive number"))
        })
    };
    let numbers = numbers.iter().enumerate().map(number).collect::<Result<Vec<u32>, _>>()?;
    let split = match by {
        By::Weight => Split::weights(&numbers),
        By::Count => Split::counts(&numbers),
    };
    Ok(split.over(kind))
}

/// Makes the scope of one part. A rank with wrong arguments takes part, so that the split fails on
/// every rank.
fn split(
    q: *mut QUO_t,
    request: impl FnOnce(&Context) -> Result<(Split, usize), Failure>,
    out_scope: RawOut<*mut QUO_t>,
) -> Result<(), Failure> {
    let place = out_scope.checked_null("out_scope");
    let context = context(q)?;
    let checked = place.and_then(|place| Ok((place, request(&context)?)));
    let (request, part) = match &checked {
        Ok((_, (split, part))) => (Ok(split), *part),
        Err(failure) => (Err(failure.text().to_owned()), 0),
    };
    let scope = context.split_request(request, part)?;
    let (place, _) = checked?;
    place.set(keep_context(scope.into_context())?);
    Ok(())
}

/// Converts the number of a part; a negative one becomes one that is too large.
fn number(part: c_int) -> usize {
    usize::try_from(part).unwrap_or(usize::MAX)
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_split_by_weight(
    q: *mut QUO_t,
    r#type: c_int,
    nparts: c_int,
    weights: Ints,
    part: c_int,
    out_scope: RawOut<*mut QUO_t>,
) -> c_int {
    entry("QUO_split_by_weight", || {
        let request = |_: &Context| Ok((spec(By::Weight, r#type, nparts, weights)?, number(part)));
        split(q, request, out_scope)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_split_by_count(
    q: *mut QUO_t,
    r#type: c_int,
    nparts: c_int,
    counts: Ints,
    part: c_int,
    out_scope: RawOut<*mut QUO_t>,
) -> c_int {
    entry("QUO_split_by_count", || {
        let request = |_: &Context| Ok((spec(By::Count, r#type, nparts, counts)?, number(part)));
        split(q, request, out_scope)
    })
}

#[unsafe(no_mangle)]
pub extern "C" fn QUO_split_by_device(
    q: *mut QUO_t,
    r#type: c_int,
    kind: c_int,
    index: c_int,
    out_scope: RawOut<*mut QUO_t>,
) -> c_int {
    entry("QUO_split_by_device", || {
        let request = |context: &Context| {
            let over = object_type(r#type)?;
            let (kind, part) = part_near(context, kind, index)?;
            Ok((Split::near(kind).over(over), part))
        };
        split(q, request, out_scope)
    })
}
