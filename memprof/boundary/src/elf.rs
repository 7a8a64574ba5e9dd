//! Description of a loaded object: its dynamic section, symbols and relocations, read in memory.
//! Every address and length is checked against the object's segments, so that a damaged object
//! yields fewer results, and no fault.

#![allow(unsafe_code)]

/// Maximum number of segments, more than any linker writes.
const SEGMENTS: usize = 16;

/// Maximum number of entries of a table without a known size.
const LIMIT: usize = 1 << 22;

mod tag {
    pub const NEEDED: u64 = 1;
    pub const PLT_SIZE: u64 = 2;
    pub const HASH: u64 = 4;
    pub const STRINGS: u64 = 5;
    pub const SYMBOLS: u64 = 6;
    pub const RELA: u64 = 7;
    pub const RELA_SIZE: u64 = 8;
    pub const STRINGS_SIZE: u64 = 10;
    pub const SONAME: u64 = 14;
    pub const RPATH: u64 = 15;
    pub const PLT: u64 = 23;
    pub const RUNPATH: u64 = 29;
    pub const RELATIVE_COUNT: u64 = 0x6fff_fff9;
    pub const GNU_HASH: u64 = 0x6fff_fef5;
}

/// Relevant entries of the program header table.
pub mod segment {
    /// Segment that is loaded.
    pub const LOAD: u32 = 1;
    /// Contains the dynamic section.
    pub const DYNAMIC: u32 = 2;
    /// Contains notes.
    pub const NOTE: u32 = 4;
    /// Read-only after relocation.
    pub const RELRO: u32 = 0x6474_e552;
    /// Flag of a readable segment.
    pub const READABLE: u32 = 4;
}

/// Relocation kinds in the ABI of the target processor.
pub mod relocation {
    const KINDS: [u32; 3] =
        if cfg!(target_arch = "aarch64") { [1026, 1025, 257] } else { [7, 6, 1] };
    /// For a called function.
    pub const JUMP_SLOT: u32 = KINDS[0];
    /// For an address in the object's table.
    pub const GLOBAL_DATA: u32 = KINDS[1];
    /// For an address anywhere in the data.
    pub const ADDRESS: u32 = KINDS[2];
}

const SYMBOL_SIZE: usize = 24;
const RELOCATION_SIZE: usize = 24;
const DYNAMIC_SIZE: usize = 16;

/// A part of an object's relocations.
#[derive(Copy, Clone, Debug, Default)]
struct Table {
    address: usize,
    bytes: usize,
}

/// One relocation that names a symbol.
#[derive(Copy, Clone, Debug)]
pub struct Relocation<'a> {
    image: &'a Image,
    symbol: usize,
    /// Address of the word that is filled in; not checked to be in the object until the name is
    /// read.
    pub slot: usize,
    /// Type in the processor's ABI.
    pub kind: u32,
    /// Number added to the symbol's address.
    pub addend: u64,
}

impl<'a> Relocation<'a> {
    /// Returns the name, if it begins with one of these letters and the slot belongs to the object:
    /// of most names, only the first byte is read.
    pub fn symbol(&self, firsts: &[u8]) -> Option<&'a [u8]> {
        let image = self.image;
        let at = self.symbol.checked_mul(SYMBOL_SIZE)?;
        if at.checked_add(SYMBOL_SIZE)? > image.symbols_room {
            return None;
        }
        // SAFETY: in the readable segment of the symbols, as checked above.
        let offset = unsafe { core::ptr::read_unaligned((image.symbols + at) as *const u32) };
        if offset as usize >= image.strings_room {
            return None;
        }
        // SAFETY: as above, for the strings.
        let first = unsafe { *((image.strings.address + offset as usize) as *const u8) };
        let fits = firsts.contains(&first) && image.within(self.slot, 8);
        fits.then(|| image.string(offset as usize))?
    }
}

/// The readable parts of a loaded object.
#[derive(Clone, Debug, Default)]
pub struct Image {
    base: usize,
    segments: [(usize, usize); SEGMENTS],
    count: usize,
    dynamic: (usize, usize),
    /// Range that is read-only after relocation.
    pub read_only: (usize, usize),
    strings: Table,
    symbols: usize,
    /// Readable bytes of symbols, and of strings.
    symbols_room: usize,
    strings_room: usize,
    hash: usize,
    gnu_hash: usize,
    relocations: [Table; 2],
    /// Number of entries at the beginning of the first table that name no symbol.
    relative: usize,
    soname: Option<usize>,
    /// True if the object specifies directories to search for objects that it opens by name.
    pub has_search_path: bool,
}

