//! Sampled call stacks in the format of `go tool pprof` and related tools: profile.proto,
//! compressed with gzip.
//!
//! Stacks of the same calls and component are one sample, over all ranks; in a job with few ranks,
//! each rank has separate samples with a label. Functions have names if the objects of the run are
//! on this machine; otherwise pprof finds them by the mappings.

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use super::protobuf::Message;
use crate::model::{Frame, Object, Rank};
use crate::report::symbols::Symbols;
use flate2::{Compression, GzBuilder};

/// Values of a sample: name and unit. Memory still in use at the end of a program is not
/// informative, so memory at the peak is shown first.
const VALUES: [(&str, &str); 3] =
    [("alloc_space", "bytes"), ("inuse_space", "bytes"), (FIRST, "bytes")];
const FIRST: &str = "peak_space";
/// Maximum number of ranks for which stacks are kept separate.
const RANKS_APART: usize = 64;

/// Field numbers of profile.proto.
mod field {
    pub const SAMPLE_TYPE: u32 = 1;
    pub const SAMPLE: u32 = 2;
    pub const MAPPING: u32 = 3;
    pub const LOCATION: u32 = 4;
    pub const FUNCTION: u32 = 5;
    pub const STRING: u32 = 6;
    pub const TIME_NANOS: u32 = 9;
    pub const DURATION_NANOS: u32 = 10;
    pub const PERIOD_TYPE: u32 = 11;
    pub const DEFAULT_SAMPLE_TYPE: u32 = 14;
}

/// Table of texts, each stored once; the first is empty.
struct Strings {
    known: HashMap<String, u64>,
    list: Vec<String>,
}

impl Strings {
    fn new() -> Self {
        Self { known: HashMap::from([(String::new(), 0)]), list: vec![String::new()] }
    }

    fn number(&mut self, text: &str) -> u64 {
        if let Some(number) = self.known.get(text) {
            return *number;
        }
        let number = self.list.len() as u64;
        self.known.insert(text.to_owned(), number);
        self.list.push(text.to_owned());
        number
    }
}

/// Stacks of the same frames, component and, with few ranks, rank.
type Key = (Vec<Frame>, String, Option<u32>);

/// Adds up the stacks of processes.
pub struct Profile {
    apart: bool,
    objects: Vec<Object>,
    numbers: HashMap<Object, u32>,
    samples: BTreeMap<usize, (Key, [u64; 3])>,
    places: HashMap<Key, usize>,
    began: u64,
    duration: u64,
}

impl Profile {
    /// Creates a profile of `processes` processes, in a job that began at `began`.
    pub fn new(processes: usize, began: u64) -> Self {
        Self {
            apart: processes <= RANKS_APART,
            objects: Vec::new(),
            numbers: HashMap::new(),
            samples: BTreeMap::new(),
            places: HashMap::new(),
            began,
            duration: 0,
        }
    }

    /// Adds a process.
    pub fn rank(&mut self, rank: &Rank) -> anyhow::Result<()> {
        let (objects, sites) = rank.sites()?;
        self.duration = self.duration.max(rank.offset_ns.saturating_add(rank.duration_ns));
        let mut numbers = Vec::new();
        for object in objects {
            let next = u32::try_from(self.objects.len()).unwrap_or(u32::MAX);
            let number = *self.numbers.entry(object.clone()).or_insert(next);
            if number == next {
                self.objects.push(object);
            }
            numbers.push(number);
        }
        for mut site in sites {
            for frame in &mut site.frames {
                frame.object = numbers.get(frame.object as usize).copied().unwrap_or(u32::MAX);
            }
            let rank = rank.identity.rank.filter(|_| self.apart);
            let key = (site.frames, site.component.to_string(), rank);
            let next = self.places.len();
            let place = *self.places.entry(key.clone()).or_insert(next);
            let (_, values) = self.samples.entry(place).or_insert((key, [0; 3]));
            for (sum, more) in values.iter_mut().zip([site.total, site.live, site.at_peak]) {
                *sum = sum.saturating_add(more);
            }
        }
        Ok(())
    }

