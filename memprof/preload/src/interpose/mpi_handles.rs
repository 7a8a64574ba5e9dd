//! Functions that make and free MPI objects, as the program calls them: counted in the ledger of
//! handles by the place of the call. Calls from inside MPI are MPI's own, and are not counted.

#![allow(unsafe_code)]

use core::sync::atomic::{AtomicU32, Ordering};

use memprof_boundary::functions::{self, Name};
use memprof_boundary::handles::{Effect, Handle, Of, effect};
use memprof_boundary::thunks;
use memprof_trace::classify::HandleForm;

use crate::base::dictionary::{self, Class};
use crate::base::thread::{Guard, local};
use crate::ledger::call_stacks;
use crate::ledger::handles;
use crate::owners;

/// Maximum number of words of a function.
const WORDS: usize = 13;
/// Number of words that every wrapper takes; wrappers of other functions take all.
const FEW: usize = 6;

type Few = unsafe extern "C-unwind" fn(usize, usize, usize, usize, usize, usize) -> usize;
type Many = unsafe extern "C-unwind" fn(
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
    usize,
) -> usize;

/// Makes calls of the function from outside MPI go through a wrapper, if the function makes or
/// frees objects. Its entry has its target.
pub fn wrap(name: Name) {
    let Some(effect) = effect(name.function) else { return };
    EFFECTS[name.function].store(pack(effect), Ordering::Relaxed);
    let wrapper = match (functions::words(name.function) <= FEW, name.profiling) {
        (true, false) => few::<false> as Few as usize,
        (true, true) => few::<true> as Few as usize,
        (false, false) => many::<false> as Many as usize,
        (false, true) => many::<true> as Many as usize,
    };
    thunks::wrap(name, wrapper);
}

/// Effect of each function that is wrapped, packed; 0 for others.
static EFFECTS: [AtomicU32; functions::COUNT] = [const { AtomicU32::new(0) }; functions::COUNT];

fn pack(effect: Effect) -> u32 {
    let of = |of: Of| match of {
        Of::Process => 0,
        Of::First => 1,
        Of::Text(word) => 2 + word,
    };
    let (tag, kind, more) = match effect {
        Effect::Makes(kind, word) => (1, kind, word),
        Effect::MakesTwo(kind, word) => (2, kind, word),
        Effect::MakesMany(kind, word) => (3, kind, word),
        Effect::Frees(kind) => (4, kind, 0),
        Effect::Begins(kind, what) => (5, kind, of(what)),
        Effect::Ends(kind, what) => (6, kind, of(what)),
    };
    tag | (kind as u32) << 8 | u32::from(more) << 16
}

fn unpack(packed: u32) -> Option<Effect> {
    let kind = *Handle::ALL.get((packed >> 8 & 0xFF) as usize)?;
    let more = (packed >> 16) as u8;
    let of = || match more {
        0 => Of::Process,
        1 => Of::First,
        word => Of::Text(word - 2),
    };
    Some(match packed & 0xFF {
        1 => Effect::Makes(kind, more),
        2 => Effect::MakesTwo(kind, more),
        3 => Effect::MakesMany(kind, more),
        4 => Effect::Frees(kind),
        5 => Effect::Begins(kind, of()),
        6 => Effect::Ends(kind, of()),
        _ => return None,
    })
}

unsafe extern "C-unwind" fn few<const PROFILING: bool>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> usize {
    let call = |real: usize| {
        // SAFETY: the arguments of the program's call of this function, which takes at most these.
        unsafe { core::mem::transmute::<usize, Few>(real)(a, b, c, d, e, f) }
    };
    // SAFETY: as above.
    unsafe { counted(PROFILING, &[a, b, c, d, e, f], call) }
}

unsafe extern "C-unwind" fn many<const PROFILING: bool>(
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
    g: usize,
    h: usize,
    i: usize,
    j: usize,
    k: usize,
    l: usize,
    m: usize,
) -> usize {
    let words: [usize; WORDS] = [a, b, c, d, e, f, g, h, i, j, k, l, m];
    let call = |real: usize| {
        // SAFETY: the arguments of the program's call of this function, which takes at most these.
        unsafe { core::mem::transmute::<usize, Many>(real)(a, b, c, d, e, f, g, h, i, j, k, l, m) }
    };
    // SAFETY: as above.
    unsafe { counted(PROFILING, &words, call) }
}