impl Image {
    /// Creates an image of an object loaded at `base` above the addresses in its file.
    pub fn new(base: usize) -> Image {
        Image { base, ..Image::default() }
    }

    /// Adds a range of readable addresses in this process.
    ///
    /// # Safety
    ///
    /// The range stays mapped and readable while this image is used.
    pub unsafe fn add_segment(&mut self, start: usize, end: usize) {
        if start < end && self.count < SEGMENTS {
            self.segments[self.count] = (start, end);
            self.count += 1;
        }
    }

    /// Sets the address of the dynamic section, and reads it.
    pub fn set_dynamic(&mut self, address: usize, bytes: usize) {
        self.dynamic = (address, bytes.min(DYNAMIC_SIZE * 4096));
        let mut offsets = (0, 0);
        self.each_dynamic(|image, tag, value| {
            match tag {
                tag::STRINGS => image.strings.address = image.pointer(value),
                tag::STRINGS_SIZE => image.strings.bytes = value as usize,
                tag::SYMBOLS => image.symbols = image.pointer(value),
                tag::HASH => image.hash = image.pointer(value),
                tag::GNU_HASH => image.gnu_hash = image.pointer(value),
                tag::RELA => image.relocations[0].address = image.pointer(value),
                tag::RELA_SIZE => offsets.0 = value as usize,
                tag::RELATIVE_COUNT => image.relative = value as usize,
                tag::PLT => image.relocations[1].address = image.pointer(value),
                tag::PLT_SIZE => offsets.1 = value as usize,
                tag::SONAME => image.soname = Some(value as usize),
                tag::RPATH | tag::RUNPATH => image.has_search_path = true,
                _ => {}
            };
        });
        self.relocations[0].bytes = offsets.0;
        self.relocations[1].bytes = offsets.1;
        self.symbols_room = self.room(self.symbols);
        self.strings_room = self.room(self.strings.address).min(self.strings.bytes);
    }

    /// Converts a value of the dynamic section into an address. glibc has converted these values in
    /// memory; other loaders do not.
    fn pointer(&self, value: u64) -> usize {
        let value = value as usize;
        if self.within(value, 1) { value } else { self.base.wrapping_add(value) }
    }

    fn within(&self, address: usize, bytes: usize) -> bool {
        self.segments[..self.count]
            .iter()
            .any(|&(start, end)| address >= start && address < end && bytes <= end - address)
    }

    /// Reads a `T`, for which any bytes are a valid value.
    fn read<T: Number>(&self, address: usize) -> Option<T> {
        // SAFETY: the bytes are in a readable segment, and a number has no other requirement.
        self.within(address, size_of::<T>())
            .then(|| unsafe { core::ptr::read_unaligned(address as *const T) })
    }

    fn each_dynamic(&mut self, mut each: impl FnMut(&mut Image, u64, u64)) {
        let (address, bytes) = self.dynamic;
        for index in 0..bytes / DYNAMIC_SIZE {
            let entry = address.wrapping_add(index * DYNAMIC_SIZE);
            let (Some(tag), Some(value)) =
                (self.read::<u64>(entry), self.read::<u64>(entry.wrapping_add(8)))
            else {
                return;
            };
            if tag == 0 {
                return;
            }
            each(self, tag, value);
        }
    }

    /// Returns the text at an offset of the string table, without its terminator.
    fn string(&self, offset: usize) -> Option<&[u8]> {
        let left = self.strings.bytes.checked_sub(offset).filter(|&left| left > 0)?;
        let address = self.strings.address.checked_add(offset)?;
        let (_, end) = self.segments[..self.count]
            .iter()
            .copied()
            .find(|&(start, end)| address >= start && address < end)?;
        let length = left.min(end - address);
        // SAFETY: these bytes are in a readable segment.
        let bytes = unsafe { core::slice::from_raw_parts(address as *const u8, length) };
        let length = bytes.iter().position(|&byte| byte == 0)?;
        Some(&bytes[..length])
    }

    /// Returns the name by which other objects need this one.
    pub fn soname(&self) -> Option<&[u8]> {
        self.string(self.soname?)
    }

