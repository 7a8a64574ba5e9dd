//! Sampled call stacks of a trace.

use super::counters::course;
use super::{DETAIL, Names, open};
use crate::model::{Frame, Group, Object, Site};
use memprof_trace::classify::is_trampoline;
use memprof_trace::layout::{self, NONE};
use memprof_trace::read::Trace;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

/// Object between a program and MPI, whose frames are not informative about the program.
const OWN: &str = "libmemprof_preload.so";

/// Beginning of the name of the program's component.
const PROGRAM: &str = "app.exe";
/// End of the name of the component of an MPI that is linked into the program.
const STATIC: &str = ":(static)";

/// Returns true for a component with code of the application. An interpreter's frames are the same
/// for every line of its script.
fn is_applications(component: &str) -> bool {
    let name = component.split_once(':').map_or("", |(_, name)| name);
    let interprets = name.starts_with("python") || name.starts_with("libpython");
    Group::of(component) == Group::Application && !interprets && !is_trampoline(name)
}

/// Reads only the stacks of a trace.
pub fn read(file: &Path) -> Result<(Vec<Object>, Vec<Site>), String> {
    let trace = open(file, DETAIL)?;
    Ok(sites(&trace, &Names::of(&trace)))
}

/// Returns the objects of a trace, the index of each by its number in the trace, and the numbers of
/// the profiler's own.
pub fn objects(trace: &Trace) -> (Vec<Object>, HashMap<u32, u32>, HashSet<u32>) {
    let mut numbers: HashMap<u32, u32> = HashMap::new();
    let mut own = HashSet::new();
    let mut objects = Vec::new();
    for object in &trace.objects {
        let path: PathBuf = object.row.path.to_string().into();
        if path.file_name().is_some_and(|name| name == OWN) {
            own.insert(object.index);
        }
        numbers.insert(object.index, objects.len() as u32);
        let length = (object.row.build_id_length as usize).min(object.row.build_id.len());
        let id = object.row.build_id[..length].iter();
        objects.push(Object {
            path,
            build_id: id.map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        });
    }
    (objects, numbers, own)
}

/// Returns bytes in the unit of courses, rounded up.
fn kibibytes(bytes: u64) -> u32 {
    u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX)
}

/// Returns the stacks, and the objects that their frames refer to.
pub fn sites(trace: &Trace, names: &Names) -> (Vec<Object>, Vec<Site>) {
    let (objects, numbers, own) = objects(trace);
    // Owner of the code of each object.
    let owners: Vec<_> = (trace.objects.iter())
        .map(|object| names.component(object.row.component as usize))
        .collect();
    let sites = trace.sites.iter().map(|site| {
        let row = &site.row;
        let frames = (row.frames as usize).min(layout::FRAMES);
        let frames: Vec<Frame> = (row.objects.iter().zip(&row.offsets))
            .take(frames)
            .filter(|(object, _)| !own.contains(object))
            .map(|(object, offset)| Frame {
                object: numbers.get(object).copied().unwrap_or(NONE),
                offset: *offset,
            })
            .collect();
        let component = names.component(row.component as usize);
        // The bytes of a stack are an estimate, those of its component are counted.
        let counted = trace.summary.as_ref().and_then(|it| it.rows.get(row.component as usize));
        let [most, most_at_peak] = counted
            .filter(|counted| counted.owned_peak > 0)
            .map_or([u64::MAX; 2], |counted| [counted.owned_peak, counted.owned_at_peak]);
        let is_applications = |frame: &&Frame| {
            (owners.get(frame.object as usize))
                .is_some_and(|owner| *owner != component && is_applications(owner))
        };
        // In a static program the code of several owners is in one object.
        let in_library = !component.starts_with(PROGRAM) && !component.ends_with(STATIC);
        Site {
            allocated_for: frames.iter().find(is_applications).copied().filter(|_| in_library),
            frames,
            component,
            live: row.live.min(most),
            peak: row.peak.min(most),
            peak_max: row.peak.min(most),
            at_peak: row.at_peak.min(most_at_peak),
            total: row.total,
            processes: 1,
            course: course(trace, &row.moments).at_most(kibibytes(most)),
        }
    });
    (objects, sites.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use memprof_trace::layout::{
        ComponentRow, Geometry, Identity, SiteRow, SummaryHead, SummaryRow,
    };
    use memprof_trace::write::{Buffer, Writer};

    #[test]
    fn stack_holds_no_more_than_its_component() {
        let mut memory = Buffer::new(1 << 20);
        let geometry = Geometry::for_file(1 << 20).expect("a geometry");
        let mut writer =
            Writer::create(memory.bytes_mut(), &Identity::default(), &geometry).expect("a writer");
        let counted = SummaryRow { owned_peak: 300, owned_at_peak: 200, ..SummaryRow::default() };
        for component in [0, 1, 2_u16] {
            writer.set_component(component, &ComponentRow::default());
            let (live, peak, at_peak) = (100 << component, 5000, 4000);
            let row = SiteRow {
                component: component.into(),
                live,
                peak,
                at_peak,
                total: 9000,
                ..SiteRow::default()
            };
            writer.set_site(0, component.into(), &row);
        }
        writer.publish_summary(&SummaryHead::default(), &[counted, counted, SummaryRow::default()]);
        let trace = Trace::from_bytes(memory.bytes()).expect("a trace");
        let (_, sites) = super::sites(&trace, &Names::of(&trace));
        let found: Vec<_> = (sites.iter())
            .map(|site| [site.live, site.peak, site.peak_max, site.at_peak, site.total])
            .collect();
        let uncounted = [400, 5000, 5000, 4000, 9000];
        assert_eq!(found, [[100, 300, 300, 200, 9000], [200, 300, 300, 200, 9000], uncounted]);
    }
}
