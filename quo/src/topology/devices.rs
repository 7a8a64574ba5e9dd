//! Devices and the CPUs near them: GPUs, network and storage controllers.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::CpuSet;

/// Maximum number of devices of a topology.
pub(super) const MAX_DEVICES: usize = 1 << 12;

/// A kind of device, by its PCI class.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// A display controller or an accelerator.
    Gpu,
    /// A network controller.
    Network,
    /// A storage controller.
    Storage,
}

impl DeviceKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Gpu, Self::Network, Self::Storage];

    /// Returns the short name, as [`Display`](fmt::Display) writes it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gpu => "gpu",
            Self::Network => "network",
            Self::Storage => "storage",
        }
    }

    /// Returns the kind of a PCI class, such as 0x0302; `None` for bridges and the like.
    pub(super) fn of_class(class: u16) -> Option<Self> {
        match class >> 8 {
            0x01 => Some(Self::Storage),
            0x02 => Some(Self::Network),
            0x03 | 0x12 => Some(Self::Gpu),
            // Infiniband, and co-processors.
            0x0c if class == 0x0c06 => Some(Self::Network),
            0x0b if class == 0x0b40 => Some(Self::Gpu),
            _ => None,
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.pad(self.name())
    }
}

/// Error for a text that names no kind of device.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a kind of device: gpu, network, storage")]
pub struct ParseDeviceKindError {
    text: String,
}

impl FromStr for DeviceKind {
    type Err = ParseDeviceKindError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let kind = Self::ALL.into_iter().find(|kind| kind.name() == text);
        kind.ok_or_else(|| ParseDeviceKindError { text: super::origin::shortened(text) })
    }
}

/// A device on the PCI bus.
#[non_exhaustive]
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    /// Kind of the device.
    pub kind: DeviceKind,
    /// Address of the device on the bus, such as `0000:3b:00.0`.
    pub bus: String,
    /// PCI number of the vendor: 0x10de for NVIDIA, 0x1002 for AMD, 0x8086 for Intel.
    pub vendor: u16,
    /// Names given by the system and its drivers, such as `mlx5_0` and `ib0`.
    pub names: Vec<String>,
    /// CPUs near the device; all CPUs of the machine if the system does not report them.
    pub cpuset: CpuSet,
}

impl Device {
    /// Returns true if some of `cpus` are near the device.
    #[must_use]
    pub fn is_near(&self, cpus: &CpuSet) -> bool {
        self.cpuset.intersects(cpus)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{} {}", self.kind, self.bus)?;
        if !self.names.is_empty() {
            write!(out, " ({})", self.names.join(", "))?;
        }
        write!(out, ": near CPUs {}", self.cpuset)
    }
}

/// Sorts devices in the order of the bus.
pub(super) fn in_order(mut devices: Vec<Device>) -> Vec<Device> {
    devices.sort_by(|one, other| one.bus.cmp(&other.bus));
    devices
}

/// GPU vendors, by their PCI numbers, and the variables that hide GPUs from a program.
const MAKERS: [(u16, &str); 3] = [
    (0x10de, "CUDA_VISIBLE_DEVICES"),
    (0x1002, "ROCR_VISIBLE_DEVICES"),
    (0x8086, "ZE_AFFINITY_MASK"),
];

/// Returns the devices without the GPUs that the environment hides from a program, as set by
/// [`visible_devices`]. `variable` returns the value of a variable, if it is set. Pure.
///
/// Numbers count the GPUs of a vendor in the order of the bus; the list ends at the first number
/// that no GPU has, as it does for CUDA. A list with names instead of numbers, such as
/// `GPU-5f1c...`, hides nothing here, since the bus does not give the names.
///
/// ```
/// use quo::topology::{Topology, shown_devices};
/// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/gpus.xml");
/// let machine = Topology::from_xml_file(file.as_ref())?;
/// let shown = shown_devices(&machine.devices(), |name| std::env::var(name).ok());
/// assert_eq!(shown, machine.devices(), "nothing is set");
/// # Ok::<(), quo::TopologyError>(())
/// ```
#[must_use]
pub fn shown_devices(all: &[Device], variable: impl Fn(&str) -> Option<String>) -> Vec<Device> {
    let mut hidden: Vec<&str> = Vec::new();
    for (maker, name) in MAKERS {
        let Some(numbers) = variable(name).and_then(|list| numbers(&list)) else { continue };
        let mut buses: Vec<&str> = gpus_of(all, maker).map(|gpu| gpu.bus.as_str()).collect();
        buses.sort_unstable();
        let known = numbers.iter().take_while(|&&number| number < buses.len());
        let shown: Vec<&str> = known.map(|&number| buses[number]).collect();
        hidden.extend(buses.into_iter().filter(|bus| !shown.contains(bus)));
    }
    all.iter().filter(|device| !hidden.contains(&device.bus.as_str())).cloned().collect()
}

/// Parses a list such as `0,2` or `0.1,1` up to the first word that is not a number, such as `-1`;
/// `None` for a list of names.
fn numbers(list: &str) -> Option<Vec<usize>> {
    let mut numbers = Vec::new();
    for word in list.split(',').map(str::trim) {
        // A part of a device, such as a tile, counts as the device.
        let word = word.split_once('.').map_or(word, |(device, _)| device);
        if word.starts_with(|first: char| first.is_ascii_alphabetic()) {
            return None;
        }
        let Ok(number) = word.parse() else { break };
        numbers.push(number);
    }
    Some(numbers)
}