    /// Calls `each` with the names of the objects that this one needs.
    pub fn each_needed(&self, mut each: impl FnMut(&[u8])) {
        let (address, bytes) = self.dynamic;
        for index in 0..bytes / DYNAMIC_SIZE {
            let entry = address.wrapping_add(index * DYNAMIC_SIZE);
            match (self.read::<u64>(entry), self.read::<u64>(entry.wrapping_add(8))) {
                (Some(tag::NEEDED), Some(offset)) => {
                    if let Some(name) = self.string(offset as usize) {
                        each(name);
                    }
                }
                (None | Some(0), _) => return,
                _ => {}
            }
        }
    }

    /// Returns the name of a symbol, and whether it is defined in this object.
    fn symbol(&self, index: usize) -> Option<(&[u8], bool)> {
        let entry = self.symbols.checked_add(index.checked_mul(SYMBOL_SIZE)?)?;
        let name = self.string(self.read::<u32>(entry)? as usize)?;
        Some((name, self.read::<u16>(entry.checked_add(6)?)? != 0))
    }

    /// Returns true if it defines a symbol of this name for others.
    pub fn defines(&self, name: &[u8]) -> bool {
        self.find_gnu(name).or_else(|| self.find(name)).unwrap_or(false)
    }

    fn find_gnu(&self, name: &[u8]) -> Option<bool> {
        if self.gnu_hash == 0 {
            return None;
        }
        let word = |index: usize| self.read::<u32>(self.gnu_hash.checked_add(index * 4)?);
        let (buckets, first, bloom) = (word(0)? as usize, word(1)? as usize, word(2)? as usize);
        if buckets == 0 || buckets > LIMIT || bloom > LIMIT {
            return Some(false);
        }
        let hash = name
            .iter()
            .fold(5381u32, |hash, &byte| hash.wrapping_mul(33).wrapping_add(u32::from(byte)));
        // Most objects do not define the symbol, which one word of the filter shows.
        let filter = |bit: u32| 1_u64 << (bit % 64);
        let wanted = filter(hash) | filter(hash >> (word(3)? % 32));
        if bloom > 0 {
            let at = 16 + (hash as usize / 64 % bloom) * 8;
            if self.read::<u64>(self.gnu_hash.checked_add(at)?)? & wanted != wanted {
                return Some(false);
            }
        }
        let bucket = 4 + bloom * 2 + hash as usize % buckets;
        let start = word(bucket)? as usize;
        let Some(skip) = start.checked_sub(first) else {
            return Some(false);
        };
        let chain = 4 + bloom * 2 + buckets;
        for step in 0..LIMIT {
            let value = word(chain.checked_add(skip)?.checked_add(step)?)?;
            if value | 1 == hash | 1
                && let Some((found, defined)) = self.symbol(start + step)
                && found == name
                && defined
            {
                return Some(true);
            }
            if value & 1 == 1 {
                break;
            }
        }
        Some(false)
    }

    fn find(&self, name: &[u8]) -> Option<bool> {
        if self.hash == 0 {
            return None;
        }
        let word = |index: usize| self.read::<u32>(self.hash.checked_add(index.checked_mul(4)?)?);
        let (buckets, chains) = (word(0)? as usize, word(1)? as usize);
        if buckets == 0 {
            return Some(false);
        }
        let hash = name.iter().fold(0u32, |hash, &byte| {
            let hash = (hash << 4).wrapping_add(u32::from(byte));
            let high = hash & 0xf000_0000;
            (hash ^ (high >> 24)) & !high
        });
        let mut index = word(2 + hash as usize % buckets)? as usize;
        for _ in 0..chains.min(LIMIT) {
            if index == 0 {
                break;
            }
            if let Some((found, true)) = self.symbol(index)
                && found == name
            {
                return Some(true);
            }
            index = word(2usize.checked_add(buckets)?.checked_add(index)?)? as usize;
        }
        Some(false)
    }

    /// Returns the slot of the procedure linkage table that a loader fills in last.
    pub fn last_slot(&self, kind: u32) -> Option<usize> {
        let mut last = None;
        let Table { address, bytes } = self.relocations[1];
        for index in (0..(bytes / RELOCATION_SIZE).min(LIMIT)).rev() {
            let entry = address.wrapping_add(index * RELOCATION_SIZE);
            if self.read::<u64>(entry.wrapping_add(8))? as u32 == kind {
                last = Some(self.base.wrapping_add(self.read::<u64>(entry)? as usize));
                break;
            }
        }
        last.filter(|&slot| self.within(slot, 8))
    }

