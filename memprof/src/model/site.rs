//! Sampled allocation sites: which calls hold the memory.

use super::Course;
use serde::Serialize;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

/// A loaded object, as traces name it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Object {
    /// Its path.
    #[serde(serialize_with = "crate::output::path")]
    pub path: PathBuf,
    /// Its build id in hexadecimal, empty where it has none.
    pub build_id: Arc<str>,
}

/// A return address.
#[derive(Copy, Clone, Debug, PartialEq, Eq, Hash, Serialize)]
pub struct Frame {
    /// Index into [`Sites::objects`].
    pub object: u32,
    /// Bytes after the object's base.
    pub offset: u64,
}

/// One stack over all ranks. Bytes are estimates: samples weighted so that they are right on average.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Site {
    /// Innermost first.
    pub frames: Vec<Frame>,
    /// Owner of the memory that it allocated.
    pub component: Arc<str>,
    /// Live at the end, all ranks together.
    pub live: u64,
    /// Sum of the peaks of all ranks.
    pub peak: u64,
    /// Largest peak of one process, in bytes.
    pub peak_max: u64,
    /// Live when the process held most, all ranks together.
    pub at_peak: u64,
    /// Ever allocated, all ranks together.
    pub total: u64,
    /// In how many processes it was seen.
    pub processes: u32,
    /// Call of the application above the library that allocated: the innermost frame in the program
    /// or one of its libraries, but not the owner's. `None` for memory of the program, and where the
    /// stack has no such frame.
    #[serde(skip)]
    pub allocated_for: Option<Frame>,
    /// Live KiB over time, all ranks together.
    #[serde(skip)]
    pub course: Course,
}

/// The sites of a job.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Sites {
    /// Objects that frames refer to.
    pub objects: Vec<Object>,
    /// Largest sum of peaks first.
    pub sites: Vec<Site>,
    /// Sites left out because there were too many, with their sum of peaks.
    pub left_out: (u64, u64),
}

/// The most sites kept while reading.
const KEPT: usize = 8192;
/// The most moments of their courses.
const MOMENTS: usize = 48;

/// Adds up sites over processes.
#[derive(Debug, Default)]
pub struct Collect {
    sites: Sites,
    objects: HashMap<Object, u32>,
    known: HashMap<(Arc<str>, Vec<Frame>), usize>,
    end_ns: u64,
}

impl Collect {
    /// Creates a sum over processes until `end_ns` after the start of the first.
    pub fn until(end_ns: u64) -> Collect {
        Collect { end_ns, ..Collect::default() }
    }

    /// Adds the sites of one process, with frames that refer to `objects`. It began at
    /// `offset_ns`. Returns the index of each object in the result.
    pub fn add_process(
        &mut self,
        objects: Vec<Object>,
        sites: Vec<Site>,
        offset_ns: u64,
    ) -> Vec<u32> {
        let known: Vec<u32> = objects.into_iter().map(|object| self.object(object)).collect();
        for mut site in sites {
            let renumber = |frame: &mut Frame| {
                let object = known.get(frame.object as usize);
                frame.object = object.copied().unwrap_or_default();
                object.is_some()
            };
            site.frames.retain_mut(renumber);
            site.allocated_for =
                site.allocated_for.and_then(|mut frame| renumber(&mut frame).then_some(frame));
            self.add(site, offset_ns);
        }
        known
    }

    /// Returns the index of an object in the result.
    fn object(&mut self, object: Object) -> u32 {
        let objects = &mut self.sites.objects;
        *self.objects.entry(object).or_insert_with_key(|object| {
            objects.push(object.clone());
            (objects.len() - 1) as u32
        })
    }

    /// Adds one site of one process; `peak_max` and `processes` are set here.
    fn add(&mut self, site: Site, offset_ns: u64) {
        let key = (site.component.clone(), site.frames.clone());
        if let Some(at) = self.known.get(&key) {
            let into = &mut self.sites.sites[*at];
            into.live = into.live.saturating_add(site.live);
            into.peak = into.peak.saturating_add(site.peak);
            into.at_peak = into.at_peak.saturating_add(site.at_peak);
            into.total = into.total.saturating_add(site.total);
            into.peak_max = into.peak_max.max(site.peak);
            into.processes += 1;
            into.course.add(&site.course, offset_ns);
            return;
        }
        self.known.insert(key, self.sites.sites.len());
        let mut course = Course::zero(self.end_ns, MOMENTS);
        course.add(&site.course, offset_ns);
        self.sites.sites.push(Site { peak_max: site.peak, processes: 1, course, ..site });
        if self.sites.sites.len() >= 2 * KEPT {
            self.prune(KEPT);
        }
    }

    fn prune(&mut self, keep: usize) {
        let sites = &mut self.sites.sites;
        sites.sort_by_key(|site| std::cmp::Reverse((site.peak, site.total)));
        for lost in sites.drain(keep.min(sites.len())..) {
            self.sites.left_out.0 += 1;
            self.sites.left_out.1 = self.sites.left_out.1.saturating_add(lost.peak);
        }
        self.known = sites
            .iter()
            .enumerate()
            .map(|(at, site)| ((site.component.clone(), site.frames.clone()), at))
            .collect();
    }

    /// Returns the sites of all processes.
    pub fn finish(mut self) -> Sites {
        self.prune(KEPT);
        self.sites
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn site(offset: u64, peak: u64) -> Site {
        Site {
            frames: vec![Frame { object: 0, offset }],
            component: "app.exe".into(),
            live: 1,
            peak,
            peak_max: 0,
            at_peak: 0,
            total: peak,
            processes: 0,
            allocated_for: None,
            course: Course::default(),
        }
    }

    #[test]
    fn the_same_stack_in_two_processes_is_one_site() {
        let mut collect = Collect::default();
        collect.add(site(1, 10), 0);
        collect.add(site(2, 50), 0);
        collect.add(site(1, 30), 0);
        let sites = collect.finish();
        let seen: Vec<_> = sites.sites.iter().map(|s| (s.peak, s.peak_max, s.processes)).collect();
        assert_eq!(seen, [(50, 50, 1), (40, 30, 2)]);
        assert_eq!(sites.left_out, (0, 0));
    }

    #[test]
    fn largest_sites_stay_and_the_rest_is_told() {
        let mut collect = Collect::default();
        for offset in 0..3 * KEPT as u64 {
            collect.add(site(offset, offset), 0);
        }
        let sites = collect.finish();
        assert_eq!(sites.sites.len(), KEPT);
        assert_eq!(sites.sites[0].peak, 3 * KEPT as u64 - 1);
        assert_eq!(sites.left_out.0, 2 * KEPT as u64);
    }
}