/// Calls the function and counts its effect.
///
/// # Safety
///
/// `words` are the arguments of the thread's outermost call of MPI.
#[inline]
unsafe fn counted(profiling: bool, words: &[usize], call: impl Fn(usize) -> usize) -> usize {
    // The entry has stored the function.
    let function = local().mpi.function.get().wrapping_sub(1);
    let real = thunks::real(Name { function, profiling });
    let packed = EFFECTS.get(function).map_or(0, |effect| effect.load(Ordering::Relaxed));
    let form = owners::handle_form();
    let Some(effect) = unpack(packed).filter(|_| form != HandleForm::Unknown) else {
        return call(real);
    };
    let handle_at = |at: usize, index: usize| {
        let kind = kind_of(effect);
        // SAFETY: the program passes this address to MPI, which reads or writes the handle there.
        unsafe { read(form, kind, at, index) }
    };
    let freed = match effect {
        Effect::Frees(kind) => {
            handle_at(words[0], 0).and_then(|handle| handles::take(kind, handle))
        }
        // SAFETY: guaranteed by the caller.
        Effect::Ends(kind, of) => handles::take(kind, unsafe { identity(of, words, form) }),
        Effect::MakesMany(_, count) => {
            let (length, array) = array(words, count);
            let mut earlier = [0; MANY];
            for (index, earlier) in earlier.iter_mut().enumerate().take(length) {
                *earlier = handle_at(array, index).unwrap_or(0);
            }
            let result = call(real);
            for (index, earlier) in earlier.into_iter().enumerate().take(length) {
                // Entries behind the last new handle are as before. There is at least one.
                let new = handle_at(array, index).filter(|new| index == 0 || *new != earlier);
                count_new(effect, form, function, new.filter(|_| result as i32 == 0));
            }
            return result;
        }
        _ => None,
    };
    let result = call(real);
    let has_succeeded = result as i32 == 0;
    match effect {
        _ if !has_succeeded => freed.into_iter().for_each(handles::put_back),
        Effect::Makes(_, word) => {
            count_new(effect, form, function, handle_at(words[usize::from(word)], 0));
        }
        Effect::MakesTwo(_, word) => {
            for at in &words[usize::from(word)..][..2] {
                count_new(effect, form, function, handle_at(*at, 0));
            }
        }
        Effect::Begins(kind, of) => {
            // SAFETY: guaranteed by the caller.
            let object = unsafe { identity(of, words, form) };
            handles::made(kind, object, function, call_site());
        }
        _ => {}
    }
    result
}

/// Maximum number of handles that are counted of one call.
const MANY: usize = 64;

fn kind_of(effect: Effect) -> Handle {
    match effect {
        Effect::Makes(kind, _)
        | Effect::MakesTwo(kind, _)
        | Effect::MakesMany(kind, _)
        | Effect::Frees(kind)
        | Effect::Begins(kind, _)
        | Effect::Ends(kind, _) => kind,
    }
}

/// Counts a handle that a call has returned, unless it is predefined or none.
fn count_new(effect: Effect, form: HandleForm, function: usize, handle: Option<u64>) {
    let kind = kind_of(effect);
    if let Some(handle) = handle.filter(|handle| is_new(form, kind, *handle)) {
        handles::made(kind, handle, function, call_site());
    }
}

/// Returns length and address of the array that a call fills, if it is not too long.
fn array(words: &[usize], count: u8) -> (usize, usize) {
    let length = words[usize::from(count)] as u32 as usize;
    let last = if count == 3 { words[6] } else { words[8] };
    if length > MANY || last == 0 { (0, 0) } else { (length, last) }
}

/// Returns the number of bytes of a handle.
fn size(form: HandleForm, kind: Handle) -> usize {
    if form == HandleForm::Integers && kind != Handle::File { 4 } else { 8 }
}

/// Returns the handle at an index of an array.
///
/// # Safety
///
/// `array` is 0, or the address of a handle that the program passes to MPI.
unsafe fn read(form: HandleForm, kind: Handle, array: usize, index: usize) -> Option<u64> {
    let size = size(form, kind);
    let at = array + size * index;
    if array == 0 {
        return None;
    }
    // SAFETY: guaranteed by the caller.
    Some(unsafe {
        if size == 4 {
            (at as *const u32).read_unaligned().into()
        } else {
            (at as *const u64).read_unaligned()
        }
    })
}