    /// Calls `each` with the relocations of these kinds that name a symbol, those of the procedure
    /// linkage table last.
    pub fn each_relocation(&self, kinds: &[u32], mut each: impl FnMut(Relocation<'_>)) {
        for (table, first) in self.relocations.into_iter().zip([self.relative, 0]) {
            let mut count = (table.bytes / RELOCATION_SIZE).min(LIMIT);
            if !self.within(table.address, count * RELOCATION_SIZE) {
                count = self.room(table.address) / RELOCATION_SIZE;
            }
            for index in first.min(count)..count {
                // SAFETY: all relocations are in one readable segment, and any bytes are three
                // valid numbers.
                let [offset, information, addend] = unsafe {
                    let entry = (table.address + index * RELOCATION_SIZE) as *const [u64; 3];
                    core::ptr::read_unaligned(entry)
                };
                let (symbol, kind) = ((information >> 32) as usize, information as u32);
                let slot = self.base.wrapping_add(offset as usize);
                if symbol != 0 && kinds.contains(&kind) {
                    each(Relocation { image: self, symbol, slot, kind, addend });
                }
            }
        }
    }

    /// Returns the number of readable bytes from an address on.
    fn room(&self, address: usize) -> usize {
        let segments = &self.segments[..self.count];
        let holds = |&&(start, end): &&(usize, usize)| address >= start && address < end;
        segments.iter().find(holds).map_or(0, |&(_, end)| end - address)
    }

    /// Returns the build id in a note segment.
    pub fn build_id(&self, notes: usize, bytes: usize) -> Option<&[u8]> {
        let (address, length) = self.note(notes, bytes, b"GNU\0", 3)?;
        // SAFETY: these bytes are in a readable segment.
        (length <= 64).then(|| unsafe { core::slice::from_raw_parts(address as *const u8, length) })
    }

    /// Returns the address of the word that the tool's archive provides for a preloaded tool, if a
    /// note segment contains it.
    pub fn archive_word(&self, notes: usize, bytes: usize) -> Option<usize> {
        let (address, _) = self.note(notes, bytes, b"memprof\0", 1)?;
        let word = address.wrapping_add(self.read::<u64>(address)? as usize);
        (self.within(word, 8) && word.is_multiple_of(8)).then_some(word)
    }

    /// Returns the address and length of the content of a note.
    fn note(&self, notes: usize, bytes: usize, who: &[u8], what: u32) -> Option<(usize, usize)> {
        let mut address = notes;
        let end = notes.checked_add(bytes)?;
        while address < end {
            let name = self.read::<u32>(address)? as usize;
            let length = self.read::<u32>(address.checked_add(4)?)? as usize;
            let kind = self.read::<u32>(address.checked_add(8)?)?;
            let text = address.checked_add(12)?;
            let description = text.checked_add(name.checked_add(3)? & !3)?;
            let named = || {
                who.iter().enumerate().all(|(at, &byte)| self.read::<u8>(text + at) == Some(byte))
            };
            if kind == what && name == who.len() && named() && self.within(description, length) {
                return Some((description, length));
            }
            address = description.checked_add(length.checked_add(3)? & !3)?;
        }
        None
    }
}

trait Number: Copy {}
impl Number for u8 {}
impl Number for u16 {}
impl Number for u32 {}
impl Number for u64 {}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Returns an object in a buffer: strings at 0, symbols at 256, dynamic section at 512, then
    /// the rest.
    fn object(words: &[(u64, u64)], fill: impl Fn(&mut [u8])) -> (Vec<u64>, Image) {
        let mut memory = vec![0u64; 256];
        let base = memory.as_ptr() as usize;
        // SAFETY: the same bytes.
        let bytes =
            unsafe { core::slice::from_raw_parts_mut(memory.as_mut_ptr().cast::<u8>(), 2048) };
        bytes[1..10].copy_from_slice(b"MPI_Init\0");
        bytes[10..20].copy_from_slice(b"libx.so.1\0");
        bytes[20..27].copy_from_slice(b"free()\0");
        for (index, name) in [(1u32, 1u32), (2, 20)] {
            let at = 256 + 24 * index as usize;
            bytes[at..at + 4].copy_from_slice(&name.to_le_bytes());
            bytes[at + 6..at + 8].copy_from_slice(&(index as u16 % 2).to_le_bytes());
        }
        for (index, (tag, value)) in words.iter().enumerate() {
            let at = 512 + 16 * index;
            bytes[at..at + 8].copy_from_slice(&tag.to_le_bytes());
            bytes[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
        }
        fill(bytes);
        let mut image = Image::new(base);
        // SAFETY: the buffer outlives the image in every test.
        unsafe { image.add_segment(base, base + 2048) };
        image.set_dynamic(base + 512, 512);
        (memory, image)
    }

    #[test]
    fn names_and_relocations_are_found() {
        let words = [
            (tag::STRINGS, 0),
            (tag::STRINGS_SIZE, 200),
            (tag::SYMBOLS, 256),
            (tag::NEEDED, 10),
            (tag::SONAME, 10),
            (tag::PLT, 1200),
            (tag::PLT_SIZE, 48),
            (tag::HASH, 1500),
        ];
        let (memory, image) = object(&words, |bytes| {
            bytes[1200..1208].copy_from_slice(&1400u64.to_le_bytes());
            bytes[1208..1216].copy_from_slice(&(2u64 << 32 | 7).to_le_bytes());
            // One bucket, three chains: bucket 0 starts with symbol 1, which is followed by 2.
            for (index, word) in [1u32, 3, 1, 0, 2, 0].iter().enumerate() {
                bytes[1500 + index * 4..1504 + index * 4].copy_from_slice(&word.to_le_bytes());
            }
        });
        assert_eq!(image.soname(), Some(&b"libx.so.1"[..]));
        let mut needed = Vec::new();
        image.each_needed(|name| needed.push(name.to_vec()));
        assert_eq!(needed, [b"libx.so.1".to_vec()]);
        let mut found = Vec::new();
        image.each_relocation(&[6], |_| panic!("there is none of this kind"));
        image.each_relocation(&[7], |relocation| {
            assert_eq!(relocation.symbol(b"xyz"), None);
            let symbol = relocation.symbol(b"ef").map(<[u8]>::to_vec);
            found.push((relocation.slot, relocation.kind, symbol));
        });
        assert_eq!(found, [(memory.as_ptr() as usize + 1400, 7, Some(b"free()".to_vec()))]);
        assert!(image.defines(b"MPI_Init"));
        assert!(!image.defines(b"free()"), "only needed here");
        assert!(!image.defines(b"MPI_Finalize"));
    }

    #[test]
    fn the_program_that_runs_this_is_understood() {
        let path = std::env::current_exe().expect("a path");
        let file = std::fs::read(path).expect("readable");
        let base = file.as_ptr() as usize;
        let half = |at: usize| u16::from_le_bytes([file[at], file[at + 1]]);
        let mut image = Image::new(base);
        // As a file, not as loaded: strings and symbols are where they would be loaded, since the
        // first segment starts at 0.
        // SAFETY: the file's bytes outlive the image.
        unsafe { image.add_segment(base, base + file.len()) };
        let headers = u64::from_le_bytes(file[32..40].try_into().expect("eight")) as usize;
        for index in 0..usize::from(half(56)) {
            let at = headers + index * usize::from(half(54));
            let word = |offset: usize| {
                u64::from_le_bytes(file[at + offset..at + offset + 8].try_into().expect("eight"))
            };
            if u32::from_le_bytes(file[at..at + 4].try_into().expect("four")) == segment::DYNAMIC {
                image.set_dynamic(base + word(8) as usize, word(32) as usize);
            }
        }
        let mut needed = Vec::new();
        image.each_needed(|name| needed.push(String::from_utf8_lossy(name).into_owned()));
        assert!(needed.iter().any(|name| name == "libc.so.6"), "{needed:?}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_a_fault(
            words in proptest::collection::vec((0u64..40, any::<u64>()), 0..32),
            near in proptest::collection::vec((0u64..40, 0u64..2100), 0..32),
            noise in proptest::collection::vec(any::<u8>(), 1024),
            name in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let mut words = words;
            words.extend(near);
            words.push((tag::GNU_HASH, 1024));
            let (_memory, image) = object(&words, |bytes| bytes[1024..].copy_from_slice(&noise));
            image.each_needed(|_| ());
            let all: Vec<u32> = (0..64).collect();
            image.each_relocation(&all, |relocation| {
                let _ = relocation.symbol(&name);
            });
            let _ = image.soname();
            let _ = image.defines(&name);
            let _ = image.build_id(image.base + 1024, 1024);
            let _ = image.archive_word(image.base + 1024, 1024);
        }
    }
}
