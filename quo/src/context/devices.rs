//! The devices of a node, shared out among its ranks.

use super::Context;
use super::collective::Operation;
use super::handshake::EXCHANGE_HEADER;
use crate::cpuset::CpuSet;
use crate::error::Error;
use crate::plan::assign_devices;
use crate::topology::{Device, DeviceKind};

impl Context {
    /// The device of a kind that this rank should use: each has as many ranks of the node as any
    /// other, or one more, and near ones as far as that allows. `None` where the node has no such
    /// device. Nothing is bound or hidden; see
    /// [`visible_devices`](crate::topology::visible_devices). Collective over the node.
    ///
    /// # Errors
    /// [`Error::Disagreement`] when the ranks ask for different kinds; as
    /// [`binding`](Self::binding), on every rank.
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
        let mut message = [0_u8; EXCHANGE_HEADER];
        message[0] = Operation::Devices as u8;
        message[16] = kind as u8;
        let masks = self.exchange_sets(&state, CALL, &message, self.shared.own_mask())?;
        let devices = state.machine().topology.devices();
        let devices: Vec<Device> = devices.into_iter().filter(|it| it.kind == kind).collect();
        // Ranks that have left the node get none, and keep their numbers.
        let present: Vec<CpuSet> = masks.iter().flatten().cloned().collect();
        let own = masks.iter().take(state.node_rank()).flatten().count();
        let near: Vec<CpuSet> = devices.iter().map(|device| device.cpuset.clone()).collect();
        let device = assign_devices(&present, &near).get(own).copied().flatten();
        Ok(device.and_then(|device| devices.into_iter().nth(device)))
    }
}
