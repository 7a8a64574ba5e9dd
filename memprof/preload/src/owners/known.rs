//! Facts stored about each loaded object.

#![allow(unsafe_code)]

use core::ffi::CStr;

use memprof_boundary::elf::{Image, segment};
use memprof_trace::classify::HandleForm;

use crate::base::component::Component;
use crate::base::dictionary::Class;

/// Number of needed libraries of one object that are considered.
pub(super) const NEEDS: usize = 40;

/// Capacity for a path. Longer paths are cut, and such objects are not patched.
pub(super) const PATH: usize = 512;

/// Returns the hash that stands for a name.
pub(super) fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// Facts about a loaded object. All zeros is an empty entry.
#[derive(Copy, Clone)]
pub struct Known {
    pub low: usize,
    /// Exclusive.
    pub high: usize,
    pub component: Component,
    pub class: Class,
    /// True for the first object, the program.
    pub executable: bool,
    /// True if loaded before the program ran: the object is then never unloaded.
    pub initial: bool,
    /// True if the object defines the MPI functions for C; bindings for other languages do not.
    pub defines_mpi: bool,
    /// Form of the handles of the functions that it defines.
    pub(super) handles: HandleForm,
    /// True if the object specifies directories to search for objects that it opens.
    pub has_search_path: bool,
    /// Distance between the addresses in the file and those in memory.
    pub base: usize,
    pub headers: usize,
    pub header_count: u16,
    pub(super) neutral: bool,
    pub(super) live: bool,
    pub(super) opened_by_mpi: bool,
    pub(super) opened_by_program: bool,
    pub(super) tool: bool,
    pub(super) known: Option<Class>,
    pub(super) seen: u32,
    /// Number of the walk that found the object.
    pub since: u32,
    pub(super) path: [u8; PATH],
    pub(super) path_length: u16,
    pub(super) file_start: u16,
    pub(super) names: [u64; 2],
    pub(super) needs: [u64; NEEDS],
    pub(super) need_count: u8,
    pub(super) build_id: [u8; 20],
    pub(super) build_id_length: u8,
    /// Set in a program that was linked with the archive: see [`Image::archive_word`].
    pub archive_word: usize,
}

impl Known {
    /// Returns true for a program that contains MPI, so that its parts have several owners.
    pub(super) fn holds_mpi(&self) -> bool {
        self.executable && (cfg!(feature = "archive") || self.archive_word != 0)
    }

    pub(super) const EMPTY: Known = Known {
        low: 0,
        high: 0,
        component: Component::UNATTRIBUTED,
        class: Class::AppLibrary,
        executable: false,
        initial: false,
        defines_mpi: false,
        handles: HandleForm::Unknown,
        has_search_path: false,
        base: 0,
        headers: 0,
        header_count: 0,
        neutral: true,
        live: false,
        opened_by_mpi: false,
        opened_by_program: false,
        tool: false,
        known: None,
        seen: 0,
        since: 0,
        path: [0; PATH],
        path_length: 0,
        file_start: 0,
        names: [0; 2],
        needs: [0; NEEDS],
        need_count: 0,
        build_id: [0; 20],
        build_id_length: 0,
        archive_word: 0,
    };

    /// Returns the path at which the loader found the object.
    pub fn path(&self) -> &str {
        core::str::from_utf8(&self.path[..usize::from(self.path_length)]).unwrap_or("?")
    }

    /// Returns true if the loader found the object at this path.
    pub(super) fn is_named(&self, path: &[u8]) -> bool {
        &self.path[..usize::from(self.path_length)] == path
    }

    /// Returns the zero-terminated path, for the loader; `None` if it was cut.
    pub fn loader_path(&self) -> Option<&CStr> {
        let bytes = self.path.get(..=usize::from(self.path_length))?;
        CStr::from_bytes_with_nul(bytes).ok().filter(|path| !path.is_empty())
    }

    /// Returns the hash of the file name.
    pub fn name_hash(&self) -> u64 {
        hash(self.name().as_bytes())
    }

    /// Returns the file name.
    pub fn name(&self) -> &str {
        self.path().get(usize::from(self.file_start)..).unwrap_or("?")
    }

    pub fn build_id(&self) -> &[u8] {
        &self.build_id[..usize::from(self.build_id_length)]
    }

    pub(super) fn set_path(&mut self, path: &[u8]) {
        let length = path.len().min(PATH - 1);
        self.path[..length].copy_from_slice(&path[..length]);
        self.path[length] = if length < path.len() { 1 } else { 0 };
        self.path_length = length as u16;
        let file = path[..length].iter().rposition(|&byte| byte == b'/').map_or(0, |at| at + 1);
        self.file_start = file as u16;
    }

    /// # Safety
    ///
    /// The object is loaded and stays loaded.
    pub unsafe fn image(&self) -> Image {
        // SAFETY: the headers that the loader reported, of an object that stays loaded.
        unsafe { image(self.base, self.headers, usize::from(self.header_count)) }
    }
}

/// # Safety
///
/// `headers` are `count` program headers of an object that is loaded at `base` and stays loaded.
unsafe fn image(base: usize, headers: usize, count: usize) -> Image {
    let mut image = Image::new(base);
    if headers == 0 {
        return image;
    }
    // SAFETY: guaranteed by the caller.
    let headers = unsafe { core::slice::from_raw_parts(headers as *const libc::Elf64_Phdr, count) };
    for header in headers {
        if header.p_type == segment::LOAD && header.p_flags & segment::READABLE != 0 {
            let start = base.wrapping_add(header.p_vaddr as usize);
            // SAFETY: a loaded, readable segment.
            unsafe { image.add_segment(start, start.wrapping_add(header.p_memsz as usize)) };
        }
    }
    if let Some(read_only) = headers.iter().find(|header| header.p_type == segment::RELRO) {
        let start = base.wrapping_add(read_only.p_vaddr as usize);
        image.read_only = (start, start.wrapping_add(read_only.p_memsz as usize));
    }
    if let Some(dynamic) = headers.iter().find(|header| header.p_type == segment::DYNAMIC) {
        image.set_dynamic(base.wrapping_add(dynamic.p_vaddr as usize), dynamic.p_memsz as usize);
    }
    image
}
