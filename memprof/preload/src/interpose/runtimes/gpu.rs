//! Functions of the runtimes of GPUs that allocate and free memory, as the program and its
//! libraries call them: counted in the ledger of that memory by the place of the call. Calls from
//! inside a runtime are its own, and are not counted.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicUsize, Ordering};

use crate::base::component::Component;
use crate::base::diagnostics::{self, Code};
use crate::base::dictionary;
use crate::base::thread::{Guard, local};
use crate::interpose::hooked::hook_code;
use crate::ledger::gpu::{self, Call, Kind};
use crate::ledger::ranges;
use crate::owners;

use Effect::{Allocates, AllocatesRows, Frees};
use Kind::{Device, Managed, Pinned};

/// Effect of a successful call. A call succeeds if it returns 0.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
enum Effect {
    /// The new pointer is at the address in the first argument; the second is the number of bytes.
    Allocates(Kind),
    /// The new pointer and the bytes of a row are at the addresses in the first two arguments; the
    /// fourth is the number of rows.
    AllocatesRows,
    /// The memory in the first argument is freed.
    Frees,
}

type Entry = unsafe extern "C-unwind" fn();

struct Function {
    name: &'static str,
    effect: Effect,
    entry: Entry,
}

macro_rules! functions {
    ($($at:literal $name:literal $effect:expr;)*) => {
        const FUNCTIONS: &[Function] = &[
            $(Function { name: $name, effect: $effect, entry: entry::<$at> },)*
        ];
    };
}

// Names with a version take pointers of eight bytes: the driver's current header uses them. Names
// with `_ptsz` are for programs with a default stream for each thread.
functions! {
    0 "cudaMalloc" Allocates(Device);
    1 "cudaMallocPitch" AllocatesRows;
    2 "cudaMallocAsync" Allocates(Device);
    3 "cudaMallocAsync_ptsz" Allocates(Device);
    4 "cudaMallocFromPoolAsync" Allocates(Device);
    5 "cudaMallocFromPoolAsync_ptsz" Allocates(Device);
    6 "cudaMallocManaged" Allocates(Managed);
    7 "cudaMallocHost" Allocates(Pinned);
    8 "cudaHostAlloc" Allocates(Pinned);
    9 "cudaFree" Frees;
    10 "cudaFreeAsync" Frees;
    11 "cudaFreeAsync_ptsz" Frees;
    12 "cudaFreeHost" Frees;
    13 "cuMemAlloc_v2" Allocates(Device);
    14 "cuMemAllocPitch_v2" AllocatesRows;
    15 "cuMemAllocAsync" Allocates(Device);
    16 "cuMemAllocAsync_ptsz" Allocates(Device);
    17 "cuMemAllocFromPoolAsync" Allocates(Device);
    18 "cuMemAllocFromPoolAsync_ptsz" Allocates(Device);
    19 "cuMemAllocManaged" Allocates(Managed);
    20 "cuMemAllocHost_v2" Allocates(Pinned);
    21 "cuMemHostAlloc" Allocates(Pinned);
    22 "cuMemFree_v2" Frees;
    23 "cuMemFreeAsync" Frees;
    24 "cuMemFreeAsync_ptsz" Frees;
    25 "cuMemFreeHost" Frees;
    26 "hipMalloc" Allocates(Device);
    27 "hipExtMallocWithFlags" Allocates(Device);
    28 "hipMallocPitch" AllocatesRows;
    29 "hipMallocAsync" Allocates(Device);
    30 "hipMallocFromPoolAsync" Allocates(Device);
    31 "hipMallocManaged" Allocates(Managed);
    32 "hipMallocHost" Allocates(Pinned);
    33 "hipHostMalloc" Allocates(Pinned);
    34 "hipHostAlloc" Allocates(Pinned);
    35 "hipFree" Frees;
    36 "hipFreeAsync" Frees;
    37 "hipHostFree" Frees;
    38 "hipFreeHost" Frees;
    39 "hipMemAllocHost" Allocates(Pinned);
    40 "hipMemAllocPitch" AllocatesRows;
}

/// The real functions; 0 where none is found yet.
static REAL: [AtomicUsize; FUNCTIONS.len()] = [const { AtomicUsize::new(0) }; FUNCTIONS.len()];

fn find(symbol: &[u8]) -> Option<usize> {
    FUNCTIONS.iter().position(|function| function.name.as_bytes() == symbol)
}

/// Returns true if `symbol` is one of the functions.
pub fn is_one(symbol: &[u8]) -> bool {
    find(symbol).is_some()
}

