//! Decoder for the events that the kernel writes into a ring. Pure: bytes in, faults out.

/// Bytes of the user's stack that are recorded with a fault.
pub const STACK_BYTES: usize = 64;
/// Number of words in them.
pub const STACK_WORDS: usize = STACK_BYTES / 8;

/// Record that describes an event.
const SAMPLE: u32 = 9;
/// Record that counts events for which there was no room.
const LOST: u32 = 2;
/// Bits of a record's second word that give the processor's mode.
const MODE: u16 = 7;
const MODE_KERNEL: u16 = 1;
const HEAD: usize = 8;
/// Bytes of header, instruction, process and thread, address, and length of the stack that follows.
const FIXED: usize = HEAD + 32;
/// Length of the longest record requested.
const LONGEST: usize = FIXED + STACK_BYTES + 8;

/// A page fault.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Address of the instruction that touched the page.
    pub instruction: usize,
    /// Address that the instruction touched.
    pub address: usize,
    /// True if the kernel touched the page, in a system call of the thread.
    pub in_kernel: bool,
    /// Top of the thread's stack, as much as there is.
    pub stack: [usize; STACK_WORDS],
    pub stack_words: usize,
}

/// Results of one read of a ring.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    pub faults: u64,
    pub lost: u64,
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..at + 8).and_then(|word| word.try_into().ok()).map_or(0, u64::from_le_bytes)
}

/// Calls `each` with every fault between two positions of a ring. Positions only grow; the offset
/// of a position is its remainder modulo the length of the ring. Bytes that cannot be a record end
/// the read.
pub fn faults(ring: &[u8], tail: u64, head: u64, each: &mut dyn FnMut(&Fault)) -> Seen {
    let mut seen = Seen::default();
    let length = ring.len() as u64;
    if length == 0 || head.wrapping_sub(tail) > length {
        return seen;
    }
    let mut at = tail;
    while head.wrapping_sub(at) >= HEAD as u64 {
        let mut record = [0; LONGEST];
        copy(ring, at, &mut record[..HEAD]);
        let first = word(&record, 0);
        let (kind, misc, size) = (first as u32, (first >> 32) as u16, (first >> 48) as usize);
        if size < HEAD || size as u64 > head.wrapping_sub(at) {
            break;
        }
        let kept = size.min(LONGEST);
        copy(ring, at, &mut record[..kept]);
        match kind {
            SAMPLE if kept >= FIXED - 8 => {
                seen.faults += 1;
                each(&fault(&record[..kept], misc));
            }
            // The event's id is first, then the number of lost events.
            LOST => seen.lost = seen.lost.saturating_add(word(&record, 16)),
            _ => {}
        }
        at = at.wrapping_add(size as u64);
    }
    seen
}

fn fault(record: &[u8], misc: u16) -> Fault {
    let mut fault = Fault {
        instruction: word(record, 8) as usize,
        address: word(record, 24) as usize,
        in_kernel: misc & MODE == MODE_KERNEL,
        stack: [0; STACK_WORDS],
        stack_words: 0,
    };
    let size = (word(record, 32) as usize).min(STACK_BYTES);
    // The number of valid bytes follows the stack.
    if size > 0 && record.len() >= FIXED + size + 8 {
        let copied = (word(record, FIXED + size) as usize).min(size);
        fault.stack_words = copied / 8;
        for (index, into) in fault.stack[..copied / 8].iter_mut().enumerate() {
            *into = word(record, FIXED + 8 * index) as usize;
        }
    }
    fault
}

/// Copies the bytes from a position on, around the end of the ring if necessary.
fn copy(ring: &[u8], position: u64, into: &mut [u8]) {
    let start = (position % ring.len() as u64) as usize;
    let first = into.len().min(ring.len() - start);
    into[..first].copy_from_slice(&ring[start..start + first]);
    let rest = into.len() - first;
    into[first..].copy_from_slice(&ring[..rest]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn head(kind: u32, misc: u16, size: usize) -> u64 {
        u64::from(kind) | u64::from(misc) << 32 | (size as u64) << 48
    }

    fn sample(fault: &Fault) -> Vec<u8> {
        let misc = if fault.in_kernel { MODE_KERNEL } else { 2 };
        let mut words = vec![
            0,
            fault.instruction as u64,
            7 << 32 | 7,
            fault.address as u64,
            STACK_BYTES as u64,
        ];
        words.extend(fault.stack.iter().map(|word| *word as u64));
        words.push(8 * fault.stack_words as u64);
        words[0] = head(SAMPLE, misc, words.len() * 8);
        words.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn lost(count: u64) -> Vec<u8> {
        [head(LOST, 0, 24), 1, count].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    fn collect(ring: &[u8], tail: u64, head: u64) -> (Vec<Fault>, Seen) {
        let mut found = Vec::new();
        let seen = faults(ring, tail, head, &mut |fault| found.push(*fault));
        (found, seen)
    }

    fn made(number: usize) -> Fault {
        let words = number % (STACK_WORDS + 1);
        let mut stack = [0; STACK_WORDS];
        stack[..words].iter_mut().enumerate().for_each(|(index, word)| *word = index + number);
        Fault {
            instruction: 0x1000 + number,
            address: number << 12,
            in_kernel: number.is_multiple_of(3),
            stack,
            stack_words: words,
        }
    }

    proptest! {
        #[test]
        fn what_went_in_comes_out_wherever_the_ring_begins_again(
            start in any::<u64>(),
            numbers in prop::collection::vec(0_usize..1000, 0..60),
        ) {
            let mut ring = vec![0xAA; 8192];
            let (mut at, mut expected, mut missing) = (start & !7, Vec::new(), 0);
            let tail = at;
            for number in numbers {
                let record = if number % 10 == 0 {
                    missing += number as u64;
                    lost(number as u64)
                } else {
                    expected.push(made(number));
                    sample(&made(number))
                };
                for byte in record {
                    ring[(at % 8192) as usize] = byte;
                    at = at.wrapping_add(1);
                }
            }
            let (found, seen) = collect(&ring, tail, at);
            prop_assert_eq!(seen, Seen { faults: expected.len() as u64, lost: missing });
            prop_assert_eq!(found, expected);
        }

        #[test]
        fn any_bytes_are_survived(
            ring in prop::collection::vec(any::<u8>(), 0..600),
            tail in any::<u64>(),
            length in 0_u64..700,
        ) {
            let (found, seen) = collect(&ring, tail, tail.wrapping_add(length));
            prop_assert_eq!(found.len() as u64, seen.faults);
            prop_assert!(found.len() <= ring.len() / HEAD);
        }
    }

    #[test]
    fn a_record_that_is_not_whole_yet_is_left() {
        let record = sample(&made(1));
        let mut ring = vec![0; 256];
        ring[..record.len()].copy_from_slice(&record);
        assert_eq!(collect(&ring, 0, record.len() as u64 - 8).1, Seen::default());
        assert_eq!(collect(&ring, 0, record.len() as u64).0, [made(1)]);
    }
}
