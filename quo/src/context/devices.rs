//! Assignment of a node's devices to its ranks.

use super::Context;
use super::exchange::{Header, Operation};
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::plan::assign_devices;
use crate::topology::{Device, DeviceKind, shown_devices};

impl Context {
    /// Returns the device of a kind that this rank should use. The ranks of the node are
    /// distributed evenly: the numbers of ranks per device differ by at most one, and within that
    /// rule each rank gets a near device. `None` if the node has no such device. GPUs that the
    /// environment hides from this rank are not chosen, see [`shown_devices`]; if it hides
    /// different ones from different ranks, each rank chooses among its own, and the distribution
    /// may be uneven. Nothing is bound or hidden; see
    /// [`visible_devices`](crate::topology::visible_devices). Collective over the node.
    ///
    /// # Errors
    /// [`Error::Disagreement`] if the ranks ask for different kinds; as [`binding`](Self::binding),
    /// on every rank.
    ///
    /// ```no_run
    /// # fn example(context: &quo::Context) -> Result<(), quo::Error> {
    /// use quo::topology::{DeviceKind, visible_devices};
    /// if let Some(gpu) = context.assign_device(DeviceKind::Gpu)? {
    ///     let variables = visible_devices(&context.topology().devices(), &[gpu]);
    ///     // For a program that is started with them, such as a server for this rank.
    /// #   let _ = variables;
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn assign_device(&self, kind: DeviceKind) -> Result<Option<Device>, Error> {
        const CALL: &str = "assign a device";
        self.check(CALL)?;
        let state = self.state();
        let header = Header { device_kind: kind as u8, ..Header::new(Operation::Devices) };
        let masks = self.exchange_sets(&state, CALL, header, self.shared.own_mask())?;
        let devices = state.machine().topology.devices();
        let devices = shown_devices(&devices, |name| std::env::var(name).ok());
        let devices: Vec<Device> = devices.into_iter().filter(|it| it.kind == kind).collect();
        // Ranks that have left the node get no device, and keep their numbers.
        let present: Vec<CpuSet> = masks.iter().flatten().cloned().collect();
        let own = masks.iter().take(state.node_rank()).flatten().count();
        let near: Vec<CpuSet> = devices.iter().map(|device| device.cpuset.clone()).collect();
        let device = assign_devices(&present, &near).get(own).copied().flatten();
        Ok(device.and_then(|device| devices.into_iter().nth(device)))
    }
}
