//! Rows of the trace other than samples: names, objects, notes, the summary.

use memprof_boundary::functions;
use memprof_trace::Text as Field;
use memprof_trace::layout::{
    ComponentRow, FRAMES, HandleRow, LoopRow, NONE, NONE_SHORT, ObjectRow, SiteRow, handle, object,
};

use super::rows::{self, Place, Rows};
use crate::base::dictionary;
use crate::base::overflow_counters::{self, Table};
use crate::base::{diagnostics, memory};
use crate::ledger::{call_stacks, gpu, handles};
use crate::owners;
use crate::recording::{mpi_time, writer};

/// Number of call stacks that have rows.
const SITES: usize = 512;

/// Numbers of rows written so far.
pub struct Published {
    components: Option<u32>,
    objects: Option<u32>,
    rows: Rows,
    notes: usize,
    /// Allocated and live bytes of each call stack when it was last written.
    sites: Option<&'static mut [(u64, u64, u64)]>,
    /// Number of call sites of MPI, and the number of their last change.
    loops: (usize, u64),
    /// Time of the last summary, and of the last call stacks.
    pub time: u64,
    pub sites_time: u64,
}

impl Published {
    pub const fn new() -> Published {
        Published {
            components: None,
            objects: None,
            rows: Rows::new(),
            notes: 0,
            sites: None,
            loops: (0, 0),
            time: 0,
            sites_time: 0,
        }
    }

    pub fn components(&mut self) {
        let changes = dictionary::changes();
        if self.components == Some(changes) {
            return;
        }
        self.components = Some(changes);
        writer::with(|writer, _| {
            dictionary::each(|entered| {
                let row = ComponentRow {
                    class: entered.class as u8,
                    object: NONE_SHORT,
                    parent: NONE_SHORT,
                    name: Field::new(entered.name),
                    ..ComponentRow::default()
                };
                writer.set_component(entered.component.0, &row);
            });
        });
    }

    /// Writes the objects loaded and unloaded since the last call.
    pub fn objects(&mut self) {
        let serial = owners::serial();
        if self.objects == Some(serial) {
            return;
        }
        self.rows.begin();
        let mut refused = 0;
        let read = owners::each(|object| {
            let path = rows::number(object.path());
            let place = Place { low: object.low, high: object.high, base: object.base, path };
            let Some(index) = self.rows.find(place) else {
                refused += 1;
                return;
            };
            let id = object.build_id();
            let mut build_id = [0; 20];
            let length = id.len().min(20);
            build_id[..length].copy_from_slice(&id[..length]);
            let row = ObjectRow {
                base: object.base as u64,
                start: object.low as u64,
                size: (object.high - object.low) as u64,
                component: u32::from(object.component.0),
                build_id_length: length as u32,
                build_id,
                path: Field::path(object.path().as_bytes()),
                ..ObjectRow::default()
            };
            writer::with(|writer, _| writer.set_object(index as u32, &row));
        });
        // Other threads held the list for too long, so it is read again next time.
        if !read {
            return;
        }
        self.objects = Some(serial);
        overflow_counters::at_least(Table::Objects, refused);
        self.rows.end(|index| {
            writer::with(|writer, _| writer.flag_object(index as u32, object::UNLOADED));
        });
        if core::mem::take(&mut self.rows.reused)
            && let Some(written) = &mut self.sites
        {
            // Rows that call stacks refer to now belong to other objects.
            written.fill((0, 0, 0));
        }
        if let Some(mpi) = owners::mpi() {
            let name = dictionary::entered(mpi).name;
            writer::with(|writer, _| writer.set_mpi_library(name));
        }
    }

    /// Writes the call stacks that allocate most, if they have changed.
    pub fn sites(&mut self) {
        if self.sites.is_none() {
            // SAFETY: all zeros are valid numbers.
            #[allow(unsafe_code)]
            let sites = unsafe { memory::slice(SITES) };
            self.sites = sites;
        }
        let Some(written) = self.sites.take() else { return };
        call_stacks::each(&mut |index, site| {
            let now = (site.total, site.live, site.at_peak);
            if written.get(index).is_none_or(|before| *before == now) {
                return;
            }
            written[index] = now;
            let mut row = SiteRow {
                component: u32::from(site.component.0),
                frames: site.depth.min(FRAMES) as u32,
                live: site.live,
                peak: site.peak,
                total: site.total,
                samples: site.samples,
                at_peak: site.at_peak,
                objects: [NONE; FRAMES],
                ..SiteRow::default()
            };
            for (place, &frame) in site.frames[..site.depth].iter().take(FRAMES).enumerate() {
                // The return address lies behind the call.
                match self.rows.at(frame.wrapping_sub(1)) {
                    Some((object, offset)) => {
                        row.objects[place] = object;
                        row.offsets[place] = offset + 1;
                    }
                    None => row.offsets[place] = frame as u64,
                }
            }
            writer::with(|writer, time| writer.set_site(time, index as u32, &row));
        });
        self.sites = Some(written);
    }