/// Returns true for a handle of an object made at run time, and false for predefined ones and for
/// none.
fn is_new(form: HandleForm, kind: Handle, handle: u64) -> bool {
    const PREDEFINED: u64 = 1 << 12;
    if size(form, kind) == 4 {
        return handle >> 31 == 1;
    }
    // The program may have a copy of the library's data.
    handle >= PREDEFINED && (form != HandleForm::Addresses || owners::is_nobodys(handle as usize))
}

/// Returns a number for an object without a handle.
///
/// # Safety
///
/// `words` are the arguments of a call that names the object in this way.
unsafe fn identity(of: Of, words: &[usize], form: HandleForm) -> u64 {
    match of {
        Of::Process => 1,
        Of::First if form == HandleForm::Integers => words[0] as u32 as u64,
        Of::First => words[0] as u64,
        // SAFETY: guaranteed by the caller.
        Of::Text(word) => unsafe { hash(words[usize::from(word)]) },
    }
}

/// Maximum length of the name of a port, in all MPIs.
const PORT_NAME: usize = 4096;

/// Returns a hash of the zero-terminated text at an address.
///
/// # Safety
///
/// `at` is 0, or the address of a text.
unsafe fn hash(at: usize) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    if at == 0 {
        return hash;
    }
    for place in 0..PORT_NAME {
        // SAFETY: guaranteed by the caller; no byte behind the end is read.
        let byte = unsafe { *((at + place) as *const u8) };
        if byte == 0 {
            break;
        }
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash
}

/// Returns the return address of the program's call: that of the call of MPI, or, where MPI's
/// binding for another language made it, that of the call of the binding.
fn call_site() -> usize {
    let position = &local().mpi;
    let address = position.return_address.get();
    if !is_of_mpi(address) {
        return address;
    }
    let _guard = Guard::enter();
    let (frames, depth) = call_stacks::stack(address, position.stack.get());
    frames[..depth].iter().copied().find(|frame| !is_of_mpi(*frame)).unwrap_or(address)
}

/// Returns true for code of MPI, of its bindings or of the tool.
fn is_of_mpi(address: usize) -> bool {
    let class = owners::component_at(address).map(dictionary::class);
    matches!(class, Some(Class::MpiCore | Class::MpiDependency | Class::Tool))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_effect_is_the_same_after_packing() {
        for function in 0..functions::COUNT {
            if let Some(effect) = effect(function) {
                assert_eq!(unpack(pack(effect)), Some(effect));
            }
        }
        assert_eq!(unpack(0), None);
    }

    #[test]
    fn handles_of_integers_and_addresses_are_told_from_predefined_ones() {
        let (integers, addresses) = (HandleForm::Integers, HandleForm::Addresses);
        let standard = HandleForm::Standard;
        for (form, kind, handle, new) in [
            (integers, Handle::Communicator, 0x4400_0000, false),
            (integers, Handle::Communicator, 0x0400_0000, false),
            (integers, Handle::Communicator, 0x8400_0001, true),
            (integers, Handle::Datatype, 0xCC00_0001, true),
            (integers, Handle::File, 0, false),
            (integers, Handle::File, 0x5555_5000_1000, true),
            (addresses, Handle::Communicator, 0x101, false),
            (addresses, Handle::Communicator, 0, false),
            (addresses, Handle::Communicator, 0x5555_5000_1000, true),
            (standard, Handle::Communicator, 0x101, false),
        ] {
            assert_eq!(is_new(form, kind, handle), new, "{form:?} {kind:?} {handle:x}");
        }
        owners::refresh();
        let predefined = core::ptr::from_ref(&EFFECTS) as u64;
        assert!(!is_new(addresses, Handle::Op, predefined), "data of a loaded object");
        assert!(is_new(standard, Handle::Op, predefined));
    }

    #[test]
    fn numbers_of_handles_and_texts_are_read_in_their_size() {
        let handles = [0x8400_0001_u32, 0x8400_0002];
        let at = handles.as_ptr() as usize;
        // SAFETY: two handles of four bytes.
        let read = |index| unsafe { read(HandleForm::Integers, Handle::Datatype, at, index) };
        assert_eq!([read(0), read(1)], [Some(0x8400_0001), Some(0x8400_0002)]);
        // SAFETY: texts that end.
        let of = |text: &core::ffi::CStr| unsafe { hash(text.as_ptr() as usize) };
        assert_eq!(of(c"port 1"), of(c"port 1"));
        assert_ne!(of(c"port 1"), of(c"port 2"));
        // SAFETY: no text.
        assert_ne!(unsafe { hash(0) }, of(c"port"));
    }
}