    /// Writes the file.
    pub fn write(self, out: impl Write) -> std::io::Result<()> {
        // The header contains no time: the same job yields the same bytes.
        let mut out = GzBuilder::new().mtime(0).write(out, Compression::default());
        let mut strings = Strings::new();
        let mut put = |number: u32, message: Message| {
            out.write_all(Message::default().message(number, message).bytes())
        };
        let kind = |strings: &mut Strings, (name, unit): (&str, &str)| {
            Message::default().number(1, strings.number(name)).number(2, strings.number(unit))
        };
        for value in VALUES {
            put(field::SAMPLE_TYPE, kind(&mut strings, value))?;
        }
        let period = kind(&mut strings, ("space", "bytes"));
        put(field::PERIOD_TYPE, period)?;
        let mut locations: HashMap<Frame, u64> = HashMap::new();
        let mut frames: Vec<Frame> = Vec::new();
        let (component_key, rank_key) = (strings.number("component"), strings.number("rank"));
        for ((stack, component, rank), values) in self.samples.values() {
            let mut sample = Message::default();
            for frame in stack {
                let next = locations.len() as u64 + 1;
                let number = *locations.entry(*frame).or_insert(next);
                if number == next {
                    frames.push(*frame);
                }
                sample = sample.number(1, number);
            }
            sample = values.iter().fold(sample, |sample, value| sample.number(2, signed(*value)));
            let label = Message::default().number(1, component_key);
            sample = sample.message(3, label.number(2, strings.number(component)));
            if let Some(rank) = rank {
                // As text, since readers treat the number 0 as a missing label.
                let label = Message::default().number(1, rank_key);
                sample = sample.message(3, label.number(2, strings.number(&rank.to_string())));
            }
            put(field::SAMPLE, sample)?;
        }
        let mut last_used: Vec<Option<u64>> = vec![None; self.objects.len()];
        for frame in &frames {
            if let Some(last) = last_used.get_mut(frame.object as usize) {
                *last = (*last).max(Some(frame.offset));
            }
        }
        for (index, (object, last)) in self.objects.iter().zip(last_used).enumerate() {
            let Some(last) = last else { continue };
            let mapping = Message::default()
                .number(1, index as u64 + 1)
                .number(3, last.saturating_add(1))
                .number(5, strings.number(&object.path.to_string_lossy()))
                .number(6, strings.number(&object.build_id));
            put(field::MAPPING, mapping)?;
        }
        let mut functions: HashMap<(String, String), u64> = HashMap::new();
        let mut symbols = Symbols::new(&self.objects, self.began);
        for (index, frame) in frames.iter().enumerate() {
            let mut location = Message::default().number(1, index as u64 + 1);
            if (frame.object as usize) < self.objects.len() {
                location = location.number(2, u64::from(frame.object) + 1);
            }
            // The call lies before its return address.
            location = location.number(3, frame.offset.saturating_sub(1));
            for line in symbols.names(*frame) {
                let Some((name, place)) = line.text.split_once("  ") else { continue };
                let (file, line) = match place.rsplit_once(':') {
                    Some((file, line)) => (file, line.parse().unwrap_or(0)),
                    None => ("", 0),
                };
                let next = functions.len() as u64 + 1;
                let key = (name.to_owned(), file.to_owned());
                let function = *functions.entry(key).or_insert(next);
                if function == next {
                    let made = Message::default()
                        .number(1, function)
                        .number(2, strings.number(name))
                        .number(3, strings.number(name))
                        .number(4, strings.number(file));
                    put(field::FUNCTION, made)?;
                }
                location =
                    location.message(4, Message::default().number(1, function).number(2, line));
            }
            put(field::LOCATION, location)?;
        }
        let rest = Message::default()
            .number(field::TIME_NANOS, signed(self.began))
            .number(field::DURATION_NANOS, signed(self.duration))
            .number(field::DEFAULT_SAMPLE_TYPE, strings.number(FIRST));
        let rest = strings.list.iter().fold(rest, |rest, text| rest.text(field::STRING, text));
        out.write_all(rest.bytes())?;
        out.finish()?.flush()
    }
}

/// Limits a value to the largest signed number, since values are signed in this format.
fn signed(value: u64) -> u64 {
    value.min(i64::MAX as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn sums_beyond_signed_numbers_saturate_and_mappings_reach_the_end() {
        let object = |name: &str| Object { path: name.into(), build_id: "".into() };
        let frame = |object, offset| Frame { object, offset };
        let mut profile = Profile::new(1, u64::MAX);
        profile.objects = vec![object("/a"), object("/unused"), object("/b")];
        let stack = vec![frame(0, 0x77), frame(2, 0x55), frame(0, 0x66), frame(u32::MAX, 1)];
        profile.samples.insert(0, ((stack, "app.exe".into(), None), [7, u64::MAX, 1 << 63]));
        let mut packed = Vec::new();
        profile.write(&mut packed).unwrap();
        let mut bytes = Vec::new();
        flate2::read::GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
        let times = |wanted: Message| {
            let wanted = wanted.bytes();
            bytes.windows(wanted.len()).filter(|bytes| *bytes == wanted).count()
        };
        let most = i64::MAX as u64;
        assert_eq!(times(Message::default().number(2, 7).number(2, most).number(2, most)), 1);
        assert_eq!(times(Message::default().number(field::TIME_NANOS, most)), 1);
        assert_eq!(times(Message::default().number(1, 1).number(3, 0x78)), 1);
        assert_eq!(times(Message::default().number(1, 2).number(3, 0)), 0);
        assert_eq!(times(Message::default().number(1, 3).number(3, 0x56)), 1);
    }
}