    /// Writes the call sites of MPI and their loops, if they have changed.
    pub fn loops(&mut self) {
        let (count, change) = self.loops;
        let scale = mpi_time::scale();
        let scaled = |ticks: u64| (ticks as f64 * scale).round() as u64;
        let mut now = 0;
        let changed = mpi_time::loops::each(change, &mut |index, site, lost, copied| {
            now = index + 1;
            // The return address lies behind the call.
            let place = self.rows.at(site.address.wrapping_sub(1));
            let (object, offset) =
                place.map_or((NONE, site.address as u64), |(object, offset)| (object, offset + 1));
            let (measured, recent) = (site.measured, site.recent());
            writer::with(|writer, time| {
                let row = LoopRow {
                    object,
                    function: writer.intern(mpi_time::loops::name(site)),
                    offset,
                    around: mpi_time::loops::around(site),
                    kind: mpi_time::loops::kind(site),
                    is_head: site.is_head.into(),
                    calls: site.revisits + 1,
                    spent_ns: scaled(site.spent),
                    turns: site.turns,
                    time_ns: scaled(measured.time),
                    mpi_ns: scaled(measured.mpi),
                    recent_time_ns: scaled(recent.time),
                    recent_mpi_ns: scaled(recent.mpi),
                    lost,
                    time,
                    ..LoopRow::default()
                };
                writer.set_loop(writer::since(copied), index as u32, &row);
            });
        });
        let Some(change) = changed else { return };
        for index in now..count {
            writer::with(|writer, time| {
                writer.set_loop(time, index as u32, &LoopRow::default());
            });
        }
        self.loops = (now, change);
    }

    /// Returns the object of a call's return address, and the offset there.
    fn after_call(&mut self, address: usize) -> (u32, u64) {
        // The return address lies behind the call.
        let place = self.rows.at(address.wrapping_sub(1));
        place.map_or((NONE, address as u64), |(object, offset)| (object, offset + 1))
    }

    /// Writes the sums over the memory of GPUs that have changed.
    pub fn gpu(&mut self) {
        gpu::each_changed(|index, sum| {
            let (component, call) = match sum.of {
                gpu::Of::Process => (0, None),
                gpu::Of::Component(component) => (u32::from(component.0) + 1, None),
                gpu::Of::Call(component, call) => (u32::from(component.0) + 1, Some(call)),
            };
            let (object, offset) = call.map_or((NONE, 0), |call| self.after_call(call.address));
            writer::with(|writer, time| {
                let row = HandleRow {
                    object,
                    function: call.map_or(0, |call| writer.intern(call.function)),
                    offset,
                    kind: handle::GPU + sum.kind as u32,
                    component,
                    made: sum.allocated,
                    freed: sum.freed,
                    peak: sum.peak,
                    time,
                    blocks: sum.blocks,
                };
                writer.set_handle(index as u32, &row);
            });
        });
    }

    /// Writes the places that make MPI objects, if their numbers have changed.
    pub fn handles(&mut self) {
        handles::each_changed(|index, site| {
            let (object, offset) = self.after_call(site.address);
            writer::with(|writer, time| {
                let row = HandleRow {
                    object,
                    function: writer.intern(functions::name(site.function.into())),
                    offset,
                    kind: site.kind as u32,
                    made: site.made,
                    freed: site.freed,
                    peak: site.peak,
                    time,
                    ..HandleRow::default()
                };
                writer.set_handle((gpu::ROWS + index) as u32, &row);
            });
        });
    }

    pub fn notes(&mut self) {
        let mut next = self.notes;
        diagnostics::each(self.notes, &mut |index, code, text| {
            let text = core::str::from_utf8(text).unwrap_or("?");
            writer::with(|writer, time| writer.add_note(time, u32::from(code), text));
            next = index + 1;
        });
        self.notes = next;
    }
}
