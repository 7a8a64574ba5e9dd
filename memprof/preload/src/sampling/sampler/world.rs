//! Facts about owners in this process, for the walk.

use core::sync::atomic::{AtomicUsize, Ordering};

use super::attribute::{Span, World};
use super::free_pages::HeapHead;
use crate::base::component::{Component, LIMIT};
use crate::base::dictionary;
use crate::base::kernel;
use crate::base::memory;
use crate::ledger::{heap, ranges};
use crate::owners;
use crate::owners::LIMIT as OBJECTS;

/// Large blocks and objects in ascending order of address, as of the last [`Self::refresh`].
pub struct Owners {
    blocks: Option<&'static mut [Span]>,
    block_count: usize,
    /// Blocks of the previous sample.
    past: Option<&'static mut [Span]>,
    past_count: usize,
    objects: [Span; OBJECTS],
    object_count: usize,
    /// Mapped bytes of the objects, by component.
    images: [u64; LIMIT],
    /// Number of the last known walk through the objects.
    serial: Option<u32>,
    /// Allocator in use, if it is not the C library's.
    allocator: Option<Component>,
}

/// Recently released blocks, and the sample during which they were released. Their pages disappear
/// while no component owns them.
struct Released {
    start: AtomicUsize,
    end: AtomicUsize,
    sample: AtomicUsize,
}

static RELEASED: [Released; 16] = [const {
    Released { start: AtomicUsize::new(0), end: AtomicUsize::new(0), sample: AtomicUsize::new(0) }
}; 16];
static RELEASED_NEXT: AtomicUsize = AtomicUsize::new(0);
static RELEASED_SAMPLE: AtomicUsize = AtomicUsize::new(0);

/// Records a block that is about to be released.
pub fn released(start: usize, length: usize) {
    let place = &RELEASED[RELEASED_NEXT.fetch_add(1, Ordering::Relaxed) % RELEASED.len()];
    place.start.store(start, Ordering::Relaxed);
    place.end.store(start + length, Ordering::Relaxed);
    place.sample.store(RELEASED_SAMPLE.load(Ordering::Relaxed), Ordering::Relaxed);
}

fn is_released(start: usize, end: usize) -> bool {
    let sample = RELEASED_SAMPLE.load(Ordering::Relaxed);
    RELEASED.iter().any(|place| {
        place.start.load(Ordering::Relaxed) < end
            && start < place.end.load(Ordering::Relaxed)
            && place.sample.load(Ordering::Relaxed) + 1 >= sample
    })
}

const NOTHING: Span = Span { start: 0, end: 0, owner: Component::UNATTRIBUTED };
/// Capacity of the table of large blocks.
const BLOCKS: usize = heap::MOST_LARGE;

impl Owners {
    pub const fn new() -> Owners {
        Owners {
            blocks: None,
            block_count: 0,
            past: None,
            past_count: 0,
            objects: [NOTHING; OBJECTS],
            object_count: 0,
            images: [0; LIMIT],
            serial: None,
            allocator: None,
        }
    }

    pub fn allocator_is(&mut self, allocator: Option<Component>) {
        self.allocator = allocator;
    }

    /// Reads the present state, for a new sample.
    pub fn refresh(&mut self) {
        core::mem::swap(&mut self.blocks, &mut self.past);
        self.past_count = self.block_count;
        RELEASED_SAMPLE.fetch_add(1, Ordering::Relaxed);
        self.reread();
    }

    /// Does what [`Self::refresh`] does, for the same sample.
    pub fn reread(&mut self) {
        ranges::look_at_threads();
        let mask = crate::base::kernel::page() - 1;
        self.look_at_objects(owners::serial(), |each| {
            owners::each(|object| {
                let (start, end) = (object.low & !mask, (object.high + mask) & !mask);
                each(Span { start, end, owner: object.component });
            })
        });
        if self.blocks.is_none() {
            // SAFETY: all zeros is a valid span.
            #[allow(unsafe_code)]
            let [blocks, past] = [(); 2].map(|()| unsafe { memory::slice::<Span>(BLOCKS) });
            (self.blocks, self.past) = (blocks, past);
        }
        let Some(list) = &mut self.blocks else { return };
        let mut count = 0;
        heap::each_large(&mut |start, length, owner| {
            if count < list.len() && length > 0 {
                list[count] = Span { start, end: start + length, owner };
                count += 1;
            }
        });
        list[..count].sort_unstable_by_key(|span| span.start);
        // The list may contain a block that was freed during the read, and its successor.
        let mut end = 0;
        for span in &mut list[..count] {
            span.start = span.start.max(end);
            span.end = span.end.max(span.start);
            end = span.end;
        }
        self.block_count = count;
    }