/// Returns true for the file name of a library that is part of a runtime or driver.
pub fn is_runtime(name: &str) -> bool {
    ["libcuda.so", "libcudart", "libamdhip64.so", "libhsa-runtime64.so", "libhsakmt.so"]
        .iter()
        .any(|start| name.starts_with(start))
}

/// Returns the target of a call to `symbol`, which is defined at `found`. The first definition
/// is the one that is counted.
pub fn target(symbol: &[u8], found: usize) -> Option<usize> {
    let at = find(symbol)?;
    let before = REAL[at].compare_exchange(0, found, Ordering::AcqRel, Ordering::Acquire);
    if before.is_err_and(|before| before != found) {
        let name = FUNCTIONS[at].name;
        diagnostics::say(
            Code::NoBoundary,
            format_args!("a second {name} is loaded: its calls are not counted"),
        );
        return None;
    }
    Some(FUNCTIONS[at].entry as usize)
}

/// Entry of the function with this index.
///
/// # Safety
///
/// As required by the function.
#[unsafe(naked)]
unsafe extern "C-unwind" fn entry<const AT: usize>() {
    hook_code!(work::<AT>)
}

/// Changes the owner of pinned memory.
fn give(pointer: u64, bytes: u64, from: impl Fn(Component) -> bool, to: Component) {
    let _guard = Guard::enter();
    ranges::give(pointer as usize, bytes as usize, from, to);
}

/// Changes the owner of pinned memory to one that it had before.
fn give_back(pointer: u64, bytes: u64, from: impl Fn(Component) -> bool, to: Component) {
    let _guard = Guard::enter();
    ranges::give_back(pointer as usize, bytes as usize, from, to);
}

/// Returns true for the component of a runtime or driver.
fn is_runtimes(component: Component) -> bool {
    is_runtime(dictionary::entered(component).name)
}

type Real = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> usize;

unsafe extern "C-unwind" fn work<const AT: usize>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    caller: usize,
    stack: usize,
) -> usize {
    let call = || {
        let real = REAL[AT].load(Ordering::Acquire);
        // SAFETY: the real function, which exists where its entry is called, with the arguments of
        // its caller; it takes at most these.
        unsafe { core::mem::transmute::<usize, Real>(real)(a, b, c, d, e, f) }
    };
    let effect = FUNCTIONS[AT].effect;
    if local().guard.get() > 0 {
        return call();
    }
    let freed = if effect == Frees { gpu::take(a as u64) } else { None };
    // Whether or not the runtime unmaps pinned memory now, it has it again.
    let freed_pinned = freed.and_then(|freed| Some((freed, freed.pinned_for?)));
    let runtime = owners::component_at(REAL[AT].load(Ordering::Acquire));
    if let (Some((freed, owner)), Some(runtime)) = (freed_pinned, runtime) {
        give_back(freed.pointer, freed.bytes, |component| component == owner, runtime);
    }
    let result = call();
    let has_succeeded = result as i32 == 0;
    match effect {
        Frees if !has_succeeded => {
            freed.into_iter().for_each(gpu::put_back);
            if let Some((freed, owner)) = freed_pinned {
                give_back(freed.pointer, freed.bytes, is_runtimes, owner);
            }
        }
        Allocates(_) | AllocatesRows if has_succeeded && a != 0 => {
            // SAFETY: the function has written to the addresses that it was called with.
            let (pointer, bytes) = unsafe {
                let pointer = (a as *const u64).read_unaligned();
                match effect {
                    AllocatesRows if b != 0 => {
                        (pointer, (b as *const usize).read_unaligned().saturating_mul(d))
                    }
                    _ => (pointer, b),
                }
            };
            let kind = if let Allocates(kind) = effect { kind } else { Device };
            let call = Call { function: FUNCTIONS[AT].name, address: caller };
            let owner = owners::owner(caller, stack);
            gpu::allocated(kind, pointer, bytes as u64, owner, call);
            if kind == Pinned {
                give(pointer, bytes as u64, is_runtimes, owner);
            }
        }
        _ => {}
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_found_by_names_that_patching_reads() {
        let firsts = crate::interpose::patch::FIRSTS;
        for (at, function) in FUNCTIONS.iter().enumerate() {
            assert_eq!(find(function.name.as_bytes()), Some(at));
            assert!(firsts.contains(&function.name.as_bytes()[0]));
        }
        assert!(!is_one(b"cudaMemcpy") && !is_one(b"cuMemAlloc"));
    }

    #[test]
    fn runtimes_are_known_by_their_file_names() {
        for name in ["libcudart-a1.so.11.0", "libcudart.so.12", "libcuda.so.1", "libamdhip64.so.6"]
        {
            assert!(is_runtime(name), "{name}");
        }
        assert!(!is_runtime("libcudnn.so.9") && !is_runtime("libmpi.so.40"));
    }
}