fn gpus_of(devices: &[Device], maker: u16) -> impl Iterator<Item = &Device> {
    devices.iter().filter(move |it| it.kind == DeviceKind::Gpu && it.vendor == maker)
}

/// Returns the environment variables that show some GPUs to a program and hide the others, by
/// vendor. Pure.
///
/// `all` are the GPUs of the machine, `chosen` those to show. The variables number the GPUs of a
/// vendor in the order of the bus, which for CUDA needs another variable (`CUDA_DEVICE_ORDER`). A
/// GPU of a vendor without such a variable is left out.
///
/// ```
/// use quo::topology::{DeviceKind, Topology, visible_devices};
/// # let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/machines/gpus.xml");
/// let machine = Topology::from_xml_file(file.as_ref())?;
/// let gpus: Vec<_> =
///     machine.devices().into_iter().filter(|device| device.kind == DeviceKind::Gpu).collect();
/// let variables = visible_devices(&gpus, &gpus[1..2]);
/// assert_eq!(variables[0], ("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
/// assert_eq!(variables[1], ("CUDA_VISIBLE_DEVICES".to_owned(), "1".to_owned()));
/// # Ok::<(), quo::TopologyError>(())
/// ```
///
/// The numbers are those of the driver, which counts all GPUs that the system allows a process,
/// whatever these variables are in its parent. [`shown_devices`] returns the GPUs that they show
/// now.
#[must_use]
pub fn visible_devices(all: &[Device], chosen: &[Device]) -> Vec<(String, String)> {
    let mut variables = Vec::new();
    for (maker, variable) in MAKERS {
        let mut buses: Vec<&str> = gpus_of(all, maker).map(|gpu| gpu.bus.as_str()).collect();
        buses.sort_unstable();
        let number = |device: &Device| buses.iter().position(|bus| *bus == device.bus);
        let mut shown: Vec<usize> = gpus_of(chosen, maker).filter_map(number).collect();
        shown.sort_unstable();
        if shown.is_empty() {
            continue;
        }
        if maker == 0x10de {
            variables.push(("CUDA_DEVICE_ORDER".to_owned(), "PCI_BUS_ID".to_owned()));
        }
        let list: Vec<String> = shown.iter().map(ToString::to_string).collect();
        variables.push((variable.to_owned(), list.join(",")));
    }
    variables
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(bus: &str, vendor: u16) -> Device {
        let (kind, bus) = (DeviceKind::Gpu, bus.to_owned());
        Device { kind, bus, vendor, names: Vec::new(), cpuset: CpuSet::single(0) }
    }

    #[test]
    fn gpus_of_each_maker_are_numbered_by_bus() {
        let all =
            [gpu("0000:c1:00.0", 0x1002), gpu("0000:41:00.0", 0x1002), gpu("0000:3b:00.0", 0x8086)];
        let told = |chosen: &[Device]| {
            let variables = visible_devices(&all, chosen);
            let text = variables.iter().map(|(name, value)| format!("{name}={value}"));
            text.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(told(&all[..1]), "ROCR_VISIBLE_DEVICES=1");
        assert_eq!(told(&all), "ROCR_VISIBLE_DEVICES=0,1 ZE_AFFINITY_MASK=0");
        assert_eq!(told(&[]), "");
        assert_eq!(told(&[gpu("0000:41:00.0", 0x1af4)]), "");
    }

    #[test]
    fn gpus_that_the_environment_hides_are_left_out() {
        let mut all: Vec<Device> =
            ["3b", "41", "c1"].map(|bus| gpu(&format!("0000:{bus}:00.0"), 0x10de)).to_vec();
        all.push(gpu("0000:02:00.0", 0x1002));
        let shown = |name: &str, value: &str| {
            let shown = shown_devices(&all, |asked| (asked == name).then(|| value.to_owned()));
            shown.iter().map(|device| device.bus[5..7].to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(shown("CUDA_VISIBLE_DEVICES", "2,0"), "3b c1 02");
        assert_eq!(
            shown("CUDA_VISIBLE_DEVICES", "1,7,0"),
            "41 02",
            "the list ends at a wrong number"
        );
        assert_eq!(shown("CUDA_VISIBLE_DEVICES", "-1"), "02");
        assert_eq!(shown("CUDA_VISIBLE_DEVICES", ""), "02");
        assert_eq!(shown("CUDA_VISIBLE_DEVICES", "GPU-5f1c"), "3b 41 c1 02");
        assert_eq!(shown("ROCR_VISIBLE_DEVICES", "0.1"), "3b 41 c1 02");
        assert_eq!(shown("ROCR_VISIBLE_DEVICES", "5"), "3b 41 c1");
        for chosen in [&all[..1], &all[1..3], &all[..]] {
            let variables = visible_devices(&all, chosen);
            let again = shown_devices(&all, |name| {
                variables.iter().find(|(other, _)| other == name).map(|(_, value)| value.clone())
            });
            assert!(chosen.iter().all(|device| again.contains(device)));
        }
    }

    #[test]
    fn classes_of_the_bus_are_kinds() {
        let kinds = [0x0302, 0x1200, 0x0207, 0x0108, 0x0604].map(DeviceKind::of_class);
        let expected = [DeviceKind::Gpu, DeviceKind::Gpu, DeviceKind::Network, DeviceKind::Storage];
        assert_eq!(kinds[..4], expected.map(Some));
        assert_eq!(kinds[4], None);
        assert_eq!("network".parse(), Ok(DeviceKind::Network));
        assert!("tape".parse::<DeviceKind>().unwrap_err().to_string().contains("tape"));
    }
}