    /// Reads the objects if they have changed. `read` reports each object, or returns false if
    /// other threads held the list for too long: then the earlier state stays valid.
    fn look_at_objects(&mut self, serial: u32, read: impl FnOnce(&mut dyn FnMut(Span)) -> bool) {
        if self.serial == Some(serial) {
            return;
        }
        let (mut count, list) = (0, &mut self.objects);
        let whole = read(&mut |span| {
            if count < list.len() && span.start < span.end {
                list[count] = span;
                count += 1;
            }
        });
        if !whole {
            return;
        }
        self.images.fill(0);
        for span in &list[..count] {
            self.images[usize::from(span.owner.0) % LIMIT] += (span.end - span.start) as u64;
        }
        list[..count].sort_unstable_by_key(|span| span.start);
        self.object_count = count;
        self.serial = Some(serial);
    }

    /// Returns the mapped bytes of a component's objects.
    pub fn image(&self, component: Component) -> u64 {
        self.images[usize::from(component.0) % LIMIT]
    }

    fn next(spans: &[Span], address: usize) -> Option<Span> {
        spans.get(spans.partition_point(|span| span.end <= address)).copied()
    }
}

impl World for Owners {
    fn tool(&self, address: usize) -> Option<Span> {
        memory::next(address).map(|(start, end)| Span { start, end, owner: Component::TOOL })
    }

    fn block(&self, address: usize) -> Option<Span> {
        let list = self.blocks.as_ref()?;
        Owners::next(&list[..self.block_count], address)
    }

    fn range(&self, address: usize) -> Option<Span> {
        let (start, end, owner) = ranges::next_use(address)?;
        let is_allocator = self.allocator == Some(owner);
        let owner = if is_allocator { Component::SLACK } else { owner };
        Some(Span { start, end, owner })
    }

    fn asked(&self, address: usize) -> Option<Span> {
        let (start, end, owner) = ranges::next_asked(address)?;
        let is_allocator = self.allocator == Some(owner);
        let owner = if is_allocator { Component::SLACK } else { owner };
        Some(Span { start, end, owner })
    }

    fn object(&self, address: usize) -> Option<Span> {
        Owners::next(&self.objects[..self.object_count], address)
    }

    fn share(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) -> Option<u64> {
        heap::share_and_rest(start, end, each)
    }

    fn freed(&self, start: usize, end: usize, each: &mut dyn FnMut(Component, u64)) {
        heap::freed(start, end, each);
    }

    fn live(&self, start: usize, end: usize, each: &mut dyn FnMut(usize, usize, u64)) {
        heap::live(start, end, each);
    }

    fn heap(&self, start: usize) -> Option<HeapHead> {
        let mut words = [0; 2 * size_of::<usize>()];
        let is_read = kernel::peek(start, &mut words);
        let word = |at: usize| {
            let mut word = [0; size_of::<usize>()];
            word.copy_from_slice(&words[at..at + size_of::<usize>()]);
            usize::from_ne_bytes(word)
        };
        is_read.then(|| HeapHead { arena: word(0), before: word(size_of::<usize>()) })
    }

    fn is_mpi(&self, component: Component) -> bool {
        dictionary::class(component).is_mpi()
    }

    fn was_block(&self, start: usize, end: usize) -> bool {
        let past =
            self.past.as_ref().and_then(|list| Owners::next(&list[..self.past_count], start));
        past.is_some_and(|span| span.start < end) || is_released(start, end)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(start: usize) -> Span {
        Span { start, end: start + 4096, owner: Component(20) }
    }

    #[test]
    fn objects_are_asked_for_again_after_their_list_was_busy() {
        let mut owners = Box::new(Owners::new());
        let one = |each: &mut dyn FnMut(Span)| {
            each(span(0x1000));
            true
        };
        owners.look_at_objects(1, one);
        assert_eq!(owners.object(0), Some(span(0x1000)));
        owners.look_at_objects(2, |_| false);
        assert_eq!(owners.object(0), Some(span(0x1000)), "what was known still counts");
        owners.look_at_objects(2, |each| {
            each(span(0x8000));
            one(each)
        });
        assert_eq!(owners.object(0x2000), Some(span(0x8000)));
        assert_eq!(owners.image(Component(20)), 8192);
        owners.look_at_objects(2, |_| panic!("known already"));
    }
}
